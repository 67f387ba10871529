"""JSON as signatures need it: read in one way only, by everybody."""

from __future__ import annotations

import json
from typing import NoReturn

from clusterstacks.domain.documents import Node
from clusterstacks.signing.errors import SignatureRefused


def read_document(text: bytes, *, name: str, limit: int) -> Node:
    """Read one JSON document that nobody has verified yet.

    A key that stands twice is refused: readers that take the first and readers that take the last would see two
    documents under one signature.

    Args:
        text: UTF-8.
        name: How messages call the document.
        limit: Most bytes it may have.

    Raises:
        SignatureRefused: It is too large or no such document.
    """
    if len(text) > limit:
        raise SignatureRefused(f"{name} has more than {limit} bytes")
    try:
        document = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        cause = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise SignatureRefused(f"{name} is no JSON document: {cause[:80]}") from None
    return Node(document, name, error=SignatureRefused)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key stands in it twice")
    return document


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number in JSON")
