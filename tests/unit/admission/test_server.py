"""The server by itself: TLS, bounds, and that nothing of the inside is told outside."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import aiohttp
import pytest

from clusterstacks.admission import server as module
from clusterstacks.admission.certificates import Serving, made
from clusterstacks.admission.server import MAX_BYTES, PATH, WebhookServer
from clusterstacks.domain.admission.answers import Answer
from clusterstacks.kube.errors import Unreachable
from clusterstacks.kube.tls import serve_with, server_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.admission.reviews import Review

NAMES = ("127.0.0.1",)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u1", "operation": "CREATE", "kind": {"group": "", "kind": "Any"}, "object": {}},
}


class Says:
    """Answers with what it was given, or fails with it."""

    def __init__(self, what: Answer | Exception | float) -> None:
        self.what = what

    async def judge(self, review: Review) -> Answer:
        assert review.uid == "u1"
        if isinstance(self.what, Exception):
            raise self.what
        if isinstance(self.what, float):
            await asyncio.sleep(self.what)
            return Answer()
        return self.what


def serving() -> Serving:
    return made(NAMES, timedelta(hours=1), datetime.now(UTC))


@asynccontextmanager
async def running(what: Answer | Exception | float, pair: Serving) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    context = server_context()
    serve_with(context, pair.certificate, pair.key)
    server = WebhookServer("127.0.0.1", 0, context, Says(what))
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
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(pair))) as session,
        session.post(url, data=io.BytesIO(body)) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_question_is_answered_over_tls_that_the_bundle_trusts() -> None:
    pair = serving()
    async with running(Answer("no"), pair) as (url, _):
        status, body = await post(url, pair, json.dumps(REVIEW).encode())

    assert status == 200
    assert json.loads(body)["response"]["status"]["message"] == "no"


@pytest.mark.parametrize(
    ("what", "body", "status"),
    [
        (Answer(), b"nonsense", 400),
        (Answer(), b"x" * (MAX_BYTES + 1), 413),
        (Unreachable("the API server is away"), json.dumps(REVIEW).encode(), 503),
        (RuntimeError("secret-token"), json.dumps(REVIEW).encode(), 500),
    ],
)
async def test_what_cannot_be_answered_is_told_by_a_status_and_tells_no_secret(
    what: Answer | Exception, body: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    pair = serving()
    async with running(what, pair) as (url, _):
        found = await post(url, pair, body)

    assert found[0] == status
    assert "secret-token" not in found[1]


async def test_an_answer_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE", timedelta(milliseconds=50))
    pair = serving()
    async with running(60.0, pair) as (url, _):
        assert (await post(url, pair, json.dumps(REVIEW).encode()))[0] == 504


async def test_a_new_certificate_counts_for_new_connections_and_breaks_none_that_is_open() -> None:
    old, new = serving(), serving()
    body = json.dumps(REVIEW).encode()
    async with (
        running(Answer(), old) as (url, context),
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
