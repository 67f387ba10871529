"""Sweeps of settled clusters: CPU time and requests for many objects, and for many clusters.

All clusters are logical ones on one API server: each has its own client and its own memory, and their objects are the
same. The first sweep after a start compares the objects with the delivery records; the figures are those of the next
ones. Deployments get the status of healthy ones, because nothing runs them here.

``--minutes`` also sweeps 50 clusters at the default interval for some minutes, with its jitter, as the operator does.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import uvloop

from benchmarks.deliveries import Meter, api_server, deliver, objects
from benchmarks.report import Figure, show
from clusterstacks.deliver.apply.delivery import Delivery
from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRETS
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model.drift_settings import DriftSettings
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.addon_sweep import AddonSweep
from clusterstacks.operator.controllers.workload_clients import BUDGET, WORKLOAD_BOUNDS
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.metrics import Metrics
from tests.support.builders.manifests import addon, crd, deployment, named

if TYPE_CHECKING:
    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest

OBJECTS = 2000
CLUSTERS = 50
ROUNDS = 5


class LaterClock(SystemClock):
    """A clock that can be advanced, so that every sweep is due."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class LogicalClusters:
    """A client per cluster, all of one API server."""

    def __init__(self, server: ApiServer, pool: Pool) -> None:
        self._connection = load_kubeconfig([server.kubeconfig_path])
        self._pool = pool
        self._clients: dict[ObjectKey, Client] = {}

    async def connect_again(self, cluster: ObjectKey) -> Client:
        if cluster not in self._clients:
            self._clients[cluster] = Client(self._connection, self._pool, budget=BUDGET, bounds=WORKLOAD_BOUNDS)
        return self._clients[cluster]

    connect = connect_again


async def watched(server: ApiServer, pool: Pool, clusters: int) -> tuple[AddonSweep, LaterClock, list[ObjectKey]]:
    """Sweep everything that is delivered in some clusters, once for the memory."""
    clock = LaterClock()
    workloads: Any = LogicalClusters(server, pool)
    sweep = AddonSweep(
        workloads=workloads,
        clock=clock,
        changed=lambda _: None,
        poll=lambda _: None,
        metrics=Metrics(),
        renderer=Renderer(),
    )
    keys = [ObjectKey("fleet", f"c{number}") for number in range(clusters)]
    records = await Delivery(await workloads.connect(keys[0])).records()
    delivered = {known.id: name for name, record in records.items() for known in record.objects}
    for key in keys:
        sweep.watch(key, key, dict(delivered))
        sweep.configure(key, DriftSettings())
    clock.ahead += timedelta(minutes=2).total_seconds()
    for key in keys:
        await sweep.reconcile(key)
    return sweep, clock, keys


async def sweeps(server: ApiServer, pool: Pool, meter: Meter, clusters: int, title: str) -> list[Figure]:
    """Measure ``ROUNDS`` sweeps of each cluster."""
    sweep, clock, keys = await watched(server, pool, clusters)
    cpu, requests = [], []
    for _ in range(ROUNDS):
        clock.ahead += timedelta(minutes=2).total_seconds()
        answers, began = meter.answers, time.process_time()
        for key in keys:
            await sweep.reconcile(key)
        cpu.append((time.process_time() - began) / clusters)
        requests.append((meter.answers - answers) / clusters)
    assert all(one.found is not None and not one.found.open for one in sweep._swept.values())  # noqa: SLF001 - checked
    unhealthy = {len(one.health.unhealthy) for one in sweep._swept.values() if one.health is not None}  # noqa: SLF001
    assert unhealthy == {int("not healthy" in title)}
    return [
        Figure(f"{title}: CPU a sweep", [1000 * one for one in cpu], "ms"),
        Figure(f"{title}: requests a sweep", requests, ""),
    ]


async def minutes(server: ApiServer, pool: Pool, count: int) -> list[Figure]:
    """Sweep clusters at their intervals for some minutes."""
    sweep, _, keys = await watched(server, pool, CLUSTERS)

    async def repeat(key: ObjectKey) -> None:
        while True:
            interval = await sweep.reconcile(key)
            await asyncio.sleep(interval.total_seconds() if interval is not None else 0)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(repeat(key)) for key in keys]
        await asyncio.sleep(10)
        cpu = []
        for _ in range(count):
            began = time.process_time()
            await asyncio.sleep(60)
            cpu.append((time.process_time() - began) / CLUSTERS)
        for task in tasks:
            task.cancel()
    return [Figure(f"{CLUSTERS} clusters at 60 s: CPU per cluster and minute", [1000 * one for one in cpu], "ms")]


