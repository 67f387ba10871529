"""Messages between the operator and a render worker: a JSON object and raw bytes, each with its length in front.

Charts travel as the raw bytes: base64 in JSON would cost a third more and two copies.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import orjson

MAX_PART: Final = 64 * 1024 * 1024
"""Longest part of a frame, in bytes (arbitrary: releases are bounded far below)."""

_HEADER: Final = struct.Struct(">II")
HEADER_BYTES: Final = _HEADER.size


class BrokenFrameError(Exception):
    """The other side sent what is no frame; the channel is lost."""


class Frame(NamedTuple):
    """One message."""

    message: dict[str, Any]
    blob: bytes


def encode(message: dict[str, Any], blob: bytes = b"") -> bytes:
    """Write a frame.

    Raises:
        BrokenFrameError: a part is larger than ``MAX_PART``, or the message has no JSON form.
    """
    try:
        text = orjson.dumps(message)
    except TypeError as error:
        raise BrokenFrameError(f"a message has no JSON form: {error}") from None
    if max(len(text), len(blob)) > MAX_PART:
        raise BrokenFrameError(f"a message is larger than {MAX_PART} bytes")
    return b"".join((_HEADER.pack(len(text), len(blob)), text, blob))


def lengths(header: bytes) -> tuple[int, int]:
    """Read the lengths of message and blob off a header.

    Raises:
        BrokenFrameError: the header is cut short or a length is out of bounds.
    """
    if len(header) != HEADER_BYTES:
        raise BrokenFrameError("a header is cut short")
    text, blob = _HEADER.unpack(header)
    if max(text, blob) > MAX_PART:
        raise BrokenFrameError(f"a message of {max(text, blob)} bytes is announced; {MAX_PART} are allowed")
    return text, blob


def decode(text: bytes, blob: bytes) -> Frame:
    """Read the parts of a frame.

    Raises:
        BrokenFrameError: the text is no JSON object.
    """
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BrokenFrameError(f"a message is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise BrokenFrameError("a message is no JSON object")
    return Frame(message, blob)


class FrameBuffer:
    """Collects bytes as they arrive until a frame is complete."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._parts: tuple[int, int] | None = None

    def feed(self, received: bytes) -> Frame | None:
        """Add bytes; return the frame they complete, if any. Raises BrokenFrameError."""
        self._received += received
        if self._parts is None and len(self._received) >= HEADER_BYTES:
            self._parts = lengths(bytes(self._received[:HEADER_BYTES]))
        if self._parts is None or len(self._received) < HEADER_BYTES + sum(self._parts):
            return None
        start, end = HEADER_BYTES, HEADER_BYTES + self._parts[0]
        frame = decode(bytes(self._received[start:end]), bytes(self._received[end : end + self._parts[1]]))
        del self._received[: end + self._parts[1]]
        self._parts = None
        return frame
