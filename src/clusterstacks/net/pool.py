"""Connections over aiohttp: their pool, the causes of their failures, and bounded bodies.

The import of aiohttp takes 0.1 s, so ``csctl`` imports this module only when it opens a connection.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import partial
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler

from clusterstacks.net.retry import RequestBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from datetime import timedelta
    from types import TracebackType

    from yarl import URL

KEEPALIVE_SECONDS = 80.0
"""Time after which an idle connection is closed: longer than the interval of a sweep with its jitter, which therefore
reuses its connection, and shorter than the 90 s after which an API server closes it."""

_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((ssl.SSLError, aiohttp.ClientSSLError), "it does not speak TLS; is it a plain HTTP server?"),
    (aiohttp.ClientConnectorDNSError, "its host name cannot be resolved; check the address and the network"),
    (UnicodeError, "its host name is not valid"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached"),
    (aiohttp.ClientHttpProxyError, "the proxy refuses the connection"),
    (TimeoutError, "it did not respond in time"),
)

FAILURES = (aiohttp.ClientError, OSError, UnicodeError)
"""Exceptions of a request that fails, and of the reading of its response."""


class _AbortingProtocol(ResponseHandler):
    """Aborts its connection where aiohttp begins an orderly TLS shutdown and forgets the connection.

    If the server does not answer, such a connection stays open for the timeout of the shutdown, even after the session
    is closed. Nothing is lost without the shutdown, because every response has a length.
    """

    def close(self) -> None:
        self.abort()


class Pool:
    """Connections that are kept for the next request; its users share connections, but not their settings.

    ``timeouts`` are the longest connection attempt and the longest time in which a server may send nothing; None for
    users that set a deadline for each request. ``on_answer`` gets HTTP method and status of every response.
    """

    def __init__(
        self,
        timeouts: tuple[timedelta, timedelta] | None = None,
        *,
        on_answer: Callable[[str, int], None] = lambda _method, _status: None,
    ) -> None:
        self.on_answer = on_answer
        connect, idle = (limit.total_seconds() for limit in timeouts) if timeouts else (None, None)
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, opened by the first request because it needs the running loop.

        Raises RequestBroken after ``close``, because a session that a late request opened would stay open.
        """
        if self._closed:
            raise RequestBroken("the connection was closed", permanent=True)
        if self._session is None:
            # Each user has its own budget, so the connector sets no limit.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
            protocol: type[ResponseHandler] = _AbortingProtocol
            # aiohttp has no public options for its protocol and for its own retries; ours are decided for each request.
            connector._factory = partial(protocol, loop=asyncio.get_running_loop())  # noqa: SLF001
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                # Digests are computed over the bytes as the server stores them, and a small compressed response may
                # expand to a thousand times its size.
                auto_decompress=False,
            )
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    async def request(  # noqa: PLR0913  # the parameters of an HTTP request
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: aiohttp.Payload | AsyncIterator[bytes] | bytes | None,
        trusted: ssl.SSLContext | bool = True,
        server_name: str = "",
        proxy: URL | str | None = None,
    ) -> aiohttp.ClientResponse:
        """Send one request, wait for the status and headers, and raise RequestBroken if it fails.

        Redirects are not followed, because they would send the credentials to another host.
        """
        try:
            response = await self.session.request(
                method,
                url,
                headers=headers,
                data=body,
                proxy=proxy or None,
                ssl=trusted,
                server_hostname=server_name or None,
                allow_redirects=False,
            )
        except FAILURES as error:
            raise broken(error) from None
        self.on_answer(method, response.status)
        return response

    async def close(self) -> None:
        """Close all connections; running and later requests fail."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def read_body(content: AsyncIterator[bytes], max_bytes: int) -> bytes | None:
    """Read a whole body, None if it exceeds ``max_bytes``; raise RequestBroken if the connection is lost."""
    pieces = []
    size = 0
    try:
        async for piece in content:
            size += len(piece)
            if size > max_bytes:
                return None
            pieces.append(piece)
    except FAILURES as error:
        raise broken(error) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def broken(error: BaseException) -> RequestBroken:
    """Translate one of ``FAILURES``; messages of aiohttp contain URLs and TLS contexts, which may contain secrets."""
    return RequestBroken(
        _cause(error),
        permanent=isinstance(error, (aiohttp.ClientConnectorCertificateError, UnicodeError)),
        unsent=isinstance(error, aiohttp.ClientConnectorError),
    )


def _cause(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "").rstrip(".") or "it is not valid"
        return f"its certificate is not trusted ({reason}); configure its CA, or correct the host name"
    for types, text in _CAUSES:
        if isinstance(error, types):
            return text
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return "the connection was lost"
