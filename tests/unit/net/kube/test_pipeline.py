"""Reads that are sent together over one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection, DataOrFile, User
from clusterstacks.net.kube.limits import Bounds
from clusterstacks.net.kube.paged_list import ListRequest
from clusterstacks.net.kube.resources import Resource
from tests.support.fakes.scripted_server import hangs_up, refuses, says

if TYPE_CHECKING:
    from clusterstacks.net.pool import Pool
    from tests.support.fakes.scripted_server import Answer, ScriptedServer

KINDS = ("configmaps", "secrets", "services", "pods")


def lists(*plurals: str) -> list[ListRequest]:
    return [ListRequest(Resource("", "v1", "Kind", plural, namespaced=True)) for plural in plurals]


async def echoes(request: web.Request) -> web.StreamResponse:
    """Respond with the path."""
    return web.Response(body=request.path.encode())


async def echoes_in_chunks(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for character in request.path:
        await response.write(character.encode())
    await response.write_eof()
    return response


async def echoes_and_closes(request: web.Request) -> web.StreamResponse:
    response = web.Response(body=request.path.encode())
    response.force_close()
    return response


def body(plural: str) -> bytes:
    return f"/api/v1/{plural}".encode()


async def test_the_responses_come_in_the_order_of_the_reads_over_one_connection(
    server: ScriptedServer, client: Client
) -> None:
    server.plays(echoes, echoes_in_chunks, echoes)

    for _ in range(2):
        assert await client.first_pages(lists(*KINDS)) == [body(plural) for plural in KINDS]

    assert len(server.requests) == 2 * len(KINDS)
    assert len({request.transport for request in server.requests}) == 1


FIRST, SECOND, THIRD, FOURTH = map(body, KINDS)
FAULTS: dict[str, tuple[tuple[Answer, ...], list[bytes | None]]] = {
    "refused": ((echoes, refuses(403, "Forbidden"), echoes), [FIRST, None, THIRD, FOURTH]),
    "expired": ((echoes, refuses(410, "Expired"), echoes), [FIRST, None, THIRD, FOURTH]),
    "hung up": ((echoes, echoes, hangs_up, echoes), [FIRST, SECOND, None, None]),
    "closed in order": ((echoes, echoes_and_closes, echoes), [FIRST, SECOND, None, None]),
    "too large": ((echoes, says("x" * 1000), echoes), [FIRST, None, None, None]),
}


@pytest.mark.parametrize(("script", "expected"), FAULTS.values(), ids=FAULTS)
async def test_a_read_without_a_good_response_is_left_to_be_sent_again(
    server: ScriptedServer, pool: Pool, script: tuple[Answer, ...], expected: list[bytes | None]
) -> None:
    client = Client(Connection(server.url), pool, bounds=Bounds(response_bytes=500))
    server.plays(*script)

    assert await client.first_pages(lists(*KINDS)) == expected

    server.plays(echoes)
    assert await client.first_pages(lists(*KINDS)) == [FIRST, SECOND, THIRD, FOURTH]


async def test_a_server_that_is_not_there_and_a_closed_client_have_no_responses(
    server: ScriptedServer, client: Client, pool: Pool
) -> None:
    absent = Client(Connection("http://127.0.0.1:1"), pool)
    assert await absent.first_pages(lists(*KINDS)) == [None] * len(KINDS)

    await client.close()
    assert await client.first_pages(lists(*KINDS)) == [None] * len(KINDS)
    assert server.requests == []


async def test_names_of_a_hostile_server_and_headers_cannot_add_a_request(server: ScriptedServer, pool: Pool) -> None:
    server.plays(echoes)
    client = Client(Connection(server.url), pool)
    for plural in ("x HTTP/1.1\r\nHost: other", "a b", "a\tb", "ä"):
        assert await client.first_pages(lists("pods", plural)) == [None, None]

    user = User(token=DataOrFile(b"t"), impersonation=(("Impersonate-User", "one\r\nX: y"),))
    with pytest.raises(ValueError, match=r"(?i)newline|control|header"):
        await Client(Connection(server.url, user=user), pool).get(lists("pods")[0].resource, "x", "a")
    assert await Client(Connection(server.url, user=user), pool).first_pages(lists("pods")) == [None]
    assert server.requests == []


async def test_the_reads_carry_the_credentials(server: ScriptedServer, pool: Pool) -> None:
    server.plays(echoes)
    user = User(token=DataOrFile(b"secret"), impersonation=(("Impersonate-User", "ann"),))

    await Client(Connection(server.url, user=user), pool).first_pages(lists("pods", "secrets"))

    for request in server.requests:
        assert request.headers["Authorization"] == "Bearer secret"
        assert request.headers["Impersonate-User"] == "ann"
        assert request.headers["User-Agent"] == "cluster-stacks"
        assert request.headers["Host"] == server.url.removeprefix("http://")
        assert request.headers.getall("Accept") == ["application/json"]
