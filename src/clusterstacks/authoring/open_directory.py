"""A directory as a release: that of a release is opened, that of a stack is built where nobody sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.building.build_release import Creator
from clusterstacks.building.settings import CSCTL, FORMER_CSCTL, STACK, is_stack, open_minor
from clusterstacks.building.source_tree import read_tree
from clusterstacks.building.stack_directories import selected, stacks_of
from clusterstacks.domain.errors import SpecError, told_of
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.versions import KubernetesMinor, KubernetesVersion, StackVersion
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.open import open_directory
from clusterstacks.releases.release import METADATA
from clusterstacks.releases.store import ReleaseStore
from clusterstacks.sources.directory import DirectorySource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.building.stack_directories import StackDirectory
    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.releases.release import Release

CHANNEL = "sha"
"""Of the version a stack gets while it is opened: that of ``csctl create --mode hash``."""


NewestPatch: TypeAlias = Callable[[KubernetesMinor], Awaitable[KubernetesVersion]]
"""Tells the newest patch of a minor; only asked for a stack that names none."""


@asynccontextmanager
async def opened(
    directory: Path,
    newest: NewestPatch,
    *,
    kubernetes: str = "",
    dependencies: ChartDependencies | None = None,
    charts: Collection[str] | None = None,
) -> AsyncIterator[Release]:
    """Open a release, or build one of a stack; a built one is gone when the block ends.

    A stack is built as ``csctl create --mode hash`` does, but its provider's plugin is not called: node images are in
    no chart.

    Args:
        directory: Of the release or stack.
        newest: Tells the newest patch of a minor.
        kubernetes: Which minor of versions.yaml or stack.yaml, as ``1-35``; empty for the release csctl.yaml names.
        dependencies: Adds what charts depend on; None leaves them as they are.
        charts: Directories in the stack of the charts that are to be complete, like ``cluster-class``; None for all.

    Raises:
        SpecError: The release is broken, the stack cannot be built, or it is for several minors and none is chosen.
        DependencyError: A chart dependency cannot be fetched.
        OSError: The directory cannot be read.
    """
    if await asyncio.to_thread(_is_release, directory):
        async with _completed(await asyncio.to_thread(open_directory, directory), dependencies, charts) as release:
            yield release
        return
    with TemporaryDirectory(prefix="csctl-") as scratch:
        with told_of(directory):
            await asyncio.to_thread(_require_stack, directory)
            tree = await asyncio.to_thread(read_tree, directory)
            listed = bool(kubernetes)
            minor = open_minor(tree, listed=listed)
            patches = {minor: await newest(minor)} if minor else {}
            stack = _chosen(stacks_of(directory, tree, patches, listed=listed), kubernetes)
            creator = Creator(into=Path(scratch), dependencies=dependencies, completes=charts)
            created = await creator.create(stack, _metadata(stack))
            release = await asyncio.to_thread(open_directory, created.directory)
        yield release


@asynccontextmanager
async def _completed(
    release: Release, dependencies: ChartDependencies | None, charts: Collection[str] | None
) -> AsyncIterator[Release]:
    """Add what the charts of a release lack, in a copy, as the operator does when it fetches one."""
    wanted = release.lacking if charts is None else release.lacking.keys() & charts
    if not wanted or dependencies is None:
        yield release
        return
    with TemporaryDirectory(prefix="csctl-") as scratch:
        source = DirectorySource(release.contents.root.parent, settled=timedelta())
        yield await ReleaseStore(Path(scratch)).ensure(release.name, source, dependencies=dependencies)


def _is_release(directory: Path) -> bool:
    # A stack may have a metadata.yaml, too: its last versions.
    return (directory / METADATA).is_file() and any(directory.glob("*-cluster-class-*.tgz"))


def _require_stack(directory: Path) -> None:
    """Refuse anything else before it is read, which may be a whole disk."""
    names = {path.name for path in directory.iterdir()}
    if not is_stack(names) and FORMER_CSCTL not in names:
        raise SourceBroken(
            directory,
            f"is neither a release nor a stack: a stack has {CSCTL} or {STACK}, "
            f"a release {METADATA} and the archive of its class",
        )


def _chosen(stacks: tuple[StackDirectory, ...], kubernetes: str) -> StackDirectory:
    found = selected(stacks, kubernetes)
    if len(found) > 1:
        minors = ", ".join(str(one.settings.kubernetes.series) for one in found)
        raise SpecError(
            "KubernetesAmbiguous", f"{found[0].root} is for Kubernetes {minors}: choose one with --kubernetes"
        )
    # Its node images are built for a release only.
    return replace(found[0], settings=replace(found[0].settings, plugin=False))


def _metadata(stack: StackDirectory) -> Metadata:
    version = StackVersion(0, CHANNEL, stack.hashes.short)
    return Metadata(version, stack.settings.kubernetes, version, version)
