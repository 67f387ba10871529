"""HTTP to wherever releases and charts come from: bounded, with retries, proxies and an own set of trusted CAs."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.errors import ServerUnavailable
from clusterstacks.http.messages import (
    TOO_MANY,
    Body,
    HTTPDocument,
    HTTPRequest,
    HTTPResponse,
    RequestBroken,
    checked_headers,
    retry_after,
    retryable_error,
    shown_url,
    status_error,
)
from clusterstacks.http.urls import is_loopback, may_follow, proxy_for, read_url, resolve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from types import TracebackType

    from yarl import URL

    from clusterstacks.http.messages import Response
    from clusterstacks.http.pool import Connections

IDLE_TIMEOUT = timedelta(seconds=60)
"""How long a server may send and take nothing. Arbitrary, as long as proxies allow."""

DOCUMENT_DEADLINE = timedelta(minutes=3)
"""How long a small document may take, with all attempts. Arbitrary: a chart repository's index of 30 MB must fit."""

CONNECT = timedelta(seconds=15)
"""How long a connection may take. Arbitrary."""

MAX_REDIRECTS = 5
"""Arbitrary; registries and GitHub need one."""

_REDIRECTS = {301, 302, 303, 307, 308}
_PASSING = {500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a request is tried again; all arbitrary.

    Args:
        attempts: Requests sent at most.
        pause: Before the second one; doubled each time.
        longest: A server that asks to wait longer than this is not waited for.
    """

    attempts: int = 4
    pause: timedelta = timedelta(milliseconds=500)
    longest: timedelta = timedelta(seconds=20)


class HTTPClient:
    """One set of connections.

    Args:
        ca: PEM certificates that are trusted instead of the system's; empty for the system's.
        plain_http: Whether ``http://`` is allowed for any host; this machine itself is always reached so.
        patience: How often and how long a request is tried again.
        environ: Where the proxies are named.
        report: Called with a line before a request is tried again.
        trace: Called with a line about each answer.

    Raises:
        SpecError: ``ca`` holds no certificates.
    """

    def __init__(
        self,
        *,
        ca: str = "",
        plain_http: bool = False,
        patience: RetryPolicy | None = None,
        environ: Mapping[str, str] = os.environ,
        report: Callable[[str], None] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self._context = _trust(ca) if ca else None
        self._plain_http = plain_http
        self._patience = patience or RetryPolicy()
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
            url: Where it is.
            limit: Most bytes it may have.
            headers: Sent along.
            also: Statuses besides 200 that are an answer, e.g. 304.

        Raises:
            NotThere: The server says 404.
            CredentialsRefused: It says 401 or 403.
            AnswerRefused: It says something else, or the answer is too long.
            ServerUnavailable: As :meth:`open`.
        """
        async with self._within_deadline(url), self.open("GET", url, headers=headers) as answer:
            if answer.status != 200 and answer.status not in also:
                raise status_error(answer)
            return HTTPDocument(answer.status, answer.headers, await answer.read(limit))

    @asynccontextmanager
    async def _within_deadline(self, url: str) -> AsyncIterator[None]:
        """A server that sends a byte now and then is never silent."""
        try:
            async with asyncio.timeout(DOCUMENT_DEADLINE.total_seconds()):
                yield
        except TimeoutError:
            raise ServerUnavailable(shown_url(url), "it did not answer in time") from None

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
        """Send a request; any status but 429 and 5xx is the caller's to judge.

        A GET or HEAD is tried again when the connection fails or the server is overloaded, anything else only while it
        cannot have had an effect. Redirects of a GET or HEAD are followed; credentials do not follow to another host.

        Args:
            method: GET, HEAD, PUT, ...
            url: Where to.
            headers: Sent along.
            body: What to send, or what makes it anew for each attempt.
            length: Bytes of ``body``, where that is no ``bytes``; without it the body goes in chunks.
            check: Called with every URL a redirect leads to; raises to refuse it.

        Raises:
            ServerUnavailable: The server cannot be reached, or fails again and again.
            RateLimited: It asks to wait for longer than the patience.
            SpecError: The URL is none of this kind, or plain HTTP to another machine.
        """
        request = HTTPRequest(method, self._checked(url), checked_headers(headers or {}), body, length, check)
        pause = self._patience.pause
        for attempt in range(1, self._patience.attempts + 1):
            last = attempt == self._patience.attempts
            try:
                response = await self._follow(request)
            except RequestBroken as error:
                if last or not _may_repeat(request, error):
                    raise ServerUnavailable(shown_url(request.url), str(error)) from None
                cause = str(error)
            else:
                if not self._passes(request, response):
                    try:
                        yield HTTPResponse(response)
                    finally:
                        response.release()
                    return
                response.release()
                asked = retry_after(response.headers)
                if last or asked > self._patience.longest:
                    raise retryable_error(response, asked)
                pause, cause = max(pause, asked), f"it answers with status {response.status}"
            if self._report is not None:
                self._report(f"{request.url.origin()}: {cause}; trying again")
            await asyncio.sleep(pause.total_seconds())
            pause *= 2

    def _passes(self, request: HTTPRequest, response: Response) -> bool:
        """Whether an answer says that it may be another one soon."""
        return response.status == TOO_MANY or (request.is_safe and response.status in _PASSING)

    async def _follow(self, request: HTTPRequest) -> Response:
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

    async def _send(self, request: HTTPRequest, url: URL, headers: Mapping[str, str]) -> Response:
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
            raise RequestBroken("it did not answer in time") from None

    def _trusted(self, url: URL, proxy: URL | None) -> ssl.SSLContext | None:
        """Return whom to trust; the system's CAs take 20 ms and more to load, and wait for the first who needs them."""
        if self._context is None and "https" in (url.scheme, proxy.scheme if proxy else ""):
            self._context = _trust()
        return self._context

    def _open_connections(self) -> Connections:
        if self._connections is None:
            from clusterstacks.http.pool import Connections  # noqa: PLC0415 - takes 0.1 s

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
        raise SpecError("UrlInvalid", "a URL must look like https://<host>/<path>, without credentials in it")

    def _check_scheme(self, url: URL) -> None:
        if url.scheme == "http" and not (self._plain_http or is_loopback(url)):
            way_out = "use https, or allow plain HTTP for it"
            raise SpecError(
                "PlainHttpRefused", f"{shown_url(url)} is plain HTTP, which anyone on the way can change: {way_out}"
            )

    def _redirected(self, url: URL, location: str) -> URL:
        """Return where a redirect leads; a server must not lead into the network it does not belong to."""
        target = resolve(url, location)
        if target is None:
            raise ServerUnavailable(shown_url(url), "it redirects to something that is no URL")
        if not may_follow(url, target):
            raise ServerUnavailable(shown_url(url), f"it redirects to {shown_url(target)}, which is not followed")
        self._check_scheme(target)
        return target


def _may_repeat(request: HTTPRequest, error: RequestBroken) -> bool:
    """Whether another attempt could fare better, and could not do twice what is to be done once."""
    return not error.hopeless and (request.is_safe or error.unsent)


def _trust(ca: str = "") -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError):
        raise SpecError("CaInvalid", "the CA holds no certificate in PEM form") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
