"""What comes back from a server, and what to say when it cannot be used."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from clusterstacks.releases.errors import AnswerRefused, CredentialsRefused, NotThere, RateLimited, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from multidict import CIMultiDictProxy

PIECE_BYTES = 1024 * 1024
"""How much of a body is in memory at a time. Arbitrary: larger pieces are no faster."""

LONGEST_PAUSE = timedelta(days=1)
"""Longest pause a server is believed to want. Arbitrary."""

TOO_MANY = 429
_UNAUTHORIZED = {401, 403}
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Document:
    """A small answer, read whole.

    Args:
        status: The HTTP status.
        headers: Names compare without case.
        body: Empty for a HEAD.
    """

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Answer:
    """An answer whose body is still to be read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        self.url = str(response.url)
        """Where it came from, after redirects; may hold a signature in its query: never show it."""
        self.place = place(response.url)
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

    async def chunks(self, size: int = PIECE_BYTES) -> AsyncIterator[bytes]:
        """Read the body in pieces of at most ``size`` bytes.

        Raises:
            ServerUnavailable: The connection broke; what came so far was given out.
        """
        try:
            async for piece in self._response.content.iter_chunked(size):
                yield piece
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ServerUnavailable(self.place, f"the answer broke off: {cause(error)}") from None


def place(url: URL | str) -> str:
    """Write a URL without what may be secret in it: credentials and query."""
    return str(URL(url).with_user(None).with_query(None).with_fragment(None))


def refusal(answer: Answer) -> NotThere | CredentialsRefused | AnswerRefused:
    """Return the error for an answer that is none."""
    if answer.status == _NOT_FOUND:
        return NotThere(answer.place)
    if answer.status in _UNAUTHORIZED:
        return CredentialsRefused(answer.place, answer.status)
    return AnswerRefused(answer.place, f"answers with status {answer.status}")


def asked_pause(headers: Mapping[str, str]) -> timedelta:
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


def failure(response: aiohttp.ClientResponse, asked: timedelta) -> ServerUnavailable:
    """Return the error for an answer that may be another one later."""
    if response.status == TOO_MANY:
        return RateLimited(place(response.url), asked)
    return ServerUnavailable(place(response.url), f"it answers with status {response.status}")


_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((ssl.SSLError, aiohttp.ClientSSLError), "it does not speak TLS: is it a plain HTTP server?"),
    (aiohttp.ClientConnectorDNSError, "its name is unknown"),
    (UnicodeError, "its name can be no host's"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached"),
    (aiohttp.ClientHttpProxyError, "the proxy refuses to connect to it"),
    (TimeoutError, "it did not answer in time"),
)


def cause(error: BaseException) -> str:
    """Say why a request failed; messages of aiohttp name URLs, which may hold secrets."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "").rstrip(".") or "it is not valid"
        return f"its certificate is not trusted ({reason}): name its CA, or correct its name"
    for types, text in _CAUSES:
        if isinstance(error, types):
            return text
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return "the connection broke"
