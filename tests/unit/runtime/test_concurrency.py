"""Bounded concurrent calls."""

from __future__ import annotations

import asyncio

import pytest

from clusterstacks.runtime.concurrency import gather


async def test_gather_limits_concurrent_calls_and_keeps_the_order_of_results() -> None:
    running, most = 0, 0

    async def call(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    assert await gather(call, range(200), at_once=7) == list(range(200))
    assert most == 7


async def test_first_error_cancels_the_other_calls_and_is_raised_unchanged() -> None:
    ended: list[int] = []

    async def call(number: int) -> None:
        if number == 1:
            raise KeyError(number)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(number)

    with pytest.raises(KeyError):
        await gather(call, range(3))
    assert sorted(ended) in ([0], [0, 2])
