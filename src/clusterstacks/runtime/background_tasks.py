"""Background tasks for slow work of reconcilers, e.g. downloads.

A reconcile starts a task, waits for a short time and returns; when the task ends, the object is reconciled again. So a
slow server does not occupy a worker. Tasks are only in memory: after a restart they start again.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from clusterstacks.model.errors import DependencyError
from clusterstacks.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.runtime.clock import Clock

INITIAL_WAIT = timedelta(seconds=2)
"""Time a reconcile waits for a task that it starts (arbitrary; most tasks finish within it)."""

T = TypeVar("T")


class RateLimiter:
    """Token bucket: allows ``burst`` events at once, and one more after each interval."""

    def __init__(self, burst: int, interval: timedelta, clock: Clock = SYSTEM_CLOCK) -> None:
        self._window = burst * interval.total_seconds()
        self._interval = interval.total_seconds()
        self._clock = clock
        self._used_until = 0.0  # the bucket is full from this time

    def take(self) -> float:
        """Take one token and return 0; if there is none, return the seconds until the next one."""
        now = self._clock.monotonic()
        used_until = max(self._used_until, now) + self._interval
        if used_until - now > self._window:
            return used_until - now - self._window
        self._used_until = used_until
        return 0.0


class BackgroundTasks:
    """Runs at most one task per object and kind of work.

    ``enqueue`` reconciles the object again when a task ends that is not waited for. A caller waits ``initial_wait`` for
    a task that it starts, and not at all for one that already runs. ``limiter`` limits how often a task may start.
    """

    def __init__(
        self,
        enqueue: Callable[[ObjectKey], None],
        *,
        initial_wait: timedelta = INITIAL_WAIT,
        limiter: RateLimiter | None = None,
    ) -> None:
        self._enqueue = enqueue
        self._limiter = limiter
        self._initial_wait = initial_wait.total_seconds()
        self._running: dict[tuple[ObjectKey, Hashable], asyncio.Task[Any]] = {}

    async def result(self, key: ObjectKey, what: Hashable, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of the task, or None while it runs; the object is then enqueued when the task ends.

        A result is returned once: the next call starts another task. ``what`` identifies the task and contains
        everything that the result depends on. Raises DependencyError if the limiter allows no further task.
        """
        task_id = (key, what)
        task = self._running.get(task_id)
        if task is None:
            self._check_rate()
            task = asyncio.create_task(_run(work), name=f"background task of {key}")
            self._running[task_id] = task
            await asyncio.wait({task}, timeout=self._initial_wait)
            if not task.done():
                task.add_done_callback(lambda ended: self._ended(key, ended))
        if not task.done():
            return None
        self._running.pop(task_id, None)
        if task.cancelled():
            return None  # the object was deleted
        result: T = task.result()
        return result

    @property
    def is_idle(self) -> bool:
        """True if no task runs."""
        return all(task.done() for task in self._running.values())

    def forget(self, key: ObjectKey) -> None:
        """Cancel all tasks of a deleted object."""
        for task_id in [task_id for task_id in self._running if task_id[0] == key]:
            self._running.pop(task_id).cancel()

    async def close(self) -> None:
        """Cancel the tasks of all objects and wait for their end."""
        tasks = list(self._running.values())
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check_rate(self) -> None:
        wait = self._limiter.take() if self._limiter is not None else 0.0
        if wait:
            raise DependencyError(
                "TooManyErrands", f"too many requests within a short time: try again in {math.ceil(wait)} s"
            )

    def _ended(self, key: ObjectKey, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        task.exception()  # retrieved, so that asyncio does not log it if there is no further call
        self._enqueue(key)


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
