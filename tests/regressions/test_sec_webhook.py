"""SEC-6: clients of the webhook port block neither the operator nor reviews.

SEC-25: clients that hold connections do not keep the API server out.
SEC-23: the key of the webhooks is kept where users do not write, and metrics are served where they are wanted.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import uvloop

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CLUSTER_KIND
from clusterstacks.net.pool import Pool
from clusterstacks.net.tls import serve_with, server_context
from clusterstacks.operator import listener
from clusterstacks.operator.app import Operator
from clusterstacks.operator.probes_server import ProbesServer
from clusterstacks.operator.settings import parse_settings
from clusterstacks.operator.webhook_wiring import webhook_namespace
from clusterstacks.operator.webhooks.answers import ALLOWED
from clusterstacks.operator.webhooks.certificates import create_serving
from clusterstacks.operator.webhooks.configuration import PATH, SECRET_NAME
from clusterstacks.operator.webhooks.server import WebhookServer
from clusterstacks.runtime.metrics import Metrics
from tests.support.running.admission import guarded, ranged
from tests.support.running.flood import BODIES, flood
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import cluster_manifest
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.operator.webhooks.answers import AdmissionResponse
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest
    from tests.support.running.world import World

MIB = 1024 * 1024
STALL_SECONDS = 0.5
GROWTH = 64 * MIB
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u1", "operation": "CREATE", "kind": {"group": "", "kind": "Any"}, "object": {}},
}


class Allows:
    """Allows everything."""

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        assert request.uid == "u1"
        return ALLOWED


class Beat:
    """Notes how much CPU time the process takes between two turns of the event loop, at most."""

    longest = 0.0

    async def run(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest, last = max(self.longest, now - last), now


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[WebhookServer, ssl.SSLContext]]:
    pair = create_serving(["127.0.0.1"], timedelta(hours=1), datetime.now(UTC))
    context = server_context()
    serve_with(context, pair.certificate, pair.key)
    server = WebhookServer("127.0.0.1", 0, context, Allows().validate)
    task = asyncio.create_task(server.run())
    await server.started.wait()
    try:
        yield server, ssl.create_default_context(cadata=pair.authorities.decode())
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def peak() -> int:
    """The most memory the process had since ``forget_peak``, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def _attack(kind: str) -> tuple[list[int], list[int], float, int]:
    """Flood a server; returns the answers of the flood, those of others, the longest stall and the memory grown."""
    async with serving() as (server, trusting), Pool() as pool:
        url = f"https://127.0.0.1:{server.port}{PATH}"

        async def ask() -> int:
            async with pool.session.post(url, json=REVIEW, ssl=trusting) as answer:
                return answer.status

        assert await ask() == 200
        forget_peak()
        before, beat = peak(), Beat()
        beating = asyncio.create_task(beat.run())
        flooding = asyncio.create_task(flood(server.port, PATH, kind, size=8 * MIB - 16, times=8))
        others = []
        while not flooding.done():
            others.append(await ask())
            await asyncio.sleep(0.02)
        beating.cancel()
        return [status for status, _ in await flooding], others, beat.longest, peak() - before


@pytest.mark.regression("SEC-6")
@pytest.mark.parametrize("kind", BODIES)
def test_large_bodies_of_unauthenticated_clients_do_not_block_reviews(kind: str) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        flooded, others, stall, growth = runner.run(_attack(kind))

    assert set(flooded) <= {400, 413, 429, 504, 0}
    assert set(others) == {200}
    assert stall < STALL_SECONDS, f"{stall * 1000:.0f} ms"
    assert growth < GROWTH, f"{growth / MIB:.0f} MiB"


