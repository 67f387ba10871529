"""The webhook server: TLS, limits, and responses without internal details."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.tls import serve_with, server_context
from clusterstacks.operator.webhooks import server as module
from clusterstacks.operator.webhooks.answers import AdmissionResponse
from clusterstacks.operator.webhooks.certificates import Serving, create_serving
from clusterstacks.operator.webhooks.configuration import PATH
from clusterstacks.operator.webhooks.reviews import MAX_VALUES
from clusterstacks.operator.webhooks.server import MAX_BYTES, SMALL_BYTES, SharedBudget, TooManyRequests, WebhookServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from clusterstacks.operator.webhooks.reviews import AdmissionRequest

NAMES = ("127.0.0.1",)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u1", "operation": "CREATE", "kind": {"group": "", "kind": "Any"}, "object": {}},
}


class Says:
    """Answers with what it was given, or fails with it."""

    def __init__(self, what: AdmissionResponse | Exception | float) -> None:
        self.what = what

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        assert request.uid == "u1"
        if isinstance(self.what, Exception):
            raise self.what
        if isinstance(self.what, float):
            await asyncio.sleep(self.what)
            return AdmissionResponse()
        return self.what


def serving() -> Serving:
    return create_serving(NAMES, timedelta(hours=1), datetime.now(UTC))


@asynccontextmanager
async def running(
    what: AdmissionResponse | Exception | float, pair: Serving, observed: list[tuple[str, int]] | None = None
) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    def observe(kind: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        if observed is not None:
            observed.append((kind, code))

    context = server_context()
    serve_with(context, pair.certificate, pair.key)
    server = WebhookServer("127.0.0.1", 0, context, Says(what).validate, observe)
    task = asyncio.create_task(server.run())
    await server.started.wait()
    try:
        yield f"https://127.0.0.1:{server.port}{PATH}", context
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def trusting(pair: Serving) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=pair.authorities.decode())


async def post(url: str, pair: Serving, body: bytes) -> tuple[int, str]:
    status, text, _ = await posted(url, pair, body)
    return status, text


async def posted(url: str, pair: Serving, body: bytes, **headers: str) -> tuple[int, str, Mapping[str, str]]:
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(pair))) as session,
        session.post(url, data=io.BytesIO(body), headers=headers) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


async def test_review_is_answered_over_tls_trusted_by_the_ca_bundle() -> None:
    pair = serving()
    observed: list[tuple[str, int]] = []
    async with running(AdmissionResponse("no"), pair, observed) as (url, _):
        status, body = await post(url, pair, json.dumps(REVIEW).encode())

    assert status == 200
    assert observed == [("Any", 200)]
    assert json.loads(body)["response"]["status"]["message"] == "no"


@pytest.mark.parametrize(
    ("what", "body", "status"),
    [
        (AdmissionResponse(), b"nonsense", 400),
        (AdmissionResponse(), b"x" * (MAX_BYTES + 1), 413),
        (Unreachable("the API server is away"), json.dumps(REVIEW).encode(), 503),
        (RuntimeError("secret-token"), json.dumps(REVIEW).encode(), 500),
    ],
)
async def test_failed_review_is_answered_by_a_status_without_details(
    what: AdmissionResponse | Exception, body: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    pair = serving()
    async with running(what, pair) as (url, _):
        found = await post(url, pair, body)

    assert found[0] == status
    assert "secret-token" not in found[1]


async def test_slow_validation_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE", timedelta(milliseconds=50))
    pair = serving()
    async with running(60.0, pair) as (url, _):
        assert (await post(url, pair, json.dumps(REVIEW).encode()))[0] == 504


async def test_renewed_certificate_is_used_for_new_connections_only() -> None:
    old, new = serving(), serving()
    body = json.dumps(REVIEW).encode()
    async with (
        running(AdmissionResponse(), old) as (url, context),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(old))) as session,
    ):
        async with session.post(url, data=body) as answer:
            assert answer.status == 200
        serve_with(context, new.certificate, new.key)

        async with session.post(url, data=body) as answer:  # the connection that is open
            assert answer.status == 200
        assert (await post(url, new, body))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(url, old, body)


# Bounds


def question(thing: bytes) -> bytes:
    """Write a question about a Cluster as the API server writes it."""
    return (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u1","kind":{"group":'
        b'"cluster.x-k8s.io","version":"v1beta2","kind":"Cluster"},"name":"one","namespace":"team","operation":'
        b'"CREATE","userInfo":{"username":"x"},"object":{"spec":' + thing + b'},"oldObject":null}}'
    )


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (b"[" * 2000 + b"]" * 2000, "nested deeper than 1024 levels"),
        (b"[" + b"[]," * MAX_VALUES + b"[]]", "more than 100,000 values"),
        (b'"' + b"x" * MAX_BYTES + b'"', "more than 8 MiB"),
        (b"[1e999]", "not JSON"),
    ],
)
async def test_undecoded_review_is_denied(thing: bytes, words: str) -> None:
    pair = serving()
    async with running(AdmissionResponse(), pair) as (url, _):
        status, body = await post(url, pair, question(thing))

    response = json.loads(body)["response"]
    assert (status, response["uid"], response["allowed"]) == (200, "u1", False)
    assert response["status"]["message"].startswith("Cluster team/one cannot be validated: ")
    assert words in response["status"]["message"]


@pytest.mark.parametrize(
    "thing", [b'"' + b"x" * 3_000_000 + b'"', b'"' + b"a,b" * 500_000 + b'"', b"[" + b"1," * 90_000 + b"1]"]
)
async def test_review_with_large_objects_is_answered(thing: bytes) -> None:
    pair = serving()
    async with running(AdmissionResponse(), pair) as (url, _):
        status, body = await post(url, pair, question(thing))

    assert (status, json.loads(body)["response"]["allowed"]) == (200, True)


async def test_body_with_an_excessive_content_length_is_rejected_at_once() -> None:
    pair = serving()
    async with running(AdmissionResponse(), pair) as (url, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(url), ssl=trusting(pair))
        begin = question(b'"' + b"x" * 8192)
        writer.write(_head(MAX_BYTES + 1) + begin)
        answer = await reader.readuntil(b"make it smaller")
        writer.transport.abort()

    assert answer.startswith(b"HTTP/1.1 200")


async def test_compressed_body_is_not_decompressed() -> None:
    pair = serving()
    async with running(AdmissionResponse(), pair) as (url, _):
        headers = {"Content-Encoding": "gzip"}
        status, _, _ = await posted(url, pair, gzip.compress(json.dumps(REVIEW).encode()), **headers)

    assert status == 400


@pytest.mark.parametrize("size", [10, SMALL_BYTES + 10_000])
async def test_stalled_body_does_not_delay_other_reviews(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE", timedelta(seconds=0.3))
    monkeypatch.setattr(module, "BYTES_AT_A_TIME", MAX_BYTES)
    pair = serving()
    async with running(AdmissionResponse(), pair) as (url, _):
        slow = [await asyncio.open_connection("127.0.0.1", _port(url), ssl=trusting(pair)) for _ in range(8)]
        for _, writer in slow:
            writer.write(_head(MAX_BYTES) + b"x" * size)

        assert (await post(url, pair, json.dumps(REVIEW).encode()))[0] == 200
        for reader, writer in slow:
            assert b" 504 " in await reader.readline()
            writer.transport.abort()
        assert (await post(url, pair, question(b'"' + b"x" * 1_000_000 + b'"')))[0] == 200


async def test_full_queue_answers_with_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALUES_AT_A_TIME", 20)
    monkeypatch.setattr(module, "SharedBudget", lambda size: SharedBudget(size, 0))
    pair = serving()
    async with running(0.3, pair) as (url, _):
        body = json.dumps(REVIEW).encode()
        answers = await asyncio.gather(*(posted(url, pair, body) for _ in range(3)))

    assert sorted(status for status, _, _ in answers) == [200, 429, 429]
    assert {headers.get("Retry-After") for status, _, headers in answers if status == 429} == {"1"}


async def test_disconnected_client_releases_its_memory_budget(caplog: pytest.LogCaptureFixture) -> None:
    pair = serving()
    async with running(AdmissionResponse(), pair) as (url, _):
        for rest in (_head(1000) + b"x", _head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"zz"):
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(url), ssl=trusting(pair))
            writer.write(rest + b"\r\n\r\n")
            await writer.drain()
            writer.transport.abort()
            del reader
        assert (await post(url, pair, json.dumps(REVIEW).encode()))[0] == 200

    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def _port(url: str) -> int:
    return int(url.removesuffix(PATH).rpartition(":")[2])


def _head(length: int) -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


async def test_released_budget_goes_to_the_first_waiter() -> None:
    room, order = SharedBudget(10), []

    async def hold(name: str, amount: int) -> None:
        async with room.taken(amount):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(hold("a", 8), hold("b", 5), hold("c", 1), hold("d", 9))

    assert order == ["a", "b", "c", "d"]


async def test_waiter_that_times_out_leaves_the_queue() -> None:
    room = SharedBudget(10, waiting=1)
    async with room.taken(10):
        waiting = asyncio.create_task(_once(room, 10))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await _once(room, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        later = asyncio.create_task(_once(room, 10))
        await asyncio.sleep(0)
    await later


@given(st.lists(st.tuples(st.integers(1, 10), st.booleans()), max_size=30))
def test_budget_is_neither_lost_nor_assigned_twice(questions: list[tuple[int, bool]]) -> None:
    asyncio.run(_ask_all(SharedBudget(10), questions))


async def _ask_all(room: SharedBudget, questions: list[tuple[int, bool]]) -> None:
    held = 0

    async def one(amount: int) -> None:
        nonlocal held
        async with room.taken(amount):
            held += amount
            try:
                assert held <= 10
                for _ in range(amount % 4):
                    await asyncio.sleep(0)
            finally:
                held -= amount

    tasks = []
    for amount, cancelled in questions:
        tasks.append(asyncio.create_task(one(amount)))
        await asyncio.sleep(0)
        if cancelled:
            tasks[len(tasks) // 2].cancel()
    async with asyncio.timeout(60):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for found in ended:
        assert found is None or isinstance(found, asyncio.CancelledError)
    async with asyncio.timeout(60), room.taken(10):
        pass


async def _once(room: SharedBudget, amount: int) -> None:
    async with room.taken(amount):
        pass
