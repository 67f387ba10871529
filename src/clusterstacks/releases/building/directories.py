"""Publishing to a directory, from which the operator and others take releases."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import ReleaseTaken
from clusterstacks.releases.evidence import SIGNATURE_SUFFIX
from clusterstacks.releases.staging import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName


def publish_to_directory(name: ReleaseName, directory: Path, target: Path) -> bool:
    """Copy a release, and the signature beside it, into an existing directory of releases.

    Returns:
        Whether anything was copied: the same content once more is none.

    Raises:
        ReleaseTaken: Another content has that name.
        OSError: A disk refuses.
    """
    place = target / name.release
    if place.exists():
        if survey(name, place).digest != survey(name, directory).digest:
            raise ReleaseTaken(place)
        return False
    signature = f"{name.release}{SIGNATURE_SUFFIX}"
    staging = Staging.create(target)
    try:
        for file in sorted(directory.iterdir()):
            shutil.copyfile(file, staging.path / file.name)
        if (directory.parent / signature).is_file():
            shutil.copyfile(directory.parent / signature, target / signature)
        staging.publish(place, readable=True)
    finally:
        staging.remove()
    return True
