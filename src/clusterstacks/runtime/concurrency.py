"""Bounded concurrency on the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 32
"""Default number of concurrent calls: enough to use the whole budget of the Kubernetes client (16 by default), and few
enough that no call waits for the budget until its deadline."""


async def gather(call: Callable[[S], Awaitable[T]], items: Iterable[S], *, at_once: int = AT_ONCE) -> list[T]:
    """Await a call for every item, with limited concurrency; return the results in the order of the items.

    The first error of a call is raised, and the other calls are cancelled.
    """
    slots = asyncio.Semaphore(at_once)

    async def limited_call(item: S) -> T:
        async with slots:
            return await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(limited_call(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def run_in_steps(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end and let other tasks run after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
