"""The HTTP client of sources, charts and registries."""

from __future__ import annotations

import asyncio
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from yarl import URL

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http import client as releases_web
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import AnswerRefused, CredentialsRefused, NotThere, RateLimited, ServerUnavailable
from clusterstacks.net.http.messages import PIECE_BYTES
from clusterstacks.net.http.urls import is_loopback
from clusterstacks.net.kube.pki import Authority
from clusterstacks.net.retry import RetryPolicy
from tests.support.fakes.scripted_server import ScriptedServer, hangs_up, says

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.fakes.scripted_server import Answer

QUICK = RetryPolicy(pause=timedelta(milliseconds=1))


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer.started() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HTTPClient]:
    async with HTTPClient(retries=QUICK, environ={}) as client:
        yield client


def redirects(location: str) -> Answer:
    return says("", 302, Location=location)


async def test_small_document_is_read_completely(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(says({"a": 1}))
    document = await client.read(f"{server.url}/x", limit=100)
    assert (document.status, document.body) == (200, b'{"a":1}')


async def test_response_above_the_limit_is_rejected(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(says("a" * 2000))
    with pytest.raises(AnswerRefused, match="more than the 1000 bytes"):
        await client.read(f"{server.url}/x", limit=1000)


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotThere), (401, CredentialsRefused), (403, CredentialsRefused), (418, AnswerRefused)],
)
async def test_error_statuses_have_their_own_exceptions(
    server: ScriptedServer, client: HTTPClient, status: int, error: type[Exception]
) -> None:
    server.plays(says("", status))
    with pytest.raises(error, match=f"{server.url}/x "):
        await client.read(f"{server.url}/x?signature=secret", limit=100)
    assert len(server.requests) == 1


@pytest.mark.parametrize("trouble", [says("", 503), says("", 429), says("", 500), hangs_up])
async def test_transient_failure_is_retried(server: ScriptedServer, client: HTTPClient, trouble: Answer) -> None:
    server.plays(trouble, trouble, says("there"))
    assert (await client.read(server.url, limit=100)).body == b'"there"'
    assert len(server.requests) == 3


