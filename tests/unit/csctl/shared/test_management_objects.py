"""What csctl says about outages while it follows objects."""

from __future__ import annotations

import asyncio

from clusterstacks.csctl.shared.management_objects import ObjectQuery, Outage, follow
from clusterstacks.model.kinds.names import GROUP, Kind
from tests.support.fakes.api_server import FakeApi, unreachable
from tests.support.fakes.management_cluster import CLUSTERS, KINDS
from tests.support.virtual_time import in_virtual_time

QUERIES = [ObjectQuery(CLUSTERS.group, CLUSTERS.kind), ObjectQuery(GROUP, Kind.CLUSTER_ADDON)]


@in_virtual_time
async def test_outage_has_the_kinds_the_first_failure_and_its_time_until_all_are_read_again() -> None:
    api = FakeApi(*KINDS.values())
    seen: list[Outage | None] = []
    following = asyncio.create_task(follow(api, QUERIES, lambda _: None, on_outage=seen.append))
    await asyncio.sleep(10)
    assert set(seen) == {None}

    api.unserve(CLUSTERS)
    await asyncio.sleep(100)
    missing = seen[-1]
    assert missing is not None
    assert missing.what == f"Cluster.{CLUSTERS.group}"
    assert "not served" in missing.why

    api.serve(CLUSTERS)
    await asyncio.sleep(100)
    assert seen[-1] is None

    api.fail("watch", *(unreachable("the server is down") for _ in range(20)))
    api.end_watches(unreachable("the connection broke"))
    await asyncio.sleep(3)
    first = seen[-1]
    await asyncio.sleep(30)
    assert first is not None
    assert seen[-1] is not None
    assert first.what == "the management cluster"
    assert "the server is down" in seen[-1].why
    assert seen[-1].since == first.since

    api.heal()
    await asyncio.sleep(100)
    assert seen[-1] is None
    following.cancel()
    await asyncio.wait([following])
