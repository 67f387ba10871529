"""Accepts the connections of the webhooks and of the server of node images, within bounds of number and time.

The port may be reachable by every pod, and clients are not authenticated: a connection may neither stay open without a
limit nor keep others, such as the API server, from connecting.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

MAX_CONNECTIONS: Final = 512
"""Connections at a time. Enough for two API servers with the 200 writes that each runs at most by default
(``--max-mutating-requests-inflight``), and some others. There is no limit for one address: all API servers may come
from that of a proxy."""

MIN_IDLE_SECONDS: Final = 2.0
"""Time that each connection has for its handshake and its request, even if others wait. Arbitrary: an API server needs
milliseconds. It bounds the handshakes of clients that connect again and again, to 256 a second."""

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


@dataclass(slots=True)
class _Connection:
    """The state of an open connection."""

    since: float
    """When it was accepted, its last request began, or its last answer was written."""
    handshake: asyncio.Task[None] | None = None
    request: web.BaseRequest | None = None
    """The request that is being read or answered."""
    has_asked: bool = False

    @property
    def is_idle(self) -> bool:
        """True if it waits for its client; False while an answer is due."""
        return self.request is None or not self.request.content.is_eof()


class Listener:
    """Serves HTTP at one address, over TLS with a context; requests under way may take ``stop_seconds`` when it stops.

    A connection beyond ``MAX_CONNECTIONS`` takes the place of the one that has been idle longest, so clients that keep
    connections open cannot keep an API server from connecting.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        stop_seconds: float,
    ) -> None:
        self._context = context
        self._answer = answer
        self._stop_seconds = stop_seconds
        self._open: dict[web.RequestHandler, _Connection] = {}
        """The connections, that with the earliest ``since`` first."""
        self._has_room = asyncio.Event()

    async def run(self, host: str, port: int, started: Callable[[int], None]) -> None:
        """Serve until cancelled.

        An empty ``host`` means all addresses, ``port`` 0 a free port; ``started`` is called with the port once
        connections are accepted. Raises OSError if the server cannot listen on the address.
        """
        http = _Server(
            self._respond,
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
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("A connection cannot be accepted: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            try:
                while len(self._open) >= MAX_CONNECTIONS:
                    await self._make_room()
            except asyncio.CancelledError:
                accepted.close()
                raise
            handler = http()
            connection = self._open[handler] = _Connection(loop.time())
            connection.handshake = connecting.create_task(self._connect(accepted, handler, str(peer[0])))

    async def _make_room(self) -> None:
        """Close the connection that has been idle longest, or wait until there may be one to close."""
        longest = next(((handler, state) for handler, state in self._open.items() if state.is_idle), None)
        left = MIN_IDLE_SECONDS
        if longest is not None:
            handler, connection = longest
            left -= asyncio.get_running_loop().time() - connection.since
            if left <= 0:
                self._close(handler, connection)
                return
        self._has_room.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_room.wait(), left)

    def _close(self, handler: web.RequestHandler, connection: _Connection) -> None:
        self._ended(handler)
        if connection.handshake is not None:
            connection.handshake.cancel()
        handler.force_close()

    async def _connect(self, accepted: socket.socket, handler: web.RequestHandler, address: str) -> None:
        """Do the TLS handshake; afterwards aiohttp serves the connection until it is closed."""
        loop = asyncio.get_running_loop()
        handshake = HANDSHAKE_SECONDS if self._context else None
        shutdown = TLS_SHUTDOWN_TIMEOUT if self._context else None
        try:
            await loop.connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=shutdown,
            )
        except OSError as error:
            log.debug("A TLS handshake with %s failed: %s", address, error)
            self._ended(handler)
        except asyncio.CancelledError:
            self._ended(handler)
            raise
        except Exception:
            log.exception("Unexpected failure of a TLS handshake, please report it")
            self._ended(handler)
        else:
            loop.call_later(HEAD_SECONDS, self._close_silent, handler)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self._note(request.protocol, request)
        try:
            return await self._answer(request)
        finally:
            self._note(request.protocol, None)

    def _note(self, handler: web.RequestHandler, request: web.BaseRequest | None) -> None:
        """Note that a request began, or with None that it ended."""
        connection = self._open.pop(handler, None)
        if connection is not None:
            now = asyncio.get_running_loop().time()
            connection.since, connection.request, connection.has_asked = now, request, True
            self._open[handler] = connection
            self._has_room.set()

    def _close_silent(self, handler: web.RequestHandler) -> None:
        connection = self._open.get(handler)
        if connection is not None and not connection.has_asked:
            self._close(handler, connection)

    def _ended(self, handler: web.RequestHandler) -> None:
        if self._open.pop(handler, None) is not None:  # after a failed handshake, aiohttp calls this as well
            self._has_room.set()


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
