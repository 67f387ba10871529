"""The order in which requests get a render worker."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.render.errors import WorkersBusy
from clusterstacks.deliver.render.render_queue import FairQueue, WorkerQueue
from clusterstacks.model.objects import ObjectKey
from tests.support.virtual_time import in_virtual_time


def owner(word: str) -> ObjectKey:
    """``a/1`` is object 1 of namespace a."""
    namespace, _, name = word.partition("/")
    return ObjectKey(namespace, name)


def served(workers: int, *requests: str) -> list[str]:
    """Return the order in which requests (``a/1``, slow with a ``!``) run if each ends before the next starts."""
    queue: FairQueue[tuple[int, str]] = FairQueue(workers)
    for number, request in enumerate(requests):
        queue.join((number, request), owner(request.strip("!")), slow=request.endswith("!"))
    order = []
    while (taken := queue.next()) is not None:
        order.append(taken[1])
        queue.leave(taken)
    return order


@pytest.mark.parametrize(
    ("requests", "order"),
    [
        ([], []),
        (["a/1", "a/1", "a/2"], ["a/1", "a/2", "a/1"]),
        (["a/1", "a/2", "a/3", "b/1"], ["a/1", "b/1", "a/2", "a/3"]),
        (["a/1", "a/1", "a/1", "b/1", "b/2", "c/1"], ["a/1", "b/1", "c/1", "a/1", "b/2", "a/1"]),
        (["a/1!", "a/2!", "b/1"], ["b/1", "a/1!", "a/2!"]),
    ],
)
def test_namespaces_take_turns_and_their_objects_do(requests: list[str], order: list[str]) -> None:
    assert served(1, *requests) == order


@pytest.mark.parametrize(("workers", "running"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_slow_requests_never_use_the_last_worker(workers: int, running: int) -> None:
    queue: FairQueue[int] = FairQueue(workers)
    for number in range(10):
        queue.join(number, owner(f"a/{number}"), slow=True)

    assert [queue.next() is not None for _ in range(workers + 1)].count(True) == running


def test_slow_requests_are_not_starved_by_quick_ones() -> None:
    queue: FairQueue[str] = FairQueue(2)
    for number in range(10):
        queue.join(f"quick {number}", owner(f"a/{number}"), slow=False)
    queue.join("slow", owner("b/1"), slow=True)

    assert (queue.next(), queue.next()) == ("quick 0", "slow")


REQUESTS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.booleans()), max_size=20)


@pytest.mark.regression("SEC-12")
@given(st.integers(1, 4), REQUESTS, st.data())
def test_every_request_runs_once_within_the_bounds(
    workers: int, requests: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    queue: FairQueue[int] = FairQueue(workers)
    waiting = {number: slow for number, (_, _, slow) in enumerate(requests)}
    for number, (namespace, name, slow) in enumerate(requests):
        queue.join(number, ObjectKey(namespace, name), slow=slow)
    running: dict[int, bool] = {}
    while waiting or running:
        while (started := queue.next()) is not None:
            running[started] = waiting.pop(started)
        assert len(running) <= workers
        assert sum(running.values()) <= max(1, workers - 1)
        assert running, "a free worker and nothing runs"
        gone = data.draw(st.sampled_from(sorted([*running, *waiting])))
        running.pop(gone, None)
        waiting.pop(gone, None)
        queue.leave(gone)
    assert not queue._owners


@in_virtual_time
async def test_request_that_waits_too_long_fails_with_workers_busy() -> None:
    queue = WorkerQueue(1, timedelta(minutes=2))
    async with queue.turn(owner("a/1"), slow=False):
        with pytest.raises(WorkersBusy, match="waited 120 s for a render worker: all 1 are busy"):
            await enter(queue, "a/2")
        assert queue.waiting() == 0
    await enter(queue, "a/2")


@in_virtual_time
async def test_cancelled_request_releases_its_turn() -> None:
    queue = WorkerQueue(1, timedelta(minutes=2))
    async with queue.turn(owner("a/1"), slow=False):
        tasks = [asyncio.create_task(enter(queue, f"a/{number}")) for number in range(2, 5)]
        await asyncio.sleep(1)
        assert queue.waiting() == 3
        tasks[0].cancel()
    tasks[1].cancel()  # it has its turn, but has not run yet

    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert Counter(map(type, results)) == {asyncio.CancelledError: 2, type(None): 1}
    await enter(queue, "a/1")
    assert (queue.waiting(), queue.oldest_wait()) == (0, 0)


async def enter(queue: WorkerQueue, word: str) -> None:
    async with queue.turn(owner(word), slow=False):
        pass
