"""The one module that knows aiohttp, whose import takes 0.1 s: it is imported for the first request."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import aiohttp

from clusterstacks.http.messages import RequestBroken
from clusterstacks.kube.responses import AbortingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import timedelta

    from yarl import URL

    from clusterstacks.http.messages import Response

_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((ssl.SSLError, aiohttp.ClientSSLError), "it does not speak TLS: is it a plain HTTP server?"),
    (aiohttp.ClientConnectorDNSError, "its host name cannot be resolved; check the address and the network"),
    (UnicodeError, "its name can be no host's"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached"),
    (aiohttp.ClientHttpProxyError, "the proxy refuses to connect to it"),
    (TimeoutError, "it did not answer in time"),
)

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, UnicodeError)


class Connections:
    """Connections that are kept open for the next request.

    Args:
        connect: How long a connection may take.
        idle_timeout: How long a server may send nothing.
    """

    def __init__(self, *, connect: timedelta, idle_timeout: timedelta) -> None:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=connect.total_seconds(), sock_read=idle_timeout.total_seconds()
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Digests are those of the bytes that lie on the server.
            auto_decompress=False,
            headers={"User-Agent": "cluster-stacks"},
            response_class=AbortingResponse,
        )
        # What may be repeated is decided by the caller, request by request.
        self._session._retry_connection = False  # noqa: SLF001  # it has no public switch

    async def close(self) -> None:
        """Close all of them."""
        await self._session.close()

    async def send(
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes] | bytes | None,
        proxy: URL | None,
        trusted: ssl.SSLContext | None,
    ) -> Response:
        """Send one request and wait for the head of its answer.

        Raises:
            RequestBroken: There is none.
        """
        try:
            response = await self._session.request(
                method, url, headers=headers, data=body, proxy=proxy, ssl=trusted or True, allow_redirects=False
            )
        except _FAILURES as error:
            raise _broken(error) from None
        return _Received(response)


class _Received:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        self.url = response.url

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.content.iter_chunked(size):
                yield piece
        except _FAILURES as error:
            raise _broken(error) from None

    def release(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _broken(error: BaseException) -> RequestBroken:
    return RequestBroken(
        _cause(error),
        hopeless=isinstance(error, (aiohttp.ClientConnectorCertificateError, UnicodeError)),
        unsent=isinstance(error, aiohttp.ClientConnectorError),
    )


def _cause(error: BaseException) -> str:
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
