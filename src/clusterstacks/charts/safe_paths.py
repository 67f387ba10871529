"""Names of archive members: which are sound, and which mean the same file."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from clusterstacks.charts.errors import UnsafeArchive

MAX_NAME_BYTES = 1024
"""Longest path of a member (arbitrary; the longest known has 130)."""

MAX_PART_BYTES = 255
"""Longest file name Linux stores."""

_TWICE = "is there twice (upper and lower case count as equal)"


@dataclass(slots=True)
class MemberNames:
    """The names of one archive so far, as a file system that ignores case and Unicode spelling sees them."""

    archive: str
    files: set[str] = field(default_factory=set)
    directories: dict[str, str] = field(default_factory=dict)

    def admit(self, name: str, *, directory: bool) -> str:
        """Return the clean relative path (empty for the top itself), or raise :class:`UnsafeArchive`."""
        if cause := _unsound(name):
            raise UnsafeArchive(self.archive, name, cause)
        parts = [part for part in name.split("/") if part not in ("", ".")]
        parents = len(parts) if directory else len(parts) - 1
        for depth in range(1, parents + 1):
            self._admit_directory("/".join(parts[:depth]))
        path = "/".join(parts)
        if not path and not directory:
            raise UnsafeArchive(self.archive, name, "is a file without a name")
        if not directory:
            self._admit_file(path)
        return path

    def _admit_directory(self, path: str) -> None:
        key = _folded(path)
        if key in self.files or self.directories.setdefault(key, path) != path:
            raise UnsafeArchive(self.archive, path, _TWICE)

    def _admit_file(self, path: str) -> None:
        key = _folded(path)
        if key in self.files or key in self.directories:
            raise UnsafeArchive(self.archive, path, _TWICE)
        self.files.add(key)


def _unsound(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/"):
        return "has an absolute path"
    if ".." in parts:
        return "climbs out of the archive"
    # Helm takes a backslash for a separator.
    if "\\" in name or not name.isprintable():
        return "has a backslash or an invisible character in its name"
    if len(name.encode()) > MAX_NAME_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        return "has too long a name"
    return ""


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
