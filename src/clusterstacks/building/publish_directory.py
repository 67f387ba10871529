"""Publishing to a directory, from which the operator and others take releases."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import ReleaseTaken
from clusterstacks.releases.signature_files import SIGNATURE_SUFFIX
from clusterstacks.releases.staging import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName


def publish_to_directory(name: ReleaseName, directory: Path, target: Path) -> bool:
    """Copy a release, and the signature beside it, into an existing directory of releases.

    Returns:
        Whether the release was copied: the same content once more is not, but a signature made since is.

    Raises:
        ReleaseTaken: Another content has that name.
        OSError: A disk refuses.
    """
    place = target / name.release
    if place.exists():
        if survey(name, place).digest != survey(name, directory).digest:
            raise ReleaseTaken(place)
        _copy_signature(name, directory, target)
        return False
    staging = Staging.create(target)
    try:
        for file in sorted(directory.iterdir()):
            shutil.copyfile(file, staging.path / file.name)
        _copy_signature(name, directory, target)
        staging.publish(place, readable=True)
    finally:
        staging.remove()
    return True


def _copy_signature(name: ReleaseName, directory: Path, target: Path) -> None:
    signature = f"{name.release}{SIGNATURE_SUFFIX}"
    if (directory.parent / signature).is_file():
        shutil.copyfile(directory.parent / signature, target / signature)
