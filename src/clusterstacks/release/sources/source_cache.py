"""Cache of open sources: one for each address and credentials."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.net.http.errors import RateLimited, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.sources.source_opener import SourceOpener
    from clusterstacks.release.sources.spec import SourceAddress, SourceSettings
    from clusterstacks.runtime.clock import Clock

IDLE = timedelta(minutes=30)
"""Time after which an unused source is closed; until then its cached responses save requests."""

TURNS = 3
"""Concurrent operations of one source. Arbitrary: a directory that hangs must leave threads for others."""


@dataclass(slots=True, eq=False)
class CachedSource:
    """An open source with its limits; a directory has no HTTP client."""

    address: SourceAddress
    source: ReleaseSource
    web: HTTPClient | None
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TURNS))
    users: int = 0
    used: float = 0
    rate_limited: RateLimited | None = None
    rate_limited_until: float = 0

    @asynccontextmanager
    async def turn(self, deadline: timedelta) -> AsyncIterator[None]:
        """Wait for a slot, and release it when the block ends; a block that takes too long is SourceUnavailable.

        A directory has no deadline: a hanging thread cannot be stopped, and another one would hang as well.
        """
        seconds = None if self.web is None else deadline.total_seconds()
        async with self._turns:
            try:
                async with asyncio.timeout(seconds):
                    yield
            except TimeoutError:
                raise SourceUnavailable(self.address, f"no answer after {seconds:.0f} s") from None


class SourceCache:
    """Opens sources on demand, and closes unused ones."""

    def __init__(self, opener: SourceOpener, clock: Clock) -> None:
        self._opener = opener
        self._clock = clock
        self._live: dict[tuple[SourceAddress, str], CachedSource] = {}

    @asynccontextmanager
    async def open(self, settings: SourceSettings) -> AsyncIterator[CachedSource]:
        """Open the source for a block, with the current Secrets.

        Raises:
            RateLimited: The server asked for a pause that is not over.
            ClusterStacksError: A Secret or the address cannot be used.
        """
        live = await self._find(settings)
        live.users += 1
        try:
            now = self._clock.monotonic()
            if live.rate_limited is not None and now < live.rate_limited_until:
                raise live.rate_limited
            yield live
        except RateLimited as limited:
            if limited is not live.rate_limited:
                live.rate_limited = limited
                live.rate_limited_until = self._clock.monotonic() + limited.wait.total_seconds()
            raise
        finally:
            live.users -= 1
            live.used = self._clock.monotonic()

    async def close(self) -> None:
        """Close the connections of all sources; later calls open new ones."""
        sources, self._live = list(self._live.values()), {}
        for source in sources:
            await _close(source)

    async def _find(self, settings: SourceSettings) -> CachedSource:
        await self._close_idle()
        access = await self._opener.access(settings)
        key = (settings.address, access.digest)
        if key not in self._live:
            source, web = await self._opener.open(settings.address, access)
            opened = CachedSource(settings.address, source, web, used=self._clock.monotonic())
            if self._live.setdefault(key, opened) is not opened:
                await _close(opened)  # another task was faster
        return self._live[key]

    async def _close_idle(self) -> None:
        before = self._clock.monotonic() - IDLE.total_seconds()
        idle = {key: live for key, live in self._live.items() if not live.users and live.used < before}
        self._live = {key: live for key, live in self._live.items() if key not in idle}
        for live in idle.values():
            await _close(live)


async def _close(live: CachedSource) -> None:
    if live.web is not None:
        await live.web.close()
