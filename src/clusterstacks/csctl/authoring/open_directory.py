"""Opens a directory as a release: a release as it is, a stack by building it in a temporary directory."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.discover import PROVIDERS, NewestPatch, find_stacks, selected, stacks_of
from clusterstacks.csctl.building.release_builder import ReleaseBuilder
from clusterstacks.csctl.building.settings import CSCTL, FORMER_CSCTL, STACK, is_stack, open_minor
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import SpecError, error_context
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.versions import StackVersion
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.open import open_directory
from clusterstacks.release.release import METADATA
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.store import ReleaseStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from clusterstacks.csctl.building.discover import StackDirectory
    from clusterstacks.release.charts.vendor import ChartDependencies
    from clusterstacks.release.release import Release

CHANNEL = "sha"
"""Channel of the version of a stack that is opened, as with ``csctl create --mode hash``."""


SHOWN_STACKS = 10
"""Stacks that a message names (arbitrary)."""


@asynccontextmanager
async def open_as_release(
    directory: Path,
    newest: NewestPatch,
    *,
    kubernetes: str = "",
    dependencies: ChartDependencies | None = None,
    charts: Collection[str] | None = None,
) -> AsyncIterator[Release]:
    """Open a release, or build one from a stack and delete it at the end of the block.

    A stack is built as with ``csctl create --mode hash``, but without the provider's plugin: charts contain no node
    images.

    Args:
        directory: A release or stack directory, or a repository with one stack.
        newest: Returns the newest patch of a minor.
        kubernetes: A minor of versions.yaml or stack.yaml such as ``1-35``; empty for the release of csctl.yaml.
        dependencies: Adds chart dependencies; None leaves charts unchanged.
        charts: Chart directories whose dependencies are added, such as ``cluster-class``; None for all.

    Raises:
        SpecError: The release is broken, the stack cannot be built, or it has several minors and none is chosen.
        DependencyError: A chart dependency cannot be fetched.
    """
    if await asyncio.to_thread(is_release_directory, directory):
        async with _completed(await asyncio.to_thread(open_directory, directory), dependencies, charts) as release:
            yield release
        return
    with TemporaryDirectory(prefix="csctl-") as scratch:
        with error_context(directory):
            directory = await asyncio.to_thread(_stack_at, directory)
            tree = await asyncio.to_thread(read_tree, directory)
            listed = bool(kubernetes)
            minor = open_minor(tree, listed=listed)
            patches = {minor: await newest(minor)} if minor else {}
            stack = _chosen(stacks_of(directory, tree, patches, listed=listed), kubernetes)
            creator = ReleaseBuilder(into=Path(scratch), dependencies=dependencies, completes=charts)
            version = StackVersion(0, CHANNEL, stack.hashes.short)
            created = await creator.build(stack, Metadata(version, stack.settings.kubernetes, version, version))
            release = await asyncio.to_thread(open_directory, created.directory)
        yield release


@asynccontextmanager
async def _completed(
    release: Release, dependencies: ChartDependencies | None, charts: Collection[str] | None
) -> AsyncIterator[Release]:
    """Add missing chart dependencies in a copy of a release, as the operator does after a download."""
    wanted = release.lacking if charts is None else release.lacking.keys() & charts
    if not wanted or dependencies is None:
        yield release
        return
    with TemporaryDirectory(prefix="csctl-") as scratch:
        source = DirectorySource(release.contents.root.parent, settled=timedelta())
        yield await ReleaseStore(Path(scratch)).ensure(release.name, source, dependencies=dependencies)


def is_release_directory(directory: Path) -> bool:
    """Return whether a directory contains a release."""
    # A stack may also have a metadata.yaml, with its last versions.
    return (directory / METADATA).is_file() and any(directory.glob("*-cluster-class-*.tgz"))


def _stack_at(directory: Path) -> Path:
    """Return the directory of a stack, or the only stack of a repository; reject others, which may be a whole disk."""
    names = {path.name for path in directory.iterdir()}
    if is_stack(names) or FORMER_CSCTL in names:
        return directory
    stacks = find_stacks(directory) if PROVIDERS in names else ()
    if len(stacks) == 1:
        return stacks[0]
    if stacks:
        listed = and_more([str(stack) for stack in stacks], SHOWN_STACKS)
        raise SourceBroken(directory, f"has {len(stacks)} stacks: name one of them ({listed})")
    raise SourceBroken(
        directory,
        f"is neither a release nor a stack: a stack has {CSCTL} or {STACK}, "
        f"a release {METADATA} and the archive of its class",
    )


def _chosen(stacks: tuple[StackDirectory, ...], kubernetes: str) -> StackDirectory:
    chosen = selected(stacks, kubernetes)
    if len(chosen) > 1:
        minors = ", ".join(str(stack.settings.kubernetes.series) for stack in chosen)
        raise SpecError(
            "KubernetesAmbiguous", f"{chosen[0].root} is for Kubernetes {minors}: choose one with --kubernetes"
        )
    # Node images are built only for releases.
    return replace(chosen[0], settings=replace(chosen[0].settings, plugin=False))
