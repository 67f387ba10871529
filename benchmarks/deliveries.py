"""The apply engine against one real API server: time, requests and CPU per object, at 10, 40 and 200 objects.

The objects are rendered already, so Helm is not in it. Requests are counted by the API client. CPU is the process time
of this process, which does nothing else. The rate of bare server-side applies through the same client in the same run
shows what the server allows.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import uvloop

from benchmarks.report import Figure, show
from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.dev import binaries
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.etcd import Etcd
from clusterstacks.dev.processes import start_on_free_port
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.workload_clients import BUDGET
from tests.support.builders.manifests import config_map, deployment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from clusterstacks.model.objects import Manifest

SIZES = (10, 40, 200)
RUNS = 5
CHANGED = 0.3
"""Share of the objects that an upgrade changes, as in the measurement of the Go operator."""


AT_ONCE = timedelta(0)


class Cost(NamedTuple):
    """What one operation took."""

    seconds: float
    cpu: float
    requests: int


class Meter:
    """Counts answers of the API server and takes the time."""

    def __init__(self) -> None:
        self.answers = 0

    def count(self, _method: str, _code: int) -> None:
        self.answers += 1

    async def of(self, work: Awaitable[object]) -> Cost:
        answers, began, cpu = self.answers, time.perf_counter(), time.process_time()
        await work
        return Cost(time.perf_counter() - began, time.process_time() - cpu, self.answers - answers)


def objects(count: int, name: str, image: str = "example.org/app:1") -> list[Manifest]:
    """Half ConfigMaps, half Deployments; another image changes the first share of them all."""
    changed = int(count * CHANGED) if image != "example.org/app:1" else 0
    found: list[Manifest] = []
    for number in range(count):
        new = number < changed
        if number % 2:
            found.append(config_map(f"{name}-{number}", "kube-system", key="new" if new else "old"))
        else:
            found.append(deployment(f"{name}-{number}", "kube-system", image=image if new else "example.org/app:1"))
    return found


async def measure(server: ApiServer) -> list[Figure]:
    meter = Meter()
    figures: list[Figure] = []
    async with Pool(on_answer=meter.count) as pool:
        for size in SIZES:
            costs: dict[str, list[Cost]] = {"install": [], "upgrade, 30 % changed": [], "nothing changed": []}
            bare: list[Cost] = []
            for run in range(RUNS):
                name = f"b{size}-{run}"
                client = Client(load_kubeconfig([server.kubeconfig_path]), pool, budget=BUDGET)
                first, second = objects(size, name), objects(size, name, "example.org/app:2")
                bare.append(await meter.of(apply_bare(client, objects(size, f"{name}-bare"))))
                client.forget_discovery()
                costs["install"].append(await meter.of(deliver(client, name, first)))
                costs["upgrade, 30 % changed"].append(await meter.of(deliver(client, name, second)))
                costs["nothing changed"].append(await meter.of(deliver(client, name, second)))
            for title, found in costs.items():
                figures += lines(f"{title}, {size} objects", found, size)
            figures += lines(f"bare applies, {size} objects", bare, size)
            ratios = [one.seconds / alone.seconds for one, alone in zip(costs["install"], bare, strict=True)]
            figures.append(Figure(f"install against bare applies, {size} objects: time", ratios, "x"))
    return figures


def lines(title: str, costs: list[Cost], size: int) -> Iterator[Figure]:
    yield Figure(f"{title}: time", [1000 * one.seconds for one in costs], "ms")
    yield Figure(f"{title}: time per object", [1000 * one.seconds / size for one in costs], "ms")
    yield Figure(f"{title}: CPU per object", [1000 * one.cpu / size for one in costs], "ms")
    yield Figure(f"{title}: requests", [one.requests for one in costs], "")


async def deliver(client: Client, name: str, manifests: list[Manifest]) -> None:
    """One reconcile: read the records, deliver, prune."""
    delivery = Delivery(client)
    records = await delivery.records()
    revision = Revision.of(manifests, "benchmark")
    report = await delivery.install(name, revision)
    assert report.synced, [one.error for one in report.objects if not one.synced]
    await delivery.prune({*records, name})


async def apply_bare(client: Client, manifests: list[Manifest]) -> None:
    slots = asyncio.Semaphore(BUDGET)

    async def one(manifest: Manifest) -> None:
        group, _, version = manifest["apiVersion"].rpartition("/")
        resource = await client.resource(group, manifest["kind"], version)
        async with slots:
            await client.apply(resource, manifest, manager="bare", namespace="kube-system")

    await asyncio.gather(*(one(manifest) for manifest in manifests))


@contextmanager
def api_server(*flags: str) -> Iterator[ApiServer]:
    """One etcd and one API server, with additional flags."""
    found = binaries.resolve(["etcd", "kube-apiserver"])
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        etcd = start_on_free_port(lambda port: Etcd(binary=found["etcd"].path, directory=root / "etcd", port=port))
        try:
            server = start_on_free_port(
                lambda port: ApiServer(
                    ApiServerSettings(
                        name="workload",
                        binary=found["kube-apiserver"].path,
                        directory=root / "server",
                        etcd=etcd.access,
                        prefix="/workload",
                        port=port,
                        flags=(*WITHOUT_SERVICE_ACCOUNTS, *flags),
                    )
                )
            )
            try:
                yield server
            finally:
                server.stop(AT_ONCE)
        finally:
            etcd.stop(AT_ONCE)


def main() -> None:
    with api_server() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        show("Deliveries", runner.run(measure(server)))


if __name__ == "__main__":
    main()
