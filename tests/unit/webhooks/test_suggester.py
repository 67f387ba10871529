"""A question made to be slow is given up in time, and the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from random import Random

from benchmarks.worlds import Size, all_coupled
from clusterstacks.compat.world import ClusterState
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.webhooks.rules.suggestions import Wish
from clusterstacks.webhooks.suggester import Adviser

TURNS = 10


async def test_a_hostile_world_holds_up_neither_the_refusal_nor_the_loop() -> None:
    world = all_coupled(Random(2), Size())
    first, last = world.candidates[0], world.candidates[-1]
    state = ClusterState(first.kubernetes, first.kubernetes, first.name)
    wish = Wish(ObjectKey("team", "one"), world, state, last.kubernetes)
    adviser = Adviser()
    asked = [asyncio.create_task(adviser.plan(wish)) for _ in range(3)]
    turns = 0
    while not all(one.done() for one in asked):
        turns += 1
        await asyncio.sleep(0)
    adviser.close()
    told = "Look for a way:\n  csctl plan team/one --to v1.39.3"
    assert [one.result() for one in asked] == [told] * 3
    assert turns > TURNS
