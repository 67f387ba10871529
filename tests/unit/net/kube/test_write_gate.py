"""A closed write gate stops writes when they are sent."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import StreamWriter
from multidict import CIMultiDict

from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.kube.write_gate import PIECE_BYTES, GuardedBody, WriteGate
from clusterstacks.net.retry import RetryPolicy
from tests.support.fakes.scripted_server import says
from tests.unit.net.kube.test_client import CONFIG_MAPS, OBJECT, ONCE, REPEATABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from clusterstacks.net.pool import Pool
    from tests.support.fakes.scripted_server import ScriptedServer

READS = {name: REPEATABLE[name] for name in ("get", "list")}
WRITES = {name: verb for name, verb in {**REPEATABLE, **ONCE}.items() if name not in READS}
LARGE = {**OBJECT, "data": {"text": "x" * 20 * PIECE_BYTES}}


class Hands:
    """A clock that a test moves; the gate it belongs to is open until 10."""

    def __init__(self, *readings: float) -> None:
        self.readings = list(readings) or [0.0]
        self.gate = WriteGate(self.read)
        self.gate.open_until(10)

    def read(self) -> float:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def gated(server: ScriptedServer, pool: Pool, gate: WriteGate) -> Client:
    return Client(Connection(server.url), pool, gate=gate, deadline=timedelta(seconds=20))


@pytest.mark.parametrize("verb", WRITES.values(), ids=WRITES)
async def test_writes_pass_an_open_gate_only(
    server: ScriptedServer, pool: Pool, verb: Callable[[Client], Awaitable[object]]
) -> None:
    server.plays(says({}))
    hands = Hands(9.9)
    client = gated(server, pool, hands.gate)
    await verb(client)
    assert len(server.requests) == 1

    hands.readings = [10.0]
    with pytest.raises(DependencyError, match=r"ConfigMap a/x|ConfigMap in a"):
        await verb(client)
    assert len(server.requests) == 1


@pytest.mark.parametrize("verb", READS.values(), ids=READS)
async def test_reads_pass_a_closed_gate(
    server: ScriptedServer, pool: Pool, verb: Callable[[Client], Awaitable[object]]
) -> None:
    server.plays(says({"items": []}))
    await verb(gated(server, pool, Hands(10.0).gate))
    assert len(server.requests) == 1


async def test_dry_runs_and_reviews_pass_a_closed_gate_because_nothing_is_stored(
    server: ScriptedServer, pool: Pool
) -> None:
    server.plays(says({}))
    client = gated(server, pool, Hands(10.0).gate)
    await client.apply(CONFIG_MAPS, OBJECT, manager="m", dry_run=True)
    review = Resource("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False)
    await client.create(review, {"spec": {"namespace": "a"}})
    assert len(server.requests) == 2


async def test_a_gate_is_closed_until_it_is_opened_and_after_it_is_closed(server: ScriptedServer, pool: Pool) -> None:
    gate = WriteGate(lambda: 0.0)
    client = gated(server, pool, gate)
    server.plays(says({}))
    for step in (None, gate.close):
        if step is not None:
            gate.open_until(1)
            step()
        with pytest.raises(DependencyError):
            await client.create(CONFIG_MAPS, OBJECT)
    assert server.requests == []


@pytest.mark.parametrize("verb", WRITES.values(), ids=WRITES)
async def test_a_process_that_was_stopped_between_call_and_send_sends_nothing(
    server: ScriptedServer, pool: Pool, verb: Callable[[Client], Awaitable[object]]
) -> None:
    """The clock moves on after the first look, while aiohttp gets a connection: the look at the send must see it."""
    server.plays(says({}))
    connections: list[float] = []
    hands = Hands(0.0, 16.0)
    connector = pool.session.connector
    assert connector is not None
    connect = connector.connect

    async def stopped(*arguments: object, **options: object) -> object:
        connections.append(hands.readings[0])
        return await connect(*arguments, **options)  # type: ignore[arg-type]

    connector.connect = stopped  # type: ignore[method-assign, assignment]
    with pytest.raises(DependencyError):
        await verb(gated(server, pool, hands.gate))
    assert connections == [16.0]
    assert server.requests == []


async def test_a_large_body_is_not_completed_after_the_gate_closed(server: ScriptedServer, pool: Pool) -> None:
    """The server gets the beginning of a request, and never its end: it does not do it."""
    server.plays(says({}))
    client = gated(server, pool, Hands(*[0.0] * 10, 16.0).gate)
    with pytest.raises(DependencyError):
        await client.create(CONFIG_MAPS, LARGE)
    assert server.bodies == []

    client = gated(server, pool, Hands(0.0).gate)
    await client.create(CONFIG_MAPS, LARGE)
    assert [len(body) > 20 * PIECE_BYTES for body in server.bodies] == [True]


class Wire(asyncio.Transport):
    """Records writes."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self._notes = notes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._notes.append("written" if data else "nothing")

    def is_closing(self) -> bool:
        return False


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 3 * PIECE_BYTES], ids=["empty", "small", "large"])
async def test_the_gate_is_checked_in_the_same_step_as_the_write(content: bytes) -> None:
    """Before each write there is a look with no suspension in between: what aiohttp promises nowhere."""
    notes: list[str] = []

    def look() -> float:
        notes.append("looked")
        return 0.0

    gate = WriteGate(look)
    gate.open_until(1)
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop)
    protocol.transport = Wire(notes)
    writer = StreamWriter(protocol, loop)
    headers: CIMultiDict[str] = CIMultiDict({"Host": "x"})
    await writer.write_headers("PATCH / HTTP/1.1", headers)
    steps = GuardedBody(content, "patch", gate).write_with_length(writer, len(content)).__await__()
    try:
        while True:
            next(steps)
            notes.append("suspended")
    except StopIteration:
        pass
    if not content:  # the end of the request sends the headers, in the same step of aiohttp's
        end = writer.write_eof().__await__()
        with pytest.raises(StopIteration):
            next(end)
    pairs = [note for note in notes if note != "suspended"]
    assert pairs == ["looked", "written"] * max(1, len(content) // PIECE_BYTES)
    assert all(notes[number + 1] == "written" for number, note in enumerate(notes) if note == "looked")


async def test_a_pending_write_is_aborted_when_the_gate_closes(server: ScriptedServer, pool: Pool) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def thinks(_request: web.Request) -> web.StreamResponse:
        arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        raise AssertionError

    server.plays(thinks)
    hands = Hands(0.0)
    write = asyncio.create_task(gated(server, pool, hands.gate).apply(CONFIG_MAPS, OBJECT, manager="m"))
    await arrived.wait()
    hands.gate.close()
    with pytest.raises(DependencyError, match="apply ConfigMap a/x: this process does not hold its lease"):
        await write
    await asyncio.wait_for(gone.wait(), 60)
    assert len(server.requests) == 1


async def test_a_connection_whose_write_was_answered_is_not_broken(server: ScriptedServer, pool: Pool) -> None:
    """It may carry a read by then."""
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def waits(_request: web.Request) -> web.StreamResponse:
        arrived.set()
        await go_on.wait()
        return await says({"kind": "ConfigMap"})(_request)

    server.plays(says({}), waits)
    hands = Hands(0.0)
    client = gated(server, pool, hands.gate)
    await client.apply(CONFIG_MAPS, OBJECT, manager="m")
    read = asyncio.create_task(client.get(CONFIG_MAPS, "x", "a"))
    await arrived.wait()
    assert len({request.transport for request in server.requests}) == 1
    hands.gate.close()
    go_on.set()
    assert await read == {"kind": "ConfigMap"}


async def test_a_client_without_a_gate_writes_always(server: ScriptedServer, pool: Pool) -> None:
    server.plays(says({}))
    client = Client(Connection(server.url), pool, retries=RetryPolicy(attempts=1))
    await client.create(CONFIG_MAPS, LARGE)
    assert server.requests[0].headers["Content-Type"] == "application/json"
