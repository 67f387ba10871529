"""Reads the releases that a Cluster could use from their sources; they need no ClusterStackRelease."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.plan.compat.release_statements import fetch_candidates
from clusterstacks.plan.compat.world import Candidate
from clusterstacks.release.sources.stack_source import named_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from clusterstacks.model.kinds.clusterstack import ClusterStack
    from clusterstacks.release.errors import ReleaseNotFound
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.sources.source_opener import SourceOpener
    from clusterstacks.release.sources.spec import SourceSettings

DEADLINE: Final = 120.0
"""Timeout for one source, in seconds. Arbitrary: a user waits."""

NOTHING: Final[Mapping[ReleaseName, Candidate]] = {}

INSTEAD: Final = "give its releases with --releases DIR"


async def published(
    stacks: Iterable[ClusterStack],
    release: ReleaseName,
    opener: SourceOpener,
    notices: list[str],
    *,
    known: Mapping[ReleaseName, Candidate] = NOTHING,
    others_given: bool = False,
) -> dict[ReleaseName, Candidate]:
    """Read the facts of the releases of a stack from every source that its ClusterStacks name.

    Signatures are not verified, because only facts are read; the operator verifies what it delivers.

    Args:
        stacks: The ClusterStacks.
        release: Any release of the stack.
        opener: Opens sources.
        notices: Gets the sources and releases that could not be read.
        known: Releases that are already known; they are returned as well.
        others_given: Whether releases also come from elsewhere: then sources that only the operator knows are not
            reported.
    """
    candidates = dict(known)
    unknown: list[str] = []

    def note(name: ReleaseName, read: Candidate | SpecError | ReleaseNotFound) -> None:
        if isinstance(read, Candidate):
            candidates[name] = read
        else:
            notices.append(f"a release is left out: {read.message}")

    sources = _settings(stacks, notices, unknown)
    notices += () if others_given else unknown
    for settings, names in sources.items():
        before = len(candidates)
        try:
            async with asyncio.timeout(DEADLINE), opened_source(opener, settings) as source:
                listed = map(release_named, await source.list())
                unread = {name for name in listed if name and name.same_stack(release)} - candidates.keys()
                await fetch_candidates(source, unread, note, at_once=settings.address.kind.reads_at_once)
        except TimeoutError:
            problem = f"it took longer than {DEADLINE:.0f} s"
        except ClusterStacksError as error:
            problem = error.message
        else:
            continue
        given = f"gave {len(candidates) - before} of its releases only" if len(candidates) > before else "is not read"
        notices.append(f"{settings.address} ({names}) {given}: {problem}; {INSTEAD}")
    return candidates


def _settings(stacks: Iterable[ClusterStack], notices: list[str], unknown: list[str]) -> dict[SourceSettings, str]:
    """Return each source once, with the ClusterStacks that name it; ``unknown`` gets those only the operator knows."""
    sources: dict[SourceSettings, str] = {}
    for stack in stacks:
        place = f"spec.source of ClusterStack {stack.key}"
        try:
            settings = named_settings(stack)
        except SpecError as error:
            notices.append(error.message)
            continue
        if settings is None:
            unknown.append(
                f"ClusterStack {stack.key} has no spec.source, so only the operator knows its source: {INSTEAD}"
            )
        elif not settings.address.kind.is_remote:
            unknown.append(f"{place} is a directory of the operator, which only it can read: {INSTEAD}")
        else:
            sources[settings] = f"{sources[settings]}, {stack.key}" if settings in sources else place
    return sources


@asynccontextmanager
async def opened_source(opener: SourceOpener, settings: SourceSettings) -> AsyncIterator[ReleaseSource]:
    """Open the source of a ClusterStack for the time of the block.

    Raises:
        ClusterStacksError: Its credentials or CAs cannot be used.
    """
    source, web = await opener.open(settings.address, await opener.access(settings))
    try:
        yield source
    finally:
        if web is not None:
            await web.close()
