"""Creates releases: chooses versions, adds chart dependencies, packages, replaces the previous build and publishes.

:func:`create_releases` is the coordinator of ``csctl create``. Its input are the stacks that
:func:`~clusterstacks.csctl.building.discover.discover_stacks` found.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.discover import shown_path
from clusterstacks.csctl.building.output_directory import place_release, staged
from clusterstacks.csctl.building.packaging import (
    chart_directories,
    files_below,
    fill_versions,
    leftover_version,
    package,
)
from clusterstacks.csctl.building.pinning import without_dependency
from clusterstacks.csctl.building.plugins import Plugin, PluginMissing, find_plugin
from clusterstacks.csctl.building.previous_release import is_from_same_source
from clusterstacks.csctl.building.settings import CSCTL, read_settings
from clusterstacks.csctl.building.source_tree import hash_tree, overlaid, read_tree, updated_metadata, write_metadata
from clusterstacks.csctl.building.version_rules import NoStackChanged, NothingChanged
from clusterstacks.csctl.building.yaml_edit import with_key
from clusterstacks.model import yaml
from clusterstacks.model.errors import DependencyError, error_context
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.files.node_images import ARTIFACT, SOURCE, read_node_images
from clusterstacks.model.files.node_images import FILE as NODE_IMAGES
from clusterstacks.model.versions import StackVersion
from clusterstacks.net.oci.blob_upload import digest_file
from clusterstacks.net.oci.transfers import silent
from clusterstacks.release.errors import ReleaseTaken, SourceBroken
from clusterstacks.release.release import METADATA
from clusterstacks.release.release_source import IMAGE_DIRECTORY, image_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from clusterstacks.csctl.building.discover import StackDirectory
    from clusterstacks.csctl.building.remotes import Publisher
    from clusterstacks.csctl.building.version_inputs import VersionChoice, VersionChooser
    from clusterstacks.csctl.building.version_rules import VersionChange
    from clusterstacks.model.files.node_images import NodeImages
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.oci.transfers import TransferProgress
    from clusterstacks.release.charts.vendor import ChartDependencies


async def create_releases(
    stacks: Sequence[StackDirectory],
    chooser: VersionChooser,
    builder: ReleaseBuilder,
    *,
    note: Callable[[str], None],
    created: Callable[[Path], None],
) -> list[Path]:
    """Build one release of each stack that changed since its previous release; return their directories.

    Every stack is checked before the first one is built. ``note`` receives one line about each decision, ``created``
    the directory of a release as soon as it is complete; releases built before an error stay. Raises NothingChanged if
    no stack changed.
    """
    for stack in stacks:
        with error_context(shown_path(stack.root)):
            builder.check(stack)
    built: list[Path] = []
    for stack in stacks:
        try:
            choice = await chooser.choose(stack)
        except NothingChanged as error:
            if len(stacks) == 1:
                raise
            note(f"{stack.settings.series}: {error.message}")
            continue
        for line in _explanation(stack, choice):
            note(line)
        with error_context(shown_path(stack.root)):
            release = await builder.build(stack, choice.release.metadata)
        for line in release.notes:
            note(f"  {line}")
        created(release.directory)
        built.append(release.directory)
    if stacks and not built:
        raise NoStackChanged
    return built


async def publish_release(publisher: Publisher, directory: Path, note: Callable[[str], None]) -> bool:
    """Publish a release; return whether the remote did not have it.

    Raises ReleaseTaken if the remote has a release of this name that was built from another source.
    """
    place = publisher.remote.place
    try:
        new = await publisher.publish(directory)
    except ReleaseTaken:
        if not await is_from_same_source(publisher.remote, directory):
            raise
        same = "built from the same source by another csctl: it stays unchanged"
        note(f"{directory.name} is already published in {place}, {same}")
        return False
    note(f"{directory.name} {'is published' if new else 'was already published'} in {place}")
    return new


@dataclass(frozen=True, slots=True)
class BuiltRelease:
    """A release that was built; ``notes`` are lines for the author of the stack."""

    name: ReleaseName
    directory: Path
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseBuilder:
    """Builds releases into a directory."""

    into: Path
    """Absolute."""
    dependencies: ChartDependencies | None = None
    """Adds missing chart dependencies; None leaves the charts unchanged."""
    completes: Collection[str] | None = None
    """The chart directories that get their dependencies; None for all."""
    registry: str = ""
    """The value of ``--node-image-registry``, for the plugin."""
    writes_metadata: bool = False
    """Also write the versions into metadata.yaml of the source."""
    path: str = os.defpath
    """Directories in which plugins are searched, in the format of PATH."""
    progress: TransferProgress = silent
    """Receives the progress while the files of node images are read."""

    def check(self, stack: StackDirectory) -> None:
        """Refuse what would fail at the end of a build: a missing plugin, another release's version in the class."""
        if leftover := leftover_version(stack.tree, stack.settings.kubernetes, stack.others):
            raise SourceBroken(f"{leftover.path}, line {leftover.line}", f"{leftover.problem}: {leftover.remedy}")
        if stack.settings.plugin:
            self._plugin(stack)

    async def build(self, stack: StackDirectory, metadata: Metadata) -> BuiltRelease:
        """Build one release; its directory appears complete or not at all."""
        if self.writes_metadata:
            # The file is written last, but the hashes include its new content.
            stack = replace(stack, tree={**stack.tree, METADATA: updated_metadata(stack.tree, metadata)})
        name = stack.settings.release(metadata.cluster_stack)
        hashes = stack.hashes
        files = fill_versions(stack.tree, stack.settings, metadata)
        notes = [*_ignored_versions(stack)]
        if self.dependencies is not None:
            notes += await _add_dependencies(files, self.dependencies, self.completes)
        with staged(package(files, name, metadata, hashes), self.into) as staging:
            if stack.settings.plugin:
                await self._make_node_images(stack, staging.path)
            directory = place_release(name, staging, self.into)
        if self.writes_metadata:
            write_metadata(stack.root, stack.tree[METADATA])
        return BuiltRelease(name, directory, tuple(notes))

    def _plugin(self, stack: StackDirectory) -> Plugin | None:
        """Find the plugin that makes the node images; None if there is none, and csctl can copy their list itself."""
        try:
            return Plugin(find_plugin(stack.settings.provider, self.path), self.registry)
        except PluginMissing:
            if not stack.settings.copies_images:
                raise
        return None

    async def _make_node_images(self, stack: StackDirectory, release: Path) -> None:
        plugin, written = self._plugin(stack), Path(release, NODE_IMAGES)
        if plugin is None:
            content = stack.tree[SOURCE]
            await asyncio.to_thread(written.write_bytes, content)
        else:
            await plugin.make_node_images(stack.tree, stack.root, release)
            try:
                content = await asyncio.to_thread(written.read_bytes)
            except FileNotFoundError:
                problem = f"wrote no {NODE_IMAGES} into the release: see its output"
                raise SourceBroken(plugin.program, problem) from None
        images = read_node_images(yaml.load(content, name=NODE_IMAGES), stack.settings.provider)
        complete = await self._with_image_files(content, images, stack.root / IMAGE_DIRECTORY)
        if complete != content:
            await asyncio.to_thread(written.write_bytes, complete)

    async def _with_image_files(self, content: bytes, images: NodeImages, sources: Path) -> bytes:
        """Put the files of node images beside the releases; return the list of the images with their checksums."""
        for at, image in enumerate(images.open_stack_node_images):
            if not image.file:
                continue
            file = sources / image.file
            try:
                digest, _ = await digest_file(file, self.progress)
                if image.checksum in ("", digest):
                    await asyncio.to_thread(_link_or_copy, file, image_file(self.into, digest))
            except OSError as error:
                problem = f"names {ARTIFACT}{image.file}, and {file} cannot be published: {error.strerror}"
                raise SourceBroken(SOURCE, problem) from None
            if image.checksum not in ("", digest):
                problem = f"has checksum {image.checksum} of {image.file}, which has {digest}: correct the checksum"
                raise SourceBroken(SOURCE, problem)
            if not image.checksum:
                content = with_key(content, ("openStackNodeImages", at), "checksum", digest, name=NODE_IMAGES)
        return content


