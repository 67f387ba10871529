"""Decides which request gets a worker next: fair between objects, quick renders before slow ones.

A render is first tried for a short time and, if that is not enough, a second time with the full deadline. First and
second tries wait in separate lanes. Slow renders never use the last worker, so a chart that hangs delays others only by
its short first try. In each lane namespaces take turns, and so do the objects of a namespace.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Hashable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from clusterstacks.deliver.render.errors import WorkersBusy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from clusterstacks.model.objects import ObjectKey

T = TypeVar("T", bound=Hashable)


MAX_SERVED: Final = 10_000
"""Maximum number of namespaces and objects whose last turn a lane remembers (arbitrary: a megabyte)."""


class Lane(Generic[T]):
    """Requests of one kind. The namespace served least recently is next, and in it the object served least recently."""

    def __init__(self) -> None:
        self._waiting: dict[ObjectKey, dict[T, None]] = {}
        self._served: dict[str | ObjectKey, int] = {}
        self._turns = itertools.count(1)

    def __bool__(self) -> bool:
        """True if a request waits."""
        return bool(self._waiting)

    def add(self, request: T, owner: ObjectKey) -> None:
        """Append a request to those of its owner."""
        self._waiting.setdefault(owner, {})[request] = None

    def discard(self, request: T, owner: ObjectKey) -> None:
        """Remove a request from any position; an unknown request is ignored."""
        requests = self._waiting.get(owner, {})
        requests.pop(request, None)
        if not requests:
            self._waiting.pop(owner, None)

    def take(self) -> T:
        """Remove and return the next request; the lane must not be empty."""
        owner = min(self._waiting, key=lambda key: (self._served.get(key.namespace, 0), self._served.get(key, 0)))
        request = next(iter(self._waiting[owner]))
        self.discard(request, owner)
        turn = next(self._turns)
        for served in (owner.namespace, owner):
            self._served.pop(served, None)
            self._served[served] = turn
        while len(self._served) > MAX_SERVED:
            del self._served[next(iter(self._served))]
        return request


class FairQueue(Generic[T]):
    """Decides which request gets one of the workers next."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._owners: dict[T, tuple[ObjectKey, bool]] = {}
        self._running: dict[T, bool] = {}
        self._quick: Lane[T] = Lane()
        self._slow: Lane[T] = Lane()

    def join(self, request: T, owner: ObjectKey, *, slow: bool) -> None:
        """Add a waiting request, which must be unique, of an object; it is slow if its first try timed out."""
        self._owners[request] = owner, slow
        self._lane(slow).add(request, owner)

    def next(self) -> T | None:
        """Start the next request; None if no worker is free for any waiting request.

        The lane with fewer running requests is first, so neither starves; the quick lane is first if they are equal.
        """
        if len(self._running) >= self._workers:
            return None
        most_slow = max(1, self._workers - 1)
        lanes = [slow for slow in (False, True) if self._lane(slow) and not (slow and self._count(slow) >= most_slow)]
        if not lanes:
            return None
        slow = min(lanes, key=self._count)
        request = self._lane(slow).take()
        self._running[request] = slow
        return request

    def leave(self, request: T) -> None:
        """Remove a request that is done, or that stopped waiting."""
        owner, slow = self._owners.pop(request)
        if self._running.pop(request, None) is None:
            self._lane(slow).discard(request, owner)

    def _lane(self, slow: bool) -> Lane[T]:  # noqa: FBT001 - the key of a lane
        return self._slow if slow else self._quick

    def _count(self, slow: bool) -> int:  # noqa: FBT001 - the key of a lane
        return sum(is_slow is slow for is_slow in self._running.values())


class WorkerQueue:
    """Lets requests wait for their turn; one that waits longer than ``longest_wait`` fails."""

    def __init__(self, workers: int, longest_wait: timedelta) -> None:
        self._workers = workers
        self._longest_seconds = longest_wait.total_seconds()
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(workers)
        self._since: dict[asyncio.Future[None], float] = {}

    @asynccontextmanager
    async def turn(self, owner: ObjectKey, *, slow: bool) -> AsyncIterator[None]:
        """Wait for a turn and keep it until the block ends; a request is slow if its first try timed out.

        Raises:
            WorkersBusy: The request waited too long.
        """
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.join(granted, owner, slow=slow)
        self._since[granted] = time.monotonic()
        self._grant()
        try:
            await self._wait(granted)
            yield
        finally:
            self._queue.leave(granted)
            self._grant()

    def waiting(self) -> int:
        """Return the number of waiting requests; may be called from any thread."""
        return len(self._since)

    def oldest_wait(self) -> float:
        """Return the waiting time of the oldest request in seconds; may be called from any thread."""
        return max((time.monotonic() - since for since in tuple(self._since.values())), default=0.0)

    async def _wait(self, granted: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._longest_seconds):
                await granted
        except TimeoutError:
            raise WorkersBusy(
                f"waited {self._longest_seconds:g} s for a render worker: all {self._workers} are busy with other "
                "long renders; the render is retried"
            ) from None
        finally:
            del self._since[granted]

    def _grant(self) -> None:
        while (granted := self._queue.next()) is not None:
            if not granted.done():  # a cancelled request removes itself
                granted.set_result(None)
