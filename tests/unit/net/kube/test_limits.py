"""A burst of requests begins with few connections, and never has more than the budget."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.net.kube.limits import FIRST_REQUESTS, PATIENCE, RequestBudget
from tests.support.virtual_time import in_virtual_time


async def rounds(budget: RequestBudget, count: int) -> list[int]:
    """Send requests that are all answered at the same time; return how many run in each round."""
    running: list[asyncio.Future[None]] = []

    async def request() -> None:
        async with budget:
            running.append(answer := asyncio.get_running_loop().create_future())
            await answer

    tasks = [asyncio.create_task(request()) for _ in range(count)]
    found = []
    while not all(task.done() for task in tasks):
        for _ in range(count + 1):
            await asyncio.sleep(0)
        answered, running[:] = [*running], []
        found.append(len(answered))
        for answer in answered:
            answer.set_result(None)
        await asyncio.sleep(0)
    return [number for number in found if number]


@given(most=st.integers(1, 20), count=st.integers(1, 100))
async def test_requests_double_with_each_round_trip_up_to_the_budget(most: int, count: int) -> None:
    budget = RequestBudget(most)
    for _ in range(2):  # the second burst begins anew
        left, allowed, expected = count, min(FIRST_REQUESTS, most), []
        while left:
            expected.append(min(allowed, left))
            left -= expected[-1]
            allowed = min(2 * allowed, most)
        assert await rounds(budget, count) == expected


async def test_failed_and_cancelled_requests_leave_their_place_and_allow_no_more() -> None:
    budget = RequestBudget(8)

    async def request(*, fails: bool) -> None:
        async with budget:
            if fails:
                raise OSError("broken")
            await asyncio.sleep(60)

    tasks = [asyncio.create_task(request(fails=False)) for _ in range(FIRST_REQUESTS + 1)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    with pytest.raises(OSError, match="broken"):
        await request(fails=True)
    assert await rounds(budget, 6) == [FIRST_REQUESTS, 4]


@in_virtual_time
async def test_requests_that_hang_delay_others_by_a_second_at_most() -> None:
    budget = RequestBudget(6)
    answered: list[float] = []

    async def request(*, hangs: bool) -> None:
        async with budget:
            if hangs:
                await asyncio.sleep(60)
            answered.append(asyncio.get_running_loop().time() - begin)

    async def all_requests() -> None:
        hanging = [asyncio.create_task(request(hangs=True)) for _ in range(4)]
        await asyncio.gather(*(request(hangs=False) for _ in range(20)))
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)

    begin = asyncio.get_running_loop().time()
    await all_requests()
    assert len(answered) == 20
    assert max(answered) < 1.1 * PATIENCE.total_seconds()
