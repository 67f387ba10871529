"""Archives of a release (``.tgz``): read within bounds, written reproducibly.

Reading never trusts a header: members are streamed, counted and limited, and only plain files under sound names come
out (INCUMBENT D63). Writing depends on names and contents alone, so the same files always give the same bytes (D73).
"""

from __future__ import annotations

import io
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.charts.errors import UnsafeArchive
from clusterstacks.charts.safe_paths import MemberNames
from clusterstacks.charts.tar import TarStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GZIP = 31  # zlib's number for a gzip stream with the largest window
_CHUNK = 64 * 1024
_RATIO_FREE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What one archive may hold at most.

    The largest chart known (Cilium 1.17) has 157 files and 1.5 MB, packed 7:1; the limits leave room for many such.

    Args:
        members: Files and directories.
        file_bytes: Of one file, unpacked.
        total_bytes: Of the whole stream, unpacked.
        ratio: Unpacked bytes per packed byte, from 1 MiB unpacked on.
    """

    members: int = 10_000
    file_bytes: int = 16 * 1024 * 1024
    total_bytes: int = 64 * 1024 * 1024
    ratio: int = 200


LIMITS = ArchiveLimits()


def read_archive(packed: bytes, archive: str, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    """Unpack every file into memory: path below the archive's top with ``/`` as separator, and content.

    Args:
        packed: The ``.tgz``.
        archive: How messages call it.
        limits: What it may hold at most.

    Raises:
        UnsafeArchive: The archive is damaged, too large, or holds a member that is not a plain file or directory
            under a name of its own inside the archive.
    """
    return dict(_files(packed, archive, limits))


def write_archive(files: Mapping[str, bytes], *, level: int = 9) -> bytes:
    """Pack files so that equal contents give equal bytes: sorted, without times, owners and original modes.

    Args:
        files: Path with ``/`` as separator, and content.
        level: Of compression, 0 to 9; part of what makes the bytes.

    Raises:
        UnsafeArchive: A path is one :func:`read_archive` would refuse.
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
            raise UnsafeArchive(archive, entry.name, f"is one more than the {limits.members} members allowed")
        path = names.admit(entry.name, directory=entry.directory)
        if not entry.directory:
            yield path, tar.content(entry, limits.file_bytes)


def _inflate(packed: bytes, archive: str, limits: ArchiveLimits) -> Iterator[bytes]:
    unpacked = 0
    try:
        for piece, taken in _pieces(packed):
            unpacked += len(piece)
            if unpacked > limits.total_bytes:
                raise UnsafeArchive(archive, "", f"unpacks to more than the {limits.total_bytes} bytes allowed")
            if unpacked > max(_RATIO_FREE_BYTES, taken * limits.ratio):
                raise UnsafeArchive(archive, "", f"unpacks to more than {limits.ratio} times its size")
            if piece:
                yield piece
    except zlib.error:
        raise UnsafeArchive(archive, "", "is damaged or no gzip file") from None
    except EOFError:
        raise UnsafeArchive(archive, "", "is cut off") from None


def _pieces(packed: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield unpacked pieces of bounded size, each with the number of packed bytes read so far."""
    engine = zlib.decompressobj(wbits=_GZIP)
    for at in range(0, len(packed), _CHUNK):
        feed = packed[at : at + _CHUNK]
        while feed:
            if engine.eof:  # a gzip file may consist of several, one behind the other
                engine = zlib.decompressobj(wbits=_GZIP)
            yield engine.decompress(feed, _CHUNK), at + len(feed)
            feed = engine.unused_data if engine.eof else engine.unconsumed_tail
    while not engine.eof and (piece := engine.decompress(b"", _CHUNK)):
        yield piece, len(packed)
    if not engine.eof:
        raise EOFError
