from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import uvloop

from clusterstacks.runtime.queue import QueueClosedError, WorkQueue
from tests.support.virtual_time import in_virtual_time


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def now() -> float:
    """Return the virtual seconds since the test began, without the rounding of timers."""
    return round(asyncio.get_running_loop().time(), 3)


async def is_quiet(queue: WorkQueue[str], duration: float) -> bool:
    """Return whether no key gets a turn for this duration."""
    try:
        async with asyncio.timeout(duration):
            await queue.get()
    except TimeoutError:
        return True
    return False


@in_virtual_time
async def test_keys_come_first_in_first_out_and_each_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)

    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
    assert await is_quiet(queue, 1)


@in_virtual_time
async def test_a_key_added_while_processed_is_queued_once_more_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")

    assert await is_quiet(queue, 1)
    queue.done(key)
    assert await queue.get() == "a"
    queue.done("a")
    assert await is_quiet(queue, 1)


@in_virtual_time
async def test_a_delayed_key_comes_when_it_is_due() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("late", seconds(600))
    queue.add_after("soon", seconds(5))

    assert len(queue) == 0
    assert (await queue.get(), now()) == ("soon", 5)
    assert (await queue.get(), now()) == ("late", 600)


@in_virtual_time
async def test_the_earliest_delay_wins() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for delay in (60, 20, 40):
        queue.add_after("a", seconds(delay))

    assert (await queue.get(), now()) == ("a", 20)
    queue.done("a")
    assert await is_quiet(queue, 100)


@in_virtual_time
async def test_add_replaces_a_pending_delay() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", seconds(10))
    queue.add("a")
    queue.add_after("a", seconds(5))

    assert await queue.get() == "a"
    queue.done("a")
    assert await is_quiet(queue, 100)


@in_virtual_time
async def test_a_delay_added_during_processing_is_kept() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", seconds(5))
    await asyncio.sleep(10)  # it fell due while somebody had the key
    queue.done("a")

    assert (await queue.get(), now()) == ("a", 10)


@in_virtual_time
async def test_no_delay_means_now() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", seconds(0))

    assert (await queue.get(), now()) == ("a", 0)


@in_virtual_time
async def test_failures_wait_ever_longer_up_to_two_minutes_until_a_success() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waits = [queue.back_off("a").total_seconds() for _ in range(12)]

    assert 1 <= waits[0] <= 1.25
    assert 2 <= waits[1] <= 2.5
    assert all(90 < wait <= 120 for wait in waits[7:])
    assert queue.back_off("b") < seconds(2)
    queue.forget("a")
    assert queue.back_off("a") < seconds(2)


@in_virtual_time
async def test_close_ends_waiting_workers_and_drops_waiting_keys() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("held")
    await queue.get()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add_after("later", seconds(1))
    queue.add("held")
    queue.close()
    queue.add("new")
    queue.add_after("newer", seconds(1))
    queue.done("held")
    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)

    assert [type(result) for result in results] == [QueueClosedError] * 3
    assert len(queue) == 0
    with pytest.raises(QueueClosedError):
        await queue.get()


@in_virtual_time
async def test_a_worker_that_is_cancelled_while_it_waits_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()

    assert await second == "a"


@in_virtual_time
async def test_a_key_that_changes_often_leaves_little_behind() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(10_000):
        queue.add("a")
        queue.done(await queue.get())
        queue.add_after("a", seconds(600))

    assert len(queue._heap) < 100
    assert (await queue.get(), now()) == ("a", 600)


def test_the_timer_of_the_operators_event_loop_does_not_spin() -> None:
    async def take_all() -> int:
        queue: WorkQueue[str] = WorkQueue()
        wakes = 0
        add_due = queue._add_due

        def counted() -> None:
            nonlocal wakes
            wakes += 1
            add_due()

        queue._add_due = counted  # type: ignore[method-assign]  # counts what it hides
        for number in range(20):
            queue.add_after(str(number), timedelta(milliseconds=2.3 * number + 0.7))
        for _ in range(20):
            await queue.get()
        return wakes

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(take_all()) <= 20


def test_delay_that_is_already_over_works_on_the_operators_event_loop() -> None:
    async def take_both() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("now", timedelta(0, microseconds=-1))
        queue.add_after("then", timedelta(milliseconds=1))
        return [await queue.get(), await queue.get()]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(take_both()) == ["now", "then"]


@in_virtual_time
async def test_additions_failures_and_waiting_times_are_measured() -> None:
    waits: list[float] = []
    queue: WorkQueue[str] = WorkQueue(waits.append)
    assert queue.oldest_wait() == 0
    for key in ("a", "b", "a"):
        queue.add(key)
        await asyncio.sleep(1)

    assert queue.added == 2
    assert queue.oldest_wait() == pytest.approx(3)
    assert await queue.get() == "a"
    assert queue.oldest_wait() == pytest.approx(2)
    await queue.get()
    assert queue.oldest_wait() == 0
    assert waits == [pytest.approx(3), pytest.approx(2)]
    queue.add_after("a", queue.back_off("a"))
    assert (queue.added, queue.retried) == (2, 1)
