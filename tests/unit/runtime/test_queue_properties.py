from __future__ import annotations

import asyncio
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from clusterstacks.runtime.queue import WorkQueue
from tests.support.virtual_time import VirtualLoop

KEYS = st.sampled_from("abcd")
DELAYS = st.integers(0, 30)


class QueueMachine(RuleBasedStateMachine):
    """The queue against a model: each key has at most one next turn, now or at the earliest moment asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.queue: WorkQueue[str] = WorkQueue()
        self.next_turn: dict[str, float] = {}
        self.held: set[str] = set()
        self.time = 0.0

    def teardown(self) -> None:
        self.runner.close()

    def free(self) -> set[str]:
        return {key for key, due in self.next_turn.items() if due <= self.time and key not in self.held}

    def wish(self, key: str, due: float) -> None:
        self.next_turn[key] = min(due, self.next_turn.get(key, due))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        async def add() -> None:
            self.queue.add(key)

        self.runner.run(add())
        self.wish(key, self.time)

    @rule(key=KEYS, delay=DELAYS)
    def add_after(self, key: str, delay: int) -> None:
        async def add() -> None:
            self.queue.add_after(key, timedelta(seconds=delay))

        self.runner.run(add())
        self.wish(key, self.time + delay)

    @precondition(lambda self: self.free())
    @rule()
    def take(self) -> None:
        key = self.runner.run(self.queue.get())
        assert key in self.free()
        self.held.add(key)
        del self.next_turn[key]

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 3))
    def hand_back(self, choice: int) -> None:
        key = sorted(self.held)[choice % len(self.held)]
        self.queue.done(key)
        self.held.discard(key)

    @precondition(lambda self: not self.free())
    @rule()
    def nobody_gets_a_turn_before_it_is_due(self) -> None:
        async def attempt() -> str | None:
            getter = asyncio.create_task(self.queue.get())
            for _ in range(3):
                await asyncio.sleep(0)
            if getter.done():
                return getter.result()
            getter.cancel()
            return None

        assert self.runner.run(attempt()) is None

    @rule(duration=st.integers(1, 40))
    def time_passes(self, duration: int) -> None:
        async def sleep_until() -> None:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self.time - loop.time())
            await asyncio.sleep(0)

        self.time += duration
        self.runner.run(sleep_until())

    @invariant()
    def what_wants_a_turn_is_counted(self) -> None:
        assert len(self.queue) == sum(due <= self.time for due in self.next_turn.values())


TestQueue = QueueMachine.TestCase
