"""The attackers of ``benchmarks.hostile``, in processes of their own: ``python -m benchmarks.attackers``.

``clusters DIRECTORY`` serves hostile workload clusters with a certificate of ``DIRECTORY/ca.pem``, and prints two
ports and the words for ``MODE``. The first port serves a cluster for each path ``/MODE-NUMBER``: those with an even
number misbehave from their first request, the others after ``/readyz`` and discovery. The second one accepts
connections without a handshake.
``webhooks PORT`` holds connections to the webhooks, until it is ended. All run at the lowest priority: the machines of
attackers are their own.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import ssl
import sys
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvloop
from aiohttp import web

from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRET_TYPE
from clusterstacks.net.kube.pki import Authority
from clusterstacks.operator.webhooks.configuration import PATH
from clusterstacks.operator.webhooks.server import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
    Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]

PIECE: Final = b'{"metadata":{"name":"x"},"pad":[[],[],[],[]]},' * 2000
HEAD: Final = b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
PAUSE_SECONDS: Final = 0.05
"""Pause before a connection that was closed is opened again."""


def streams(*pieces: bytes, last: bytes = b"", seconds: float = 0) -> Answer:
    """Send some pieces, and the last one for ever."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with suppress(ConnectionError):
            await response.prepare(request)
            for piece in chain(pieces, repeat(last) if last else ()):
                if request.transport is None or request.transport.is_closing():
                    break
                await response.write(piece)
                await asyncio.sleep(seconds)
        return response

    return answer


def says(body: bytes, headers: Mapping[str, str], status: int = 200) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers={"Content-Type": "application/json", **headers})

    return answer


async def is_silent(_request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def refusal(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "try again at once"}
    return json.dumps({**status, "details": {"retryAfterSeconds": 0}}).encode()


def records() -> bytes:
    """Return a list of delivery records that unpack to 30 MB each."""
    bomb = gzip.compress(b'{"pad":[' + b",".join([b"[]"] * 10_000_000) + b"]}", 9)
    data = {"record": base64.b64encode(bomb).decode()}
    items = [
        {
            "metadata": {"name": f"cluster-stack-addon-{number}", "labels": {RECORD_LABEL: "addon"}},
            "type": SECRET_TYPE,
            "data": data,
        }
        for number in range(6)
    ]
    return json.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}).encode()


def modes() -> dict[str, Answer]:
    """Return how clusters misbehave, by the word in their names."""
    return {
        "silent": is_silent,
        "drip": streams(last=b" ", seconds=1),
        "endless": streams(HEAD, last=PIECE),
        "huge": streams(HEAD, *[PIECE] * 700, b"{}]}"),
        "bomb": says(gzip.compress(HEAD + PIECE * 700 + b"{}]}", 9), {"Content-Encoding": "gzip"}),
        "nested": says(HEAD + b'{"pad":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", {}),
        "pages": says(b'{"kind":"List","metadata":{"resourceVersion":"1","continue":"more"},"items":[]}', {}),
        "records": says(records(), {}),
        "throttled": says(refusal(429, "TooManyRequests"), {"Retry-After": "0"}, 429),
        "failing": says(refusal(503, "ServiceUnavailable"), {"Retry-After": "0"}, 503),
        "redirect": says(b"", {"Location": "https://169.254.169.254/latest/meta-data/"}, 302),
        "reset": hangs_up,
    }


def discovery(path: str) -> web.Response:
    kinds = {"Secret": "secrets", "ConfigMap": "configmaps", "Namespace": "namespaces"} if path == "/api" else {}
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": "", "version": "v1", "kind": kind},
            "scope": "Cluster" if kind == "Namespace" else "Namespaced",
            "verbs": ["get", "list", "watch", "patch", "create", "delete"],
        }
        for kind, plural in kinds.items()
    ]
    versions = [{"version": "v1", "resources": resources, "freshness": "Current"}]
    items = [{"metadata": {"name": ""}, "versions": versions}] if resources else []
    document = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
    content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    return web.Response(body=json.dumps(document).encode(), headers={"Content-Type": content_type})


async def answer(request: web.Request, by_mode: Mapping[str, Answer]) -> web.StreamResponse:
    _, cluster, path = request.path.split("/", 2)
    mode, number = cluster.split("-")
    if int(number) % 2:
        if path == "readyz":
            return web.Response(text="ok")
        if path in {"api", "apis"}:
            return discovery(f"/{path}")
    return await by_mode[mode](request)


async def serve_clusters(directory: Path) -> None:
    authority = Authority.create("hostile")
    pair = authority.issue("api-server", addresses=("127.0.0.1",))
    (directory / "ca.pem").write_bytes(authority.certificate)
    (directory / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    application = web.Application()
    by_mode = modes()
    application.router.add_route("*", "/{path:.*}", partial(answer, by_mode=by_mode))
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    mute = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    print(runner.addresses[0][1], mute.sockets[0].getsockname()[1], *by_mode, flush=True)
    await asyncio.Event().wait()


def request_of(body: bytes) -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


REVIEW: Final = request_of(
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
    b'"kind":{"group":"","kind":"Any"},"object":{}}}'
)
LARGE: Final = request_of(b'{"x":[' + b"[]," * (MAX_BYTES // 3 - 8) + b"[]]}")


async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be idle, but for a review a minute."""
    while True:
        writer.write(REVIEW)
        await reader.readuntil(b"}}")
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 60)


async def send_slowly(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in REVIEW:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def send_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def send_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(LARGE)
    await reader.read()


FLOOD: Final[tuple[tuple[int, Client, bool], ...]] = (
    (512, keep, True),
    (64, send_slowly, True),
    (64, send_nothing, False),
    (16, send_large, True),
)
"""Connections to the webhooks: how many, what they do, and whether they do a handshake."""


async def hold(port: int, address: str, client: Client, *, tls: bool) -> None:
    """Hold a connection, which is opened again when it is closed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context if tls else None, local_addr=(address, 0)
            )
            try:
                await client(reader, writer)
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE_SECONDS)


async def hold_webhooks(port: int) -> None:
    async with asyncio.TaskGroup() as group:
        for count, client, tls in FLOOD:
            for number in range(count):
                group.create_task(hold(port, f"127.0.0.{2 + number % 8}", client, tls=tls))


def main() -> None:
    os.nice(19)
    what, where = sys.argv[1:]
    attack = serve_clusters(Path(where)) if what == "clusters" else hold_webhooks(int(where))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(attack)


if __name__ == "__main__":
    main()
