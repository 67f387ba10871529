"""HTTP connections that end at once."""

from __future__ import annotations

import asyncio
from functools import partial

import aiohttp
from aiohttp.client_proto import ResponseHandler


class _AbortingProtocol(ResponseHandler):
    """Aborts its connection where aiohttp begins an orderly TLS shutdown and forgets the connection.

    If the server does not answer, such a connection stays open for the timeout of the shutdown, even after the session
    is closed. Nothing is lost without the shutdown, because every response has a length.
    """

    def close(self) -> None:
        """Abort the connection."""
        self.abort()


def aborting_connector(*, limit: int = 100, keepalive_seconds: float = 15.0) -> aiohttp.TCPConnector:
    """Return a connector that aborts each connection that it does not keep; needs the running loop.

    The defaults are those of aiohttp.

    Args:
        limit: Maximum number of connections; 0 for no limit.
        keepalive_seconds: Time after which an idle connection is closed.
    """
    connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=keepalive_seconds)
    protocol: type[ResponseHandler] = _AbortingProtocol
    connector._factory = partial(protocol, loop=asyncio.get_running_loop())  # noqa: SLF001  # there is no public option
    return connector
