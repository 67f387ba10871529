"""Watch streams, split into lines from arbitrary chunks."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import Expired, Forbidden, TooMany, Unreachable
from clusterstacks.net.kube.limits import Bounds
from clusterstacks.net.kube.resources import Resource, WatchEvent
from clusterstacks.net.kube.watch import lines
from clusterstacks.net.retry import RequestBroken
from tests.support.fakes.scripted_server import refuses

if TYPE_CHECKING:
    from clusterstacks.net.pool import Pool
    from tests.support.fakes.scripted_server import Answer, ScriptedServer

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


def event(of: str, **content: Any) -> bytes:
    return orjson.dumps({"type": of, "object": content}) + b"\n"


def streams(*pieces: bytes, abort: bool = False) -> Answer:
    """Send the pieces one by one, then end the stream or break the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if abort:
            assert request.transport is not None
            request.transport.close()
        return response

    return answer


async def collect(client: Client, into: list[WatchEvent] | None = None, **options: Any) -> list[WatchEvent]:
    """Watch to the end; what came before an error is in ``into``."""
    seen = [] if into is None else into
    async for one in client.watch(CONFIG_MAPS, "a", resource_version="7", **options):
        seen.append(one)  # a comprehension loses them at an error
    return seen


async def test_asks_for_bookmarks_selection_and_an_end(server: ScriptedServer, client: Client) -> None:
    server.plays(streams(event("BOOKMARK", metadata={"resourceVersion": "8"})))

    events = await collect(client, labels="a=b", fields="metadata.name=c")

    assert events == [WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "8"}})]
    request = server.requests[0]
    assert request.path == "/api/v1/namespaces/a/configmaps"
    assert dict(request.query) == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "60",
        "labelSelector": "a=b",
        "fieldSelector": "metadata.name=c",
    }


async def test_event_of_several_megabytes_in_small_pieces_is_one_event(server: ScriptedServer, client: Client) -> None:
    large = event("ADDED", data="x" * 5_000_000)
    server.plays(streams(*(large[start : start + 100_000] for start in range(0, len(large), 100_000))))

    (seen,) = await collect(client)

    assert len(seen.object["data"]) == 5_000_000


@pytest.mark.regression("SEC-1")
async def test_an_event_over_the_limit_does_not_end_the_watch(server: ScriptedServer, pool: Pool) -> None:
    large = event("ADDED", data="x" * 2000)
    server.plays(streams(event("ADDED", a=1) + large[:1500], large[1500:] + event("ADDED", a=2)))
    client = Client(Connection(server.url), pool, bounds=Bounds(response_bytes=1000))

    assert await collect(client) == [
        WatchEvent("ADDED", {"a": 1}),
        WatchEvent("", {}, "is larger than 1000 bytes"),
        WatchEvent("ADDED", {"a": 2}),
    ]


def nested(levels: int, inner: str = "") -> str:
    return "[" * levels + inner + "]" * levels


METADATA = '{"name":"x","namespace":"a","resourceVersion":"9","uid":"u"}'
UNREADABLE = {
    "nested in spec": ('{"a":' + nested(1100) + "}", "", "is nested deeper than 1024 levels"),
    "nested in metadata": ('{"a":1}', nested(1100), "is nested deeper than 1024 levels"),
    "wide": ('{"a":' + nested(4, "[]," * 60_000 + "1") + "}", "", "has more than 100000 values"),
}


@pytest.mark.regression("SEC-1")
@pytest.mark.parametrize(("spec", "managed", "why"), UNREADABLE.values(), ids=UNREADABLE)
async def test_an_event_that_cannot_be_decoded_is_reported_and_does_not_end_the_watch(
    server: ScriptedServer, client: Client, spec: str, managed: str, why: str
) -> None:
    metadata = METADATA.replace("{", f'{{"managedFields":{managed},', 1) if managed else METADATA
    text = f'{{"type":"MODIFIED","object":{{"kind":"ConfigMap","metadata":{metadata},"spec":{spec}}}}}\n'
    server.plays(streams(event("ADDED", a=1), text.encode(), event("ADDED", a=2)))

    one, lost, two = await collect(client)

    assert (one.object, two.object) == ({"a": 1}, {"a": 2})
    assert (lost.type, lost.unreadable) == ("MODIFIED", why)
    assert orjson.loads(METADATA).items() <= lost.object["metadata"].items()