async def set_health(client: Client, *, healthy: bool = True, first: bool = False) -> None:
    """Write the status of the delivered Deployments, or only of the first, as their controller would."""
    resource = await client.resource("apps", "Deployment")
    found = (await client.list(resource)).items
    for one in found[:1] if first else found:
        ready = one["spec"]["replicas"] if healthy else 0
        available = {"type": "Available", "status": "True" if healthy else "False", "reason": "Measured"}
        progressing = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
        numbers = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
        conditions = [available, progressing]
        status = {"observedGeneration": one["metadata"]["generation"], **numbers, "conditions": conditions}
        name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        await client.merge_patch(resource, name, {"status": status}, namespace, subresource="status", manager="health")


async def forget_all(client: Client) -> None:
    """Delete the delivery records, so that the next measurement sweeps only its own objects."""
    for secret in (await client.list(SECRETS, "kube-system", labels=RECORD_LABEL)).items:
        await client.delete(SECRETS, secret["metadata"]["name"], "kube-system")


def custom(count: int) -> list[Manifest]:
    """Return objects of as many kinds, with their CRDs."""
    groups = [f"k{number}.example.org" for number in range(count)]
    objects_ = [named(f"{group}/v1", "Widget", "one", "kube-system", spec={"size": 1}) for group in groups]
    return [*(crd("Widget", group) for group in groups), *objects_]


def big_deployments(count: int) -> list[Manifest]:
    """Return Deployments of ten containers with ten variables each, about 6 KB."""
    found = []
    for number in range(count):
        one = deployment(f"big-{number}", "kube-system")
        env = [{"name": f"VARIABLE_{variable}", "value": "x" * 20} for variable in range(10)]
        containers = [{"name": f"c{n}", "image": "example.org/app:1", "env": env} for n in range(10)]
        one["spec"]["template"]["spec"]["containers"] = containers
        found.append(one)
    return found


def stack() -> list[Manifest]:
    """Return 14 objects of 13 kinds."""
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "Role", "name": "sweep"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    subject = {"kind": "ServiceAccount", "name": "sweep", "namespace": "sweep"}
    return [
        *addon("sweep", "sweep"),
        named(f"{rbac}/v1", "Role", "sweep", "sweep", rules=[rule]),
        named(f"{rbac}/v1", "RoleBinding", "sweep", "sweep", roleRef=role, subjects=[subject]),
    ]


async def measure(server: ApiServer, count: int) -> list[Figure]:
    meter = Meter()
    async with Pool(on_answer=meter.count) as pool:
        client = Client(load_kubeconfig([server.kubeconfig_path]), pool, budget=BUDGET)
        manifests = stack()
        await deliver(client, "stack", manifests)
        await set_health(client)
        kinds = len({one["kind"] for one in manifests})
        figures = await sweeps(server, pool, meter, CLUSTERS, f"{CLUSTERS} clusters of {kinds} kinds")
        figures += await sweeps(server, pool, meter, 4 * CLUSTERS, f"{4 * CLUSTERS} clusters of {kinds} kinds")
        if count:
            figures += await minutes(server, pool, count)
        await set_health(client, healthy=False)
        title = f"{CLUSTERS} clusters of {kinds} kinds, a Deployment is not healthy"
        figures += await sweeps(server, pool, meter, CLUSTERS, title)
        await set_health(client)
        await deliver(client, "kinds", custom(30 - kinds))
        figures += await sweeps(server, pool, meter, CLUSTERS, f"{CLUSTERS} clusters of 30 kinds")
        plain = [one for one in objects(2 * OBJECTS, "many") if one["kind"] == "ConfigMap"]
        for title, many in (
            (f"{OBJECTS} ConfigMaps", plain),
            (f"{OBJECTS} objects, half of them Deployments", objects(OBJECTS, "half")),
            (f"{5 * OBJECTS // 2} objects, half of them Deployments", objects(5 * OBJECTS // 2, "half")),
            (f"{OBJECTS // 2} Deployments of ten containers", big_deployments(OBJECTS // 2)),
        ):
            await forget_all(client)
            await deliver(client, many[0]["metadata"]["name"], many)
            await set_health(client)
            figures += await sweeps(server, pool, meter, 1, title)
        await set_health(client, healthy=False, first=True)
        figures += await sweeps(server, pool, meter, 1, f"{title}, one is not healthy")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=0, help="minutes of sweeps at the default interval")
    count = parser.parse_args().minutes
    with api_server() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        show("Sweeps", runner.run(measure(server, count)))


if __name__ == "__main__":
    main()
