"""This build's operator on recorded clusters: it runs until it has compared everything that was delivered."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.dev import components
from clusterstacks.dev.kube_components import Components
from clusterstacks.dev.loopback import LOOPBACK, free_port, request
from clusterstacks.dev.processes import Process
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, RECONCILE_ANNOTATION, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from tests.support.observing.request_audit import AuditedRequest
    from tests.support.servers.recorded_clusters import Objects, RecordedCluster, RecordedClusters

DRIFT_INTERVAL: Final = "10s"
"""The shortest interval of comparisons; the first one follows the start by half to one and a half of it."""
STOP_GRACE: Final = timedelta(minutes=1)
USER: Final = "replay"
"""User agent of the test."""
NOT_THE_OPERATOR: Final = (USER, "kube-apiserver")
"""User agents of the test, and of the API servers themselves."""
Writes: TypeAlias = "Mapping[str, Sequence[AuditedRequest]]"
"""Writes in the order of their ends, by cluster; a dry-run is not a write."""
PART_OF: Final = "applyset.kubernetes.io/part-of"
"""Label of delivered objects."""
_RECONCILES: Final = re.compile(
    r'^clusterstacks_reconcile_total\{controller="(\w+)",result="(\w+)"\} ([\d.e+]+)$', re.MULTILINE
)
_BUSY: Final = re.compile(r"^clusterstacks_(?:workers_busy|queue_depth)\{.*\} (?!0\.0$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Replay:
    """What an operator did.

    Args:
        started: Its writes to each cluster until it had compared all of them for the first time.
        requested: Its writes afterwards, when a user had everything compared again.
        reconciles: Number of reconciles by controller and result.
        objects: The objects of our kinds at the end.
    """

    started: Writes
    requested: Writes
    reconciles: Mapping[tuple[str, str], int]
    objects: Sequence[Manifest]


def replay(clusters: RecordedClusters, scratch: Path) -> Replay:
    """Run the operator until it has compared each workload cluster twice, at last by a dry-run of each object."""
    return asyncio.run(_replay(clusters, scratch))


async def _replay(clusters: RecordedClusters, scratch: Path) -> Replay:
    for one in clusters.all:
        one.requests.since_last()  # those of the set-up
    async with Pool() as pool:
        client = Client(load_kubeconfig([clusters.management.server.kubeconfig_path]), pool, user_agent=USER)
        async with _operator(clusters, scratch) as metrics:
            until_compared = {one.name: await _compared(one) for one in clusters.workloads}
            await _idle(metrics)
            started = {one.name: [*until_compared.get(one.name, ()), *_requests(one)] for one in clusters.all}
            await _compare_everything(client)
            reconciles = await _idle(metrics)
        objects = [found for kind in Kind for found in await _all(client, kind.group, kind)]
        await client.close()
    requested = {one.name: _requests(one) for one in clusters.all}
    return Replay(_writes(started), _writes(requested), reconciles, objects)


def _requests(cluster: RecordedCluster) -> list[AuditedRequest]:
    """Return the requests of the operator since the last call."""
    return [one for one in cluster.requests.since_last() if not one.agent.startswith(NOT_THE_OPERATOR)]


def _writes(requests: Mapping[str, Sequence[AuditedRequest]]) -> Writes:
    return {name: [one for one in found if one.is_write and not one.dry_run] for name, found in requests.items()}


async def _compared(cluster: RecordedCluster) -> list[AuditedRequest]:
    """Wait until each kind of the delivered objects was listed; return the requests so far."""
    delivered = delivered_kinds(cluster.objects)
    assert delivered, f"nothing is delivered to {cluster.name}"
    found: list[AuditedRequest] = []

    async def look() -> bool:
        found.extend(_requests(cluster))
        missing = delivered - {one.kind for one in found if one.verb == "list"}
        assert not missing, f"not listed: {missing}"
        return True

    await eventually(look, about=f"a comparison of {cluster.name}")
    return found


def delivered_kinds(objects: Objects) -> set[str]:
    """Return the plurals of the kinds that the objects of the addons have."""
    delivered = [key.split("/") for key, one in objects.items() if PART_OF in (one["metadata"].get("labels") or {})]
    return {parts[2] if "." in parts[1] else parts[1] for parts in delivered}


@asynccontextmanager
async def _operator(clusters: RecordedClusters, scratch: Path) -> AsyncIterator[int]:
    """Run the operator of the local environment, with all recorded releases; yield the port of its metrics."""
    bench = Components(StateDirectory(scratch / "operator"), {})
    port = free_port()
    command = components.operator(bench, clusters.management.server, free_port(), clusters.releases).command
    flags = (f"--drift-interval={DRIFT_INTERVAL}", f"--metrics-bind-address={LOOPBACK}:{port}")
    process = Process(replace(command, argv=(*command.argv, *flags)))
    process.launch()
    try:
        yield port
        assert process.running, process.tail()
    finally:
        process.stop(STOP_GRACE)
    assert process.exit_code == 0, process.tail()


async def _compare_everything(client: Client) -> None:
    """Have all objects compared now, as a user does, and wait until the operator has done so."""
    clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    patch = {"metadata": {"annotations": {RECONCILE_ANNOTATION: USER}}}
    for one in await _all(client, CLUSTER_API_GROUP, CLUSTER_KIND):
        await client.merge_patch(clusters, one["metadata"]["name"], patch, one["metadata"]["namespace"])

    async def look() -> bool:
        for kind in (Kind.CLUSTER_ADDON, Kind.CLUSTER_RESOURCE_SYNC_BINDING):
            for one in await _all(client, kind.group, kind):
                assert one["status"].get("lastHandledReconcileAt") == USER, one["metadata"]["name"]
        return True

    await eventually(look, about="the comparison of all objects")


async def _idle(port: int, seconds: float = 1) -> dict[tuple[str, str], int]:
    """Wait until no reconcile runs or is due, and none did for a while; return their numbers."""
    last: tuple[float, dict[tuple[str, str], int]] = (time.monotonic(), {})

    async def look() -> dict[tuple[str, str], int] | None:
        nonlocal last
        _, body = await asyncio.to_thread(request, f"http://{LOOPBACK}:{port}/metrics")
        text = body.decode()
        found = {(controller, result): int(float(count)) for controller, result, count in _RECONCILES.findall(text)}
        if found != last[1]:
            last = (time.monotonic(), found)
        is_still = not _BUSY.search(text) and time.monotonic() - last[0] > seconds
        return found if is_still else None

    return await eventually(look, about="the end of all reconciles")


async def _all(client: Client, group: str, kind: str) -> list[Manifest]:
    return (await client.list(await client.resource(group, kind))).items
