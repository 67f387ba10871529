"""The webhooks under a burst: 200 dry-run updates of Clusters at once, allowed ones and refused ones.

What a call of the webhook takes is what the API server itself measures
(``apiserver_admission_webhook_admission_duration_seconds``, in buckets, so percentiles are upper bounds). The same
burst before the webhooks are registered shows what the client and the server take anyway. Client, operator and API
server share the machine; CPU is that of this process, in which client and operator run.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import uvloop

from benchmarks.deliveries import api_server
from benchmarks.report import Figure, show
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.net.tls import client_context
from tests.support.builders.stacks import TinyStack
from tests.support.running.admission import guarded, of_minor, ranged, refusal
from tests.support.running.world import World, accept_classes, cluster_manifest, foreign_crds, install

if TYPE_CHECKING:
    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.names import ReleaseName

CLUSTERS = 200
RUNS = 5
NOW, ALLOWED, REFUSED = "v1.35.4", "v1.35.5", "v1.36.1"
METRIC = re.compile(
    r'^apiserver_admission_webhook_admission_duration_seconds_bucket\{name="clusters\.[^}]*le="([^"]+)"[^}]*\} (\d+)$',
    re.MULTILINE,
)


class Burst(NamedTuple):
    """One burst: seconds in all, the slowest hundredth of the client's calls, CPU, and bucket counts of the server."""

    seconds: float
    p99: float
    cpu: float
    buckets: dict[float, int]


async def measure(server: ApiServer, root: Path) -> list[Figure]:
    async with Pool() as pool:
        client = Client(parse_kubeconfig(server.kubeconfig, base=None), pool, budget=CLUSTERS)
        world = World(
            namespace="bench",
            client=client,
            workload=client,
            releases=root / "releases",
            cache=root / "cache",
            management_kubeconfig=server.kubeconfig_path,
            workload_kubeconfig=server.kubeconfig,
        )
        world.releases.mkdir()
        await install(client, [*all_crds(), *foreign_crds()])
        await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}})
        accepting = asyncio.create_task(accept_classes(world))
        try:
            return await _bursts(world, server)
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)


async def _bursts(world: World, server: ApiServer) -> list[Figure]:
    release = _releases(world)
    for number in range(CLUSTERS):
        await world.create(cluster_manifest(world.namespace, f"c{number}", release.class_name, NOW))
    figures = _figures("no webhook", [await _burst(world, server, ALLOWED) for _ in range(RUNS)])
    async with guarded(world):
        await world.create(world.stack.manifest(world.namespace, "v1"))
        newer = of_minor(world.stack, "1.36").manifest(world.namespace, "v1", kubernetesVersion="1.36")
        newer["metadata"]["name"] = "newer"
        await world.create(newer)
        await world.release_ready(release)
        await world.release_ready(of_minor(world.stack, "1.36").release("v1"))
        for title, version in (("allowed", ALLOWED), ("refused, with the way out", REFUSED)):
            await _burst(world, server, version)
            figures += _figures(title, [await _burst(world, server, version) for _ in range(RUNS)])
    return figures


def _releases(world: World) -> ReleaseName:
    """Publish a release whose addon ends at 1.35, and one whose does not."""
    stack = TinyStack(world.namespace)
    name, files = ranged(stack, "v1", NOW, ">=1.34 <1.38", net=("1.0.0", ">=1.30 <1.36"))
    world.publish(name, files)
    world.publish(*ranged(of_minor(stack, "1.36"), "v1", REFUSED, ">=1.34 <1.38", net=("2.0.0", ">=1.30 <1.38")))
    return name


async def _burst(world: World, server: ApiServer, version: str) -> Burst:
    resource = await world.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    patch = {"spec": {"topology": {"version": version}}}

    async def one(number: int) -> float:
        began = time.perf_counter()
        said = await refusal(world.client.merge_patch(resource, f"c{number}", patch, world.namespace, dry_run=True))
        assert bool(said) is (version == REFUSED), said
        return time.perf_counter() - began

    before = await _buckets(server)
    began, cpu = time.perf_counter(), time.process_time()
    took = sorted(await asyncio.gather(*(one(number) for number in range(CLUSTERS))))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    after = await _buckets(server)
    return Burst(seconds, took[-1 - CLUSTERS // 100], cpu, {le: after[le] - before.get(le, 0) for le in after})


async def _buckets(server: ApiServer) -> dict[float, int]:
    """How many calls of the webhook for Clusters took at most so many seconds."""
    admin = server.keys.admin.read()
    context = client_context(server.keys.authority.certificate.read_bytes(), admin.certificate, admin.key, verify=True)
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics", ssl=context) as answer:
        text = await answer.text()
    found: dict[float, int] = {}
    for le, count in METRIC.findall(text):
        found[float(le)] = found.get(float(le), 0) + int(count)
    return found


def _percentile(buckets: dict[float, int], share: float) -> float:
    total = max(buckets.values(), default=0)
    return next((le for le, count in sorted(buckets.items()) if total and count >= share * total), 0.0)


def _figures(title: str, bursts: list[Burst]) -> list[Figure]:
    figures = [
        Figure(f"{title}: client's p99", [1000 * one.p99 for one in bursts], "ms"),
        Figure(f"{title}: CPU per request, client included", [1000 * one.cpu / CLUSTERS for one in bursts], "ms"),
        Figure(f"{title}: requests a second", [CLUSTERS / one.seconds for one in bursts], ""),
    ]
    if any(bursts[-1].buckets.values()):
        for share in (0.5, 0.99):
            at_most = [1000 * _percentile(one.buckets, share) for one in bursts]
            figures.append(
                Figure(f"{title}: webhook as the API server sees it, p{share * 100:.0f} at most", at_most, "ms")
            )
    return figures


def main() -> None:
    with (
        api_server() as server,
        tempfile.TemporaryDirectory() as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        show("Admission", runner.run(measure(server, Path(directory))))


if __name__ == "__main__":
    main()
