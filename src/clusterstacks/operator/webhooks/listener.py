"""Accepts the TLS connections of the webhooks, within bounds of number and time.

The port may be reachable by every pod, and clients are not authenticated: a connection may neither stay open without a
limit nor keep the API server from connecting.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

MAX_CONNECTIONS: Final = 512
"""Connections at a time; further ones wait in the kernel's queue. Enough for two API servers with the 200 writes that
each runs at most by default (``--max-mutating-requests-inflight``), and some others."""

MAX_OF_ONE_ADDRESS: Final = 256
"""Connections of one address at a time; further ones are closed at once. Enough for one API server with 200 writes."""

QUEUED: Final = 512
"""Connections that wait in the kernel's queue. Arbitrary: as many as are served."""

HANDSHAKE_SECONDS: Final = 10.0
"""Timeout of the TLS handshake in seconds: the longest time that the API server waits for an answer."""

HEAD_SECONDS: Final = 10.0
"""Timeout until the head of the first request has arrived, in seconds; as for the handshake."""

IDLE_SECONDS: Final = 100.0
"""Idle timeout of a connection. Longer than the 90 s of Go's HTTP client, so that the API server closes it first and
never writes into a connection that is being closed."""

TLS_SHUTDOWN_TIMEOUT: Final = 0.2
"""Timeout of the TLS shutdown. With asyncio's 30 s the sockets of an API server that does not answer would stay open
for as long; a shorter one loses nothing."""

LINGER_SECONDS: Final = 1.0
"""Time for which the rest of a refused body is read and dropped, so that the client sees the answer. Arbitrary."""

PAUSE_SECONDS: Final = 1.0
"""Pause after accepting failed, for example for lack of file descriptors; as asyncio's servers."""

log = logging.getLogger(__name__)

_quiet = logging.getLogger(f"{__name__}.http")
_quiet.setLevel(logging.CRITICAL)  # a trace for each malformed request would let every client fill the log


class Listener:
    """Serves HTTP over TLS at one address; requests under way may take ``stop_seconds`` when it stops."""

    def __init__(
        self,
        context: ssl.SSLContext,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        stop_seconds: float,
    ) -> None:
        self._context = context
        self._answer = answer
        self._stop_seconds = stop_seconds
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._addresses: dict[web.RequestHandler, str] = {}
        self._counts: Counter[str] = Counter()
        self._silent: set[web.RequestHandler] = set()

    async def run(self, host: str, port: int, started: Callable[[int], None]) -> None:
        """Serve until cancelled.

        An empty ``host`` means all addresses, ``port`` 0 a free port; ``started`` is called with the port once
        connections are accepted. Raises OSError if the server cannot listen on the address.
        """
        http = _Server(
            self._first_asked,
            ended=self._ended,
            access_log=None,
            logger=_quiet,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            auto_decompress=False,  # the API server sends plain bodies; a small one must not become a large one
        )
        with _listening(host, port) as listening:
            started(listening.getsockname()[1])
            try:
                async with asyncio.TaskGroup() as connecting:
                    await self._accept(listening, http, connecting)
            finally:
                http.pre_shutdown()
                await http.shutdown(self._stop_seconds)

    async def _accept(self, listening: socket.socket, http: _Server, connecting: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                self._room.release()
                log.warning("A connection to the webhooks cannot be accepted: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            except asyncio.CancelledError:
                self._room.release()
                raise
            address = str(peer[0])
            if self._counts[address] >= MAX_OF_ONE_ADDRESS:
                self._room.release()
                accepted.close()
                continue
            self._counts[address] += 1
            connection = http()
            self._addresses[connection] = address
            self._silent.add(connection)
            connecting.create_task(self._connect(accepted, connection))

    async def _connect(self, accepted: socket.socket, connection: web.RequestHandler) -> None:
        """Do the TLS handshake; afterwards aiohttp serves the connection until it is closed."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_SHUTDOWN_TIMEOUT,
            )
        except OSError as error:
            log.debug("A TLS handshake with %s failed: %s", self._addresses.get(connection), error)
            self._ended(connection)
        except asyncio.CancelledError:
            self._ended(connection)
            raise
        except Exception:
            log.exception("Unexpected failure of a TLS handshake, please report it")
            self._ended(connection)
        else:
            loop.call_later(HEAD_SECONDS, self._close_silent, connection)

    async def _first_asked(self, request: web.BaseRequest) -> web.StreamResponse:
        self._silent.discard(request.protocol)
        return await self._answer(request)

    def _close_silent(self, connection: web.RequestHandler) -> None:
        if connection in self._silent:
            connection.force_close()

    def _ended(self, connection: web.RequestHandler) -> None:
        address = self._addresses.pop(connection, None)
        if address is None:
            return  # the handshake failed and the connection was lost: both come here
        self._silent.discard(connection)
        self._room.release()
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]


class _Server(web.Server):
    """aiohttp's server of single connections; also reports the end of each connection."""

    def __init__(
        self,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        ended: Callable[[web.RequestHandler], None],
        **options: Any,  # noqa: ANN401 - those of web.RequestHandler
    ) -> None:
        super().__init__(answer, **options)
        self._ended = ended

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._ended(handler)


def _listening(host: str, port: int) -> socket.socket:
    """Listen on one address, or on all addresses of both families."""
    dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=QUEUED, dualstack_ipv6=dual)
    listening.setblocking(False)
    return listening
