"""Which shards run, by their Leases as this process sees them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clusterstacks.model.kinds.names import SHARD_LABEL
from clusterstacks.model.kinds.shards import lease_name
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.operator import shard_leases
from clusterstacks.operator.shard_leases import REPORT_AFTER, ShardLeases
from clusterstacks.runtime.cache import ObjectCache
from clusterstacks.runtime.leader_election import LEASES
from tests.support.fakes.api_server import FakeApi

ONE, TWO = ObjectKey("team", "one"), ObjectKey("team", "two")
HOUR_OFF = "2020-01-01T00:00:00.000000Z"


class Moment:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Moment:
    moment = Moment()
    monkeypatch.setattr(shard_leases, "seconds_since_boot", moment)
    return moment


async def leases(api: FakeApi) -> tuple[ShardLeases, list[ObjectKey]]:
    clusters = ObjectCache()
    for key in (ONE, TWO):
        metadata = {"name": key.name, "namespace": key.namespace, "labels": {SHARD_LABEL: f"s-{key.name}"}}
        clusters.put(key, {"metadata": metadata})
    reported: list[ObjectKey] = []
    return ShardLeases(api, "home", clusters, reported.append), reported


async def renew(api: FakeApi, holder: str, count: int, *, first: bool = False) -> None:
    spec: Manifest = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": HOUR_OFF}
    spec |= {"leaseTransitions": count}
    name = lease_name("s-one")
    if first:
        await api.create(LEASES, {"metadata": {"name": name, "namespace": "home"}, "spec": spec}, "home")
    else:
        await api.merge_patch(LEASES, name, {"spec": spec}, "home")


async def test_a_lease_has_ended_when_it_did_not_change_for_its_duration_whatever_the_clocks_say(clock: Moment) -> None:
    api = FakeApi(LEASES)
    watched, _ = await leases(api)
    await renew(api, "a", 0, first=True)

    assert await watched.is_running("s-one")
    clock.now += 14
    assert await watched.is_running("s-one")
    await renew(api, "a", 1)
    clock.now += 5
    assert await watched.is_running("s-one")
    clock.now += 15
    assert not await watched.is_running("s-one")
    await renew(api, "b", 2)
    assert await watched.is_running("s-one")
    await renew(api, "", 3)
    assert not await watched.is_running("s-one")
    assert not await watched.is_running("s-two"), "it never ran"


async def test_clusters_of_a_shard_without_a_holder_are_unserved_after_a_while(clock: Moment) -> None:
    api = FakeApi(LEASES)
    watched, reported = await leases(api)
    await renew(api, "a", 0, first=True)

    for _ in range(2):
        await watched.is_running("s-one")
        await watched.is_running("s-two")
    assert watched.unserved() == {}
    clock.now += (REPORT_AFTER - timedelta(seconds=1)).total_seconds()
    assert watched.unserved() == {}
    clock.now += 1
    assert watched.unserved() == {"s-two": 1}
    assert reported == []
