"""Reads archives (``.tgz``) within bounds and writes them reproducibly.

The reader trusts no header: it counts and limits the members while it decompresses, and accepts only plain files and
directories with safe names. The output of the writer depends only on names and contents.
"""

from __future__ import annotations

import io
import tarfile
import unicodedata
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.charts.tar import TarStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MAX_NAME_BYTES = 1024
"""Maximum length of a member path (arbitrary; the longest known has 130)."""

MAX_PART_BYTES = 255
"""Maximum length of a file name on Linux."""

_DUPLICATE = "exists twice (upper and lower case count as equal)"


@dataclass(slots=True)
class MemberNames:
    """The names of an archive so far, compared as on a file system that ignores case and Unicode normalization."""

    archive: str
    files: set[str] = field(default_factory=set)
    directories: dict[str, str] = field(default_factory=dict)

    def admit(self, name: str, *, directory: bool) -> str:
        """Return the clean relative path (empty for the top directory), or raise :class:`UnsafeArchive`."""
        if cause := _unsafe(name):
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
            raise UnsafeArchive(self.archive, path, _DUPLICATE)

    def _admit_file(self, path: str) -> None:
        key = _folded(path)
        if key in self.files or key in self.directories:
            raise UnsafeArchive(self.archive, path, _DUPLICATE)
        self.files.add(key)


def _unsafe(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/"):
        return "has an absolute path"
    if ".." in parts:
        return "leaves the archive"
    # Helm treats a backslash as a separator.
    if "\\" in name or not name.isprintable():
        return "has a backslash or an invisible character in its name"
    if len(name.encode()) > MAX_NAME_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        return "has a name that is too long"
    return ""


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


_GZIP = 31  # wbits of zlib for a gzip stream with the largest window
_CHUNK = 64 * 1024
_RATIO_FREE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits of one archive.

    The largest known chart (Cilium 1.17) has 157 files and 1.5 MB, compressed 7:1. The limits allow many such charts.
    """

    members: int = 10_000
    """Number of files and directories."""
    file_bytes: int = 16 * 1024 * 1024  # one file, unpacked
    total_bytes: int = 64 * 1024 * 1024  # the whole stream, unpacked
    ratio: int = 200
    """Unpacked bytes per packed byte; applies above 1 MiB unpacked."""


LIMITS = ArchiveLimits()


def read_archive(packed: bytes, archive: str, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    """Unpack all files into memory: path with ``/`` as separator, and content.

    Raises:
        UnsafeArchive: The archive is damaged, too large, or contains a member that is not a plain file or directory
            with a unique name inside the archive.
    """
    return dict(_files(packed, archive, limits))


def write_archive(files: Mapping[str, bytes], *, level: int = 9) -> bytes:
    """Pack files so that equal contents give equal bytes: sorted, without times, owners and modes.

    Paths that :func:`read_archive` would reject are refused. The compression ``level`` (0 to 9) changes the bytes.
    """
    stream = io.BytesIO()
    names = MemberNames("the archive to be written")
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(files):
            member = tarfile.TarInfo(names.admit(path, directory=False))
            member.size = len(files[path])
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(files[path]))
    return zlib.compress(stream.getvalue(), level, wbits=_GZIP)


def _files(packed: bytes, archive: str, limits: ArchiveLimits) -> Iterator[tuple[str, bytes]]:
    tar = TarStream(_inflate(packed, archive, limits), archive)
    names = MemberNames(archive)
    for count, entry in enumerate(tar.entries(), start=1):
        if count > limits.members:
            raise UnsafeArchive(archive, entry.name, f"exceeds the limit of {limits.members} members")
        path = names.admit(entry.name, directory=entry.directory)
        if not entry.directory:
            yield path, tar.content(entry, limits.file_bytes)


def _inflate(packed: bytes, archive: str, limits: ArchiveLimits) -> Iterator[bytes]:
    unpacked = 0
    try:
        for piece, consumed in _pieces(packed):
            unpacked += len(piece)
            if unpacked > limits.total_bytes:
                raise UnsafeArchive(archive, "", f"unpacks to more than {limits.total_bytes} bytes")
            if unpacked > max(_RATIO_FREE_BYTES, consumed * limits.ratio):
                raise UnsafeArchive(archive, "", f"unpacks to more than {limits.ratio} times its size")
            if piece:
                yield piece
    except zlib.error:
        raise UnsafeArchive(archive, "", "is damaged or not a gzip file") from None
    except EOFError:
        raise UnsafeArchive(archive, "", "is truncated") from None


def _pieces(packed: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield unpacked pieces of bounded size, each with the number of packed bytes read so far."""
    engine = zlib.decompressobj(wbits=_GZIP)
    for at in range(0, len(packed), _CHUNK):
        feed = packed[at : at + _CHUNK]
        while feed:
            if engine.eof:  # a gzip file may consist of several members
                engine = zlib.decompressobj(wbits=_GZIP)
            yield engine.decompress(feed, _CHUNK), at + len(feed)
            feed = engine.unused_data if engine.eof else engine.unconsumed_tail
    while not engine.eof and (piece := engine.decompress(b"", _CHUNK)):
        yield piece, len(packed)
    if not engine.eof:
        raise EOFError
