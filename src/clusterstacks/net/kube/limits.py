"""Limits of a client: sizes of responses, time spent in requests, and requests at a time."""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one client; the defaults are for a trusted server that stores objects of untrusted users."""

    response_bytes: int = 10 * 1024 * 1024
    """Maximum size of a response and of a watch event: six times etcd's 1.5 MiB per object, because JSON encodes a
    control character in six bytes, plus a margin."""
    list_bytes: int = 2 * 1024**3
    """Maximum size of a list, all pages together: etcd's default quota (--quota-backend-bytes)."""
    list_values: int = 2 * 1024**3
    """Maximum number of values in a list, by ``bounded_json.estimate_values``: as many as fit in ``list_bytes``. A
    value takes 30 to 100 bytes of memory."""
    list_pages: int = 100_000
    """Maximum number of requests for one list (arbitrary): one for each of 100,000 objects."""
    list_time: timedelta = timedelta(minutes=10)
    """Maximum duration of one list (arbitrary)."""
    busy_time: timedelta | None = None
    """Maximum time spent in requests until ``BusyTime.restart`` is called."""


class BusyTime:
    """Measures the time spent in requests, by the event loop's clock; concurrent requests count once."""

    def __init__(self, limit: timedelta | None, monotonic: Callable[[], float]) -> None:
        self._limit = limit.total_seconds() if limit is not None else math.inf
        self._monotonic = monotonic
        self._running = 0
        self._since = 0.0
        self._spent = 0.0
        self.ended = 0.0
        """Time of the end of the last request."""

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return self._spent + (self._monotonic() - self._since if self._running else 0.0)

    @property
    def left(self) -> float:
        """Seconds until the limit; 0 or less once it is reached."""
        return self._limit - self.seconds

    def restart(self) -> None:
        """Reset the measured time; running requests count from now."""
        self._spent, self._since = 0.0, self._monotonic()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Measure the request that runs in the context."""
        if not self._running:
            self._since = self._monotonic()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self.ended = self._monotonic()
                self._spent += self.ended - self._since


FIRST_REQUESTS = 2
"""Concurrent requests at the beginning of a burst. With 200 clusters and 10 objects each, a first delivery then opens
half the connections (docs/benchmarks.md, "Resource syncs")."""

PATIENCE = timedelta(seconds=1)
"""Longest delay of a request by the small beginning. Arbitrary: as many requests as take that long to be answered, for
example by a webhook that hangs, are sent at a time as before."""


class RequestBudget:
    """At most ``most`` requests at a time, and few at the beginning of a burst: each answer allows one more.

    A request for which no connection is idle opens one, which costs both sides a TLS handshake and some 60 KB. The
    number doubles with every round trip, so a large delivery soon has all of them, and a small one to each of many
    clusters opens few. A request that waits for ``PATIENCE`` allows one more as well, so that a few slow requests do
    not delay all others.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._first = min(FIRST_REQUESTS, most)
        self._users = 0
        self._begin()

    def _begin(self) -> None:
        self._allowed = self._first
        self._slots = asyncio.Semaphore(self._first)

    async def __aenter__(self) -> None:
        self._users += 1
        try:
            await self._acquire()
        except BaseException:
            self._leave()
            raise

    async def _acquire(self) -> None:
        if self._allowed < self._most and self._slots.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE.total_seconds()):
                    await self._slots.acquire()
                    return
            self._allow_one_more()
        await self._slots.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._slots.release()
        if kind is None:
            self._allow_one_more()
        self._leave()

    def _allow_one_more(self) -> None:
        if self._allowed < self._most:
            self._allowed += 1
            self._slots.release()

    def _leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._begin()
