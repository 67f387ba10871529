"""How a built release gets to its place: whole and at once, in the place of the build before it.

A release that is built again before it is published has the same name, so what stands there is replaced when it is a
release of that name with nothing in it but what builds make; its signature goes with it. Anything else is somebody's
own and stays.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.domain.compatibility import FILE as COMPATIBILITY
from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.open import open_directory
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES, HASHES, METADATA, NODE_IMAGES
from clusterstacks.releases.signature_files import SIGNATURE_SUFFIX
from clusterstacks.releases.staging import Staging, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.domain.names import ReleaseName

_OWN = {METADATA, HASHES, ADDON_CONFIG, ADDON_VALUES, COMPATIBILITY, NODE_IMAGES}
_OWN_ARCHIVES = ("cluster-class-", "cluster-addon-", "node-image-")


@contextmanager
def staged(files: Mapping[str, bytes], into: Path) -> Iterator[Staging]:
    """Write files into a new hidden directory below ``into``; it is gone at the end unless it was placed.

    Raises:
        OSError: ``into`` cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    sweep(into)
    staging = Staging.create(into)
    try:
        for file, content in files.items():
            Path(staging.path, file).write_bytes(content)
        yield staging
    finally:
        staging.remove()


def place(name: ReleaseName, staging: Staging, into: Path) -> Path:
    """Check a built release as its readers will, and give it its name.

    Returns:
        Its directory.

    Raises:
        SpecError: The release is broken, or something that is no build of it has its name.
        OSError: The disk refuses.
    """
    built = open_directory(staging.path, name)
    target = into / name.release
    try:
        staging.publish(target, readable=True)
    except FileExistsError:
        if not _is_build(name, target):
            raise SourceBroken(
                target, "is there already and no build of csctl: remove it, or choose another -o"
            ) from None
        if survey(name, target).digest != built.digest:
            _replace(target, staging, into)
    return target


def _replace(target: Path, staging: Staging, into: Path) -> None:
    before = Staging.create(into)
    kept = before.path / target.name
    try:
        target.rename(kept)
        try:
            staging.publish(target, readable=True)
        except BaseException:  # Ctrl-C, too: either build is whole, none at all is not wanted
            kept.rename(target)
            raise
        # It was made for what stood here, and must not be published beside something else.
        (into / f"{target.name}{SIGNATURE_SUFFIX}").unlink(missing_ok=True)
    finally:
        before.remove()


def _is_build(name: ReleaseName, directory: Path) -> bool:
    if directory.is_symlink() or not directory.is_dir():
        return False
    try:
        contents = open_directory(directory, name).contents
    except (SpecError, OSError):
        return False
    archives = {f"{name.series}-{kind}" for kind in _OWN_ARCHIVES}
    return all(file in _OWN or file.startswith(tuple(archives)) for file in contents.files)
