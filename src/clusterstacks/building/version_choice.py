"""Getting what a decision about versions needs: listings, the release before, metadata.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.building import version_bump
from clusterstacks.building.previous_release import Remote, built_predecessor, fetch_predecessor
from clusterstacks.building.release_changes import Predecessor, StackSource
from clusterstacks.building.source_metadata import written_metadata
from clusterstacks.building.version_bump import Mode, NextRelease
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.versions import STABLE, StackVersion
from clusterstacks.releases.published_releases import BETA, PublishedReleases, beta_line, read_listing
from clusterstacks.sources.directory import DirectorySource

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.building.stack_directories import StackDirectory


@dataclass(frozen=True, slots=True)
class Versions:
    """The three versions an author gives in the mode ``custom``."""

    cluster_stack: StackVersion
    cluster_addon: StackVersion
    node_image: StackVersion


@dataclass(frozen=True, slots=True)
class Choice:
    """The versions of one release.

    Args:
        release: The decision.
        before: The release it was compared with; empty when there is none.
        notes: What else the author should know.
    """

    release: NextRelease
    before: str = ""
    notes: tuple[str, ...] = ()


class Chooser:
    """Chooses the versions of releases; lists the remote once.

    Args:
        mode: How.
        remote: What is published; None to ask nobody: then metadata.yaml and earlier builds are what there is.
        into: Where earlier builds are.
        custom: The versions in the mode ``custom``.
    """

    def __init__(self, mode: Mode, remote: Remote | None, into: Path, custom: Versions | None = None) -> None:
        self._mode = mode
        self._remote = remote
        self._into = into
        self._custom = custom
        self._names: tuple[str, ...] | None = None
        self._said_foreign = False

    async def choose(self, stack: StackDirectory) -> Choice:
        """Choose.

        Raises:
            NothingChanged: The newest release is of the same source.
            SpecError: metadata.yaml or the newest release is broken.
            DependencyError: The remote cannot be read.
        """
        source = StackSource(stack.settings.kubernetes, stack.hashes)
        if self._custom is not None:
            versions = self._custom
            metadata = Metadata(versions.cluster_stack, source.kubernetes, versions.cluster_addon, versions.node_image)
            return Choice(version_bump.custom_release(metadata))
        if self._mode is Mode.HASH:
            return Choice(version_bump.hash_release(source))
        if self._mode is Mode.BETA:
            return await self._beta(stack, source)
        return await self._stable(stack, source)

    async def _stable(self, stack: StackDirectory, source: StackSource) -> Choice:
        written = written_metadata(stack.tree)
        if self._remote is None:
            before = built_predecessor(self._into, written, stack) if written else None
            notes = () if written else await self._uncounted(stack)
            return _choice(version_bump.stable_release(source, before), before, notes)
        listing = await self._listing(stack)
        version = listing.newest(STABLE)
        before = await self._fetched(stack, version)
        notes = (*self._foreign(listing), *_disagreement(written, before))
        return _choice(version_bump.stable_release(source, before), before, notes)

    async def _beta(self, stack: StackDirectory, source: StackSource) -> Choice:
        listing = await self._listing(stack)
        version = listing.newest(BETA, beta_line(listing))
        before = await self._fetched(stack, version)
        return _choice(version_bump.beta_release(source, listing, before), before, self._foreign(listing))

    async def _listing(self, stack: StackDirectory) -> PublishedReleases:
        name = stack.settings.release(StackVersion(0))
        if self._remote is not None:
            if self._names is None:
                self._names = await self._remote.names()
            return read_listing(self._names, name)
        written = written_metadata(stack.tree)
        own = [stack.settings.release(written.cluster_stack).release] if written else []
        return read_listing([*own, *await self._built()], name)

    async def _uncounted(self, stack: StackDirectory) -> tuple[str, ...]:
        """Tell that nothing says which versions there were, where somebody might think that earlier builds do."""
        name = stack.settings.release(StackVersion(0))
        if read_listing(await self._built(), name).newest(STABLE) is None:
            return ()
        return ("earlier builds do not count, as no metadata.yaml says what was released: --write-metadata keeps one",)

    async def _built(self) -> tuple[str, ...]:
        return await self._local().names() if self._into.is_dir() else ()

    def _local(self) -> Remote:
        return Remote(str(self._into), DirectorySource(self._into))

    async def _fetched(self, stack: StackDirectory, version: StackVersion | None) -> Predecessor | None:
        if version is None:
            return None
        return await fetch_predecessor(self._remote or self._local(), stack.settings.release(version), stack)

    def _foreign(self, listing: PublishedReleases) -> tuple[str, ...]:
        if not listing.foreign or self._remote is None or self._said_foreign:
            return ()
        self._said_foreign = True
        names = "1 name" if listing.foreign == 1 else f"{listing.foreign} names"
        return (f"{names} in {self._remote.place} skipped: none of a release",)


def _choice(release: NextRelease, before: Predecessor | None, notes: tuple[str, ...] = ()) -> Choice:
    return Choice(release, before.name.release if before else "", notes)


def _disagreement(written: Metadata | None, before: Predecessor | None) -> tuple[str, ...]:
    if written is None:
        return ()
    if before is None:
        return (f"metadata.yaml says {written.cluster_stack}, but nothing is released yet: the remote decides",)
    found = version_bump.disagreement(written, before.metadata)
    texts = [f"{move.component} {move.after} instead of {move.before or 'none'}" for move in found]
    return (f"metadata.yaml says {', '.join(texts)} of {before.name}: the remote decides",) if texts else ()
