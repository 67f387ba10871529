"""Reading tar streams, strictly.

The standard library's reader is lenient where a release must not be: it ends silently at a damaged header, reads
extended headers of any length, and nests them without bound. This one accepts what archive writers produce for plain
files and directories and refuses the rest, so that what is checked here and what Helm reads later are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.releases.errors import UnsafeArchive

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
"""Bytes of a tar block; every header is one and every content is padded to a multiple."""

MAX_EXTENSION = 64 * 1024
"""Largest extended header read, in bytes (arbitrary: it holds a path or two, and paths end at 4096)."""

_FILE = (b"0", b"\0")
_DIRECTORY = b"5"
_LONG_NAME = b"L"
_EXTENDED = b"x"
_GLOBAL = b"g"
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
class Entry:
    """A member as its header describes it; the name is not checked yet."""

    name: str
    directory: bool
    size: int


class TarStream:
    """Splits decompressed pieces into headers and contents.

    Args:
        pieces: The decompressed stream.
        archive: How messages call it.
    """

    def __init__(self, pieces: Iterator[bytes], archive: str) -> None:
        self._pieces = pieces
        self._archive = archive
        self._buffer = bytearray()

    def entries(self) -> Iterator[Entry]:
        """Yield every member; the caller takes a file's content with :meth:`content` before it goes on.

        Raises:
            UnsafeArchive: The stream is damaged, ends early, or holds anything but files and directories.
        """
        name = ""
        while header := self._read(BLOCK):
            if len(header) < BLOCK:
                raise UnsafeArchive(self._archive, "", "is cut off")
            if not any(header):
                self._expect_padding()
                return
            kind, size = self._kind(header)
            if kind in (_EXTENDED, _GLOBAL, _LONG_NAME):
                name = self._extension(kind, self._content(size, MAX_EXTENSION, "extended header")) or name
                continue
            entry = self._entry(header, name, kind, size)
            name = ""
            yield entry
        if name:
            raise UnsafeArchive(self._archive, name, "is announced but missing")

    def content(self, entry: Entry, limit: int) -> bytes:
        """Read the content of the entry yielded last.

        Raises:
            UnsafeArchive: It is larger than ``limit`` bytes, or cut off.
        """
        return self._content(entry.size, limit, entry.name)

    def _kind(self, header: bytes) -> tuple[bytes, int]:
        if _octal(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
            raise UnsafeArchive(self._archive, "", "has a damaged header")
        size = _octal(header[124:136])
        if size is None:
            raise UnsafeArchive(self._archive, _text(header[:100]), "states no usable size")
        return header[156:157], size

    def _entry(self, header: bytes, name: str, kind: bytes, size: int) -> Entry:
        name = name or self._decode(_name(header))
        if kind == _DIRECTORY or (kind in _FILE and name.endswith("/")):
            if size:
                raise UnsafeArchive(self._archive, name, "is a directory with content")
            return Entry(name, directory=True, size=0)
        if kind not in _FILE:
            raise UnsafeArchive(self._archive, name, _REFUSED.get(kind, f"has the unknown type {kind!r}"))
        return Entry(name, directory=False, size=size)

    def _extension(self, kind: bytes, content: bytes) -> str:
        if kind == _LONG_NAME:
            return self._decode(content.rstrip(b"\0"))
        records = dict(self._records(content))
        # A size above the header's 8 GiB is never read; a sparse file has holes and a name of its own in here.
        forbidden = [key for key in records if key == "size" or key.startswith("GNU.sparse.")]
        if forbidden or (kind == _GLOBAL and "path" in records):
            raise UnsafeArchive(self._archive, "", f"has {(forbidden or ['path'])[0]!r} in an extended header")
        return self._decode(records.get("path", b""))

    def _records(self, content: bytes) -> Iterator[tuple[str, bytes]]:
        at = 0
        while at < len(content):
            length, blank, _ = content[at : at + 20].partition(b" ")
            end = at + int(length) if blank and length.isdigit() else 0
            key, equals, value = content[at + len(length) + 1 : end].partition(b"=")
            if not equals or end > len(content) or not value.endswith(b"\n"):
                raise UnsafeArchive(self._archive, "", "has a damaged extended header")
            yield self._decode(key), value[:-1]
            at = end

    def _decode(self, name: bytes) -> str:
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise UnsafeArchive(self._archive, _text(name), "has a name that is not UTF-8") from None

    def _content(self, size: int, limit: int, member: str) -> bytes:
        if size > limit:
            raise UnsafeArchive(self._archive, member, f"has {size} bytes, more than the {limit} allowed")
        padded = -(-size // BLOCK) * BLOCK
        content = self._read(padded)
        if len(content) < padded:
            raise UnsafeArchive(self._archive, member, "is cut off")
        return content[:size]

    def _expect_padding(self) -> None:
        # Draining checks the compressed stream's own checksum too.
        for piece in (bytes(self._buffer), *self._pieces):
            if any(piece):
                raise UnsafeArchive(self._archive, "", "goes on behind its end")

    def _read(self, count: int) -> bytes:
        while len(self._buffer) < count and (piece := next(self._pieces, b"")):
            self._buffer += piece
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    if not digits:
        return 0
    try:
        return int(digits, 8) if digits.isdigit() else None
    except ValueError:
        return None


def _name(header: bytes) -> bytes:
    name = _until_nul(header[:100])
    # GNU tar writes "ustar  " and puts times where the standard has the prefix.
    prefix = _until_nul(header[345:500]) if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(name: bytes) -> str:
    return _until_nul(name).decode(errors="replace")
