"""Arbitrary responses of a workload cluster have a bounded cost."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web

from clusterstacks.deliver.apply.waiting import await_established
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import TooMany, Unreachable
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.pool import Pool
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.operator.controllers.workload_clients import WORKLOAD_BOUNDS
from tests.support.fakes.scripted_server import ScriptedServer, refuses, says
from tests.support.observing.stalls import measured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.fakes.scripted_server import Answer

MIB = 1024 * 1024
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer.started() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    """A client as the operator makes it for a workload cluster."""

    async def sleep(_: float) -> None:
        """Return at once."""

    async with Pool() as pool:
        yield Client(Connection(server.url), pool, budget=8, bounds=WORKLOAD_BOUNDS, retries=RetryPolicy(sleep=sleep))


def sends(body: bytes, **headers: str) -> Answer:
    """Answer with bytes, in pieces: what the server needs for it is no stall of the client."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
        await response.prepare(request)
        for start in range(0, len(body), MIB // 4):
            await response.write(body[start : start + MIB // 4])
            await asyncio.sleep(0)
        return response

    return answer


def bomb(values: int) -> bytes:
    return b'{"items":[{"metadata":{"name":"x"},"pad":[' + b"[]," * values + b'1]}],"metadata":{}}'


BOMBS = {
    "58 KB that unpack to 60 MB": sends(gzip.compress(bomb(20_000_000), 9), **{"Content-Encoding": "gzip"}),
    "60 MB": sends(bomb(20_000_000)),
    "as much as is read": sends(bomb(2_500_000)),
    "nested": sends(b'{"items":[{"metadata":{"name":"x"},"pad":' + b"[" * 3_000_000 + b"]" * 3_000_000 + b"}]}"),
    "strings": sends(b'{"items":[{"metadata":{"name":"x"},"pad":[' + b'"a",' * 1_500_000 + b"1]}]}"),
    "escapes": sends(b'{"items":[{"metadata":{"name":"' + b"\\\\" * 3_500_000 + b'"}}]}'),
    "many items": sends(b'{"items":[' + b'{"metadata":{"name":"x"}},' * 250_000 + b"{}]}"),
    "many fields": sends(b'{"items":[{"metadata":{' + b",".join(b'"%d":{}' % n for n in range(300_000)) + b"}}]}"),
}


@pytest.mark.regression("SEC-3")
@pytest.mark.parametrize("answer", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("verb", ["list", "get", "watch"])
async def test_c_large_responses_neither_block_the_event_loop_nor_fill_memory(
    server: ScriptedServer, client: Client, answer: Answer, verb: str
) -> None:
    server.plays(answer)

    async def ask() -> object:
        match verb:
            case "list":
                return await client.list(CONFIG_MAPS)
            case "get":
                return await client.get(CONFIG_MAPS, "x", "a")
            case _:
                return [event async for event in client.watch(CONFIG_MAPS, resource_version="1")]

    async with measured() as cost:
        with suppress(ClusterStacksError):
            await ask()

    assert cost.stall < 0.5
    assert cost.memory < 64 * MIB
    assert len(server.requests) <= 5


@pytest.mark.regression("SEC-3")
async def test_d_endless_list_is_aborted(server: ScriptedServer, client: Client) -> None:
    server.plays(says({"items": [], "metadata": {"continue": "more"}}))

    with pytest.raises(Unreachable, match="does not end after 200 pages"):
        await client.list(CONFIG_MAPS)
    assert len(server.requests) == 200


@pytest.mark.regression("SEC-3")
async def test_d_watch_that_ends_at_once_is_reopened_with_back_off(server: ScriptedServer, client: Client) -> None:
    server.plays(sends(b""))
    crd: dict[str, Any] = {"metadata": {"name": "x", "uid": "1"}}

    found = await await_established(client, {"x": crd}, timedelta(seconds=2.5))

    assert found == {"x": "it is not established after 2.5 s"}
    assert len(server.requests) <= 3


@pytest.mark.regression("SEC-3")
@pytest.mark.parametrize("groups", [300_000, 60_000, 2_000])
async def test_d_many_api_groups_cost_few_requests_and_tasks(
    server: ScriptedServer, client: Client, groups: int
) -> None:
    versions = [{"groupVersion": "g/v1", "version": "v1"}]
    listed = [{"name": f"g{number}.example.org", "versions": versions} for number in range(groups)]
    body = orjson.dumps({"kind": "APIGroupList", "groups": listed})
    core = says({"kind": "APIVersions", "versions": []})

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (sends(body) if request.path == "/apis" else core)(request)

    server.plays(answer)
    tasks = len(asyncio.all_tasks())
    async with measured() as cost:
        with pytest.raises(Unreachable):
            await client.resource("apps", "Deployment")
    assert len(asyncio.all_tasks()) <= tasks + 10
    assert cost.stall < 0.5
    assert cost.memory < 64 * MIB
    assert len(server.requests) == 1


@pytest.mark.regression("SEC-3")
async def test_d_request_time_of_a_reconcile_is_bounded(server: ScriptedServer) -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return web.json_response({})

    server.plays(slow)
    bounds = type(WORKLOAD_BOUNDS)(busy_time=timedelta(seconds=0.35))
    async with Pool() as pool:
        client = Client(Connection(server.url), pool, bounds=bounds)

        async def ask_on() -> None:
            while True:
                await asyncio.gather(*(client.get(CONFIG_MAPS, "x", "a") for _ in range(3)))

        with pytest.raises(Unreachable, match=r"took 0 s for the previous requests|did not answer within 0\.[0-3]"):
            await ask_on()
        assert len(server.requests) <= 12
        client.busy.restart()
        await client.get(CONFIG_MAPS, "x", "a")


@pytest.mark.regression("SEC-20")
@pytest.mark.parametrize("seconds", [10**15, 10**400, -(10**15), 1e300, True, "x", None])
async def test_any_retry_after_value_is_limited_to_one_hour(
    server: ScriptedServer, client: Client, seconds: object
) -> None:
    document = f'{{"kind":"Status","details":{{"retryAfterSeconds":{_json(seconds)}}}}}'.encode()

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=document, status=429, headers={"Retry-After": "9" * 400})

    server.plays(answer)
    with pytest.raises(TooMany) as caught:
        await client.get(CONFIG_MAPS, "x", "a")
    assert timedelta() <= caught.value.retry_after <= timedelta(hours=1)
    assert caught.value.retry <= timedelta(hours=1)


def _json(value: object) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else orjson.dumps(value).decode()


@pytest.mark.regression("SEC-1")
async def test_unreadable_object_is_an_error_that_names_it(server: ScriptedServer, client: Client) -> None:
    deep = '{"metadata":{"name":"x"},"spec":' + "[" * 1100 + "]" * 1100 + "}"
    server.plays(sends(deep.encode()))
    with pytest.raises(SpecError, match="get ConfigMap a/x: the object is nested deeper than 1024 levels"):
        await client.get(CONFIG_MAPS, "x", "a")
    page = '{"items":[{"metadata":{"name":"fine"}},' + deep + '],"metadata":{"resourceVersion":"7"}}'
    server.plays(sends(page.encode()))

    with pytest.raises(SpecError, match="list ConfigMap x: the object is nested deeper"):
        await client.list(CONFIG_MAPS)
    listing = await client.list_readable(CONFIG_MAPS)
    assert [one["metadata"]["name"] for one in listing.items] == ["fine"]
    assert [(one.key.name, one.why) for one in listing.unreadable] == [("x", "is nested deeper than 1024 levels")]
    assert listing.resource_version == "7"
    metadata = await client.list_metadata(CONFIG_MAPS)
    assert [one["metadata"]["name"] for one in metadata.items] == ["fine", "x"]
    server.plays(refuses(404, "NotFound", name="x"))
    assert await client.find(CONFIG_MAPS, "x", "a") is None
