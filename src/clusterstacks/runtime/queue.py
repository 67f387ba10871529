"""Work queue, like the one of client-go: a key is queued once and processed by one worker at a time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from clusterstacks.runtime.backoff import BackOff

K = TypeVar("K", bound=Hashable)
_Entry: TypeAlias = tuple[float, int, K]  # due, order of arrival (keys need not be sortable), key

# Both are arbitrary; 2 min is a tolerable delay after an outage.
FAILURES: Final = BackOff(first=timedelta(seconds=1), limit=timedelta(minutes=2))

# The timers of uvloop have millisecond resolution and may fire early; without a tolerance they would fire repeatedly.
TIMER_TOLERANCE: Final = 0.002


class QueueClosedError(Exception):
    """``get`` was called on a queue that is closed."""


class WorkQueue(Generic[K]):
    """Keys to process, first in, first out.

    A key is queued at most once: now, or at the earliest requested time. A worker reads the whole state of the object,
    so one run covers all requests before its start. A key that is added while a worker processes it is queued again
    when the worker is done. So no change is missed, and no key is processed concurrently.

    Not thread-safe: everything runs on one event loop, and delays use its clock. ``on_wait`` is called with the seconds
    that a key waited for a worker.
    """

    def __init__(self, on_wait: Callable[[float], None] = lambda _: None) -> None:
        self.added = 0
        """Number of keys queued so far, each once until it is processed."""
        self.retried = 0
        """Number of failures so far."""
        self._on_wait = on_wait
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()  # None: closed
        # To process now, oldest first, with the time when it was added; in _ready unless a worker still processes it.
        self._waiting: dict[K, float] = {}
        self._processing: set[K] = set()
        self._due: dict[K, _Entry[K]] = {}
        self._heap: list[_Entry[K]] = []  # entries that are not in _due are outdated
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._failures: dict[K, int] = {}
        self._closed = False

    def __len__(self) -> int:  # keys to process now, without delayed ones
        return len(self._waiting)

    def oldest_wait(self) -> float:
        """Return the seconds for which the oldest key to process now has waited."""
        now = asyncio.get_running_loop().time()
        return now - next(iter(self._waiting.values()), now)

    def add(self, key: K) -> None:
        """Queue the key now; ignored once the queue is closed."""
        if self._closed:
            return
        self._due.pop(key, None)
        if key in self._waiting:
            return
        self.added += 1
        self._waiting[key] = asyncio.get_running_loop().time()
        if key not in self._processing:
            self._ready.put_nowait(key)

    def add_after(self, key: K, delay: timedelta) -> None:
        """Queue the key after ``delay``, unless it is due earlier; ignored once the queue is closed."""
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
        self._set_timer()

    async def get(self) -> K:
        """Wait for the next key; the caller must call ``done`` with it. A closed queue raises QueueClosedError."""
        key = await self._ready.get()
        if key is None:
            self._ready.put_nowait(None)  # for the next worker
            raise QueueClosedError
        self._on_wait(asyncio.get_running_loop().time() - self._waiting.pop(key))
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """Mark the key as processed; queue it again if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._waiting and not self._closed:
            self._ready.put_nowait(key)

    def back_off(self, key: K, first: timedelta | None = None) -> timedelta:
        """Count a failure of the key; return the delay, which doubles from ``first`` (1 s) to 2 min, with jitter."""
        self.retried += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return FAILURES.delay(failures, first=first)

    def forget(self, key: K) -> None:
        """Reset the failures of the key."""
        self._failures.pop(key, None)

    def close(self) -> None:
        """Drop all waiting keys and let ``get`` raise; workers may still call ``done``."""
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

    def _set_timer(self) -> None:
        if self._timer is not None:
            if self._heap and self._timer_at <= self._heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
        if self._heap:
            # Kept here because for a time in the past uvloop returns a handle without a time.
            self._timer_at = self._heap[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._timer_at, self._add_due)

    def _add_due(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() + TIMER_TOLERANCE
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._due.get(entry[2]) is entry:
                self.add(entry[2])
        self._set_timer()

    def _drop_outdated(self) -> None:
        """Limit the size of the heap: a key that changes often leaves an outdated entry at each change."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = list(self._due.values())
            heapq.heapify(self._heap)
