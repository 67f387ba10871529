"""HTTP client for sources and chart repositories: bounded, with retries, redirects, proxies and trusted CAs."""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import RateLimited, ServerUnavailable
from clusterstacks.net.http.messages import PIECE_BYTES, Body, HTTPDocument, shown_url
from clusterstacks.net.http.urls import is_loopback, may_follow, proxy_for, read_url, resolve
from clusterstacks.net.retry import RequestBroken, RetryPolicy, retry_after
from clusterstacks.net.tls import client_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from types import TracebackType

    from yarl import URL

    from clusterstacks.net.http.response import HTTPResponse
    from clusterstacks.net.pool import Pool

IDLE_TIMEOUT = timedelta(seconds=60)
"""Longest time in which a server may neither send nor take anything. Arbitrary: as long as proxies allow."""

DOCUMENT_DEADLINE = timedelta(minutes=3)
"""Deadline of a small document, with all attempts. Arbitrary: a chart repository's index of 30 MB must fit."""

CONNECT = timedelta(seconds=15)
"""Timeout of a connection attempt. Arbitrary."""

MAX_REDIRECTS = 5
"""Most redirects that are followed. Arbitrary; registries and GitHub need one."""

_REDIRECTS = {301, 302, 303, 307, 308}
_TRANSIENT = {500, 502, 503, 504}