def _link_or_copy(file: Path, place: Path) -> None:
    """Make a file appear at another place, complete, unless there is one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".csctl-", dir=place.parent) as scratch:
        made = Path(scratch, place.name)
        try:
            made.hardlink_to(file)
        except OSError:  # another file system, or one without links
            shutil.copyfile(file, made)
        made.replace(place)


def build_release(
    source: Path,
    into: Path,
    *,
    cluster_stack: str,
    cluster_addon: str,
    node_image: str,
    changes: Path | None = None,
) -> ReleaseName:
    """Build a release with given versions, without network and plugins.

    ``source`` is a stack directory for one Kubernetes minor, ``changes`` a directory laid over it, see
    :func:`~clusterstacks.csctl.building.source_tree.overlaid`. The same source gives the same bytes. The release
    appears complete as ``into/<release name>/`` and replaces an earlier build of the same name. The Go operator rejects
    releases without a version of the node images.
    """
    tree = read_tree(source)
    if changes is not None:
        tree = overlaid(tree, read_tree(changes))
    settings, *_ = read_settings(tree)
    stack, addon, image = (StackVersion.parse(text) for text in (cluster_stack, cluster_addon, node_image))
    metadata = Metadata(stack, settings.kubernetes, addon, image)
    name = settings.release(stack)
    with staged(package(fill_versions(tree, settings, metadata), name, metadata, hash_tree(tree)), into) as staging:
        place_release(name, staging, into)
    return name


async def _add_dependencies(
    files: dict[str, bytes], dependencies: ChartDependencies, only: Collection[str] | None
) -> list[str]:
    charts = {
        chart: files_below(files, f"{chart}/")
        for chart in (directory.rstrip("/") for directory in chart_directories(files))
        if only is None or chart in only
    }
    try:
        vendored = await dependencies.vendor_all(charts, tree=files)
    except DependencyError as error:
        problem = f"{error.message}; --dependencies leave packages the charts unchanged, as csctl written in Go does"
        raise DependencyError(error.code, problem) from None
    notes = []
    for chart, complete in vendored.items():
        for path in [path for path in files if path.startswith(f"{chart}/")]:
            del files[path]
        files |= {f"{chart}/{path}": content for path, content in complete.files.items()}
        notes += [f"{chart}: with {one.name} {one.version} of {one.repository}" for one in complete.resolved]
        notes += [
            f"{chart}: {one.name} {one.version} is the newest allowed version today: to get the same release later, "
            "add a Chart.lock or an exact version in Chart.yaml"
            for one in complete.unlocked
        ]
    return notes


def _ignored_versions(stack: StackDirectory) -> Iterator[str]:
    """Describe versions in the source that have no effect."""
    settings = stack.settings
    if settings.unlisted is not None:
        yield (
            f"{CSCTL} names Kubernetes {settings.unlisted}, {settings.addons_file} {settings.kubernetes}: "
            f"without --kubernetes and --all-minors, csctl create builds {settings.unlisted}"
        )
    for key in without_dependency(stack.tree, settings):
        yield f"{settings.addons_file} lists {key}, which is not a dependency of an addon: it has no effect"


def _explanation(stack: StackDirectory, choice: VersionChoice) -> Iterator[str]:
    after = f", after {choice.previous}" if choice.previous else ""
    yield f"{stack.settings.series} for Kubernetes {stack.settings.kubernetes} from {shown_path(stack.root)}{after}"
    changes = choice.release.changes
    if len({(change.before, change.after, change.reason) for change in changes}) == 1:
        changes = (replace(changes[0], component="everything"),)
    for change in changes:
        yield f"  {_shown(change)}: {change.reason}"
    for note in choice.notes:
        yield f"  note: {note}"


def _shown(change: VersionChange) -> str:
    if not change.before:
        return f"{change.component} {change.after}"
    return f"{change.component} {change.before}" + (f" -> {change.after}" if change.after != change.before else "")
