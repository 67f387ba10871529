"""Reads the compatibility statements of listed releases in the background, for advice only.

Two small files of each release are read once, without verification of signatures: no decision depends on them.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.plan.compat.release_statements import fetch_candidates
from clusterstacks.plan.compat.world import Candidate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.kinds.clusterstack import ClusterStack
    from clusterstacks.release.sources.periodic_listing import SourceListings
    from clusterstacks.release.sources.source_cache import SourceCache
    from clusterstacks.release.sources.spec import SourceSettings
    from clusterstacks.release.sources.stack_source import SourcePolicy
    from clusterstacks.runtime.clock import Clock

PAUSE_AFTER_FAILURE = timedelta(minutes=5)
"""Pause after a failure of a source. Arbitrary: the statements are only advice."""

log = logging.getLogger(__name__)


class RemoteStatements:
    """The statements of listed releases, read from the sources that the policy chooses."""

    def __init__(self, sources: SourceCache, listings: SourceListings, policy: SourcePolicy, clock: Clock) -> None:
        self._sources = sources
        self._listings = listings
        self._policy = policy
        self._clock = clock
        self._read: dict[SourceSettings, dict[ReleaseName, Candidate | None]] = {}
        self._reading: dict[SourceSettings, asyncio.Task[None]] = {}
        self._paused_until: dict[SourceSettings, float] = {}

    def known(self, stacks: Iterable[ClusterStack]) -> dict[ReleaseName, Candidate]:
        """Return the statements read so far of releases that ClusterStacks could offer; start reading the others."""
        candidates: dict[ReleaseName, Candidate] = {}
        for stack in stacks:
            names = _of_stack(self._listings.known(stack.key) or (), stack)
            if not names:
                continue
            settings = self._policy.settings(stack)
            read = self._read.setdefault(settings, {})
            candidates |= {name: candidate for name in names if (candidate := read.get(name)) is not None}
            if unread := names - read.keys():
                self._begin(settings, unread)
        return candidates

    async def close(self) -> None:
        """Stop reading."""
        tasks, self._reading = list(self._reading.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, settings: SourceSettings, names: set[ReleaseName]) -> None:
        if settings in self._reading or self._clock.monotonic() < self._paused_until.get(settings, 0.0):
            return
        task = asyncio.create_task(self._gather(settings, names), name=f"statements of {settings.address}")
        self._reading[settings] = task
        task.add_done_callback(lambda _: self._reading.pop(settings, None))

    async def _gather(self, settings: SourceSettings, names: set[ReleaseName]) -> None:
        try:
            async with self._sources.open(settings) as live:
                await fetch_candidates(live.source, names, partial(self._note, settings))
        except ClusterStacksError as error:
            self._paused_until[settings] = self._clock.monotonic() + PAUSE_AFTER_FAILURE.total_seconds()
            log.debug("The statements of %s cannot be read: %s", settings.address, error)

    def _note(self, settings: SourceSettings, name: ReleaseName, outcome: Candidate | ClusterStacksError) -> None:
        self._read[settings][name] = outcome if isinstance(outcome, Candidate) else None
        if isinstance(outcome, ClusterStacksError):
            log.debug("Cannot read the statements of release %s: %s", name, outcome)


def _of_stack(names: Iterable[str], stack: ClusterStack) -> set[ReleaseName]:
    spec = stack.spec
    series = f"{spec.provider}-{spec.name}-{spec.kubernetes_version.replace('.', '-')}"
    return {name for text in names if (name := release_named(text)) is not None and name.series == series}