_SAFE = {"GET", "HEAD"}
_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, before redirects."""

    method: str
    url: URL
    headers: dict[str, str]
    body: Body | None
    check: Callable[[str], None] | None

    @property
    def is_safe(self) -> bool:  # it changes nothing, however often it is sent
        return self.method in _SAFE

    def may_repeat(self, error: RequestBroken) -> bool:
        """Return whether a retry may succeed and cannot have an effect twice."""
        return not error.permanent and (self.is_safe or error.unsent)

    def is_transient(self, response: HTTPResponse) -> bool:
        """Return whether the same request may succeed soon."""
        return response.status == _TOO_MANY or (self.is_safe and response.status in _TRANSIENT)

    def pieces(self, deadline: asyncio.Timeout) -> AsyncIterator[bytes] | bytes | None:
        """Return the body; every piece that the server takes extends the deadline by ``IDLE_TIMEOUT``."""
        if self.body is None or (isinstance(self.body, bytes) and len(self.body) <= PIECE_BYTES):
            return self.body
        return _watched(_cut(self.body) if isinstance(self.body, bytes) else self.body(), deadline)


async def _cut(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


async def _watched(pieces: AsyncIterator[bytes], deadline: asyncio.Timeout) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
        deadline.reschedule(asyncio.get_running_loop().time() + IDLE_TIMEOUT.total_seconds())


class HTTPClient:
    """A client with its own connection pool; raises SpecError if ``ca`` contains no certificates.

    ``ca`` are PEM certificates that are trusted instead of the system's. ``plain_http`` allows ``http://`` to other
    machines; it is always allowed to this one. ``environ`` names the proxies. ``report`` gets a line before each retry,
    ``trace`` a line about each response.
    """

    def __init__(
        self,
        *,
        ca: str = "",
        plain_http: bool = False,
        retries: RetryPolicy = RetryPolicy(),  # noqa: B008  # an immutable value
        environ: Mapping[str, str] = os.environ,
        report: Callable[[str], None] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self._context = _trusted(ca) if ca else None
        self._plain_http = plain_http
        self._retries = retries
        self._environ = environ
        self._report = report
        self._trace = trace
        self._pool: Pool | None = None
        self._closed = False

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._pool is not None:
            await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def read(
        self, url: str, *, limit: int, headers: Mapping[str, str] | None = None, also: Collection[int] = ()
    ) -> HTTPDocument:
        """Read a document of at most ``limit`` bytes; ``also`` are accepted statuses besides 200, for example 304.

        Raises:
            NotThere: The status is 404.
            CredentialsRefused: The status is 401 or 403.
            AnswerRefused: The status is another one, or the response is too long.
            ServerUnavailable: As :meth:`open`.
        """
        try:
            # A server that sends a byte now and then never reaches the idle timeout.
            async with (
                asyncio.timeout(DOCUMENT_DEADLINE.total_seconds()),
                self.open("GET", url, headers=headers) as answer,
            ):
                if answer.status != 200 and answer.status not in also:
                    raise answer.error()
                return HTTPDocument(answer.status, answer.headers, await answer.read(limit))
        except TimeoutError:
            raise ServerUnavailable(shown_url(url), "it did not respond in time") from None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        length: int | None = None,
        check: Callable[[str], None] | None = None,
    ) -> AsyncIterator[HTTPResponse]:
        """Send a request and return the response; the caller checks every status but 429 and 5xx.

        A GET or HEAD is retried when the connection fails or the server is overloaded; other requests are retried only
        while they cannot have had an effect. Redirects of a GET or HEAD are followed, except those that ``check``
        refuses by an exception; credentials are not sent to another host. Without ``length``, a body that is not
        ``bytes`` is sent in chunks.

        Raises:
            ServerUnavailable: The server cannot be reached, or keeps failing.
            RateLimited: The server asks for a longer pause than the retry policy allows.
            SpecError: The URL is not an HTTP URL, or is plain HTTP to another machine.
        """
        request = _Request(method, self._checked(url), _sent_headers(headers or {}, body, length), body, check)
        for attempt in itertools.count(1):
            asked = timedelta()
            try:
                response = await self._follow(request)
            except RequestBroken as broken:
                error = ServerUnavailable(shown_url(request.url), str(broken))
                if not request.may_repeat(broken):
                    raise error from None
            else:
                if not request.is_transient(response):
                    try:
                        yield response
                    finally:
                        response.release()
                    return
                response.release()
                asked = retry_after(response.headers.get("Retry-After", ""))
                error = _transient_error(response, asked)
            delay = self._retries.delay(attempt, asked)
            if delay is None:
                raise error
            if self._report is not None:
                self._report(f"{request.url.origin()}: {error.cause}; retrying")
            await self._retries.sleep(delay)

    async def _follow(self, request: _Request) -> HTTPResponse:
        url, headers = request.url, request.headers
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(request, url, headers)
            if self._trace is not None:
                self._trace(f"{request.method} {shown_url(url)}: {response.status}")
            if not request.is_safe or response.status not in _REDIRECTS or "Location" not in response.headers:
                return response
            response.release()
            target = self._redirected(url, response.headers["Location"])
            if request.check is not None:
                request.check(str(target))
            if target.origin() != url.origin():
                headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            url = target
        raise ServerUnavailable(shown_url(request.url), f"it redirects more than {MAX_REDIRECTS} times")

    async def _send(self, request: _Request, url: URL, headers: Mapping[str, str]) -> HTTPResponse:
        from clusterstacks.net.http.response import HTTPResponse  # noqa: PLC0415 - imports aiohttp
        from clusterstacks.net.pool import Pool  # noqa: PLC0415 - imports aiohttp

        if self._closed:
            raise RequestBroken("the connection was closed", permanent=True)
        if self._pool is None:
            self._pool = Pool((CONNECT, IDLE_TIMEOUT))
        proxy = proxy_for(url, self._environ)
        if self._context is None and "https" in (url.scheme, proxy.scheme if proxy else ""):
            self._context = _trusted()  # loading the CAs of the system takes 20 ms and more
        try:
            # aiohttp has no deadline for a body that the server does not take.
            async with asyncio.timeout(IDLE_TIMEOUT.total_seconds()) as deadline:
                body = request.pieces(deadline)
                response = await self._pool.request(
                    request.method, url, headers=headers, body=body, proxy=proxy, trusted=self._context or True
                )
        except TimeoutError:
            raise RequestBroken("it did not respond in time") from None
        return HTTPResponse(response)

    def _checked(self, text: str) -> URL:
        try:
            url = read_url(text)
            if url.scheme in {"http", "https"} and url.host and url.user is None:
                self._check_scheme(url)
                return url
        except ValueError:
            pass
        raise SpecError("UrlInvalid", "the URL is not valid (expected https://<host>/<path>, without credentials)")

    def _check_scheme(self, url: URL) -> None:
        if url.scheme == "http" and not (self._plain_http or is_loopback(url)):
            raise SpecError(
                "PlainHttpRefused",
                f"{shown_url(url)} uses plain HTTP, so that anyone on the network can change the data; use https, or "
                "allow plain HTTP for it",
            )

    def _redirected(self, url: URL, location: str) -> URL:
        """Return the target of a redirect; a server must not redirect into a network that it is not part of."""
        target = resolve(url, location)
        if target is None:
            raise ServerUnavailable(shown_url(url), "it redirects to an invalid URL")
        if not may_follow(url, target):
            raise ServerUnavailable(shown_url(url), f"it redirects to {shown_url(target)}, which is not followed")
        self._check_scheme(target)
        return target


def _trusted(ca: str = "") -> ssl.SSLContext:
    try:
        return client_context(ca.encode(), b"", b"", verify=True)
    except (ssl.SSLError, ValueError):
        raise SpecError("CaInvalid", "the CA contains no PEM certificate") from None


def _transient_error(response: HTTPResponse, asked: timedelta) -> ServerUnavailable:
    if response.status == _TOO_MANY:
        return RateLimited(response.place, asked)
    return ServerUnavailable(response.place, f"it responds with status {response.status}")


def _sent_headers(headers: Mapping[str, str], body: Body | None, length: int | None) -> dict[str, str]:
    """Return headers with those of the client and of the body; a message never shows a value, which may be secret."""
    for name, value in headers.items():
        if not value.isprintable():
            raise SpecError("HeaderInvalid", f"the value of {name} contains an invisible character; remove it")
    sent = {"User-Agent": "cluster-stacks", "Accept-Encoding": "identity", **headers}
    length = len(body) if isinstance(body, bytes) else length
    return sent if body is None or length is None else {**sent, "Content-Length": str(length)}
