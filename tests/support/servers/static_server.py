"""A web server for the files of a directory, also usable as a proxy."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path


class StaticServer:
    """Serves ``root`` with ETag and Last-Modified; ``answers`` records paths and statuses.

    A request in absolute form, as proxies get them, is answered the same way and noted with its host.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: list[tuple[str, int]] = []
        self.requests: list[web.Request] = []
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def started(cls, root: Path, context: ssl.SSLContext | None = None) -> AsyncIterator[StaticServer]:
        """Serve on a free port of the loopback address."""
        server = cls(root)
        application = web.Application()
        application.router.add_get("/{path:.+}", server.answer)
        application.on_response_prepare.append(server.note)
        runner = web.AppRunner(application, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            host, port = runner.addresses[0][:2]
            server.url = f"{'https' if context else 'http'}://{host}:{port}"
            yield server
        finally:
            await runner.cleanup()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        file = self.root / request.match_info["path"]
        return web.FileResponse(file) if file.is_file() else web.Response(status=404)

    async def note(self, request: web.Request, answer: web.StreamResponse) -> None:
        self.answers.append((request.path, answer.status))
