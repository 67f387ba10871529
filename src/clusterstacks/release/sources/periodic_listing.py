"""Lists every source periodically, each in its own task: a slow or dead source delays no other."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from math import nan
from typing import TYPE_CHECKING

from clusterstacks.model.errors import ClusterStacksError, DependencyError
from clusterstacks.net.http.errors import RateLimited
from clusterstacks.runtime.backoff import JITTER, BackOff
from clusterstacks.runtime.component_health import ComponentHealth
from clusterstacks.runtime.tracing import span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.release.sources.source_cache import SourceCache
    from clusterstacks.release.sources.spec import SourceAddress, SourceSettings
    from clusterstacks.runtime.clock import Clock

DEADLINE = timedelta(seconds=30)
"""Time after which an unfinished list counts as failed: the deadline of requests to API servers."""

LONGEST_LIST = timedelta(minutes=10)
"""Time after which a list is started again. Arbitrary: 100 pages of 6 seconds."""

SLOWEST = timedelta(minutes=10)
"""Longest wait between attempts at a failing source, unless its interval is longer. Arbitrary."""

FACTOR = 10
"""Longest wait in intervals. Arbitrary: a directory is read again within a minute."""

FAILURE_TOLERANCE = timedelta(minutes=15)
"""Time of failure of the operator's own source after which the operator is not ready. Arbitrary: some attempts, as the
wait between two grows to 10 min."""

log = logging.getLogger(__name__)


class SourceListing:
    """The known names of a source, and the health of its listing."""

    def __init__(self, settings: SourceSettings, clock: Clock) -> None:
        self.settings = settings
        self.health = ComponentHealth(clock=clock, tolerance=FAILURE_TOLERANCE)
        self.followers: set[ObjectKey] = set()
        self.is_read = False
        self._names: frozenset[str] | None = None
        self._failure: ClusterStacksError | None = None

    def names(self) -> frozenset[str]:
        """Return all names, including foreign ones; none before it ``is_read``. Raises the failure of the last list."""
        if self._failure is not None:
            raise self._failure
        return self._names or frozenset()

    @property
    def last_names(self) -> frozenset[str] | None:
        """The names of the last successful list; None before the first one."""
        return self._names

    def found(self, names: Collection[str]) -> bool:
        """Record a list; return whether it differs."""
        news = not self.is_read or self._failure is not None or self._names != frozenset(names)
        self.is_read, self._failure, self._names = True, None, frozenset(names)
        return news

    def failed(self, failure: ClusterStacksError) -> bool:
        """Record a failure; return whether it differs."""
        news = self._failure is None or self._failure.message != failure.message
        self.is_read, self._failure = True, failure
        return news


class SourceListings:
    """Lists every source that a ClusterStack follows.

    ``changed`` is called with the ClusterStacks of a source when its names change or its state changes.
    """

    def __init__(self, sources: SourceCache, clock: Clock, changed: Callable[[Collection[ObjectKey]], None]) -> None:
        self._sources = sources
        self._clock = clock
        self._changed = changed
        self._listings: dict[SourceSettings, SourceListing] = {}
        self._followed: dict[ObjectKey, SourceListing] = {}
        self._tasks: dict[SourceSettings, asyncio.Task[None]] = {}

    def follow(self, stack: ObjectKey, settings: SourceSettings) -> SourceListing:
        """Start listing a source for a stack, in place of its previous one."""
        listing = self._followed.get(stack)
        if listing is None or listing.settings != settings:
            self.unfollow(stack)
            listing = self._listings.setdefault(settings, SourceListing(settings, self._clock))
            listing.followers.add(stack)
            self._followed[stack] = listing
            if settings not in self._tasks:
                self._tasks[settings] = asyncio.create_task(self._run(listing), name=f"listing of {settings.address}")
        return listing

    def unfollow(self, stack: ObjectKey) -> None:
        """Stop listing a source unless another stack follows it."""
        listing = self._followed.pop(stack, None)
        if listing is None:
            return
        listing.followers.discard(stack)
        if not listing.followers:
            del self._listings[listing.settings]
            if task := self._tasks.pop(listing.settings, None):  # none after ``close``
                task.cancel()

    def known(self, stack: ObjectKey) -> frozenset[str] | None:
        """Return the names of the last list of a stack's source; None before it, or if the stack follows none."""
        listing = self._followed.get(stack)
        return listing.last_names if listing is not None else None

    @property
    def is_idle(self) -> bool:
        """True if every followed source was listed, or its first list failed."""
        return all(listing.is_read for listing in self._listings.values())

    def failing(self) -> int:
        """Return the number of sources with a failed last list; thread-safe."""
        return sum(listing.health.is_failing for listing in tuple(self._listings.values()))

    def oldest_success(self) -> float:
        """Return the Unix time of the oldest last success of all sources; NaN without sources.

        A source that was never listed counts since its first failure. Thread-safe.
        """
        health = [listing.health for listing in tuple(self._listings.values())]
        times = [source.last_success or source.failing_since for source in health]
        return min((time for time in times if time), default=nan)

    def problem(self, address: SourceAddress) -> str:
        """Describe a long failure of a source; empty when it works, or no ClusterStack follows it."""
        problems = [
            listing.health.problem() for settings, listing in self._listings.items() if settings.address == address
        ]
        return next((f"{address} {problem}" for problem in problems if problem), "")

    async def close(self) -> None:
        """Stop listing."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, listing: SourceListing) -> None:
        interval = listing.settings.interval
        pauses = BackOff(first=interval, limit=max(interval, min(FACTOR * interval, SLOWEST)) * (1 + JITTER))
        failures = 0
        reader = _Reader(self._sources, listing.settings)
        while True:
            rest = timedelta()
            try:
                news, failures = listing.found(await reader.read()), 0
                listing.health.succeeded()
            except ClusterStacksError as error:
                rest = error.wait if isinstance(error, RateLimited) else rest
                news, failures = listing.failed(error), failures + 1
                level = logging.WARNING if listing.health.failed(error.message) else logging.DEBUG
                log.log(level, "%s cannot be listed: %s", listing.settings.address, error)
            if news:
                self._changed(frozenset(listing.followers))
            pause = pauses.delay(failures or 1)
            await self._clock.sleep(max(pause, rest).total_seconds())


class _Reader:
    """Reads the list of a source. A hanging request is not repeated, because it may block a thread."""

    def __init__(self, sources: SourceCache, settings: SourceSettings) -> None:
        self._sources = sources
        self._settings = settings
        self._reading: asyncio.Task[tuple[str, ...]] | None = None

    async def read(self) -> tuple[str, ...]:
        reading = self._reading or asyncio.create_task(self._read(), name=f"reading of {self._settings.address}")
        self._reading = reading
        try:
            done, _ = await asyncio.wait({reading}, timeout=DEADLINE.total_seconds())
        except asyncio.CancelledError:
            reading.cancel()
            await asyncio.wait({reading})  # its connections are closed next
            raise
        if not done:
            raise DependencyError(
                "SourceUnavailable",
                f"{self._settings.address} did not list its releases within {DEADLINE}; check the server or volume",
            )
        self._reading = None
        return reading.result()

    async def _read(self) -> tuple[str, ...]:
        longest = LONGEST_LIST.total_seconds() if self._settings.address.kind.is_remote else None
        try:
            async with asyncio.timeout(longest), self._sources.open(self._settings) as live:
                with span("list releases", source=self._settings.address):
                    return await live.source.list()
        except TimeoutError:
            raise DependencyError(
                "SourceUnavailable", f"{self._settings.address} took longer than {longest} s for its list"
            ) from None
        except ClusterStacksError:
            raise
        except Exception as error:
            log.exception("Unexpected failure while listing a source, please report it")
            raise DependencyError("SourceFailed", f"{self._settings.address} cannot be listed; see the log") from error