async def test_unavailable_server_is_named_with_the_cause(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(says("", 503))
    with pytest.raises(ServerUnavailable, match=r"/x is not available: it responds with status 503"):
        await client.read(f"{server.url}/x", limit=100)
    assert len(server.requests) == QUICK.attempts


async def test_retries_are_reported_with_their_cause(server: ScriptedServer) -> None:
    server.plays(says("", 503), hangs_up, says("there"))
    told: list[str] = []
    async with HTTPClient(retries=QUICK, environ={}, report=told.append) as client:
        await client.read(f"{server.url}/x?signature=secret", limit=100)
    assert [line.startswith(f"{URL(server.url).origin()}: ") and line.endswith("; retrying") for line in told] == [
        True
    ] * 2


async def test_retry_after_of_the_server_is_respected(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(says("", 429, **{"Retry-After": "3600"}))
    with pytest.raises(RateLimited, match="retry in 1:00:00") as limited:
        await client.read(server.url, limit=100)
    assert limited.value.wait == timedelta(hours=1)
    assert len(server.requests) == 1


async def test_write_is_not_repeated_after_a_broken_connection(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(hangs_up, says("twice"))
    with pytest.raises(ServerUnavailable):
        async with client.open("POST", server.url, body=b"x"):
            pass
    assert len(server.requests) == 1


async def test_streamed_body_is_generated_again_for_a_retry(server: ScriptedServer, client: HTTPClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one ", b"two"):
            yield piece

    server.plays(says("", 429), says("done"))
    async with client.open("PUT", server.url, body=pieces, length=7) as answer:
        assert answer.status == 200
    assert server.bodies == [b"one two", b"one two"]
    assert server.requests[0].headers["Content-Length"] == "7"


async def test_large_body_is_sent_in_chunks(server: ScriptedServer, client: HTTPClient) -> None:
    body = b"x" * (3 * PIECE_BYTES + 1)
    server.plays(says("done"))
    async with client.open("PUT", server.url, body=body) as answer:
        assert answer.status == 200
    assert server.bodies == [body]


async def test_server_that_does_not_read_the_body_times_out(
    client: HTTPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases_web, "IDLE_TIMEOUT", timedelta(seconds=0.2))
    done = asyncio.Event()

    async def frozen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    listener = await asyncio.start_server(frozen, "127.0.0.1", 0, limit=1024)
    port = listener.sockets[0].getsockname()[1]
    try:
        with pytest.raises(ServerUnavailable, match="did not respond in time"):
            async with client.open("PUT", f"http://127.0.0.1:{port}/", body=b"x" * 64 * 1024 * 1024):
                pass
    finally:
        done.set()
        listener.close()
        await listener.wait_closed()


async def test_credentials_are_kept_only_on_redirects_to_the_same_server(
    server: ScriptedServer, client: HTTPClient
) -> None:
    async with ScriptedServer.started() as other:
        server.plays(redirects("/moved"), redirects(f"{other.url}/storage?signature=x"))
        other.plays(says("content"))
        headers = {"Authorization": "Bearer secret"}
        assert (await client.read(f"{server.url}/x", limit=100, headers=headers)).body == b'"content"'
        assert [request.headers.get("Authorization") for request in server.requests] == ["Bearer secret"] * 2
        assert "Authorization" not in other.requests[0].headers


async def test_redirects_can_be_disabled(server: ScriptedServer, client: HTTPClient) -> None:
    def only_here(url: str) -> None:
        raise SpecError("Elsewhere", url)

    server.plays(redirects("http://127.0.0.1:1/other"))
    with pytest.raises(SpecError, match=r"127\.0\.0\.1:1/other"):
        async with client.open("GET", server.url, check=only_here):
            pass


async def test_redirect_loop_ends_with_an_error(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(redirects("/x"))
    with pytest.raises(ServerUnavailable, match="more than 5 times"):
        await client.read(f"{server.url}/x", limit=100)


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest",
        "http://[::ffff:169.254.169.254]/",
        "http://0xa9fea9fe/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "mailto:somebody",
        "http://",
        "gopher://127.0.0.1/",
        "http://a..b/",
        f"http://{'a' * 64}.example/",
    ],
)
async def test_unsafe_redirect_target_is_not_followed(server: ScriptedServer, target: str) -> None:
    async with HTTPClient(retries=QUICK, plain_http=True, environ={}) as client:
        server.plays(redirects(target))
        with pytest.raises((ServerUnavailable, SpecError)):
            await client.read(server.url, limit=100)


@pytest.mark.parametrize(
    "url", ["http://registry.example/", "ftp://127.0.0.1/", "no url", "http://user:secret@127.0.0.1/", "http://[::1"]
)
async def test_unsafe_url_is_rejected(client: HTTPClient, url: str) -> None:
    with pytest.raises(SpecError) as refused:
        await client.read(url, limit=100)
    assert "secret" not in refused.value.message


async def test_unknown_host_name_is_reported(client: HTTPClient) -> None:
    with pytest.raises(ServerUnavailable, match="its host name cannot be resolved"):
        await client.read("https://nowhere.invalid/", limit=100)


async def test_truncated_response_is_an_error(server: ScriptedServer, client: HTTPClient) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    server.plays(half)
    with pytest.raises(ServerUnavailable, match="the response was incomplete"):
        await client.read(server.url, limit=2000)


@pytest.mark.regression("D78")
async def test_private_ca_is_trusted_when_it_is_configured(tmp_path: Path) -> None:
    authority = Authority.create("test")
    pair = authority.issue("server", addresses=["127.0.0.1"])
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair.pem")

    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    application = web.Application()
    application.router.add_get("/", hello)
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        async with HTTPClient(ca=authority.certificate.decode(), retries=QUICK, environ={}) as client:
            assert (await client.read(url, limit=100)).body == b"hello"
        async with HTTPClient(retries=RetryPolicy(attempts=1), environ={}) as client:
            with pytest.raises(ServerUnavailable, match=r"certificate is not trusted .* configure its CA"):
                await client.read(url, limit=100)
        async with HTTPClient(plain_http=True, retries=RetryPolicy(attempts=1), environ={}) as client:
            with pytest.raises(ServerUnavailable):
                await client.read(url.replace("https", "http"), limit=100)
    finally:
        await runner.cleanup()


def test_invalid_ca_is_rejected_at_once() -> None:
    with pytest.raises(SpecError, match="contains no PEM certificate"):
        HTTPClient(ca="-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")


@pytest.mark.regression("D78")
async def test_requests_use_the_proxy_of_the_environment(server: ScriptedServer) -> None:
    server.plays(says("through the proxy"))
    proxies = {"HTTP_PROXY": server.url}
    async with HTTPClient(plain_http=True, retries=QUICK, environ=proxies) as client:
        assert (await client.read("http://releases.invalid/x", limit=100)).body == b'"through the proxy"'
    assert server.requests[0].headers["Host"] == "releases.invalid"


@pytest.mark.parametrize(
    "asked", ["9" * 5000, "Wed, 21 Oct 9999 07:28:00 GMT", "Wed, 21 Oct 2099 07:28:00 -9959999999"]
)
async def test_retry_after_is_limited_to_one_hour(server: ScriptedServer, client: HTTPClient, asked: str) -> None:
    server.plays(says("", 429, **{"Retry-After": asked}))
    with pytest.raises(RateLimited) as limited:
        await client.read(server.url, limit=100)
    assert limited.value.wait <= timedelta(hours=1)


async def test_header_with_a_line_break_is_rejected_without_quoting_it(
    server: ScriptedServer, client: HTTPClient
) -> None:
    with pytest.raises(SpecError, match="Authorization contains an invisible character") as refused:
        await client.read(server.url, limit=100, headers={"Authorization": "Bearer secret\nx: y"})
    assert "secret" not in refused.value.message


async def test_content_encoding_is_not_decoded(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(says("packed", 200, **{"Content-Encoding": "gzip"}))
    assert (await client.read(server.url, limit=100)).body == b'"packed"'


async def test_server_sending_too_slowly_times_out(
    server: ScriptedServer, client: HTTPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases_web, "DOCUMENT_DEADLINE", timedelta(seconds=0.2))

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.01)

    server.plays(drip)
    with pytest.raises(ServerUnavailable, match="did not respond in time"):
        await client.read(server.url, limit=10_000)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost./",
        "http://127.1/",
        "http://2130706433/",
        "http://[::ffff:127.0.0.1]/",
        "http://0.0.0.0/",
        "http://[::]/",
    ],
)
def test_every_spelling_of_the_loopback_address_is_recognized(url: str) -> None:
    assert is_loopback(URL(url))


async def test_percent_encoding_of_signed_urls_is_preserved(server: ScriptedServer, client: HTTPClient) -> None:
    server.plays(redirects(f"{server.url}/a%2Fb?sig=x%2Fy%20z&n=%7E"), says("there"))
    assert (await client.read(f"{server.url}/c%2Fd?sig=%7E", limit=100)).body == b'"there"'
    assert [request.raw_path for request in server.requests] == ["/c%2Fd?sig=%7E", "/a%2Fb?sig=x%2Fy%20z&n=%7E"]
