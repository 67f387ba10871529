"""Reads tar streams strictly.

``tarfile`` of the standard library is too lenient for releases: it ends silently at a damaged header, reads extended
headers of any length, and nests them without bound. This reader accepts what archive writers produce for plain files
and directories and rejects everything else. It also rejects every stream that common readers (Go's archive/tar, which
Helm uses, Python's tarfile, GNU tar and libarchive) interpret differently: two names for one member, headers between a
name and its member, a prefix in a format without one, a member that is a directory by one field and a file by another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.release.charts.errors import UnsafeArchive

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
"""Size of a tar block in bytes; each header is one block, and contents are padded to a multiple of it."""

MAX_EXTENSION = 64 * 1024
"""Maximum size of an extended header in bytes (arbitrary: it contains one or two paths of up to 4096)."""

_FILE = (b"0", b"\0")
_DIRECTORY = b"5"
_LONG_NAME = b"L"
_EXTENDED = b"x"
_GLOBAL = b"g"
_EXTENSIONS = (_LONG_NAME, _EXTENDED, _GLOBAL)
_NUMBERS = ((108, 116), (116, 124), (136, 148), (329, 337), (337, 345))
"""Positions of uid, gid, mtime, devmajor and devminor; Go and Python fail at values they cannot read."""
_BASE_256 = (0x80, 0xFF)
"""First bytes of a binary number, positive and negative."""
_DIRECTORY_MODE = 0o040000
"""Bits of the mode that make Go treat any member as a directory."""
_REFUSED_KEYS = ("size", "SCHILY.realsize", "linkpath")
_SPARSE = "GNU.sparse."
"""Keys of extended headers that are rejected. ``size`` is only needed above 8 GiB; a member with ``linkpath`` has no
content for libarchive, whatever its type; a sparse file has holes and a separate name."""
_REFUSED = {
    b"1": "is a hard link",
    b"2": "is a symbolic link",
    b"3": "is a character device",
    b"4": "is a block device",
    b"6": "is a named pipe",
    b"S": "is a sparse file",
    b"K": "has a long link name",
}


@dataclass(frozen=True, slots=True)
class TarEntry:
    """A member as its header describes it; the name is not validated yet."""

    name: str
    directory: bool
    size: int


class TarStream:
    """Splits a decompressed stream into headers and contents; ``archive`` is its name in messages."""

    def __init__(self, pieces: Iterator[bytes], archive: str) -> None:
        self._pieces = pieces
        self._archive = archive
        self._buffer = bytearray()

    def entries(self) -> Iterator[TarEntry]:
        """Yield all members; the caller reads the content of a file with :meth:`content` before the next member.

        Raises:
            UnsafeArchive: The stream is damaged, truncated, or contains anything but files and directories.
        """
        name, before = "", b""
        while header := self._read(BLOCK):
            if len(header) < BLOCK:
                raise UnsafeArchive(self._archive, "", "is truncated")
            if not any(header):
                self._expect_padding()
                break
            kind, size = self._kind(header)
            if kind not in _EXTENSIONS:
                yield self._entry(header, name, kind, size)
                name, before = "", b""
                continue
            if before not in (b"", _GLOBAL):
                # Go uses the GNU name and drops headers before a global header; Python uses the first header.
                raise UnsafeArchive(
                    self._archive, name, "has two extended headers, which readers interpret differently"
                )
            name, before = self._extension(kind, size), kind
        if before:
            raise UnsafeArchive(self._archive, name, "is missing after its extended header")

    def content(self, entry: TarEntry, limit: int) -> bytes:
        """Read the content of the last entry; more than ``limit`` bytes are refused."""
        return self._content(entry.size, limit, entry.name)

    def _kind(self, header: bytes) -> tuple[bytes, int]:
        if _octal(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
            raise UnsafeArchive(self._archive, "", "has a damaged header")
        size = _octal(header[124:136])
        if size is None:
            raise UnsafeArchive(self._archive, _text(header[:100]), "has no valid size")
        if _octal(header[100:108]) is None or not all(_is_number(header[start:end]) for start, end in _NUMBERS):
            raise UnsafeArchive(self._archive, _text(header[:100]), "has an invalid mode, owner, time or device")
        return header[156:157], size

    def _entry(self, header: bytes, announced: str, kind: bytes, size: int) -> TarEntry:
        raw = self._decode(_until_nul(header[:100]))
        name = announced or self._decode(self._prefix(header)) + raw
        if kind == _DIRECTORY or (kind == b"\0" and name.endswith("/") and raw.endswith("/")):
            if size:
                raise UnsafeArchive(self._archive, name, "is a directory with content")
            return TarEntry(name, directory=True, size=0)
        if kind not in _FILE:
            raise UnsafeArchive(self._archive, name, _REFUSED.get(kind, f"has the unknown type {kind!r}"))
        mode = _octal(header[100:108]) or 0
        if name.endswith("/") or (kind == b"\0" and raw.endswith("/")) or mode & ~0o7777 == _DIRECTORY_MODE:
            raise UnsafeArchive(self._archive, name, "is a file for some readers and a directory for others")
        return TarEntry(name, directory=False, size=size)

    def _prefix(self, header: bytes) -> bytes:
        prefix = _until_nul(header[345:500])
        # GNU tar writes "ustar  " and may store times there; star, recognized by its last bytes, has a shorter prefix.
        shorter = header[508:512] == b"tar\0" and len(prefix) > 131
        if prefix and (header[257:263] != b"ustar\0" or shorter):
            raise UnsafeArchive(self._archive, _text(header[:100]), "has a name prefix that only some readers use")
        return prefix + b"/" if prefix else b""

    def _extension(self, kind: bytes, size: int) -> str:
        content = self._content(size, MAX_EXTENSION, "extended header", zero_padded=True)
        if kind == _LONG_NAME:
            name = self._decode(content.rstrip(b"\0"))
            if not name:
                raise UnsafeArchive(self._archive, "", "has an empty long name")
            return name
        records: dict[str, bytes] = {}
        for key, value in self._records(content):
            if key in records or (key == "path" and not value):
                raise UnsafeArchive(self._archive, "", f"has {key!r} twice or without a value in an extended header")
            records[key] = value
        forbidden = [key for key in records if key in _REFUSED_KEYS or key.startswith(_SPARSE)]
        if forbidden or (kind == _GLOBAL and "path" in records):
            raise UnsafeArchive(self._archive, "", f"has {(forbidden or ['path'])[0]!r} in an extended header")
        return self._decode(records.get("path", b""))

    def _records(self, content: bytes) -> Iterator[tuple[str, bytes]]:
        at = 0
        while at < len(content):
            length, blank, _ = content[at : at + 20].partition(b" ")
            end = at + int(length) if blank and length.isdigit() else 0
            key, equals, value = content[at + len(length) + 1 : end].partition(b"=")
            if not key or not equals or end > len(content) or not value.endswith(b"\n"):
                raise UnsafeArchive(self._archive, "", "has a damaged extended header")
            yield self._decode(key), value[:-1]
            at = end

    def _decode(self, name: bytes) -> str:
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise UnsafeArchive(self._archive, _text(name), "has a name that is not UTF-8") from None

    def _content(self, size: int, limit: int, member: str, *, zero_padded: bool = False) -> bytes:
        if size > limit:
            raise UnsafeArchive(self._archive, member, f"has {size} bytes, more than the limit of {limit}")
        padded = -(-size // BLOCK) * BLOCK
        content = self._read(padded)
        if len(content) < padded:
            raise UnsafeArchive(self._archive, member, "is truncated")
        if zero_padded and any(content[size:]):
            # Python reads records and names up to the end of the block.
            raise UnsafeArchive(self._archive, member, "has data after its stated size")
        return content[:size]

    def _expect_padding(self) -> None:
        # Reading to the end also verifies the checksum of the gzip stream.
        for piece in (bytes(self._buffer), *self._pieces):
            if any(piece):
                raise UnsafeArchive(self._archive, "", "has data after its end")

    def _read(self, count: int) -> bytes:
        while len(self._buffer) < count and (piece := next(self._pieces, b"")):
            self._buffer += piece
        content = bytes(self._buffer[:count])
        del self._buffer[:count]
        return content


def _octal(field: bytes) -> int | None:
    # Python ends a number at the first NUL, Go strips NULs on both sides: a leading NUL would give two numbers.
    digits = field.lstrip(b" ").rstrip(b" \0")
    if not digits:
        return 0
    try:
        return int(digits, 8) if digits.isdigit() else None
    except ValueError:
        return None


def _is_number(field: bytes) -> bool:
    return field[0] in _BASE_256 or _octal(field) is not None


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(name: bytes) -> str:
    return _until_nul(name).decode(errors="replace")
