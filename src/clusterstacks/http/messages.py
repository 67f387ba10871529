"""What comes back from a server, and what to say when it cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol

from yarl import URL

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.errors import AnswerRefused, CredentialsRefused, NotThere, RateLimited, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

PIECE_BYTES = 1024 * 1024
"""How much of a body is in memory at a time. Arbitrary: larger pieces are no faster."""

LONGEST_PAUSE = timedelta(days=1)
"""Longest pause a server is believed to want. Arbitrary."""

TOO_MANY = 429
_UNAUTHORIZED = {401, 403}
_NOT_FOUND = 404


class RequestBroken(Exception):
    """A request without an answer, or with a part of one.

    Args:
        cause: Why, for a person.
        hopeless: The same would happen again.
        unsent: The server cannot have seen the request.
    """

    def __init__(self, cause: str, *, hopeless: bool = False, unsent: bool = False) -> None:
        super().__init__(cause)
        self.hopeless = hopeless
        self.unsent = unsent


class Response(Protocol):
    """The answer to one request, as a connection gives it; it must be released."""

    status: int
    headers: CIMultiDictProxy[str]
    url: URL

    def pieces(self, size: int) -> AsyncIterator[bytes]:
        """Read the body in pieces of at most :data:`PIECE_BYTES`.

        Raises:
            RequestBroken: The connection broke; what came so far was given out.
        """
        ...

    def release(self) -> None:
        """Give the connection back; what was not read to its end must not come back as the next answer."""
        ...


@dataclass(frozen=True, slots=True)
class HTTPDocument:
    """A small answer, read whole.

    Args:
        status: The HTTP status.
        headers: Names compare without case.
        body: Empty for a HEAD.
    """

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class HTTPResponse:
    """An answer whose body is still to be read."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        self.url = str(response.url)
        """Where it came from, after redirects; may hold a signature in its query: never show it."""
        self.place = shown_url(response.url)
        """The same, fit to be shown."""

    async def read(self, limit: int) -> bytes:
        """Read the body.

        Raises:
            AnswerRefused: It is longer than ``limit`` bytes.
            ServerUnavailable: The connection broke.
        """
        body = bytearray()
        async for piece in self.chunks():
            body += piece
            if len(body) > limit:
                raise AnswerRefused(self.place, f"sent more than the {limit} bytes such an answer may have")
        return bytes(body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read the body in pieces of at most ``size`` bytes.

        Raises:
            ServerUnavailable: The connection broke; what came so far was given out.
        """
        try:
            async for piece in self._response.pieces(PIECE_BYTES):
                yield piece
        except RequestBroken as error:
            raise ServerUnavailable(self.place, f"the answer broke off: {error}") from None


def shown_url(url: URL | str) -> str:
    """Write a URL without what may be secret in it: credentials and query."""
    bare = URL(url).with_query(None).with_fragment(None)
    return str(bare.with_user(None) if bare.host else bare)


def status_error(answer: HTTPResponse) -> NotThere | CredentialsRefused | AnswerRefused:
    """Return the error for an answer that is none."""
    if answer.status == _NOT_FOUND:
        return NotThere(answer.place)
    if answer.status in _UNAUTHORIZED:
        return CredentialsRefused(answer.place, answer.status)
    return AnswerRefused(answer.place, f"answers with status {answer.status}")


def retry_after(headers: Mapping[str, str]) -> timedelta:
    """Read ``Retry-After``: seconds or a date (RFC 9110 section 10.2.3); zero when there is none that makes sense."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), LONGEST_PAUSE)
    try:
        until = parsedate_to_datetime(text)
        asked = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (TypeError, ValueError, OverflowError):
        return timedelta()
    return min(max(timedelta(), asked), LONGEST_PAUSE)


def retryable_error(response: Response, asked: timedelta) -> ServerUnavailable:
    """Return the error for an answer that may be another one later."""
    if response.status == TOO_MANY:
        return RateLimited(shown_url(response.url), asked)
    return ServerUnavailable(shown_url(response.url), f"it answers with status {response.status}")


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
