"""Limits on number and duration of webhook connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from clusterstacks.net.tls import serve_with, server_context
from clusterstacks.operator import listener as module
from clusterstacks.operator.listener import Listener
from clusterstacks.operator.webhooks.certificates import create_serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Respond = Callable[[web.BaseRequest], Awaitable[web.Response]]

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def _fine(_: web.BaseRequest) -> web.Response:
    return web.Response(text="fine")


@asynccontextmanager
async def listening(host: str = "127.0.0.1", respond: Respond = _fine) -> AsyncIterator[int]:
    """Run a listener that answers everything; yields its port."""
    pair = create_serving(["127.0.0.1"], timedelta(hours=1), datetime.now(UTC))
    context = server_context()
    serve_with(context, pair.certificate, pair.key)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(Listener(context, respond, stop_seconds=0.1).run(host, 0, port.set_result))
    try:
        yield await port
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connected(cls, port: int, host: str = "127.0.0.1", *, tls: bool = True) -> Client:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return cls(*await asyncio.open_connection(host, port, ssl=context if tls else None))

    async def ask(self) -> bytes:
        self.writer.write(REQUEST)
        return await self.reader.readuntil(b"fine")

    async def is_closed(self) -> bool:
        """Wait until the server ends the connection."""
        try:
            return await self.reader.read() == b""
        except OSError:
            return True

    def close(self) -> None:
        self.writer.transport.abort()


async def test_one_connection_serves_many_requests() -> None:
    async with listening() as port:
        client = await Client.connected(port)

        for _ in range(3):
            assert (await client.ask()).startswith(b"HTTP/1.1 200")
        client.close()


async def test_wildcard_address_listens_on_both_ip_families() -> None:
    hosts = ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
    async with listening("") as port:
        for host in hosts:
            client = await Client.connected(port, host)
            assert await client.ask()
            client.close()


async def test_connection_that_has_been_idle_longest_is_closed_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(module, "MIN_IDLE_SECONDS", 0)
    async with listening() as port:
        first, second, third = [await Client.connected(port) for _ in range(3)]
        for client in (second, third, first):
            assert await client.ask()

        fourth = await Client.connected(port)

        assert await fourth.ask()
        assert await second.is_closed()
        assert await first.ask()
        assert await third.ask()
        for client in (first, second, third, fourth):
            client.close()


async def test_connection_without_a_handshake_is_closed_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(module, "MIN_IDLE_SECONDS", 0)
    async with listening() as port:
        silent = await Client.connected(port, tls=False)
        client = await Client.connected(port)

        assert await client.ask()
        assert await silent.is_closed()
        silent.close()
        client.close()


async def test_connection_is_kept_for_its_minimum_even_if_another_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(module, "MIN_IDLE_SECONDS", 3600)
    async with listening() as port:
        first = await Client.connected(port)
        waiting = asyncio.create_task(Client.connected(port))
        for _ in range(10):
            assert await first.ask()

        assert not waiting.done()
        first.close()
        second = await waiting
        assert await second.ask()
        second.close()


async def test_connection_with_an_answer_due_is_not_closed_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(module, "MIN_IDLE_SECONDS", 0)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.Response:
        if request.path == "/slow":
            asked.set()
            await answer.wait()
        return await _fine(request)

    async with listening(respond=slow) as port:
        first, second = await Client.connected(port), await Client.connected(port)
        first.writer.write(REQUEST.replace(b"/", b"/slow", 1))
        await asked.wait()
        assert await second.ask()  # idle for a shorter time than the first was asked

        third = await Client.connected(port)
        assert await third.ask()
        assert await second.is_closed()
        answer.set()
        assert await first.reader.readuntil(b"fine")
        for client in (first, second, third):
            client.close()


async def test_body_that_does_not_arrive_makes_room_for_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(module, "MIN_IDLE_SECONDS", 0)
    began, gone = asyncio.Event(), asyncio.Event()

    async def reads(request: web.BaseRequest) -> web.Response:
        began.set()
        try:
            await request.read()
        except ConnectionError:
            gone.set()
            raise
        return await _fine(request)

    async with listening(respond=reads) as port:
        slow = await Client.connected(port)
        slow.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        await began.wait()

        client = await Client.connected(port)
        assert await client.ask()
        await gone.wait()
        slow.close()
        client.close()


async def test_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.5)
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.5)
    async with listening() as port:
        without_handshake = await Client.connected(port, tls=False)
        without_head, half_a_head, served = [await Client.connected(port) for _ in range(3)]
        half_a_head.writer.write(REQUEST[:-2])
        assert await served.ask()

        assert await without_handshake.is_closed()
        assert await without_head.is_closed()
        assert await half_a_head.is_closed()
        assert await served.ask()
        for client in (without_handshake, without_head, half_a_head, served):
            client.close()


async def test_invalid_tls_or_http_closes_only_its_own_connection() -> None:
    async with listening() as port:
        plain, garbage = await Client.connected(port, tls=False), await Client.connected(port)
        plain.writer.write(REQUEST)
        garbage.writer.write(b"\x00\x01\x02\r\n\r\n")

        await plain.is_closed()
        await garbage.is_closed()
        client = await Client.connected(port)
        assert await client.ask()
        for one in (plain, garbage, client):
            one.close()


async def test_port_in_use_is_an_error_at_once() -> None:
    async with listening() as port:
        with pytest.raises(OSError, match="in use"):
            await Listener(server_context(), _fine, stop_seconds=0).run("127.0.0.1", port, lambda _: None)


async def test_stop_closes_all_connections() -> None:
    async with listening() as port:
        silent, served = await Client.connected(port, tls=False), await Client.connected(port)
        assert await served.ask()

    assert await silent.is_closed()
    assert await served.is_closed()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await Client.connected(port)
    silent.close()
    served.close()
