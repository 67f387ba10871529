"""Slow work on behalf of a reconciler."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.runtime.background_tasks import BackgroundTasks, RateLimiter
from tests.support.virtual_time import VirtualClock, in_virtual_time

ONE = ObjectKey("team", "one")


class Work:
    """Ends when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = asyncio.Event()
        self.begun = 0
        self.error = error

    async def __call__(self) -> str:
        self.begun += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return "done"


def errands(woken: list[ObjectKey], seconds: float = 0.01) -> BackgroundTasks:
    return BackgroundTasks(woken.append, initial_wait=timedelta(seconds=seconds))


async def test_quick_work_is_done_within_one_reconcile() -> None:
    woken: list[ObjectKey] = []
    work = Work()
    work.may_end.set()

    assert await errands(woken, 5).result(ONE, "download", work) == "done"
    assert woken == []


async def test_slow_task_starts_once_and_enqueues_its_object_at_its_end() -> None:
    woken: list[ObjectKey] = []
    waiting, work = errands(woken), Work()
    for _ in range(3):
        assert await waiting.result(ONE, "download", work) is None
    work.may_end.set()
    while not woken:  # noqa: ASYNC110 - the loop only has to turn
        await asyncio.sleep(0)

    assert woken == [ONE]
    assert await waiting.result(ONE, "download", work) == "done"
    assert work.begun == 1


async def test_only_the_caller_that_starts_a_task_waits() -> None:
    waiting, work = errands([], 0.2), Work()
    await waiting.result(ONE, "download", work)
    loop = asyncio.get_running_loop()
    before = loop.time()

    assert await waiting.result(ONE, "download", work) is None
    assert loop.time() - before < 0.1
    await waiting.close()


async def test_a_failure_is_raised_once_and_then_the_task_is_retried() -> None:
    waiting, work = errands([], 5), Work(DependencyError("Gone", "gone"))
    work.may_end.set()
    for _ in range(2):
        with pytest.raises(DependencyError, match="gone"):
            await waiting.result(ONE, "download", work)

    assert work.begun == 2


async def test_tasks_with_different_inputs_are_separate() -> None:
    waiting, old, new = errands([]), Work(), Work()
    assert await waiting.result(ONE, ("download", "old place"), old) is None
    new.may_end.set()

    assert await waiting.result(ONE, ("download", "new place"), new) == "done"
    await waiting.close()


async def test_tasks_of_a_deleted_object_are_cancelled() -> None:
    woken: list[ObjectKey] = []
    waiting, work = errands(woken), Work()
    await waiting.result(ONE, "download", work)
    waiting.forget(ONE)
    await asyncio.sleep(0.01)

    assert woken == []
    work.may_end.set()
    assert await waiting.result(ONE, "download", work) == "done"
    assert work.begun == 2


@pytest.mark.regression("SEC-6")
@in_virtual_time
async def test_a_burst_of_tasks_starts_and_then_one_per_interval() -> None:
    work = Work()
    work.may_end.set()
    limited = BackgroundTasks(lambda _: None, limiter=RateLimiter(3, timedelta(seconds=10), VirtualClock()))

    async def begins() -> bool:
        try:
            return await limited.result(ONE, "x", work) == "done"
        except DependencyError as error:
            return "try again in" not in error.message

    assert [await begins() for _ in range(5)] == [True, True, True, False, False]
    await asyncio.sleep(10)
    assert [await begins() for _ in range(2)] == [True, False]
    await asyncio.sleep(1000)
    assert [await begins() for _ in range(5)] == [True, True, True, False, False]
    assert work.begun == 7
