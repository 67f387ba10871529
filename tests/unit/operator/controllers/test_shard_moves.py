"""An instance works on what it holds, and hands over what another shard wants, after it has stopped."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, GROUP, SHARD_LABEL, Kind
from clusterstacks.model.kinds.shards import MAIN, shard_of
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.outcomes import Settled
from clusterstacks.net.kube.errors import Conflict
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.shard_moves import HAND_OVER_WAIT, ShardMoves, cluster_of_addon
from clusterstacks.operator.controllers.status_reconciler import LiveReadNeededError, StatusPatch
from clusterstacks.operator.controllers.workload_clients import Workloads
from clusterstacks.runtime.cache import ObjectCache, key_of
from tests.support.fakes.api_server import FakeApi

ADDONS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_ADDON.value, "clusteraddons", namespaced=True)
CLUSTERS = Resource(CLUSTER_API_GROUP, "v1beta2", "Cluster", "clusters", namespaced=True)
ADDON = ObjectKey("team", "cluster-addon-one")


def labelled(name: str, shard: str | None, **parts: Manifest) -> Manifest:
    labels = {} if shard is None else {SHARD_LABEL: shard}
    return {"metadata": {"name": name, "namespace": "team", "labels": labels}, **parts}


class Instance:
    """An instance whose cache has the Cluster, unless it is another shard's, and its ClusterAddon on the server."""

    def __init__(self, own: str, *, runs: bool = True) -> None:
        self.api = FakeApi(ADDONS, CLUSTERS)
        self.clusters = ObjectCache()
        self.worked = AsyncMock(return_value=Settled())
        self.left: list[ObjectKey] = []
        self.own = own
        self.moves = ShardMoves(
            own=own,
            client=self.api,
            clusters=self.clusters,
            workloads=Workloads(self.api),
            is_running=AsyncMock(return_value=runs),
            unserved=dict,
        )

    async def reconcile(self, wanted: str, holder: str, *, cached: bool = False) -> Settled | timedelta | None:
        cluster = await self.api.create(CLUSTERS, labelled("one", wanted or None), "team")
        if self.own in (MAIN, wanted):
            self.clusters.put(key_of(cluster), cluster)
        spec = {"clusterRef": {"name": "one"}}
        addon = await self.api.create(ADDONS, labelled(ADDON.name, holder or None, spec=spec), "team")
        guarded = self.moves.guard(Kind.CLUSTER_ADDON, cluster_of_addon, self.worked, self.left.append)
        if cached:  # another instance changed it meanwhile
            await self.api.merge_patch(ADDONS, ADDON.name, {"metadata": {"annotations": {"a": "b"}}}, "team")
        outcome = await guarded(StatusPatch(addon, cached=cached))
        assert outcome is None or isinstance(outcome, Settled | timedelta)
        return outcome

    @property
    def holder(self) -> str:
        return shard_of(self.api.objects(ADDONS)[ADDON])


@pytest.mark.parametrize("shard", [MAIN, "emea"])
async def test_holder_works(shard: str) -> None:
    one = Instance(shard)

    assert await one.reconcile(shard, shard) == Settled()
    assert one.worked.await_count == 1
    assert not one.left


@pytest.mark.parametrize(("own", "wanted"), [(MAIN, "emea"), ("emea", "apac"), ("emea", MAIN)])
async def test_holder_that_is_not_wanted_stops_and_hands_over(own: str, wanted: str) -> None:
    one = Instance(own)

    assert await one.reconcile(wanted, own) is None
    assert one.worked.await_count == 0
    assert one.left == [ADDON]
    assert one.holder == wanted


async def test_main_instance_waits_for_a_holder_that_runs_and_hands_over_for_another() -> None:
    waiting, acting = Instance(MAIN), Instance(MAIN, runs=False)

    assert await waiting.reconcile(MAIN, "emea") == HAND_OVER_WAIT
    assert waiting.holder == "emea"
    assert await acting.reconcile("apac", "emea") is None
    assert acting.holder == "apac"
    assert not acting.left


async def test_main_instance_leaves_alone_what_the_wanted_shard_holds_even_if_it_does_not_run() -> None:
    one = Instance(MAIN, runs=False)

    assert await one.reconcile("emea", "emea") is None
    assert one.holder == "emea"
    assert one.worked.await_count == 0


async def test_holder_ends_what_it_began_for_a_cluster_that_is_gone() -> None:
    one = Instance("emea")
    addon = await one.api.create(ADDONS, labelled(ADDON.name, "emea", spec={"clusterRef": {"name": "gone"}}), "team")
    guarded = one.moves.guard(Kind.CLUSTER_ADDON, cluster_of_addon, one.worked, one.left.append)

    assert await guarded(StatusPatch(addon)) == Settled()


async def test_hand_over_of_an_object_that_changed_is_read_again() -> None:
    one = Instance(MAIN)

    with pytest.raises((LiveReadNeededError, Conflict)):
        await one.reconcile("emea", MAIN, cached=True)
    assert one.holder == MAIN
