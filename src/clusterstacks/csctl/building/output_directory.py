"""Puts built releases into the output directory.

A release that is built again before it is published has the same name. It atomically replaces the earlier build, its
signature and the files of its node images, if the directory contains only files that a build makes. Anything else stays
and is an error.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.model.files.node_images import FILE as NODE_IMAGES
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.open import open_directory
from clusterstacks.release.release import ADDON_CONFIG, ADDON_VALUES, HASHES, METADATA
from clusterstacks.release.release_source import SIGNATURE_SUFFIX, STAGES_SUFFIX, image_file
from clusterstacks.release.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.names import ReleaseName

_BUILT_FILES = {METADATA, HASHES, ADDON_CONFIG, ADDON_VALUES, COMPATIBILITY, NODE_IMAGES}
_BUILT_ARCHIVES = ("cluster-class-", "cluster-addon-", "node-image-")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@contextmanager
def staged(files: Mapping[str, bytes], into: Path) -> Iterator[Staging]:
    """Write files into a new hidden directory below ``into``; it is removed at the end unless it was published."""
    into.mkdir(parents=True, exist_ok=True)
    staging = Staging.create(into)
    try:
        for file, content in files.items():
            Path(staging.path, file).write_bytes(content)
        yield staging
    finally:
        staging.remove()


def place_release(name: ReleaseName, staging: Staging, into: Path) -> Path:
    """Validate a built release as its readers do, move it to its final name, and return its directory.

    Raises SpecError if the release is not valid, or the name is in use by something that is not a build of it.
    """
    built = open_directory(staging.path, name)
    target = into / name.release
    try:
        staging.publish(target, readable=True)
    except FileExistsError:
        if not _is_build(name, target):
            raise SourceBroken(
                target, "already exists and is not a build of csctl: remove it, or choose another -o"
            ) from None
        if read_contents(name, target).digest != built.digest:
            _replace(target, staging, into)
    return target


def _replace(target: Path, staging: Staging, into: Path) -> None:
    before = Staging.create(into)
    kept = before.path / target.name
    try:
        target.rename(kept)
        try:
            staging.publish(target, readable=True)
        except BaseException:  # includes Ctrl-C: restore the earlier build
            kept.rename(target)
            raise
        # The envelopes belong to the earlier build and must not be published with another one.
        for suffix in (SIGNATURE_SUFFIX, STAGES_SUFFIX):
            (into / f"{target.name}{suffix}").unlink(missing_ok=True)
        for digest in _digests(kept.glob(NODE_IMAGES)) - _digests(into.glob(f"*/{NODE_IMAGES}")):
            image_file(into, digest).unlink(missing_ok=True)
    finally:
        before.remove()


def _digests(lists: Iterable[Path]) -> set[str]:
    """Return the digests in lists of node images."""
    return {digest for file in lists for digest in _DIGEST.findall(file.read_text())}


def _is_build(name: ReleaseName, directory: Path) -> bool:
    if directory.is_symlink() or not directory.is_dir():
        return False
    try:
        contents = open_directory(directory, name).contents
    except (SpecError, OSError):
        return False
    archives = tuple(f"{name.series}-{kind}" for kind in _BUILT_ARCHIVES)
    return all(file in _BUILT_FILES or file.startswith(archives) for file in contents.files)
