"""Connections are closed before the event loop ends, also if the server keeps its end open."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import ServerUnavailable
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection, DataOrFile
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.kube.pki import Authority
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from pathlib import Path


class SilentServer:
    """Accepts one TLS connection, answers one request, and does nothing when the client ends the connection."""

    def __init__(self, directory: Path, answer: bytes = b"") -> None:
        self._answer = answer
        self.authority = Authority.create("silent")
        pair = self.authority.issue("server", addresses=["127.0.0.1"])
        path = directory / "pair.pem"
        path.write_bytes(pair.certificate + pair.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(path)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(30)
        self.url = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked = threading.Event()
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._serve)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._listening.close()

    def _serve(self) -> None:
        accepted, _ = self._listening.accept()
        with self._context.wrap_socket(accepted, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(self._answer)
            self.asked.set()
            self._over.wait()


async def test_a_request_after_the_end_opens_no_connection() -> None:
    url = "https://127.0.0.1:1"
    pool = Pool()
    await pool.close()
    with pytest.raises(Unreachable, match="the connection was closed"):
        await Client(Connection(url), pool).ready()
    assert pool._session is None

    web = HTTPClient(environ={})
    await web.close()
    with pytest.raises(ServerUnavailable, match="the connection was closed"):
        await web.read(url, limit=16)
    assert web._pool is None


Ask: TypeAlias = "Callable[[], Awaitable[object]]"
End: TypeAlias = "Callable[[Ask, SilentServer], Awaitable[None]]"


async def ask_as_operator(server: SilentServer, end: End) -> None:
    async with Pool() as pool:
        await end(Client(Connection(server.url, ca=DataOrFile(server.authority.certificate)), pool).ready, server)


async def ask_for_a_release(server: SilentServer, end: End) -> None:
    async with HTTPClient(ca=server.authority.certificate.decode(), environ={}) as web:
        await end(lambda: web.read(server.url, limit=16), server)


async def answered(ask: Ask, _: SilentServer) -> None:
    await ask()


async def abandoned(ask: Ask, server: SilentServer) -> None:
    """Begin a request, wait until the server has it, and cancel it."""
    request = asyncio.ensure_future(ask())
    assert await asyncio.to_thread(server.asked.wait, 30)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request


@pytest.mark.parametrize("ask", [ask_as_operator, ask_for_a_release])
@pytest.mark.parametrize(
    ("end", "answer"),
    [
        pytest.param(abandoned, b"", id="cancelled"),
        pytest.param(answered, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", id="answered"),
        pytest.param(
            answered, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", id="last answer"
        ),
    ],
)
def test_a_request_leaves_no_connection_behind(
    ask: Callable[[SilentServer, End], Coroutine[None, None, None]],
    end: End,
    answer: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[str] = []
    server = SilentServer(tmp_path, answer)

    with server.running():
        asyncio.run(ask(server, end))
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: left.append(str(unraisable.exc_value)))
        gc.collect()

    assert left == []
