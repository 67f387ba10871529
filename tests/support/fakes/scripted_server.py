"""A server on the loopback address with scripted responses."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def says(body: object, status: int = 200, **headers: str) -> Answer:
    """Respond with JSON."""
    content = orjson.dumps(body)

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=content, status=status, headers=headers, content_type="application/json")

    return answer


def refuses(status: int, reason: str, message: str = "because", **details: Any) -> Answer:
    """Respond with a Status."""
    document = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return says({**document, "details": details}, status)


async def hangs_up(request: web.Request) -> web.StreamResponse:
    """Close the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class ScriptedServer:
    """Plays its ``script`` response by response, and repeats the last one; ``requests`` records the requests."""

    def __init__(self) -> None:
        self.script: deque[Answer] = deque()
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.url = ""

    def plays(self, *answers: Answer) -> None:
        self.script = deque(answers)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        step = self.script.popleft() if len(self.script) > 1 else self.script[0]
        return await step(request)

    @classmethod
    @asynccontextmanager
    async def started(cls, context: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
        """Serve on a free port of the loopback address, with TLS if there is a context."""
        server = cls()
        application = web.Application(client_max_size=16 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", server.answer)
        runner = web.AppRunner(application, shutdown_timeout=0, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            host, port = runner.addresses[0][:2]
            server.url = f"{'https' if context else 'http'}://{host}:{port}"
            yield server
        finally:
            await runner.cleanup()
