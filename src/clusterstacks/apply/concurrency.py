"""Doing the same to many objects side by side, and long work in pieces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 32
"""Calls begun at a time: enough to use up the client's budget of requests (16 by default), few enough that none of them
waits for its turn until its deadline."""


async def together(call: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
    """Await the call for all items and return the results in order; the first error ends the rest and is raised."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def take_turn(item: S) -> T:
        async with turns:
            return await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(take_turn(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def in_pieces(work: Generator[None, None, T]) -> T:
    """Run work that is done in pieces, so that it holds up the loop for one piece at a time."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
