"""Tar streams built header by header, valid or malformed."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK = 512
USTAR, GNU, V7 = b"ustar\x0000", b"ustar  \0", bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """One header block and its content; the defaults are those of a plain file in the POSIX format.

    Args:
        name: The name field, at most 100 bytes.
        kind: The type byte.
        content: What follows, padded with ``padding``.
        magic: Magic and version.
        prefix: The field that only POSIX formats use as one.
        mode: The mode field.
        numbers: The fields of uid and gid.
        padding: One byte that fills the last block of the content.
        trailer: The last bytes of the block, where star has its magic.
    """

    name: bytes = b"c/a"
    kind: bytes = b"0"
    content: bytes = b""
    magic: bytes = USTAR
    prefix: bytes = b""
    mode: bytes = b"0000644\0"
    numbers: bytes = b"0000000\0"
    padding: bytes = b"\0"
    trailer: bytes = b""

    def __bytes__(self) -> bytes:
        """Write header and content."""
        block = b"".join(
            (
                self.name.ljust(100, b"\0"),
                self.mode,
                self.numbers * 2,
                b"%011o\0" % len(self.content),
                b"00000000000\0",
                b" " * 8,
                self.kind,
                bytes(100),
                self.magic,
                bytes(64),
                b"0000000\0" * 2,
                self.prefix.ljust(155, b"\0"),
            )
        )
        block = block[: BLOCK - len(self.trailer)].ljust(BLOCK - len(self.trailer), b"\0") + self.trailer
        block = block[:148] + b"%06o\0 " % sum(block) + block[156:]
        padded = -(-len(self.content) // BLOCK) * BLOCK
        return block + self.content.ljust(padded, self.padding)


def record(key: bytes, value: bytes) -> bytes:
    """Write one record of an extended header, with its length in front."""
    rest = b" %s=%s\n" % (key, value)
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d%s" % (length, rest)


def extended(*records: tuple[bytes, bytes], kind: bytes = b"x") -> Header:
    """A PAX header for one member or (``g``) for all."""
    return Header(name=b"PaxHeader", kind=kind, content=b"".join(record(*one) for one in records))


def long_name(name: bytes) -> Header:
    """A GNU header that names the next member."""
    return Header(name=b"././@LongLink", kind=b"L", content=name + b"\0", magic=GNU)


def stream(*headers: Header) -> bytes:
    """A whole archive."""
    return b"".join(map(bytes, headers)) + bytes(2 * BLOCK)
