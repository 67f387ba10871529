"""Documents and bodies of HTTP messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarl import URL

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

PIECE_BYTES = 1024 * 1024
"""Size of the pieces in which bodies are read and sent. Arbitrary: larger ones are not faster."""

Body = bytes | Callable[[], AsyncIterator[bytes]]
"""The body of a request, in a form that can be sent again."""


@dataclass(frozen=True, slots=True)
class HTTPDocument:
    """A small response, read completely; a HEAD has an empty body."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


def shown_url(url: URL | str) -> str:
    """Return a URL without credentials and query, which may be secret."""
    bare = URL(url).with_query(None).with_fragment(None)
    return str(bare.with_user(None) if bare.host else bare)
