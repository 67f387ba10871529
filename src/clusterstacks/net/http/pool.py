"""Connection pool on top of aiohttp. The import of aiohttp takes 0.1 s, so this module is imported at first use."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import aiohttp

from clusterstacks.net.http.errors import RequestBroken
from clusterstacks.net.kube.aborting_connector import aborting_connector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import timedelta

    from yarl import URL


_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((ssl.SSLError, aiohttp.ClientSSLError), "it does not speak TLS; is it a plain HTTP server?"),
    (aiohttp.ClientConnectorDNSError, "its host name cannot be resolved; check the address and the network"),
    (UnicodeError, "its host name is not valid"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached"),
    (aiohttp.ClientHttpProxyError, "the proxy refuses the connection"),
    (TimeoutError, "it did not respond in time"),
)

_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, UnicodeError)


class Connections:
    """Connections that are kept open for the next request.

    Args:
        connect: Timeout of a connection attempt.
        idle_timeout: How long a server may send nothing.
    """

    def __init__(self, *, connect: timedelta, idle_timeout: timedelta) -> None:
        self._session = aiohttp.ClientSession(
            connector=aborting_connector(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=connect.total_seconds(), sock_read=idle_timeout.total_seconds()
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Digests are computed over the bytes as the server stores them.
            auto_decompress=False,
            headers={"User-Agent": "cluster-stacks"},
        )
        # The caller decides for each request whether it may be repeated.
        self._session._retry_connection = False  # noqa: SLF001  # it has no public switch

    async def close(self) -> None:
        """Close all connections."""
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
    ) -> RawResponse:
        """Send one request and wait for the status and headers of its response.

        Raises:
            RequestBroken: The request failed.
        """
        try:
            response = await self._session.request(
                method, url, headers=headers, data=body, proxy=proxy, ssl=trusted or True, allow_redirects=False
            )
        except _FAILURES as error:
            raise _broken(error) from None
        return RawResponse(response)


class RawResponse:
    """The response to one request, before redirects and retries; it must be released."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        self.url = response.url

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        """Read the body in pieces of at most ``size`` bytes.

        Raises:
            RequestBroken: The connection was lost; the pieces before that were yielded.
        """
        try:
            async for piece in self._response.content.iter_chunked(size):
                yield piece
        except _FAILURES as error:
            raise _broken(error) from None

    def release(self) -> None:
        """Return the connection to the pool; close it when part of the body is unread."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _broken(error: BaseException) -> RequestBroken:
    return RequestBroken(
        _cause(error),
        permanent=isinstance(error, (aiohttp.ClientConnectorCertificateError, UnicodeError)),
        unsent=isinstance(error, aiohttp.ClientConnectorError),
    )


def _cause(error: BaseException) -> str:
    """Explain why a request failed; messages of aiohttp contain URLs, which may contain secrets."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "").rstrip(".") or "it is not valid"
        return f"its certificate is not trusted ({reason}); configure its CA, or correct the host name"
    for types, text in _CAUSES:
        if isinstance(error, types):
            return text
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return "the connection was lost"