@asynccontextmanager
async def held(port: int, addresses: list[str], sent: bytes, *, tls: bool = True) -> AsyncIterator[None]:
    """Hold all connections that the server accepts: each sends some bytes, and is opened again when it is closed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    holding = asyncio.Semaphore(0)

    async def hold(address: str) -> None:
        is_first = True
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context if tls else None, local_addr=(address, 0), limit=4096
                )
                try:
                    writer.write(sent)
                    if sent.endswith(b"}"):
                        await reader.readuntil(b"}}")
                    if is_first:
                        holding.release()
                    is_first = False
                    await reader.read()
                except asyncio.IncompleteReadError:
                    pass
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.05)

    each = listener.MAX_CONNECTIONS // len(addresses)
    tasks = [asyncio.create_task(hold(address)) for address in addresses for _ in range(each)]
    for _ in tasks:
        await holding.acquire()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_BODY = json.dumps(REVIEW).encode()
_HEAD = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(_BODY)}\r\n\r\n".encode()


@pytest.mark.regression("SEC-25")
@pytest.mark.parametrize(
    ("addresses", "sent", "tls"),
    [
        pytest.param(["127.0.0.2", "127.0.0.3"], _HEAD + _BODY, True, id="idle after a review"),
        pytest.param(["127.0.0.1"], _HEAD + _BODY, True, id="from the address of the API server"),
        pytest.param(["127.0.0.2", "127.0.0.3"], _HEAD + _BODY[:40], True, id="a review that does not end"),
        pytest.param(["127.0.0.2", "127.0.0.3"], b"", False, id="without a handshake"),
    ],
)
async def test_clients_that_hold_all_connections_do_not_keep_the_api_server_out(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], sent: bytes, *, tls: bool
) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 64)  # handshakes take time
    async with serving() as (server, trusting), held(server.port, addresses, sent, tls=tls), Pool() as pool:
        url = f"https://127.0.0.1:{server.port}{PATH}"
        for _ in range(3):
            async with (
                asyncio.timeout(60),
                pool.session.post(url, json=REVIEW, ssl=trusting, headers={"Connection": "close"}) as answer,
            ):
                assert answer.status == 200


@pytest.mark.regression("SEC-6")
async def test_unreadable_cluster_is_denied(world: World) -> None:
    """An error of HTTP would let it through, as the webhook for Clusters has ``failurePolicy: Ignore``."""
    async with guarded(world):
        name = world.stack.release("v1")
        world.publish(name, world.stack.files("v1", {}))
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)

        for thing, words in (("[" * 2000 + "]" * 2000, "nested deeper"), ("[" + "[]," * 100_000 + "[]]", "values")):
            variables = [{"name": "odd", "value": "THING"}]
            manifest = cluster_manifest(world.namespace, "odd", name.class_name, "v1.99.0", variables=variables)
            said = await written(world, json.dumps(manifest).replace('"THING"', thing))
            assert f"Cluster {world.namespace}/odd cannot be validated" in said
            assert words in said
        assert await world.find(CLUSTER_KIND, "odd") is None


async def written(world: World, manifest: str) -> str:
    """Write a manifest of any depth; return the output of kubectl."""
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    file = world.cache.parent / "odd.json"
    file.write_text(manifest)
    done = await asyncio.to_thread(kubectl.tried, "create", "--validate=false", "-f", str(file))
    return done.stdout + done.stderr


@pytest.mark.regression("SEC-6")
async def test_forged_review_causes_no_write(world: World) -> None:
    async with guarded(world) as operator:
        name = world.stack.release("v1")
        world.publish(*ranged(world.stack, "v1", "v1.35.4", ">=1.34 <1.38", net=("1.0.0", ">=1.30 <1.36")))
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        old = await world.create(cluster_manifest(world.namespace, "victim", name.class_name, "v1.35.4"))
        new = cluster_manifest(world.namespace, "victim", name.class_name, "v1.36.1")
        escape = {"clusterstack.x-k8s.io/allow-incompatible": "forged"}
        new["metadata"] |= {"uid": old["metadata"]["uid"], "annotations": escape}
        kind = {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Cluster"}
        request = {"uid": "u1", "operation": "UPDATE", "kind": kind, "object": new, "oldObject": old}

        assert operator._webhooks is not None
        url = f"https://127.0.0.1:{operator._webhooks.server.port}{PATH}"
        async with (
            Pool() as pool,
            pool.session.post(url, json={**REVIEW, "request": request}, ssl=False) as answer,
        ):
            response = (await answer.json())["response"]

        assert response["allowed"]
        assert "allowed because of annotation" in response["warnings"][0]
        # A Cluster that was let through indeed gets its event after the forged one would have come.
        real = await world.patch(
            old, {"metadata": {"annotations": {**escape, "clusterstack.x-k8s.io/allow-incompatible": "real"}}}
        )
        await world.patch(real, {"spec": {"topology": {"version": "v1.36.1"}}})

        async def event() -> bool:
            return any("real" in one["message"] for one in await world.events(old))

        await eventually(event, about="an event")
        assert not [one for one in await world.events(old) if "forged" in one["message"]]


@pytest.mark.regression("SEC-23")
async def test_webhook_key_is_stored_in_the_namespace_of_the_operator(world: World) -> None:
    own = f"{world.namespace}-system"
    await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}})
    before = await world.find("Secret", SECRET_NAME, "default")
    async with guarded(world, operator_namespace=own):
        secret = await world.find("Secret", SECRET_NAME, own)

        assert secret is not None
        assert secret["type"] == "kubernetes.io/tls"
        for namespace in ("default", world.namespace):  # where users write
            found = await world.find("Secret", SECRET_NAME, namespace)
            assert found is None or found == before


@pytest.mark.regression("SEC-23")
def test_namespace_of_the_webhook_key_is_never_guessed(tmp_path: Path) -> None:
    url = ["--webhook-url=https://10.0.0.1:9443", "--namespace=tenant"]
    pod = tmp_path / "pod"
    pod.mkdir()
    (pod / "namespace").write_text("from-the-pod\n")

    assert webhook_namespace(parse_settings(url, {}, pod)) == "from-the-pod"
    assert webhook_namespace(parse_settings(url, {"POD_NAMESPACE": "from-env"}, pod)) == "from-env"
    flag = [*url, "--operator-namespace=from-flag"]
    assert webhook_namespace(parse_settings(flag, {"POD_NAMESPACE": "from-env"}, pod)) == "from-flag"
    assert webhook_namespace(parse_settings(["--webhook-service=beside/it"], {}, pod)) == "beside"
    with pytest.raises(SpecError, match=r"--webhook-url needs a namespace .* set --operator-namespace to a namespace"):
        webhook_namespace(parse_settings(url, {}, tmp_path / "nothing"))


@pytest.mark.regression("SEC-23")
def test_operator_with_an_unknown_namespace_does_not_start(world: World) -> None:
    with pytest.raises(SpecError, match="--operator-namespace"):
        Operator(world.settings(webhook_url="https://127.0.0.1:9", webhook_port=9), {})


@pytest.mark.regression("SEC-23")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("", 8080)),
        ("[::1]:8080", ("::1", 8080)),
        ("0", ("", 0)),
    ],
)
def test_metrics_and_probes_are_bound_to_an_address(text: str, address: tuple[str, int]) -> None:
    settings = parse_settings([f"--metrics-bind-address={text}", f"--health-probe-bind-address={text}"])

    assert (settings.metrics_address, settings.probe_address) == (address, address)


@pytest.mark.regression("SEC-23")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_metrics_and_probes_are_served_only_at_their_address(host: str) -> None:
    server = ProbesServer(host, 0, metrics=Metrics())
    task = asyncio.create_task(server.run())
    await server.started.wait()
    shown = f"[{host}]" if ":" in host else host
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{shown}:{server.port}/metrics") as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"http://127.0.0.2:{server.port}/metrics")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
