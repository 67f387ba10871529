"""Partial decoding of JSON documents that exceed the limits of ``bounded_json``.

A document is scanned bracket by bracket, without recursion, and other tasks run every few thousand brackets.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final, NamedTuple

from clusterstacks.model.bounded_json import MAX_VALUES, Undecodable, decode, without_escapes

KEPT_LEVELS: Final = (5, 4, 2)
"""Numbers of levels that are tried for an unreadable object. Of a Cluster, five levels keep everything but the values
of variables, four keep the class, two keep the metadata without labels and annotations."""

BRACKETS_AT_ONCE: Final = 2000
"""Brackets scanned before other tasks run, about 1 ms (arbitrary)."""

# Up to 4000 strings and what is between them, and the bracket after them; escapes were replaced before. Possessive, so
# there is no backtracking. At most 1 ms, and 20 ms for a string of 10 MiB.
_NEXT = re.compile(rb'(?:[^"\[\]{}]++|"[^"]*+"){0,8000}+([\[\]{}])?')
_OPENING: Final = b"[{"


class ListPage(NamedTuple):
    """One page of a list: the document with null for each item, and the undecoded items."""

    envelope: dict[str, Any]
    items: list[bytes]


async def read_page(document: bytes) -> ListPage:
    """Split a list into its items without decoding them; raise Undecodable if it is not a list."""
    text, items = await _truncate(document, 2)
    envelope = decode(text)
    listed = envelope.get("items") if isinstance(envelope, dict) else None
    if not isinstance(listed, list) or len(listed) != len(items) or any(item is not None for item in listed):
        raise Undecodable("is not a list of objects")
    return ListPage(envelope, items)


async def decode_partial(document: bytes, *, outer: int = 0) -> Any:  # noqa: ANN401  # as ``decode``
    """Decode an object with null in place of everything nested deeper than ``KEPT_LEVELS``.

    ``outer`` is the number of levels around the object: 1 for an event of a watch. Raises Undecodable if the object
    cannot be decoded with the fewest levels.
    """
    for levels in KEPT_LEVELS:
        try:
            text, _ = await _truncate(document, levels + outer)
            return decode(text)
        except Undecodable as error:
            failure = error
    raise failure


async def _truncate(document: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """Replace every container nested deeper than ``levels`` with null; return the document and these containers."""
    kept: list[bytes] = []
    cut: list[bytes] = []
    depth = begin = end = number = 0
    plain = without_escapes(document)
    while (bracket := _NEXT.match(plain, end)) and bracket.end() > end:
        end = bracket.end()
        number += 1
        if number % BRACKETS_AT_ONCE == 0 or not bracket[1]:
            await asyncio.sleep(0)
        if not bracket[1]:
            continue
        if bracket[1] in _OPENING:
            depth += 1
            if depth == levels + 1:
                kept.append(document[begin : end - 1])
                begin = end - 1
            continue
        if depth == levels + 1:
            cut.append(document[begin:end])
            begin = end
        depth -= 1
        if len(cut) > MAX_VALUES:
            raise Undecodable(f"has more than {MAX_VALUES} values", excess=True)
    if depth:
        raise Undecodable("is truncated")
    kept.append(document[begin:])
    return b"null".join(kept), cut
