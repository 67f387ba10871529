"""The work queue: each key at most once, in one pair of hands at a time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Hashable
from datetime import timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from clusterstacks.runtime.backoff import BackOff

K = TypeVar("K", bound=Hashable)
_Entry: TypeAlias = tuple[float, int, K]  # due, order of arrival (keys need none of their own), key

# Source of the limit: ARCHITECTURE section 4 (errors); the first wait is arbitrary.
FAILURES: Final = BackOff(first=timedelta(seconds=1), limit=timedelta(minutes=2))

# uvloop counts milliseconds and wakes up to one early; asked again for the rest, it would wake at once, and again.
EARLY_SECONDS: Final = 0.002


class QueueClosedError(Exception):
    """The queue was closed while a worker waited for a key."""


class WorkQueue(Generic[K]):
    """Keys that want to be looked at, first in, first out.

    A key has at most one next turn: now, or the earliest time anybody asked for. A turn looks at everything, so it
    stands for all turns asked for before it began. A key added while a worker has it gets another turn once that worker
    is done, so no change is missed and no key is ever worked on twice at once.

    Not thread-safe: everything happens on one event loop, whose clock the delays run on.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()  # None: closed
        self._waiting: set[K] = set()  # wants a turn now; in _ready unless a worker still has it
        self._held: set[K] = set()
        self._due: dict[K, _Entry[K]] = {}
        self._heap: list[_Entry[K]] = []  # entries that _due no longer has are outdated
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._failures: dict[K, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """Count the keys that want a turn now; delayed ones do not."""
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Give the key a turn as soon as a worker is free; ignored once the queue is closed."""
        if self._closed:
            return
        self._due.pop(key, None)
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._held:
            self._ready.put_nowait(key)

    def add_after(self, key: K, delay: timedelta) -> None:
        """Give the key a turn after ``delay``, unless it gets one sooner anyway; ignored once the queue is closed."""
        if delay <= timedelta(0):
            self.add(key)
            return
        if self._closed or key in self._waiting:
            return
        due = asyncio.get_running_loop().time() + delay.total_seconds()
        if key in self._due and self._due[key][0] <= due:
            return
        self._due[key] = entry = (due, next(self._order), key)
        heapq.heappush(self._heap, entry)
        self._drop_outdated()
        self._arm()

    async def get(self) -> K:
        """Wait for the next key and take it; the caller must call ``done`` with it.

        Raises:
            QueueClosedError: The queue was closed; keys that still waited are dropped.
        """
        key = await self._ready.get()
        if key is None:
            self._ready.put_nowait(None)  # for the next worker
            raise QueueClosedError
        self._waiting.discard(key)
        self._held.add(key)
        return key

    def done(self, key: K) -> None:
        """Hand the key back; it gets its next turn at once if one was asked for meanwhile."""
        self._held.discard(key)
        if key in self._waiting and not self._closed:
            self._ready.put_nowait(key)

    def back_off(self, key: K, first: timedelta | None = None) -> timedelta:
        """Count a failure of the key; return how long to wait, doubling from ``first`` (1 s) to 2 min, with jitter."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return FAILURES.delay(failures, first=first)

    def forget(self, key: K) -> None:
        """Note a success: the next failure of the key waits shortly again."""
        self._failures.pop(key, None)

    def close(self) -> None:
        """Drop every key nobody has yet and let ``get`` raise from now on; what is held may still be handed back."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while not self._ready.empty():
            self._ready.get_nowait()
        self._ready.put_nowait(None)
        self._waiting.clear()
        self._due.clear()
        self._heap.clear()

    def _arm(self) -> None:
        """Set the timer to the earliest entry."""
        if self._timer is not None:
            if self._heap and self._rings_at <= self._heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
        if self._heap:
            # Kept here because uvloop answers a time that has just passed with a handle that knows no time.
            self._rings_at = self._heap[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._rings_at, self._add_due)

    def _add_due(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() + EARLY_SECONDS
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._due.get(entry[2]) is entry:
                self.add(entry[2])
        self._arm()

    def _drop_outdated(self) -> None:
        """Keep the heap in proportion to the keys: one that changes often leaves an entry behind at each change."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = list(self._due.values())
            heapq.heapify(self._heap)
