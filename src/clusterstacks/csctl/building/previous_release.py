"""Reads the release that the next one is compared with, and finds the files that changed since.

It is the newest release of a remote, or the earlier build that metadata.yaml of the source names. A release contains no
tags, so the source is filled in with the versions of that release before the comparison. Files that are not part of
releases, such as csctl.yaml, cannot be compared; their changes are found by the hashes.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.packaging import CLASS_DIRECTORY, fill_versions, released_files
from clusterstacks.csctl.building.pinning import ADDON_DIRECTORY
from clusterstacks.csctl.building.version_rules import PreviousRelease
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.model.files.hashes import Hashes, parse_hashes
from clusterstacks.model.files.metadata import parse_metadata
from clusterstacks.model.names import parse_release
from clusterstacks.net.http.errors import NotThere
from clusterstacks.release.charts.archive import read_archive
from clusterstacks.release.charts.chart import CHART_FILE, MAX_DOCUMENT_BYTES
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.release import ADDON_CONFIG, ADDON_VALUES, HASHES, METADATA, addon_file, class_chart_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.csctl.building.discover import StackDirectory
    from clusterstacks.csctl.building.settings import StackSettings
    from clusterstacks.model.files.metadata import Metadata
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.contents import Contents
    from clusterstacks.release.release_source import ReleaseSource


def changed_files(
    tree: Mapping[str, bytes], settings: StackSettings, release: Contents, metadata: Metadata
) -> tuple[str, ...]:
    """Return the paths in the stack directory that were added, removed or changed since a release.

    Chart dependencies that the build added are not in the source and do not count. The result is empty if source and
    release cannot be compared: it only explains the decision, which is made by the hashes.
    """
    try:
        now = released_files(fill_versions(tree, settings, metadata))
        then = _released(release, metadata)
    except SpecError:
        return ()
    if (ADDON_CONFIG in now) != (ADDON_CONFIG in then):
        return ()
    paths = {path for path in {*now, *then} if not _same(path, now.get(path), then.get(path))}
    return tuple(sorted(path for path in paths if not _differs_in_form(path, now, then)))


def _released(release: Contents, metadata: Metadata) -> dict[str, bytes]:
    name = release.release
    class_chart = _archive(release, class_chart_file(name))
    files = {f"{CLASS_DIRECTORY}{_inner(path)}": content for path, content in class_chart.items()}
    staged = ADDON_CONFIG in release.files
    for path, content in _archive(release, addon_file(name, metadata)).items():
        files[f"{ADDON_DIRECTORY}{path if staged else _inner(path)}"] = content
    top = (ADDON_CONFIG if staged else ADDON_VALUES, COMPATIBILITY)
    return files | {file: release.read(file) for file in top if file in release.files}


def _archive(release: Contents, file: str) -> dict[str, bytes]:
    return read_archive(release.read(file), f"release {release.release}: {file}") if file in release.files else {}


def _inner(path: str) -> str:
    return path.partition("/")[2]


def _same(path: str, now: bytes | None, then: bytes | None) -> bool:
    if now is None or then is None or now == then:
        return now == then
    return path.endswith(f"/{CHART_FILE}") and chart_document(path, now) == chart_document(path, then)


def chart_document(path: str, content: bytes) -> object:
    """Read a file that csctl or Helm may have rewritten: with other order, comments or line breaks."""
    document = yaml.load(content, name=path)
    if not isinstance(document, dict) or not isinstance(document.get("description"), str):
        return document
    return document | {"description": " ".join(document["description"].split())}


def _differs_in_form(path: str, now: Mapping[str, bytes], then: Mapping[str, bytes]) -> bool:
    """Report whether a path differs only because dependencies were added, or unpacked by ``helm package``."""
    if path.endswith("/Chart.lock"):
        return path not in now
    chart, directory, dependency = path.partition("/charts/")
    if not directory:
        return False
    if path not in now:
        return True
    name = dependency.rpartition("-")[0]
    return path not in then and any(held.startswith(f"{chart}{directory}{name}/") for held in then)


@dataclass(frozen=True, slots=True)
class Remote:
    """The place where releases are published."""

    place: str
    """Its name in messages."""
    source: ReleaseSource
    made_by_publishing: bool = False
    """It is created by the first release, like repositories of registries."""

    async def names(self) -> tuple[str, ...]:
        """List the names of the releases."""
        try:
            return await self.source.list()
        except NotThere:
            if self.made_by_publishing:
                return ()
            raise


async def fetch_previous(remote: Remote, name: ReleaseName, stack: StackDirectory) -> PreviousRelease:
    """Fetch a release and compare the stack with it."""
    with tempfile.TemporaryDirectory(prefix="csctl-") as scratch:
        await remote.source.fetch(name, Path(scratch))
        return _compared(read_contents(name, Path(scratch)), stack)


async def is_from_same_source(remote: Remote, built: Path) -> bool:
    """Report whether a remote has a release with the name, versions and source hashes of a build.

    csctl written in Go packs other bytes from the same source.
    """
    name = parse_release(built.name)
    with tempfile.TemporaryDirectory(prefix="csctl-") as scratch:
        await remote.source.fetch(name, Path(scratch))
        there = _identity(read_contents(name, Path(scratch)))
    return bool(there[1].cluster_stack) and there == _identity(read_contents(name, built))


def _identity(contents: Contents) -> tuple[Metadata, Hashes]:
    # csctl written in Go has no hash of node-images/ and maybe of cluster-class/; the hash of the stack includes both.
    return _metadata(contents), replace(_hashes(contents), node_images_dir="", cluster_class_dir="")


def previous_build(into: Path, metadata: Metadata, stack: StackDirectory) -> PreviousRelease:
    """Return the release that metadata.yaml of the source names, compared with its build if that still exists."""
    name = stack.settings.release(metadata.cluster_stack)
    try:
        before = _compared(read_contents(name, into / name.release), stack)
    except (OSError, SpecError):
        return PreviousRelease(name, metadata, Hashes())
    return PreviousRelease(name, metadata, before.hashes, before.changed) if before.metadata == metadata else before


def _compared(contents: Contents, stack: StackDirectory) -> PreviousRelease:
    metadata = _metadata(contents)
    changed = changed_files(stack.tree, stack.settings, contents, metadata)
    return PreviousRelease(contents.release, metadata, _hashes(contents), changed)


def _metadata(contents: Contents) -> Metadata:
    name = contents.release
    if METADATA not in contents.files:
        raise ReleaseBroken(name, METADATA, "is missing: publish the complete release again, or use --mode custom")
    place = f"release {name}: {METADATA}"
    return parse_metadata(yaml.load(contents.read(METADATA), name=place, max_bytes=MAX_DOCUMENT_BYTES), file=METADATA)


def _hashes(contents: Contents) -> Hashes:
    try:
        return (
            parse_hashes(json.loads(contents.read(HASHES)[:MAX_DOCUMENT_BYTES]))
            if HASHES in contents.files
            else Hashes()
        )
    except (ValueError, RecursionError, SpecError):
        return Hashes()  # counts as changed
