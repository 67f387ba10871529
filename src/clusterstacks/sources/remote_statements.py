"""Reads the compatibility statements of listed releases in the background, for advice only.

Two small files of each release are read once, without verification of signatures: no decision depends on them.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import ClusterStacksError, SpecError
from clusterstacks.domain.names import ReleaseName, release_named
from clusterstacks.releases.compat_statements import fetch_candidate
from clusterstacks.releases.errors import ReleaseNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.api.clusterstack import ClusterStack
    from clusterstacks.compat.world import Candidate
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.sources.periodic_listing import SourceListings
    from clusterstacks.sources.source_cache import SourceCache
    from clusterstacks.sources.spec import SourceSettings
    from clusterstacks.sources.stack_source import SourcePolicy

REST = timedelta(minutes=5)
"""Pause after a failure of a source. Arbitrary: the statements are only advice."""

log = logging.getLogger(__name__)


class RemoteStatements:
    """The statements of listed releases.

    Args:
        sources: Open sources.
        listings: Lists of the sources.
        choice: Chooses the source of a ClusterStack.
        clock: Clock.
    """

    def __init__(self, sources: SourceCache, listings: SourceListings, choice: SourcePolicy, clock: Clock) -> None:
        self._sources = sources
        self._listings = listings
        self._choice = choice
        self._clock = clock
        self._read: dict[SourceSettings, dict[ReleaseName, Candidate | None]] = {}
        self._reading: dict[SourceSettings, asyncio.Task[None]] = {}
        self._rest_until: dict[SourceSettings, float] = {}

    def known(self, stacks: Iterable[ClusterStack]) -> dict[ReleaseName, Candidate]:
        """Return the statements read so far for the releases that ClusterStacks could offer; start reading the others.

        Args:
            stacks: The ClusterStacks; those without a source offer none.
        """
        found: dict[ReleaseName, Candidate] = {}
        for stack in stacks:
            names = _of_stack(self._listings.known(stack.key), stack)
            if not names:
                continue
            terms = self._choice.terms(stack)
            read = self._read.setdefault(terms, {})
            found |= {name: one for name in names if (one := read.get(name)) is not None}
            if unread := names - read.keys():
                self._begin(terms, unread)
        return found

    async def close(self) -> None:
        """Stop reading."""
        tasks, self._reading = list(self._reading.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, terms: SourceSettings, names: set[ReleaseName]) -> None:
        if terms in self._reading or self._clock.monotonic() < self._rest_until.get(terms, 0.0):
            return
        task = asyncio.create_task(self._gather(terms, names), name=f"statements of {terms.address}")
        self._reading[terms] = task
        task.add_done_callback(lambda _: self._reading.pop(terms, None))

    async def _gather(self, terms: SourceSettings, names: set[ReleaseName]) -> None:
        try:
            async with self._sources.open(terms) as live:
                for name in sorted(names, reverse=True):
                    try:
                        self._read[terms][name] = await fetch_candidate(live.source, name)
                    except (SpecError, ReleaseNotFound) as error:
                        self._read[terms][name] = None
                        log.debug("Cannot read the statements of release %s: %s", name, error)
        except ClusterStacksError as error:
            self._rest_until[terms] = self._clock.monotonic() + REST.total_seconds()
            log.debug("%s gives no advice: %s", terms.address, error)


def _of_stack(names: Iterable[str], stack: ClusterStack) -> set[ReleaseName]:
    spec = stack.spec
    series = f"{spec.provider}-{spec.name}-{spec.kubernetes_version.replace('.', '-')}"
    return {name for text in names if (name := release_named(text)) is not None and name.series == series}
