"""What was released before: the newest release in a remote, or the build that metadata.yaml speaks of."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.building.change_detection import changed_files
from clusterstacks.building.release_changes import Predecessor
from clusterstacks.charts.chart import MAX_DOCUMENT_BYTES
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.hashes import Hashes, parse_hashes
from clusterstacks.domain.metadata import parse_metadata
from clusterstacks.domain.names import parse_release
from clusterstacks.http.errors import NotThere
from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import ReleaseBroken
from clusterstacks.releases.release import HASHES, METADATA

if TYPE_CHECKING:
    from clusterstacks.building.stack_directories import StackDirectory
    from clusterstacks.domain.metadata import Metadata
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.contents import Contents
    from clusterstacks.releases.release_source import ReleaseSource


@dataclass(frozen=True, slots=True)
class Remote:
    """Where releases are published.

    Args:
        place: How messages call it.
        source: Reads it.
        made_by_publishing: Whether the place comes into being with the first release, as repositories of registries do.
    """

    place: str
    source: ReleaseSource
    made_by_publishing: bool = False

    async def names(self) -> tuple[str, ...]:
        """Name what is there.

        Raises:
            DependencyError: It cannot be read.
        """
        try:
            return await self.source.list()
        except NotThere:
            if self.made_by_publishing:
                return ()
            raise


async def fetch_predecessor(remote: Remote, name: ReleaseName, stack: StackDirectory) -> Predecessor:
    """Fetch a release and compare the stack with it.

    Raises:
        SpecError: The release is broken.
        DependencyError: It cannot be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="csctl-") as scratch:
        await remote.source.fetch(name, Path(scratch))
        return _compared(survey(name, Path(scratch)), stack)


async def is_from_same_source(remote: Remote, built: Path) -> bool:
    """Return whether the release of this name in a remote has the versions and the source hashes of a built one.

    csctl written in Go packs other bytes from the same source.

    Raises:
        SpecError: One of the two is broken.
        DependencyError: The published one cannot be fetched.
    """
    name = parse_release(built.name)
    with tempfile.TemporaryDirectory(prefix="csctl-") as scratch:
        await remote.source.fetch(name, Path(scratch))
        there = _origin(survey(name, Path(scratch)))
    return bool(there[1].cluster_stack) and there == _origin(survey(name, built))


def _origin(contents: Contents) -> tuple[Metadata, Hashes]:
    # csctl written in Go knows no hash of node-images/, which is part of that of the stack.
    return _metadata(contents), replace(_hashes(contents), node_images_dir="")


def built_predecessor(into: Path, metadata: Metadata, stack: StackDirectory) -> Predecessor:
    """Take the versions an author wrote down; the build of them is compared with where it is still there."""
    name = stack.settings.release(metadata.cluster_stack)
    try:
        before = _compared(survey(name, into / name.release), stack)
    except (OSError, SpecError):
        return Predecessor(name, metadata, Hashes())
    return Predecessor(name, metadata, before.hashes, before.changed) if before.metadata == metadata else before


def _compared(contents: Contents, stack: StackDirectory) -> Predecessor:
    metadata = _metadata(contents)
    changed = changed_files(stack.tree, stack.settings, contents, metadata)
    return Predecessor(contents.release, metadata, _hashes(contents), changed)


def _metadata(contents: Contents) -> Metadata:
    name = contents.release
    if METADATA not in contents.files:
        raise ReleaseBroken(name, METADATA, "is missing: publish the whole release again, or choose --mode custom")
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
        return Hashes()  # what cannot be compared counts as changed
