"""What a reconcile reads of a Cluster before it decides."""

from __future__ import annotations

import pytest

from clusterstacks.api.names import GROUP
from clusterstacks.controllers.clusteraddon.observing import observe
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.kube.resources import Resource
from tests.support.fake_api import FakeApi

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
RELEASES = Resource(GROUP, "v1alpha1", "ClusterStackRelease", "clusterstackreleases", namespaced=True)


@pytest.mark.parametrize(("observed", "reconciled"), [(1, False), (2, True), (None, True)])
async def test_a_topology_counts_as_reconciled_only_in_its_present_form(
    observed: int | None, *, reconciled: bool
) -> None:
    condition = {"type": "TopologyReconciled", "status": "True", "observedGeneration": observed}
    api = FakeApi(CLUSTERS, RELEASES)
    await api.create(
        CLUSTERS,
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "one", "namespace": "team", "generation": 2},
            "spec": {"topology": {"classRef": {"name": "local-demo-1-35-v2"}, "version": "v1.35.4"}},
            "status": {
                "conditions": [condition],
                "controlPlane": {"versions": [{"version": "v1.35.4", "replicas": 1}]},
            },
        },
    )

    seen = await observe(api, ObjectKey("team", "one"))

    assert seen is not None
    assert (not seen.control_plane.missing) is reconciled
