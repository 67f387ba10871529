"""Slow work on behalf of a reconciler: begun once, waited for a moment, and asked for again when it has ended.

So no reconcile holds a worker while a server far away takes its time. Everything is in memory: after a restart the work
begins anew.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from clusterstacks.domain.errors import DependencyError
from clusterstacks.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.runtime.clock import Clock

GRACE = timedelta(seconds=2)
"""How long a reconcile waits for its errand itself. Arbitrary: most end within, and one reconcile does it all."""

T = TypeVar("T")


class RateLimiter:
    """Bounds how often something begins: ``most`` times at once, and once more after each interval.

    Args:
        most: How often at once.
        interval: After which once more.
        clock: Time.
    """

    def __init__(self, most: int, interval: timedelta, clock: Clock = SYSTEM_CLOCK) -> None:
        self._window = most * interval.total_seconds()
        self._interval = interval.total_seconds()
        self._clock = clock
        self._used_until = 0.0  # all is free again then

    def take(self) -> float:
        """Use one; returns 0, or the seconds to wait when there is none left."""
        now = self._clock.monotonic()
        used_until = max(self._used_until, now) + self._interval
        if used_until - now > self._window:
            return used_until - now - self._window
        self._used_until = used_until
        return 0.0


class BackgroundTasks:
    """At most one errand of each sort for each object.

    Args:
        wake: Has the object looked at; called when an errand ends that nobody waits for any more.
        grace: How long whoever begins an errand waits; nobody waits for one that is under way.
        limiter: How often an errand may begin; None for any number.
    """

    def __init__(
        self, wake: Callable[[ObjectKey], None], *, grace: timedelta = GRACE, limiter: RateLimiter | None = None
    ) -> None:
        self._wake = wake
        self._limiter = limiter
        self._grace = grace.total_seconds()
        self._running: dict[tuple[ObjectKey, Hashable], asyncio.Task[Any]] = {}

    async def result(self, key: ObjectKey, what: Hashable, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return what the errand brought, None while it is under way; then the object is woken at its end.

        A result is given out once: the next call begins another errand. Raises what ``work`` raises.

        Args:
            key: The object.
            what: Tells the errands of an object apart; says everything the result depends on.
            work: Begins it.

        Raises:
            DependencyError: No further errand may begin now.
        """
        errand = (key, what)
        task = self._running.get(errand)
        if task is None:
            self._take_turn()
            task = asyncio.create_task(_run(work), name=f"errand of {key}")
            self._running[errand] = task
            await asyncio.wait({task}, timeout=self._grace)
            if not task.done():
                task.add_done_callback(lambda ended: self._ended(key, ended))
        if not task.done():
            return None
        self._running.pop(errand, None)
        if task.cancelled():
            return None  # the object is gone
        brought: T = task.result()
        return brought

    def forget(self, key: ObjectKey) -> None:
        """Give up everything for an object that is gone."""
        for errand in [errand for errand in self._running if errand[0] == key]:
            self._running.pop(errand).cancel()

    async def close(self) -> None:
        """Give up everything."""
        tasks = list(self._running.values())
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take_turn(self) -> None:
        wait = self._limiter.take() if self._limiter is not None else 0.0
        if wait:
            raise DependencyError(
                "TooManyErrands", f"too much was fetched within a short time, try again in {math.ceil(wait)} s"
            )

    def _ended(self, key: ObjectKey, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        task.exception()  # whoever asks next gets it; should nobody ask, nothing complains of it
        self._wake(key)


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
