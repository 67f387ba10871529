"""Chooses the versions of a release: reads the published releases and metadata.yaml, then applies the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.csctl.building import version_rules
from clusterstacks.csctl.building.previous_release import Remote, fetch_previous, previous_build
from clusterstacks.csctl.building.source_tree import written_metadata
from clusterstacks.csctl.building.version_rules import Mode, NextRelease, PreviousRelease, StackSource
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.versions import STABLE, StackVersion
from clusterstacks.release.published_releases import BETA, PublishedReleases, beta_line, read_listing
from clusterstacks.release.sources.directory import DirectorySource

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.building.discover import StackDirectory


@dataclass(frozen=True, slots=True)
class CustomVersions:
    """The versions that the author gives with the mode ``custom``."""

    cluster_stack: StackVersion
    cluster_addon: StackVersion
    node_image: StackVersion
    cluster_class: StackVersion | None = None
    """None for that of metadata.yaml, if it has one."""


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """The versions of one release, with further lines for the author."""

    release: NextRelease
    previous: str = ""
    """The release it was compared with; empty if there is none."""
    notes: tuple[str, ...] = ()


class VersionChooser:
    """Chooses the versions of releases; lists the remote once.

    Without a remote, metadata.yaml and the earlier builds in ``into`` are used. ``custom`` is for the mode of this
    name.
    """

    def __init__(self, mode: Mode, remote: Remote | None, into: Path, custom: CustomVersions | None = None) -> None:
        self._mode = mode
        self._remote = remote
        self._into = into
        self._custom = custom
        self._names: tuple[str, ...] | None = None
        self._noted_foreign = False

    async def choose(self, stack: StackDirectory) -> VersionChoice:
        """Choose the versions of the next release of a stack; NothingChanged if the newest has the same source."""
        written = written_metadata(stack.tree)
        cluster_class = written.cluster_class if written else None
        source = StackSource(stack.settings.kubernetes, stack.hashes, cluster_class)
        if self._custom is not None:
            given = self._custom
            cluster_class = given.cluster_class or cluster_class
            metadata = Metadata(
                given.cluster_stack, source.kubernetes, given.cluster_addon, given.node_image, cluster_class
            )
            return VersionChoice(version_rules.custom_release(metadata))
        if self._mode is Mode.HASH:
            return VersionChoice(version_rules.hash_release(source))
        if self._mode is Mode.BETA:
            return await self._beta(stack, source)
        return await self._stable(stack, source)

    async def _stable(self, stack: StackDirectory, source: StackSource) -> VersionChoice:
        written = written_metadata(stack.tree)
        if self._remote is None:
            before = previous_build(self._into, written, stack) if written else None
            notes = () if written else await self._ignored_builds(stack)
            return _choice(version_rules.stable_release(source, before), before, notes)
        listing = await self._listing(stack)
        version = listing.newest(STABLE)
        before = await self._fetched(stack, version)
        notes = (*self._foreign(listing), *_differences(written, before))
        return _choice(version_rules.stable_release(source, before), before, notes)

    async def _beta(self, stack: StackDirectory, source: StackSource) -> VersionChoice:
        listing = await self._listing(stack)
        version = listing.newest(BETA, beta_line(listing))
        before = await self._fetched(stack, version)
        return _choice(version_rules.beta_release(source, listing, before), before, self._foreign(listing))

    async def _listing(self, stack: StackDirectory) -> PublishedReleases:
        name = stack.settings.release(StackVersion(0))
        if self._remote is not None:
            if self._names is None:
                self._names = await self._remote.names()
            return read_listing(self._names, name)
        written = written_metadata(stack.tree)
        own = [stack.settings.release(written.cluster_stack).release] if written else []
        return read_listing([*own, *await self._builds()], name)

    async def _ignored_builds(self, stack: StackDirectory) -> tuple[str, ...]:
        """Note that earlier builds do not count as releases without metadata.yaml."""
        name = stack.settings.release(StackVersion(0))
        if read_listing(await self._builds(), name).newest(STABLE) is None:
            return ()
        return ("earlier builds do not count as released without metadata.yaml: --write-metadata creates this file",)

    async def _builds(self) -> tuple[str, ...]:
        return await self._local().names() if self._into.is_dir() else ()

    def _local(self) -> Remote:
        return Remote(str(self._into), DirectorySource(self._into))

    async def _fetched(self, stack: StackDirectory, version: StackVersion | None) -> PreviousRelease | None:
        if version is None:
            return None
        return await fetch_previous(self._remote or self._local(), stack.settings.release(version), stack)

    def _foreign(self, listing: PublishedReleases) -> tuple[str, ...]:
        if not listing.foreign or self._remote is None or self._noted_foreign:
            return ()
        self._noted_foreign = True
        names = "1 name" if listing.foreign == 1 else f"{listing.foreign} names"
        return (f"{names} in {self._remote.place} skipped: not a release name",)


def _choice(release: NextRelease, before: PreviousRelease | None, notes: tuple[str, ...] = ()) -> VersionChoice:
    return VersionChoice(release, before.name.release if before else "", notes)


def _differences(written: Metadata | None, before: PreviousRelease | None) -> tuple[str, ...]:
    if written is None:
        return ()
    if before is None:
        return (f"metadata.yaml has {written.cluster_stack}, but nothing is released yet: the remote takes precedence",)
    found = version_rules.differences(written, before.metadata)
    texts = [f"{one.component} {one.after} instead of {one.before or 'none'}" for one in found]
    return (f"metadata.yaml has {', '.join(texts)} of {before.name}: the remote takes precedence",) if texts else ()
