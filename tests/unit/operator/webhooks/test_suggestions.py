"""A slow plan search is stopped without blocking the event loop."""

from __future__ import annotations

import asyncio
from random import Random

from benchmarks.worlds import Size, all_coupled
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.webhooks.suggestions import PlanRequest, Suggester
from clusterstacks.plan.compat.world import ClusterState

TURNS = 10


async def test_slow_plan_search_delays_neither_the_denial_nor_the_event_loop() -> None:
    world = all_coupled(Random(2), Size())
    first, last = world.candidates[0], world.candidates[-1]
    state = ClusterState(first.kubernetes, first.kubernetes, first.name)
    request = PlanRequest(ObjectKey("team", "one"), world, state, last.kubernetes)
    suggester = Suggester()
    asked = [asyncio.create_task(suggester.plan(request)) for _ in range(3)]
    turns = 0
    while not all(one.done() for one in asked):
        turns += 1
        await asyncio.sleep(0)
    suggester.close()
    expected = "Search for a plan:\n  csctl plan team/one --to v1.39.3"
    assert [one.result() for one in asked] == [expected] * 3
    assert turns > TURNS
