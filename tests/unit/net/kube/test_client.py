"""Client requests to servers that reject, fail, disconnect and hang."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import pytest
from aiohttp import web

from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import ApiError, Conflict, TooMany, Unreachable
from clusterstacks.net.kube.limits import Bounds
from clusterstacks.net.kube.resources import Resource
from tests.support.fakes.scripted_server import hangs_up, refuses, says

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.net.pool import Pool
    from clusterstacks.net.retry import RetryPolicy
    from tests.support.fakes.scripted_server import Answer, ScriptedServer

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a"}}

Verb: TypeAlias = "Callable[[Client], Awaitable[object]]"

REPEATABLE: dict[str, Verb] = {
    "get": lambda client: client.get(CONFIG_MAPS, "x", "a"),
    "list": lambda client: client.list(CONFIG_MAPS),
    "apply": lambda client: client.apply(CONFIG_MAPS, OBJECT, manager="m"),
    "merge patch": lambda client: client.merge_patch(CONFIG_MAPS, "x", {"data": {}}, "a"),
    "delete of one uid": lambda client: client.delete(CONFIG_MAPS, "x", "a", uid="1"),
}
ONCE: dict[str, Verb] = {
    "create": lambda client: client.create(CONFIG_MAPS, OBJECT),
    "json patch": lambda client: client.json_patch(CONFIG_MAPS, "x", [], "a"),
    "merge patch of one version": lambda client: client.merge_patch(
        CONFIG_MAPS, "x", {"metadata": {"resourceVersion": "5"}}, "a"
    ),
    "delete by name": lambda client: client.delete(CONFIG_MAPS, "x", "a"),
}


@pytest.mark.parametrize("verb", REPEATABLE.values(), ids=REPEATABLE)
async def test_repeatable_call_is_retried_after_a_fault(
    server: ScriptedServer, client: Client, slept: list[float], verb: Verb
) -> None:
    server.plays(hangs_up, hangs_up, refuses(503, "ServiceUnavailable"), says({"items": []}))

    await verb(client)

    assert len(server.requests) >= 4
    assert slept == sorted(slept)
    assert 0 < sum(slept) < 2


@pytest.mark.parametrize("verb", ONCE.values(), ids=ONCE)
@pytest.mark.parametrize("fault", [hangs_up, refuses(500, "InternalError")], ids=["reset", "500"])
async def test_call_that_is_not_repeatable_is_not_retried(
    server: ScriptedServer, client: Client, slept: list[float], verb: Verb, fault: Callable[..., Awaitable[object]]
) -> None:
    server.plays(says({"items": []}), fault, says({}))  # type: ignore[arg-type]  # both faults are answers
    await client.list(CONFIG_MAPS)

    with pytest.raises(Unreachable):
        await verb(client)
    assert slept == []


@pytest.mark.parametrize("verb", [*REPEATABLE.values(), *ONCE.values()], ids=[*REPEATABLE, *ONCE])
async def test_too_many_requests_is_retried_after_retry_after(
    server: ScriptedServer, client: Client, slept: list[float], verb: Verb
) -> None:
    initializing = refuses(429, "TooManyRequests", "storage is (re)initializing", retryAfterSeconds=1)
    server.plays(initializing, says({}, 429, **{"Retry-After": "3"}), refuses(429, ""), says({"items": []}))

    await verb(client)

    assert slept == [1, 3, 0.8]


async def test_longer_pause_than_is_waited_for_is_left_to_the_caller(
    server: ScriptedServer, client: Client, slept: list[float]
) -> None:
    server.plays(says({"message": "later", "details": {"retryAfterSeconds": 21}}, 429))

    with pytest.raises(TooMany, match="get ConfigMap a/x: 429 TooManyRequests: later") as caught:
        await client.get(CONFIG_MAPS, "x", "a")

    assert slept == []
    assert caught.value.retry == timedelta(seconds=21)


async def test_wait_that_would_pass_the_deadline_is_not_begun(
    server: ScriptedServer, pool: Pool, retries: RetryPolicy, slept: list[float]
) -> None:
    impatient = Client(Connection(server.url), pool, retries=retries, deadline=timedelta(seconds=3))
    server.plays(says({}, 429, **{"Retry-After": "5"}))

    with pytest.raises(TooMany):
        await impatient.get(CONFIG_MAPS, "x", "a")
    assert slept == []


async def test_error_after_all_retries_has_the_servers_message(server: ScriptedServer, client: Client) -> None:
    server.plays(refuses(500, "InternalError", "failed calling webhook"))

    with pytest.raises(Unreachable, match="apply ConfigMap a/x: 500 InternalError: failed calling webhook") as caught:
        await client.apply(CONFIG_MAPS, OBJECT, manager="m")
    assert (len(server.requests), caught.value.status) == (5, 500)


async def test_slow_response_fails_at_the_deadline(server: ScriptedServer, pool: Pool) -> None:
    never = asyncio.Event()

    async def drips(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await never.wait()
        return response

    server.plays(drips)
    client = Client(Connection(server.url), pool, budget=1, deadline=timedelta(seconds=1))

    errors = await asyncio.gather(*(client.get(CONFIG_MAPS, "x", "a") for _ in range(3)), return_exceptions=True)
    never.set()

    assert {str(error) for error in errors} == {f"get ConfigMap a/x: {server.url[7:]} did not answer within 1 s"}


async def test_budget_bounds_the_requests_at_a_time(server: ScriptedServer, pool: Pool) -> None:
    running, most = 0, 0

    async def counts(_request: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    server.plays(counts)
    client = Client(Connection(server.url), pool, budget=3)
    await asyncio.gather(*(client.get(CONFIG_MAPS, "x", "a") for _ in range(10)))

    assert most == 3


async def test_response_over_the_limit_is_not_read(server: ScriptedServer, pool: Pool) -> None:
    async def floods(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" " * 1000)
        return response

    server.plays(floods)
    client = Client(Connection(server.url), pool, bounds=Bounds(response_bytes=5000))
    with pytest.raises(Unreachable, match="is larger than 5000 bytes"):
        await client.list(CONFIG_MAPS)
    assert [request.query["limit"] for request in server.requests] == ["200", "20", "2", "1"]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"half":', b""])
async def test_response_that_is_not_a_json_object_is_unreachable(
    server: ScriptedServer, client: Client, body: bytes
) -> None:
    async def nonsense(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    server.plays(nonsense)
    with pytest.raises(Unreachable, match="is not a JSON object"):
        await client.get(CONFIG_MAPS, "x", "a")


async def test_redirect_is_not_followed(server: ScriptedServer, client: Client) -> None:
    server.plays(says({}, 302, Location="https://elsewhere.example/"))

    with pytest.raises(ApiError, match="302 UnexpectedAnswer"):
        await client.get(CONFIG_MAPS, "x", "a")
    assert len(server.requests) == 1


async def test_server_that_is_not_there_is_unreachable(pool: Pool, retries: RetryPolicy) -> None:
    client = Client(Connection("http://127.0.0.1:1"), pool, retries=retries)

    with pytest.raises(Unreachable, match=r"get /version: 127\.0\.0\.1:1 cannot be reached: Connection refused"):
        await client.version()


async def test_closed_client_sends_nothing(server: ScriptedServer, client: Client) -> None:
    server.plays(says({}))
    await client.close()

    with pytest.raises(Unreachable, match="is closed"):
        await client.get(CONFIG_MAPS, "x", "a")
    assert server.requests == []


async def test_expired_continue_token_begins_the_list_again_once(server: ScriptedServer, client: Client) -> None:
    first = says({"metadata": {"continue": "next", "resourceVersion": "1"}, "items": [{"metadata": {"name": "old"}}]})
    gone = refuses(410, "Expired")
    whole = says({"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "new"}}]})
    server.plays(first, gone, whole)

    listing = await client.list(CONFIG_MAPS)

    assert [item["metadata"]["name"] for item in listing.items] == ["new"]
    assert listing.resource_version == "9"
    assert [request.query.get("continue") for request in server.requests] == [None, "next", None]


async def test_value_that_json_cannot_encode_is_a_spec_error(client: Client) -> None:
    with pytest.raises(SpecError, match="apply ConfigMap a/x: cannot be encoded as JSON"):
        await client.apply(CONFIG_MAPS, {**OBJECT, "data": {"a": object()}}, manager="m")


async def test_failed_precondition_is_a_conflict_without_fields(server: ScriptedServer, client: Client) -> None:
    server.plays(refuses(409, "Conflict", "the UID in the precondition does not match"))

    with pytest.raises(Conflict) as caught:
        await client.delete(CONFIG_MAPS, "x", "a", uid="1")
    assert caught.value.conflicts == ()


async def test_emulated_version_counts(server: ScriptedServer, client: Client) -> None:
    plain = {"major": "1", "minor": "36+", "gitVersion": "v1.36.3"}
    server.plays(says({**plain, "emulationMajor": "1", "emulationMinor": "35"}), says(plain))

    assert str((await client.version()).minor) == "1.35"
    assert str((await client.version()).minor) == "1.36"


async def test_keys_are_read_page_by_page_until_the_limit_and_only_from_metadata(
    server: ScriptedServer, client: Client
) -> None:
    def page(*names: str, token: str = "") -> Answer:
        items = [{"metadata": {"namespace": "a", "name": name}} for name in names]
        return says({"metadata": {"continue": token}, "items": items})

    server.plays(page("x", "y", token="1"), page("z", token="2"), page("never"))

    assert await client.list_keys(CONFIG_MAPS, limit=3) == [("a", "x"), ("a", "y"), ("a", "z")]
    assert [one.query.get("continue", "") for one in server.requests] == ["", "1"]
    assert all("PartialObjectMetadataList" in one.headers["Accept"] for one in server.requests)


async def test_keys_of_a_server_whose_pages_never_end_are_read_up_to_the_bound(
    server: ScriptedServer, pool: Pool
) -> None:
    client = Client(Connection(server.url), pool, bounds=Bounds(list_pages=3))
    server.plays(*(says({"metadata": {"continue": str(number)}, "items": []}) for number in range(5)))

    assert await client.list_keys(CONFIG_MAPS, limit=1000) == []
    assert len(server.requests) == 3