async def test_cut_off_last_line_is_a_broken_stream(server: ScriptedServer, client: Client) -> None:
    server.plays(streams(event("ADDED", a=1) + event("ADDED", a=2)[:-5]))
    seen: list[WatchEvent] = []

    with pytest.raises(Unreachable, match=r"watch ConfigMap in a: .* the stream ended in the middle of an event"):
        await collect(client, into=seen)
    assert [one.object for one in seen] == [{"a": 1}]


async def test_broken_connection_is_not_a_normal_end_of_the_watch(server: ScriptedServer, client: Client) -> None:
    server.plays(streams(event("ADDED", a=1), abort=True))

    with pytest.raises(Unreachable, match="cannot be reached: the connection was lost"):
        await collect(client)


async def test_idle_stream_is_broken(server: ScriptedServer, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await done.wait()
        return response

    server.plays(silent)
    monkeypatch.setattr("clusterstacks.net.kube.client.IDLE_TIMEOUT", timedelta(milliseconds=200))
    client = Client(Connection(server.url), pool)

    with pytest.raises(Unreachable, match=r"no data for 0\.2 s"):
        await collect(client)
    done.set()


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(410, "Expired", Expired), (410, "Gone", Expired), (403, "Forbidden", Forbidden), (500, "", Unreachable)],
)
async def test_error_in_the_stream_has_its_type(
    server: ScriptedServer, client: Client, code: int, reason: str, error: type[Exception]
) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "too old resource version: 7 (9)"}
    server.plays(streams(event("ADDED", a=1), event("ERROR", **status)))

    with pytest.raises(error, match=f"watch ConfigMap in a: {code} .*: too old resource version"):
        await collect(client)


@pytest.mark.parametrize("metadata_only", [False, True])
@pytest.mark.parametrize(
    "line", [b"no json\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"type": "ADDED", "object": "text"}\n', b"\n"]
)
async def test_line_that_is_not_an_event_breaks_the_watch(
    server: ScriptedServer, client: Client, line: bytes, *, metadata_only: bool
) -> None:
    server.plays(streams(line))

    with pytest.raises(Unreachable, match="a line that is not a watch event"):
        await collect(client, metadata_only=metadata_only)


async def test_rejected_watch_reports_the_reason(server: ScriptedServer, client: Client) -> None:
    server.plays(refuses(410, "Expired"))
    with pytest.raises(Expired):
        await collect(client)

    server.plays(refuses(429, "TooManyRequests"))
    with pytest.raises(TooMany):
        await collect(client)


async def test_bare_metadata_comes_under_the_real_kind(server: ScriptedServer, client: Client) -> None:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    server.plays(streams(event("ADDED", **partial)))

    (seen,) = await collect(client, metadata_only=True)

    assert seen.object == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}
    assert "as=PartialObjectMetadata" in server.requests[0].headers["Accept"]


class Pieces:
    """A response body in chunks; an empty chunk is its end."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.left = iter(pieces)

    async def readany(self) -> bytes:
        return next(self.left, b"")


@given(st.lists(st.binary(min_size=1, max_size=20)))
def test_lines_do_not_depend_on_the_pieces_of_the_stream(pieces: list[bytes]) -> None:
    found: list[bytes] = []

    async def cut() -> bool:
        try:
            async for line in lines(Pieces(pieces), timedelta(seconds=5), 10_000):  # type: ignore[arg-type]  # stands in
                assert line is not None
                found.append(line)
        except RequestBroken:
            return True
        return False

    *whole, rest = b"".join(pieces).split(b"\n")
    assert asyncio.run(cut()) == bool(rest)
    assert found == whole
