"""What is sent to a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.response import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from yarl import URL

Body = bytes | Callable[[], AsyncIterator[bytes]]
"""What a request sends: it must be possible to send it again."""

_SAFE = {"GET", "HEAD"}


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """One request, before it is known where redirects lead.

    Args:
        method: GET, HEAD, PUT, ...
        url: Where to.
        headers: Sent along.
        body: What to send, or what makes it anew for each attempt.
        length: Bytes of ``body``, where that is no ``bytes``.
        check: Called with every URL a redirect leads to.
    """

    method: str
    url: URL
    headers: dict[str, str]
    body: Body | None
    length: int | None
    check: Callable[[str], None] | None

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing, however often it is sent."""
        return self.method in _SAFE

    def headers_for(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return ``headers`` with those that follow from the body."""
        merged = {"Accept-Encoding": "identity", **headers}
        length = len(self.body) if isinstance(self.body, bytes) else self.length
        if self.body is not None and length is not None:
            merged["Content-Length"] = str(length)
        return merged

    def pieces(self, deadline: asyncio.Timeout, idle_timeout: timedelta) -> AsyncIterator[bytes] | bytes | None:
        """Return the body; every piece the server takes puts the deadline off by ``idle_timeout``."""
        if self.body is None:
            return None
        if isinstance(self.body, bytes):
            if len(self.body) <= PIECE_BYTES:
                return self.body
            return _watched(_cut(self.body), deadline, idle_timeout)
        return _watched(self.body(), deadline, idle_timeout)


async def _cut(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


async def _watched(
    pieces: AsyncIterator[bytes], deadline: asyncio.Timeout, idle_timeout: timedelta
) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
        deadline.reschedule(asyncio.get_running_loop().time() + idle_timeout.total_seconds())


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that can be sent.

    Raises:
        SpecError: A value could end its line; it is not repeated, as it may be secret.
    """
    for name, value in headers.items():
        if not value.isprintable():
            raise SpecError("HeaderInvalid", f"the value of {name} has an invisible character in it: remove it")
    return dict(headers)
