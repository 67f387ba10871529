"""One listing of the release source, shared by every ClusterStack (INCUMBENT D57)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import ClusterStacksError, DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.releases.sources import ReleaseSource
    from clusterstacks.runtime.clock import Clock

INTERVAL = timedelta(seconds=5)
"""How old a listing may be. Arbitrary: a directory listing costs a fraction of a millisecond."""

DEADLINE = timedelta(seconds=30)
"""How long a call waits for a listing. As the deadline of requests to API servers."""


class Listing:
    """The release names a source holds, at most ``interval`` old.

    Calls at the same time share one listing, also one that hangs (a network volume may, for hours): they end by their
    deadline and leave it to the next call. ``run`` tells when the names changed, so nobody has to poll.
    """

    def __init__(
        self, source: ReleaseSource, clock: Clock, interval: timedelta = INTERVAL, deadline: timedelta = DEADLINE
    ) -> None:
        self._source = source
        self._clock = clock
        self._interval = interval
        self._deadline = deadline
        self._names: frozenset[str] | None = None
        self._until = float("-inf")
        self._reading: asyncio.Task[frozenset[str]] | None = None

    async def names(self) -> frozenset[str]:
        """The names of all releases, foreign ones included.

        Raises:
            DependencyError: The source cannot be listed.
        """
        if self._names is not None and self._clock.monotonic() < self._until:
            return self._names
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(), name="release listing")
            self._reading.add_done_callback(self._read_ended)
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await asyncio.shield(self._reading)
        except TimeoutError:
            message = f"the release source gives no list of its releases within {self._deadline}; look at its volume"
            raise DependencyError("SourceUnavailable", message) from None

    async def _read(self) -> frozenset[str]:
        self._names = None
        self._names = frozenset(await self._source.list())
        self._until = self._clock.monotonic() + self._interval.total_seconds()
        return self._names

    def _read_ended(self, reading: asyncio.Task[frozenset[str]]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # every caller may be gone: then nobody else would take note of it

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
