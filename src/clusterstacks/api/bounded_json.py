"""Decodes JSON that others wrote, within bounds that are checked before.

``orjson`` is fast, but not free: containers cost up to 0.3 microseconds each, and it holds the interpreter meanwhile.
So the values of a document are counted before it is decoded.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

MAX_VALUES: Final = 100_000
"""Values (commas, brackets and braces) a document may have to be decoded at once: at most 35 ms, measured with objects
of one field each, the slowest. A CRD of 1 MB has 30,000."""

MAX_DEPTH: Final = 1024
"""Levels of nesting that orjson decodes; source: its RECURSION_LIMIT. An API server accepts 10,000."""


class Undecodable(Exception):  # callers translate it into an error of theirs
    """A document that cannot be decoded; the text says why, as the end of a sentence about it.

    Args:
        why: The text.
        excess: It is JSON, but over a bound.
    """

    def __init__(self, why: str, *, excess: bool = False) -> None:
        super().__init__(why)
        self.excess = excess


def decode(document: bytes | bytearray, *, max_values: int | None = None) -> Any:  # noqa: ANN401  # whatever was sent
    """Decode a document at once.

    Args:
        document: The text.
        max_values: Most values; ``MAX_VALUES`` where none are given.

    Raises:
        Undecodable: It has more values, is nested deeper than ``MAX_DEPTH``, or is not valid JSON.
    """
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


def estimate_values(document: bytes | bytearray) -> int:
    """Estimate the number of values within microseconds; never too low, too high where strings hold commas."""
    return document.count(b",") + document.count(b"[") + document.count(b"{")


def count_values(document: bytes | bytearray, bound: int = MAX_VALUES) -> int:
    """Count values, at most 4 ms a MiB; strings are left out only where they alone may exceed ``bound``."""
    quick = estimate_values(document)
    if quick <= bound:
        return quick
    plain = without_escapes(document)
    # Each value has at most two strings, its key and itself. Splitting at more quotes would cost too much.
    if plain.count(b'"') > 4 * bound:
        return quick
    return sum(map(estimate_values, plain.split(b'"')[::2]))


def without_escapes(document: bytes | bytearray) -> bytes:
    """Replace escaped quotes and backslashes by as many other bytes, so that every quote left is one of a string."""
    return bytes(document).replace(b"\\\\", b"__").replace(b'\\"', b"__")
