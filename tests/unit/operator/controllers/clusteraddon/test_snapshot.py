"""The state of a Cluster that a reconcile reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pytest

from clusterstacks.model.kinds.names import GROUP
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusteraddon.snapshot import (
    REMEMBER,
    REMEMBER_MISSING,
    ContractKinds,
    read_snapshot,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from datetime import timedelta

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
CONTROL_PLANES = Resource("controlplane.cluster.x-k8s.io", "v1beta2", "Tiny", "tinies", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
RELEASES = Resource(GROUP, "v1alpha1", "ClusterStackRelease", "clusterstackreleases", namespaced=True)


@pytest.mark.parametrize(("observed", "reconciled"), [(1, False), (2, True), (None, True)])
async def test_topology_is_reconciled_only_for_the_current_generation(
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

    seen = await read_snapshot(api, ObjectKey("team", "one"), ContractKinds(api))

    assert seen is not None
    assert (not seen.upgrade.missing(Milestone.CLUSTER)) is reconciled


class Referring:
    """A Cluster that refers to a control plane, and what there is."""

    def __init__(self, labels: dict[str, str], **reference: str) -> None:
        self.api = FakeApi(CLUSTERS, RELEASES, CONTROL_PLANES, SECRETS, DEFINITIONS)
        self.now = 0.0
        self.contracts = ContractKinds(self.api, lambda: self.now)
        self.labels = labels
        self.reference = {"kind": "Tiny", "apiGroup": CONTROL_PLANES.group, "name": "one", **reference}

    async def __aenter__(self) -> Self:
        definition = {"metadata": {"name": "tinies.controlplane.cluster.x-k8s.io", "labels": self.labels}}
        await self.api.create(DEFINITIONS, definition)
        topology = {"classRef": {"name": "local-demo-1-35-v2"}, "version": "v1.35.4"}
        cluster = {"metadata": {"name": "one", "namespace": "team"}}
        spec = {"topology": topology, "controlPlaneRef": self.reference}
        await self.api.create(CLUSTERS, {"apiVersion": "cluster.x-k8s.io/v1beta2", **cluster, "spec": spec})
        for resource in (CONTROL_PLANES, SECRETS):
            await self.api.create(resource, {**cluster, "status": {"version": "v1.35.3"}})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.close()

    async def look(self) -> tuple[str, tuple[str, ...]]:
        """Return why the control plane was not read, and the versions it reports."""
        seen = await read_snapshot(self.api, ObjectKey("team", "one"), self.contracts)
        assert seen is not None
        assert bool(seen.data["ControlPlane"]) is not bool(seen.unread)
        return str(seen.unread or ""), tuple(one.text for one in seen.upgrade.control_plane)


@pytest.mark.regression("SEC-15")
@pytest.mark.parametrize("contract", ["v1beta1", "v1beta2"])
async def test_control_plane_of_a_contract_kind_is_read(contract: str) -> None:
    async with Referring({f"cluster.x-k8s.io/{contract}": "v1_v2"}) as referring:
        assert await referring.look() == ("", ("v1.35.3",))


@pytest.mark.regression("SEC-15")
@pytest.mark.parametrize(
    ("labels", "reference", "words"),
    [
        ({}, {}, "no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1"),
        ({"cluster.x-k8s.io/v1alpha4": "v1"}, {}, "spec.controlPlaneRef (Tiny team/one)"),
        ({"cluster.x-k8s.io/v1beta2": "v1"}, {"kind": "Secret", "apiGroup": ""}, "kind Secret has no label"),
        (
            {"cluster.x-k8s.io/v1beta2": "v1"},
            {"namespace": "other"},
            "names namespace other",
        ),
    ],
)
async def test_other_kinds_are_not_read(labels: dict[str, str], reference: dict[str, str], words: str) -> None:
    async with Referring(labels, **reference) as referring:
        unread, reported = await referring.look()

        assert words in unread
        assert reported == ()
        read = [about["resource"].kind for verb, about in referring.api.calls if verb == "get"]
        assert not {"Secret", "Tiny"} & set(read)


@pytest.mark.parametrize(
    ("labels", "lifetime"), [({"cluster.x-k8s.io/v1beta2": "v1"}, REMEMBER), ({}, REMEMBER_MISSING)]
)
async def test_kind_lookup_is_cached_for_its_lifetime(labels: dict[str, str], lifetime: timedelta) -> None:
    async with Referring(labels) as referring:
        for _ in range(3):
            await referring.look()
        assert referring.api.count("find_metadata") == 1
        referring.now = lifetime.total_seconds()
        await referring.look()
        assert referring.api.count("find_metadata") == 2
