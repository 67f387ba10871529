"""HTTP client for sources and chart repositories: bounded, with retries, redirects, proxies and trusted CAs."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import RequestBroken, ServerUnavailable
from clusterstacks.net.http.messages import (
    TOO_MANY,
    Body,
    HTTPDocument,
    HTTPRequest,
    HTTPResponse,
    checked_headers,
    retry_after,
    retryable_error,
    shown_url,
    status_error,
)
from clusterstacks.net.http.urls import is_loopback, may_follow, proxy_for, read_url, resolve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from types import TracebackType

    from yarl import URL

    from clusterstacks.net.http.pool import Connections, RawResponse

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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of the retries of a request; all arbitrary.

    Args:
        attempts: Most requests that are sent.
        pause: Pause before the second one; doubled each time.
        longest: Longest ``Retry-After`` that is waited for.
    """

    attempts: int = 4
    pause: timedelta = timedelta(milliseconds=500)
    longest: timedelta = timedelta(seconds=20)


class HTTPClient:
    """A client with its own connection pool.

    Args:
        ca: PEM certificates that are trusted instead of the system's; empty for the system's.
        plain_http: Whether ``http://`` is allowed for any host; it is always allowed for this machine.
        retries: Bounds of the retries.
        environ: The environment, which names the proxies.
        report: Called with a line before each retry.
        trace: Called with a line about each response.

    Raises:
        SpecError: ``ca`` contains no certificates.
    """

    def __init__(
        self,
        *,
        ca: str = "",
        plain_http: bool = False,
        retries: RetryPolicy | None = None,
        environ: Mapping[str, str] = os.environ,
        report: Callable[[str], None] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self._context = _trust(ca) if ca else None
        self._plain_http = plain_http
        self._retries = retries or RetryPolicy()
        self._environ = environ
        self._report = report
        self._trace = trace
        self._connections: Connections | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def read(
        self, url: str, *, limit: int, headers: Mapping[str, str] | None = None, also: Collection[int] = ()
    ) -> HTTPDocument:
        """Read a small document.

        Args:
            url: Address of the document.
            limit: Most bytes it may have.
            headers: Headers of the request.
            also: Accepted statuses besides 200, for example 304.

        Raises:
            NotThere: The status is 404.
            CredentialsRefused: The status is 401 or 403.
            AnswerRefused: The status is another one, or the response is too long.
            ServerUnavailable: As :meth:`open`.
        """
        async with self._within_deadline(url), self.open("GET", url, headers=headers) as answer:
            if answer.status != 200 and answer.status not in also:
                raise status_error(answer)
            return HTTPDocument(answer.status, answer.headers, await answer.read(limit))

    @asynccontextmanager
    async def _within_deadline(self, url: str) -> AsyncIterator[None]:
        """Bound the whole time: a server that sends a byte now and then never reaches the idle timeout."""
        try:
            async with asyncio.timeout(DOCUMENT_DEADLINE.total_seconds()):
                yield
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
        while they cannot have had an effect. Redirects of a GET or HEAD are followed; credentials are not sent to
        another host.

        Args:
            method: GET, HEAD, PUT, ...
            url: Target of the request.
            headers: Headers of the request.
            body: The body, or a function that makes it again for each attempt.
            length: Size of a body that is not ``bytes``; without it the body is sent in chunks.
            check: Called with the target of every redirect; raises to refuse it.

        Raises:
            ServerUnavailable: The server cannot be reached, or keeps failing.
            RateLimited: The server asks for a longer pause than the retry policy allows.
            SpecError: The URL is not an HTTP URL, or is plain HTTP to another machine.
        """
        request = HTTPRequest(method, self._checked(url), checked_headers(headers or {}), body, length, check)
        pause = self._retries.pause
        for attempt in range(1, self._retries.attempts + 1):
            last = attempt == self._retries.attempts
            try:
                response = await self._follow(request)
            except RequestBroken as error:
                if last or not _may_repeat(request, error):
                    raise ServerUnavailable(shown_url(request.url), str(error)) from None
                cause = str(error)
            else:
                if not self._is_transient(request, response):
                    try:
                        yield HTTPResponse(response)
                    finally:
                        response.release()
                    return
                response.release()
                asked = retry_after(response.headers)
                if last or asked > self._retries.longest:
                    raise retryable_error(response, asked)
                pause, cause = max(pause, asked), f"it responds with status {response.status}"
            if self._report is not None:
                self._report(f"{request.url.origin()}: {cause}; retrying")
            await asyncio.sleep(pause.total_seconds())
            pause *= 2

    def _is_transient(self, request: HTTPRequest, response: RawResponse) -> bool:
        """Return whether the same request may succeed soon."""
        return response.status == TOO_MANY or (request.is_safe and response.status in _TRANSIENT)

    async def _follow(self, request: HTTPRequest) -> RawResponse:
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

    async def _send(self, request: HTTPRequest, url: URL, headers: Mapping[str, str]) -> RawResponse:
        proxy = proxy_for(url, self._environ)
        try:
            # aiohttp has no deadline for a body that the server does not take.
            async with asyncio.timeout(IDLE_TIMEOUT.total_seconds()) as deadline:
                return await self._open_connections().send(
                    request.method,
                    url,
                    headers=request.headers_for(headers),
                    body=request.pieces(deadline, IDLE_TIMEOUT),
                    proxy=proxy,
                    trusted=self._trusted(url, proxy),
                )
        except TimeoutError:
            raise RequestBroken("it did not respond in time") from None

    def _trusted(self, url: URL, proxy: URL | None) -> ssl.SSLContext | None:
        """Return the trusted CAs; those of the system take 20 ms and more to load, so they are loaded at first use."""
        if self._context is None and "https" in (url.scheme, proxy.scheme if proxy else ""):
            self._context = _trust()
        return self._context

    def _open_connections(self) -> Connections:
        if self._connections is None:
            from clusterstacks.net.http.pool import Connections  # noqa: PLC0415 - takes 0.1 s

            self._connections = Connections(connect=CONNECT, idle_timeout=IDLE_TIMEOUT)
        return self._connections

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


def _may_repeat(request: HTTPRequest, error: RequestBroken) -> bool:
    """Return whether a retry may succeed and cannot have an effect twice."""
    return not error.permanent and (request.is_safe or error.unsent)


def _trust(ca: str = "") -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError):
        raise SpecError("CaInvalid", "the CA contains no PEM certificate") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
