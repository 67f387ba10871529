"""HTTP requests and responses, and the errors for responses that cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from yarl import URL

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import (
    AnswerRefused,
    CredentialsRefused,
    NotThere,
    RateLimited,
    RequestBroken,
    ServerUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

    from clusterstacks.net.http.pool import RawResponse

PIECE_BYTES = 1024 * 1024
"""Size of the pieces in which bodies are read and sent. Arbitrary: larger ones are not faster."""

LONGEST_PAUSE = timedelta(days=1)
"""Longest ``Retry-After`` that is believed. Arbitrary."""

TOO_MANY = 429
_UNAUTHORIZED = {401, 403}
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class HTTPDocument:
    """A small response, read completely.

    Args:
        headers: Names are compared without case.
        body: Empty for a HEAD.
    """

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class HTTPResponse:
    """A response whose body is not read yet."""

    def __init__(self, response: RawResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        self.url = str(response.url)
        """The URL after redirects; its query may contain a signature, so it must not be shown."""
        self.place = shown_url(response.url)
        """Name of the target in messages; by default, the URL without secrets."""

    async def read(self, limit: int) -> bytes:
        """Read the body.

        Raises:
            AnswerRefused: The body is longer than ``limit`` bytes.
            ServerUnavailable: The connection was lost.
        """
        body = bytearray()
        async for piece in self.chunks():
            body += piece
            if len(body) > limit:
                raise AnswerRefused(self.place, f"sent more than the {limit} bytes that are allowed here")
        return bytes(body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read the body in pieces of at most :data:`PIECE_BYTES`.

        Raises:
            ServerUnavailable: The connection was lost; the pieces before that were yielded.
        """
        try:
            async for piece in self._response.pieces(PIECE_BYTES):
                yield piece
        except RequestBroken as error:
            raise ServerUnavailable(self.place, f"the response was incomplete: {error}") from None


def shown_url(url: URL | str) -> str:
    """Return a URL without credentials and query, which may be secret."""
    bare = URL(url).with_query(None).with_fragment(None)
    return str(bare.with_user(None) if bare.host else bare)


def status_error(answer: HTTPResponse) -> NotThere | CredentialsRefused | AnswerRefused:
    """Return the error for a response with an unexpected status."""
    if answer.status == _NOT_FOUND:
        return NotThere(answer.place)
    if answer.status in _UNAUTHORIZED:
        return CredentialsRefused(answer.place, answer.status)
    return AnswerRefused(answer.place, f"responds with status {answer.status}")


def retry_after(headers: Mapping[str, str]) -> timedelta:
    """Read ``Retry-After``, seconds or a date (RFC 9110 section 10.2.3); zero without a valid one."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), LONGEST_PAUSE)
    try:
        until = parsedate_to_datetime(text)
        asked = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (TypeError, ValueError, OverflowError):
        return timedelta()
    return min(max(timedelta(), asked), LONGEST_PAUSE)


def retryable_error(response: RawResponse, asked: timedelta) -> ServerUnavailable:
    """Return the error for a response whose status may be another one later."""
    if response.status == TOO_MANY:
        return RateLimited(shown_url(response.url), asked)
    return ServerUnavailable(shown_url(response.url), f"it responds with status {response.status}")


Body = bytes | Callable[[], AsyncIterator[bytes]]
"""The body of a request, in a form that can be sent again."""

_SAFE = {"GET", "HEAD"}


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """One request, before redirects.

    Args:
        method: GET, HEAD, PUT, ...
        body: The body, or a function that makes it again for each attempt.
        length: Size of a body that is not ``bytes``.
        check: Called with the target of every redirect.
    """

    method: str
    url: URL
    headers: dict[str, str]
    body: Body | None
    length: int | None
    check: Callable[[str], None] | None

    @property
    def is_safe(self) -> bool:
        """True if the method is safe: it changes nothing, however often it is sent."""
        return self.method in _SAFE

    def headers_for(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return ``headers`` with those for the body."""
        merged = {"Accept-Encoding": "identity", **headers}
        length = len(self.body) if isinstance(self.body, bytes) else self.length
        if self.body is not None and length is not None:
            merged["Content-Length"] = str(length)
        return merged

    def pieces(self, deadline: asyncio.Timeout, idle_timeout: timedelta) -> AsyncIterator[bytes] | bytes | None:
        """Return the body; every piece that the server takes extends the deadline by ``idle_timeout``."""
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
    """Check that the headers can be sent, and return a copy.

    Raises:
        SpecError: A value contains a control character; it is not shown, as it may be secret.
    """
    for name, value in headers.items():
        if not value.isprintable():
            raise SpecError("HeaderInvalid", f"the value of {name} contains an invisible character; remove it")
    return dict(headers)
