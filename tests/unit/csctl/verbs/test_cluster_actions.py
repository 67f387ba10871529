from __future__ import annotations

from typing import Any, cast

import pytest

from clusterstacks.csctl.verbs import cluster_actions
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import GROUP, VERSION, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.resources import Resource
from tests.support.fakes.api_server import FakeApi

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
ADDONS = Resource(GROUP, VERSION, Kind.CLUSTER_ADDON.value, "clusteraddons", namespaced=True)
KEY = ObjectKey("team", "one")


@pytest.mark.regression("U-36")
@pytest.mark.parametrize(
    ("spec", "annotations", "cause"),
    [
        (
            {"paused": True},
            {},
            "has no ClusterAddon yet, because Cluster team/one is paused: unpause it by spec.paused",
        ),
        ({}, {"cluster.x-k8s.io/paused": ""}, "has no ClusterAddon yet, because Cluster team/one is paused"),
        ({}, {}, "its class is not one of a cluster stack, or the operator has not seen"),
    ],
)
async def test_u_36_a_missing_cluster_addon_is_explained_by_the_pause_of_its_cluster(
    spec: dict[str, Any], annotations: dict[str, str], cause: str
) -> None:
    api = FakeApi(CLUSTERS, ADDONS)
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "annotations": annotations}
    manifest = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": metadata, "spec": spec}
    await api.create(CLUSTERS, manifest)

    with pytest.raises(SpecError, match=cause):
        await cluster_actions._read(cast("Any", api), KEY)
