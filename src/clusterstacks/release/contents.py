"""The files of a release directory, with their digests."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.model.digests import content_digest
from clusterstacks.release.errors import ReleaseBroken, ReleaseDamaged
from clusterstacks.release.release_source import MAX_FILE_BYTES, MAX_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedReader
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a directory at the time they were read, with the sha256 of each."""

    release: ReleaseName
    root: Path
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The digest of the release; equal for equal files in any directory."""
        return content_digest(self.files.items())

    def read(self, file: str) -> bytes:
        """Read one file again; raises :class:`ReleaseDamaged` if it changed since."""
        try:
            content = _read(self.release, self.root, file)
        except (OSError, ReleaseBroken):
            raise ReleaseDamaged(self.release, file) from None
        if sha256(content).hexdigest() != self.files[file]:
            raise ReleaseDamaged(self.release, file)
        return content


def read_contents(release: ReleaseName, root: Path) -> Contents:
    """Read and digest every file of a directory.

    Raises:
        ReleaseBroken: There are too many files, one is too large, or an entry is not a regular file.
        OSError: The directory cannot be read.
    """
    names = sorted(entry.name for entry in root.iterdir())
    if len(names) > MAX_FILES:
        raise ReleaseBroken(release, names[MAX_FILES], f"exceeds the limit of {MAX_FILES} files for a release")
    return Contents(release, root, {name: _digest(release, root, name) for name in names})


def _digest(release: ReleaseName, root: Path, name: str) -> str:
    with _open(release, root, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(release: ReleaseName, root: Path, name: str) -> bytes:
    with _open(release, root, name) as file:
        return file.read(MAX_FILE_BYTES)


def _open(release: ReleaseName, root: Path, name: str) -> BufferedReader:
    if not name.isprintable():
        raise ReleaseBroken(release, repr(name), "has an invisible character in its name; rename it")
    if (root / name).is_symlink():
        raise ReleaseBroken(release, name, "is a link; replace it with the file")
    handle = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        os.close(handle)
        raise ReleaseBroken(release, name, f"is not a regular file of at most {MAX_FILE_BYTES} bytes; remove it")
    return os.fdopen(handle, "rb")
