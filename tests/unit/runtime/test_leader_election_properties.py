"""Mutual exclusion of two or three electors under random faults, in virtual time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.runtime.leader_election import LEASES
from clusterstacks.runtime.leases import LeaseDurations
from tests.support.fakes.api_server import FakeApi
from tests.support.fakes.electors import Journey, Replica
from tests.support.virtual_time import run_in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECONDS = 150
LOOKS_A_SECOND = 8
DRIFT = 0.08
"""How much slower or faster a clock runs; 15 s of the fastest are still longer than 10 s of the slowest."""
MARGIN_SECONDS = 2.0
"""How long requests of one writer may be under way before another begins, unless the lease was released."""


def random_journey(random: Random, trouble: float) -> Callable[[], Journey]:
    def journey() -> Journey:
        if random.random() > trouble:
            return Journey(random.uniform(0, 0.1), random.uniform(0, 0.1))
        slow = random.choice([0.5, 4.0, 20.0])
        return Journey(random.uniform(0, slow), random.uniform(0, slow), random.random() > 0.3, random.random() > 0.3)

    return journey


class Watch:
    """Looks at every moment who may write."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self.reigns: list[tuple[object, float, float]] = []
        """Who, from when, until when."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            writers = [replica for replica in self._replicas if replica.writes]
            assert len(writers) <= 1, f"{len(writers)} may write at {loop.time():.2f}"
            if writers:
                elector = writers[0].elector
                if not self.reigns or self.reigns[-1][0] is not elector:
                    self.reigns.append((elector, loop.time(), loop.time()))
                self.reigns[-1] = (elector, self.reigns[-1][1], loop.time())
            await asyncio.sleep(1 / LOOKS_A_SECOND)


async def live(random: Random, replicas: Sequence[Replica], orderly: set[object]) -> None:
    """Stop, kill, freeze and start replicas again."""
    loop = asyncio.get_running_loop()
    freezing: set[asyncio.Task[None]] = set()
    while loop.time() < SECONDS:
        await asyncio.sleep(random.uniform(0, 12))
        one = random.choice(replicas)
        match random.choice(["nothing", "freeze", "freeze", "kill", "stop", "restart"]):
            case "freeze":
                freezing.add(asyncio.create_task(one.line.freeze(random.choice([1.0, 9.0, 11.0, 16.0, 40.0]))))
            case "kill":
                await one.kill()
                one.start()
            case "stop":
                orderly.add(one.elector)
                await one.stop()
                one.start()
            case _:
                for replica in replicas:
                    await replica.restart_if_lost()
    for task in freezing:
        task.cancel()


@settings(max_examples=150)
@given(
    st.integers(0, 2**32).map(Random),
    st.integers(2, 3),
    st.sampled_from([0.0, 0.2, 0.6]),
    st.sampled_from(["", "same identity"]),
)
def test_there_are_never_two_writers(random: Random, count: int, trouble: float, again: str) -> None:
    async def simulate() -> None:
        api = FakeApi(LEASES)
        replicas = [
            Replica(
                api,
                LeaseDurations(),
                random_journey(random, trouble),
                rate=random.uniform(1 - DRIFT, 1 + DRIFT),
                identity=f"replica-{number}" if again else "",
            )
            for number in range(count)
        ]
        orderly: set[object] = set()
        watch = Watch(replicas)
        watching = asyncio.create_task(watch.run())
        living = asyncio.create_task(live(random, replicas, orderly))
        await asyncio.wait({watching, living}, return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, living):
            if task.done():
                task.result()
            task.cancel()
        for replica in replicas:
            await replica.kill()
        assert_margins(watch.reigns, orderly, same_again=bool(again))

    run_in_virtual_time(simulate())


def assert_margins(reigns: Sequence[tuple[object, float, float]], orderly: set[object], *, same_again: bool) -> None:
    if same_again:
        return  # a restarted process has its lease back at once
    for (before, _, ended), (after, began, _) in pairwise(reigns):
        assert before in orderly or began - ended >= MARGIN_SECONDS, f"{after} began {began - ended:.2f} s later"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_without_faults_one_writes_from_beginning_to_end(count: int) -> None:
    async def simulate() -> None:
        api = FakeApi(LEASES)
        replicas = [Replica(api, LeaseDurations()) for _ in range(count)]
        await asyncio.sleep(1)
        writers = [replica for replica in replicas if replica.writes]
        assert len(writers) == 1
        for _ in range(600):
            await asyncio.sleep(1)
            assert [replica for replica in replicas if replica.writes] == writers
        for replica in replicas:
            await replica.stop()

    run_in_virtual_time(simulate())
