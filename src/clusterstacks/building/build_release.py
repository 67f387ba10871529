"""Building a release from beginning to end: copy, versions, chart dependencies, archives, node images, place."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.building.leftover_versions import left_version
from clusterstacks.building.node_image_list import check_node_images
from clusterstacks.building.output_directory import place, staged
from clusterstacks.building.packaging import Blueprint, below, chart_directories, packed, prepared
from clusterstacks.building.pinning import without_dependency
from clusterstacks.building.plugins import Plugin, find_plugin
from clusterstacks.building.settings import CSCTL
from clusterstacks.building.source_metadata import renewed, write_metadata
from clusterstacks.domain.errors import DependencyError
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.release import METADATA, NODE_IMAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from clusterstacks.building.stack_directories import StackDirectory
    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.domain.metadata import Metadata
    from clusterstacks.domain.names import ReleaseName


@dataclass(frozen=True, slots=True)
class Created:
    """A release that was built.

    Args:
        name: Its name.
        directory: Where it is.
        notes: What the author should know about it.
    """

    name: ReleaseName
    directory: Path
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Creator:
    """Builds releases.

    Args:
        into: Where release directories are made; absolute.
        dependencies: Adds what charts depend on; None leaves charts as they are.
        completes: Directories of the charts it does that for; None for all.
        registry: For the node image plugin.
        writes_metadata: Whether metadata.yaml of the source is brought up to date.
        path: Where plugins are looked for, as in the environment's PATH.
    """

    into: Path
    dependencies: ChartDependencies | None = None
    completes: Collection[str] | None = None
    registry: str = ""
    writes_metadata: bool = False
    path: str = os.defpath

    def check(self, stack: StackDirectory) -> None:
        """Find out before any work whether a build can end well.

        Raises:
            PluginMissing: The stack needs a plugin that is not there.
            SourceBroken: The class names the Kubernetes version of another release of its directory.
        """
        if left := left_version(stack.tree, stack.settings.kubernetes, stack.others):
            raise SourceBroken(f"{left.path}, line {left.line}", f"{left.problem}: {left.remedy}")
        if stack.settings.plugin:
            find_plugin(stack.settings.provider, self.path)

    async def create(self, stack: StackDirectory, metadata: Metadata) -> Created:
        """Build one release; it appears whole or not at all.

        Args:
            stack: What to build.
            metadata: Its versions.

        Raises:
            SpecError: The source, a dependency or what the plugin made is wrong.
            DependencyError: A chart dependency cannot be fetched.
            OSError: The disk refuses.
        """
        if self.writes_metadata:
            # Written at the end, but part of the source that the hashes are of.
            stack = replace(stack, tree={**stack.tree, METADATA: renewed(stack.tree, metadata)})
        blueprint = Blueprint(stack.settings, metadata, stack.hashes)
        files = prepared(stack.tree, stack.settings, metadata)
        notes = [*_ignored(stack)]
        if self.dependencies is not None:
            notes += await _add_dependencies(files, self.dependencies, self.completes)
        with staged(packed(blueprint, files), self.into) as staging:
            if stack.settings.plugin:
                await self._make_node_images(stack, staging.path)
            directory = place(blueprint.name, staging, self.into)
        if self.writes_metadata:
            write_metadata(stack.root, stack.tree[METADATA])
        return Created(blueprint.name, directory, tuple(notes))

    async def _make_node_images(self, stack: StackDirectory, release: Path) -> None:
        plugin = Plugin(find_plugin(stack.settings.provider, self.path), self.registry)
        await plugin.make_node_images(stack.tree, stack.root, release)
        try:
            made = await asyncio.to_thread(Path(release, NODE_IMAGES).read_bytes)
        except FileNotFoundError:
            problem = f"wrote no {NODE_IMAGES} into the release: look at what it printed"
            raise SourceBroken(plugin.program, problem) from None
        check_node_images(made, stack.settings.provider)


async def _add_dependencies(
    files: dict[str, bytes], dependencies: ChartDependencies, only: Collection[str] | None
) -> list[str]:
    charts = {
        chart: below(files, f"{chart}/")
        for chart in (directory.rstrip("/") for directory in chart_directories(files))
        if only is None or chart in only
    }
    try:
        vendored = await dependencies.vendor_all(charts, tree=files)
    except DependencyError as error:
        problem = f"{error.message}; --dependencies leave takes the charts as they are, as csctl written in Go does"
        raise DependencyError(error.code, problem) from None
    notes = []
    for chart, complete in vendored.items():
        for path in [path for path in files if path.startswith(f"{chart}/")]:
            del files[path]
        files |= {f"{chart}/{path}": content for path, content in complete.files.items()}
        notes += [f"{chart}: with {one.name} {one.version} of {one.repository}" for one in complete.resolved]
        notes += [
            f"{chart}: {one.name} {one.version} is the newest allowed today: a Chart.lock or one exact version in "
            "Chart.yaml gives the same release tomorrow"
            for one in complete.unlocked
        ]
    return notes


def _ignored(stack: StackDirectory) -> Iterator[str]:
    """Find what is written about versions and has no effect."""
    settings = stack.settings
    if settings.unlisted is not None:
        yield (
            f"{CSCTL} names Kubernetes {settings.unlisted}, {settings.addons_file} {settings.kubernetes}: "
            f"without --kubernetes and --all-minors, csctl create builds {settings.unlisted}"
        )
    for key in without_dependency(stack.tree, settings):
        yield f"{settings.addons_file} lists {key}, which is no dependency of an addon: it sets nothing"
