"""Reads the releases that a Cluster could use from their sources; they need no ClusterStackRelease."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import ClusterStacksError, SpecError
from clusterstacks.domain.names import ReleaseName, release_named
from clusterstacks.releases.compat_statements import fetch_candidate
from clusterstacks.releases.errors import ReleaseNotFound
from clusterstacks.runtime.concurrency import gather
from clusterstacks.sources.stack_source import named_terms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from clusterstacks.api.clusterstack import ClusterStack
    from clusterstacks.compat.world import Candidate
    from clusterstacks.releases.release_source import ReleaseSource
    from clusterstacks.sources.source_opener import SourceOpener
    from clusterstacks.sources.spec import SourceSettings

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
    found = dict(known)
    unknown: list[str] = []
    sources = _terms(stacks, notices, unknown)
    notices += () if others_given else unknown
    for terms, names in sources.items():
        before = len(found)
        try:
            async with asyncio.timeout(DEADLINE), _opened(opener, terms) as source:
                await _read(source, terms, release, found, notices)
        except TimeoutError:
            problem = f"it took longer than {DEADLINE:.0f} s"
        except ClusterStacksError as error:
            problem = error.message
        else:
            continue
        given = f"gave {len(found) - before} of its releases and no more" if len(found) > before else "is not read"
        notices.append(f"{terms.address} ({names}) {given}: {problem}; {INSTEAD}")
    return found


def _terms(stacks: Iterable[ClusterStack], notices: list[str], unknown: list[str]) -> dict[SourceSettings, str]:
    """Return each source once, with the ClusterStacks that name it; ``unknown`` gets those only the operator knows."""
    found: dict[SourceSettings, str] = {}
    for stack in stacks:
        place = f"spec.source of ClusterStack {stack.key}"
        try:
            terms = named_terms(stack)
        except SpecError as error:
            notices.append(error.message)
            continue
        if terms is None:
            unknown.append(f"ClusterStack {stack.key} names no spec.source, so only the operator knows it: {INSTEAD}")
        elif not terms.address.kind.is_remote:
            unknown.append(f"{place} is a directory of the operator's, which only it can read: {INSTEAD}")
        else:
            found[terms] = f"{found[terms]}, {stack.key}" if terms in found else place
    return found


@asynccontextmanager
async def _opened(opener: SourceOpener, terms: SourceSettings) -> AsyncIterator[ReleaseSource]:
    source, web = await opener.open(terms.address, await opener.access(terms))
    try:
        yield source
    finally:
        if web is not None:
            await web.close()


async def _read(
    source: ReleaseSource,
    terms: SourceSettings,
    release: ReleaseName,
    found: dict[ReleaseName, Candidate],
    notices: list[str],
) -> None:
    """Read all releases of the stack, the newest first, until the source fails.

    Raises:
        ClusterStacksError: The source cannot be listed or read.
    """
    names = sorted(_of_stack(await source.list(), release) - found.keys(), reverse=True)

    async def read(name: ReleaseName) -> None:
        try:
            found[name] = await fetch_candidate(source, name)
        except (SpecError, ReleaseNotFound) as error:
            notices.append(f"a release is left out: {error.message}")

    await gather(read, names, at_once=terms.address.kind.reads_at_once)


def _of_stack(names: Iterable[str], release: ReleaseName) -> set[ReleaseName]:
    wanted = (release.provider, release.stack)
    named = (release_named(text) for text in names)
    return {name for name in named if name is not None and (name.provider, name.stack) == wanted}
