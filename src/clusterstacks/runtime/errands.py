"""Slow work on behalf of a reconciler: begun once, waited for a moment, and asked for again when it has ended.

So no reconcile holds a worker while a server far away takes its time. Everything is in memory: after a restart the work
begins anew.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from clusterstacks.domain.objects import ObjectKey

GRACE = timedelta(seconds=2)
"""How long a reconcile waits for its errand itself. Arbitrary: most end within, and one reconcile does it all."""

T = TypeVar("T")


class Errands:
    """At most one errand of each sort for each object.

    Args:
        wake: Has the object looked at; called when an errand ends that nobody waits for any more.
        grace: How long whoever begins an errand waits; nobody waits for one that is under way.
    """

    def __init__(self, wake: Callable[[ObjectKey], None], *, grace: timedelta = GRACE) -> None:
        self._wake = wake
        self._grace = grace.total_seconds()
        self._running: dict[tuple[ObjectKey, Hashable], asyncio.Task[Any]] = {}

    async def result(self, key: ObjectKey, what: Hashable, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return what the errand brought, None while it is under way; then the object is woken at its end.

        A result is given out once: the next call begins another errand. Raises what ``work`` raises.

        Args:
            key: The object.
            what: Tells the errands of an object apart; says everything the result depends on.
            work: Begins it.
        """
        errand = (key, what)
        task = self._running.get(errand)
        if task is None:
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

    def _ended(self, key: ObjectKey, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        task.exception()  # whoever asks next gets it; should nobody ask, nothing complains of it
        self._wake(key)


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
