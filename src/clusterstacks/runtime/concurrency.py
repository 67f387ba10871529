"""Bounded concurrency on the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 32
"""Default number of concurrent calls: enough to use up the Kubernetes client's budget of requests (16 by default), few
enough that none of them waits for its turn until its deadline."""


async def gather(call: Callable[[S], Awaitable[T]], items: Iterable[S], *, at_once: int = AT_ONCE) -> list[T]:
    """Await a call for every item, a bounded number at a time.

    Returns:
        The results, in the order of the items.

    Raises:
        BaseException: The first error of a call; it cancels the calls that still run.
    """
    turns = asyncio.Semaphore(at_once)

    async def take_turn(item: S) -> T:
        async with turns:
            return await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(take_turn(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def run_in_steps(work: Generator[None, None, T]) -> T:
    """Run work that yields now and then, so that it blocks the event loop for one piece at a time."""
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
