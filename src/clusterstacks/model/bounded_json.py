"""Decodes untrusted JSON within limits.

``orjson`` takes up to 0.3 microseconds per container and holds the interpreter lock meanwhile, so the values of a
document are counted before it is decoded.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

MAX_VALUES: Final = 100_000
"""Most values (commas, brackets and braces) of a document: decoding takes at most 35 ms, measured with the slowest
kind of document, objects of one field each. A CRD of 1 MB has 30,000."""

MAX_DEPTH: Final = 1024
"""Levels of nesting that orjson decodes; source: its RECURSION_LIMIT. An API server accepts 10,000."""


class Undecodable(Exception):  # callers translate it into an error of theirs
    """A document cannot be decoded; the text is the end of a sentence about it.

    ``excess`` says that the document is JSON but exceeds a limit.
    """

    def __init__(self, why: str, *, excess: bool = False) -> None:
        super().__init__(why)
        self.excess = excess


def decode(document: bytes | bytearray, *, max_values: int | None = None) -> Any:  # noqa: ANN401  # whatever was sent
    """Decode a document; raise Undecodable if it is not JSON, too deep, or has too many values (``MAX_VALUES``)."""
    bound = MAX_VALUES if max_values is None else max_values
    if count_values(document, bound) > bound:
        raise Undecodable(f"has more than {bound} values", excess=True)
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError as error:
        deep = "depth limit" in str(error)
        raise Undecodable(
            f"is nested deeper than {MAX_DEPTH} levels" if deep else "is not valid JSON", excess=deep
        ) from None


def decode_object(document: bytes) -> dict[str, Any] | None:
    """Decode a document as ``decode``; None if it cannot be decoded, or is not a JSON object."""
    try:
        value = decode(document)
    except Undecodable:
        return None
    return value if isinstance(value, dict) else None


def estimate_values(document: bytes | bytearray) -> int:
    """Estimate the number of values within microseconds; never too low, too high if strings contain commas."""
    return document.count(b",") + document.count(b"[") + document.count(b"{")


def count_values(document: bytes | bytearray, bound: int = MAX_VALUES) -> int:
    """Count values, in at most 4 ms per MiB; strings are excluded only if the estimate exceeds ``bound``."""
    quick = estimate_values(document)
    if quick <= bound:
        return quick
    plain = without_escapes(document)
    # Each value has at most two strings, its key and itself. Splitting at more quotes would cost too much.
    if plain.count(b'"') > 4 * bound:
        return quick
    return sum(map(estimate_values, plain.split(b'"')[::2]))


def without_escapes(document: bytes | bytearray) -> bytes:
    """Replace escaped quotes and backslashes by as many other bytes, so that all remaining quotes delimit strings."""
    return bytes(document).replace(b"\\\\", b"__").replace(b'\\"', b"__")
