"""Publishing to a directory, from which the operator and others take releases."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.contents import survey
from clusterstacks.releases.evidence import SIGNATURE_SUFFIX
from clusterstacks.releases.staging import Staging

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName


class AlreadyPublished(SpecError):
    """A release of that name is published, with other content."""

    def __init__(self, name: ReleaseName, place: object) -> None:
        super().__init__(
            "AlreadyPublished",
            f"release {name} is in {place} with other content, which never changes: publish under another version",
        )


def publish_to_directory(name: ReleaseName, directory: Path, target: Path) -> bool:
    """Copy a release, and the signature beside it, into an existing directory of releases.

    Returns:
        Whether anything was copied: the same content once more is none.

    Raises:
        AlreadyPublished: Another content has that name.
        OSError: A disk refuses.
    """
    place = target / name.release
    if place.exists():
        if survey(name, place).digest != survey(name, directory).digest:
            raise AlreadyPublished(name, target)
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
