"""Partial decoding of JSON documents that exceed the limits of ``bounded_json``.

A document is scanned bracket by bracket, without recursion, and other tasks run every few thousand brackets.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clusterstacks.model.bounded_json import MAX_VALUES, Undecodable, decode, without_escapes

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_LEVELS: Final = (5, 4, 2)
"""Numbers of levels that are tried for an unreadable object. Of a Cluster, five levels keep everything but the values
of variables, four keep the class, two keep the metadata without labels and annotations."""

BRACKETS_AT_ONCE: Final = 2000
"""Brackets scanned before other tasks run, about 1 ms (arbitrary)."""

WINDOW: Final = 64 * 1024
"""Maximum bytes for one match of the regular expression, at most 1 ms (arbitrary)."""

# Up to the next bracket outside of strings; escapes were replaced before. Possessive, so there is no backtracking.
_FLAT = re.compile(rb'(?:[^"\[\]{}]++|"[^"]*+")*+')
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"
_QUOTE: Final = ord('"')


class ListPage(NamedTuple):
    """One page of a list: the document with null for each item, and the undecoded items."""

    envelope: dict[str, Any]
    items: list[bytes]


async def read_page(document: bytes) -> ListPage:
    """Split a list into its items without decoding them; scans the whole document.

    Raises:
        Undecodable: The document is not a list.
    """
    text, items = await _truncate(document, 2)
    envelope = decode(text)
    listed = envelope.get("items") if isinstance(envelope, dict) else None
    if not isinstance(listed, list) or len(listed) != len(items) or any(one is not None for one in listed):
        raise Undecodable("is not a list of objects")
    return ListPage(envelope, items)


async def decode_partial(document: bytes, *, outer: int = 0) -> Any:  # noqa: ANN401  # as ``decode``
    """Decode an object with null in place of everything nested deeper than ``KEPT_LEVELS``.

    Args:
        document: The text.
        outer: Levels around the object: 1 for an event of a watch.

    Raises:
        Undecodable: The object cannot be decoded with the fewest levels.
    """
    for levels in KEPT_LEVELS:
        try:
            text, _ = await _truncate(document, levels + outer)
            return decode(text)
        except Undecodable as error:
            failure = error
    raise failure


async def _truncate(document: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """Replace every container nested deeper than ``levels`` with null; return the document and these containers.

    Raises:
        Undecodable: The brackets do not match, or more than ``MAX_VALUES`` containers must be replaced.
    """
    kept: list[bytes] = []
    cut: list[bytes] = []
    depth = begin = 0
    for number, (position, opens) in enumerate(_brackets(without_escapes(document))):
        if opens is None or number % BRACKETS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if opens is None:
            continue
        if opens:
            depth += 1
            if depth == levels + 1:
                kept.append(document[begin:position])
                begin = position
            continue
        if depth == levels + 1:
            cut.append(document[begin : position + 1])
            begin = position + 1
        depth -= 1
        if len(cut) > MAX_VALUES:
            raise Undecodable(f"has more than {MAX_VALUES} values", excess=True)
    if depth:
        raise Undecodable("is truncated")
    kept.append(document[begin:])
    return b"null".join(kept), cut


def _brackets(plain: bytes) -> Iterator[tuple[int, bool | None]]:
    """Yield the position of every bracket and brace outside of strings, and whether it opens.

    None instead of the second value requests a pause, when there are no brackets for a while.
    """
    flat = _FLAT.match
    position, end = 0, len(plain)
    while position < end:
        found = flat(plain, position, position + WINDOW)
        position = found.end() if found else position
        if position >= end:
            return
        byte = plain[position]
        if byte in _OPENING:
            yield position, True
            position += 1
        elif byte in _CLOSING:
            yield position, False
            position += 1
        elif byte == _QUOTE:  # a string that extends beyond the window
            position = plain.find(b'"', position + 1) + 1
            if not position:
                raise Undecodable("is truncated")
            yield position, None
        else:
            yield position, None
