"""Takes apart JSON from API servers that exceeds the bounds of decoding, and saves what of it can be read.

A document is walked bracket by bracket, with a pause for other tasks every few thousand brackets: the walk needs no
stack, whatever the nesting.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clusterstacks.api.bounded_json import MAX_VALUES, Undecodable, decode, without_escapes

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_LEVELS: Final = (5, 4, 2)
"""Levels that are kept of an unreadable object, the first number that makes it readable: of a Cluster with five
everything but the values of variables, with four the class, with two the metadata without labels and annotations."""

BRACKETS_AT_ONCE: Final = 2000
"""Brackets walked before other tasks get a turn, some 1 ms (arbitrary)."""

WINDOW: Final = 64 * 1024
"""Bytes a regular expression may look at without a pause, at most 1 ms (arbitrary)."""

# Until the next bracket outside of strings; escapes were replaced before. Possessive: nothing is ever tried twice.
_FLAT = re.compile(rb'(?:[^"\[\]{}]++|"[^"]*+")*+')
_OPENING: Final = b"[{"
_CLOSING: Final = b"]}"
_QUOTE: Final = ord('"')


class ListPage(NamedTuple):
    """One page of a list: the document with null for each item, and the items, still undecoded."""

    envelope: dict[str, Any]
    items: list[bytes]


async def read_page(document: bytes) -> ListPage:
    """Take a list apart without decoding its items, at the price of a walk over all of it.

    Raises:
        Undecodable: It is no list.
    """
    text, items = await _cut(document, 2)
    envelope = decode(text)
    listed = envelope.get("items") if isinstance(envelope, dict) else None
    if not isinstance(listed, list) or len(listed) != len(items) or any(one is not None for one in listed):
        raise Undecodable("is no list of objects")
    return ListPage(envelope, items)


async def decode_partial(document: bytes, *, outer: int = 0) -> Any:  # noqa: ANN401  # as ``decode``
    """Decode an object without what is nested deeper than ``KEPT_LEVELS``, null in its place.

    Args:
        document: The text.
        outer: Levels around the object: 1 for an event of a watch.

    Raises:
        Undecodable: Not even that much of it can be decoded.
    """
    for levels in KEPT_LEVELS:
        try:
            text, _ = await _cut(document, levels + outer)
            return decode(text)
        except Undecodable as error:
            failure = error
    raise failure


async def _cut(document: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """Return a document with null for every container nested deeper than ``levels``, and these containers.

    Raises:
        Undecodable: The brackets do not match, or more than ``MAX_VALUES`` containers would have to be cut out.
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
        raise Undecodable("is cut off")
    kept.append(document[begin:])
    return b"null".join(kept), cut


def _brackets(plain: bytes) -> Iterator[tuple[int, bool | None]]:
    """Yield the position of every bracket and brace outside of strings, and whether it opens.

    Where there are none for long, None instead of that asks for a pause.
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
        elif byte == _QUOTE:  # a string that the end of the window cuts
            position = plain.find(b'"', position + 1) + 1
            if not position:
                raise Undecodable("is cut off")
            yield position, None
        else:
            yield position, None
