"""One listing of the release source, shared by every ClusterStack (INCUMBENT D57)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import ClusterStacksError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.releases.sources import ReleaseSource
    from clusterstacks.runtime.clock import Clock

INTERVAL = timedelta(seconds=5)
"""How old a listing may be. Arbitrary: a directory listing costs a fraction of a millisecond."""


class Listing:
    """The release names a source holds, at most ``interval`` old.

    Calls at the same time share one listing; ``run`` tells when the names changed, so nobody has to poll.
    """

    def __init__(self, source: ReleaseSource, clock: Clock, interval: timedelta = INTERVAL) -> None:
        self._source = source
        self._clock = clock
        self._interval = interval
        self._names: frozenset[str] | None = None
        self._until = float("-inf")
        self._lock = asyncio.Lock()

    async def names(self) -> frozenset[str]:
        """The names of all releases, foreign ones included.

        Raises:
            DependencyError: The source cannot be listed.
        """
        async with self._lock:
            if self._names is None or self._clock.monotonic() >= self._until:
                self._names = None
                self._names = frozenset(await self._source.list())
                self._until = self._clock.monotonic() + self._interval.total_seconds()
            return self._names

    async def run(self, changed: Callable[[], None]) -> None:
        """Look again at every interval, for ever; call ``changed`` when the names changed or were lost."""
        last: frozenset[str] | None = None
        while True:
            try:
                names: frozenset[str] | None = await self.names()
            except ClusterStacksError:
                names = None
            if names != last:
                last = names
                changed()
            await self._clock.sleep(self._interval.total_seconds())
