"""Messages between the program and a render worker, and the values they carry.

A frame is a JSON object and raw bytes, each preceded by its length. Charts travel as raw bytes, because base64 in JSON
would cost a third more space and two copies. This module imports no YAML, so both processes stay small.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest


class RenderedDocument(NamedTuple):
    """One object and its origin: its file in the notation of Helm, and its position for messages."""

    manifest: Manifest
    path: str
    source: str


class Repetition(NamedTuple):
    """A duplicate key in a rendered mapping; Helm and kubectl silently use the last one."""

    path: str
    problem: str


class HelmHook(NamedTuple):
    """An object with the annotation ``helm.sh/hook``: its file, kind, name, the annotation, and a ``HookUse`` value."""

    path: str
    kind: str
    name: str
    hooks: str
    use: str


class Examined(NamedTuple):
    """The output of a chart with the file of each object, for its author.

    The documents have the order of ``helm template``. There is at most one repetition for each file, and the hooks
    include those that deliveries do not apply.
    """

    documents: tuple[RenderedDocument, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    hooks: tuple[HelmHook, ...] = ()


MAX_PART: Final = 64 * 1024 * 1024
"""Maximum size of a part of a frame in bytes (arbitrary: releases have much lower limits)."""

_HEADER: Final = struct.Struct(">II")
HEADER_BYTES: Final = _HEADER.size


class BrokenFrameError(Exception):
    """The other process sent an invalid frame; the channel cannot be used any longer."""


class Frame(NamedTuple):
    """A message of one process to the other, with the chart or without."""

    message: dict[str, Any]
    blob: bytes


def encode(message: dict[str, Any], blob: bytes = b"") -> bytes:
    """Encode a frame; one that is too large, or cannot be JSON, is a :class:`BrokenFrameError`."""
    try:
        text = orjson.dumps(message)
    except TypeError as error:
        raise BrokenFrameError(f"a message cannot be encoded as JSON: {error}") from None
    if max(len(text), len(blob)) > MAX_PART:
        raise BrokenFrameError(f"a message is larger than {MAX_PART} bytes")
    return b"".join((_HEADER.pack(len(text), len(blob)), text, blob))


def lengths(header: bytes) -> tuple[int, int]:
    """Decode a header into the lengths of message and blob, within ``MAX_PART``."""
    if len(header) != HEADER_BYTES:
        raise BrokenFrameError("a header is truncated")
    text, blob = _HEADER.unpack(header)
    if max(text, blob) > MAX_PART:
        raise BrokenFrameError(f"a message has {max(text, blob)} bytes, more than the limit of {MAX_PART}")
    return text, blob


def decode(text: bytes, blob: bytes) -> Frame:
    """Decode the parts of a frame, whose text must be a JSON object."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BrokenFrameError(f"a message is not valid JSON: {error}") from None
    if not isinstance(message, dict):
        raise BrokenFrameError("a message is not a JSON object")
    return Frame(message, blob)


class FrameBuffer:
    """Collects received bytes until a frame is complete."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._parts: tuple[int, int] | None = None

    def feed(self, received: bytes) -> Frame | None:
        """Add bytes, and return the frame if it is complete. Raises BrokenFrameError."""
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
