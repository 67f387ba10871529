"""Upgrades of one cluster beside clusters that do not answer, in comparison with an operator that has only this one.

Two operators with default settings run as processes of their own, each with its own API server. One of them also has
clusters behind a black hole. Both clusters are upgraded in turns, one right after the other, so that both series have
the same load of the machine; the ratio of their 95th percentiles does not depend on it. The same comparison while the
silent clusters are paused shows the error of the method: its ratio should be 1.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import TYPE_CHECKING

from benchmarks.deliveries import api_server
from benchmarks.report import Figure, show
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.operator_process import OPERATOR, process
from tests.support.running.world import cluster_manifest, is_ready, opened_world
from tests.support.servers.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.dev.apiserver import ApiServer
    from tests.support.running.world import World

SILENT = 20
PAIRS = int(os.environ.get("PAIRS", "100"))
"""Upgrades of each cluster in each comparison: an even number, so that each comparison begins with the first class."""
OBJECTS = 10
POLL_SECONDS = 0.01
NAME = "subject"
VERSIONS = ("v1", "v2")
RESAMPLES = 1000


@dataclass(slots=True)
class Subject:
    """The cluster that is upgraded, and its operator.

    Args:
        world: Its management cluster.
        process: The operator.
        seconds: Times from the change of the class to the ready status.
        cpu: CPU seconds of the operator in the comparison.
    """

    world: World
    process: asyncio.subprocess.Process
    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0

    async def prepare(self) -> None:
        """Deliver the first release."""
        world = self.world
        for version in VERSIONS:
            objects = [config_map(f"{world.namespace}-{number}", version=version) for number in range(OBJECTS)]
            world.publish(world.stack.release(version), world.stack.files(version, {"cni": templates(*objects)}))
        await world.create(world.stack.manifest(world.namespace, *VERSIONS))
        for version in VERSIONS:
            await world.release_ready(world.stack.release(version))
        await world.cluster(NAME, self.class_name(0))
        await world.addons_ready(NAME, self.class_name(0))

    def class_name(self, number: int) -> str:
        """Return the class after so many upgrades."""
        return self.world.stack.release(VERSIONS[number % len(VERSIONS)]).class_name

    async def upgrade(self, number: int) -> None:
        """Move the cluster to its next class."""
        wanted = self.class_name(number)
        began = time.monotonic()
        await self.world.set_class(NAME, wanted)
        while True:
            addon = await self.world.addon(NAME)
            if is_ready(addon) and addon["spec"].get("clusterStack") == wanted:
                break
            await asyncio.sleep(POLL_SECONDS)
        self.seconds.append(time.monotonic() - began)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the operator so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(servers: Sequence[ApiServer], directory: Path) -> list[Figure]:
    """Return the figures of both comparisons."""
    async with AsyncExitStack() as stack:
        subjects: list[Subject] = []
        for server in servers:
            place = directory / f"world-{len(subjects)}"
            place.mkdir()
            world = await stack.enter_async_context(opened_world(server, server, place))
            subjects.append(Subject(world, await stack.enter_async_context(process(world, OPERATOR))))
            await subjects[-1].prepare()
        beside, alone = subjects
        proxy = await stack.enter_async_context(FaultProxy.started(servers[0], directory / "proxy"))
        proxy.swallow()
        for number in range(SILENT):
            manifest = cluster_manifest(beside.world.namespace, f"silent-{number}", beside.class_name(0))
            manifest["spec"]["paused"] = True
            await beside.world.create(manifest)
            await beside.world.connect(f"silent-{number}", proxy.kubeconfig)
            await beside.world.finish(manifest)
        figures = await compare(beside, alone, "the same, without silent clusters")
        await end_pause(beside.world)
        return [*await compare(beside, alone, f"beside {SILENT} clusters that do not answer"), *figures]


async def end_pause(world: World) -> None:
    """End the pause of the silent clusters, and wait until the operator has found all of them silent."""
    for number in range(SILENT):
        await world.patch(await world.get("Cluster", f"silent-{number}"), {"spec": {"paused": False}})
    for number in range(SILENT):
        await world.says(Kind.CLUSTER_ADDON, addon_name(f"silent-{number}"), "ClusterReady", words=["does not respond"])


async def compare(beside: Subject, alone: Subject, what: str) -> list[Figure]:
    """Upgrade both clusters in turns."""
    both = (beside, alone)
    for one in both:
        one.seconds, one.cpu = [], -one.cpu_seconds()
    for number in range(1, PAIRS + 1):
        for one in both if number % 2 else reversed(both):
            await one.upgrade(number)
    for one in both:
        one.cpu += one.cpu_seconds()
    pairs = list(zip(beside.seconds, alone.seconds, strict=True))
    return [
        Figure(f"upgrade {what}", beside.seconds, "s"),
        Figure(f"upgrade in turn with it, alone ({what})", alone.seconds, "s"),
        Figure(f"ratio of a pair, {what}", [first / second for first, second in pairs], ""),
        Figure(f"ratio of the 95th percentiles with 90% interval, {what}", resampled(pairs), ""),
        Figure(f"CPU time of the operator in an upgrade of both, {what}", [beside.cpu / PAIRS * 1000], "ms"),
        Figure(f"the same of the operator with one cluster ({what})", [alone.cpu / PAIRS * 1000], "ms"),
    ]


def resampled(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Return the ratios of the 95th percentiles of random samples of the pairs, without the lowest and highest 5%."""
    random = Random(0)
    found = []
    for _ in range(RESAMPLES):
        sample = random.choices(pairs, k=len(pairs))
        first, second = (quantiles(series, n=20)[-1] for series in zip(*sample, strict=True))
        found.append(first / second)
    cut = RESAMPLES // 20
    return sorted(found)[cut:-cut]


def main() -> None:
    """Print the table."""
    with api_server() as first, api_server() as second, tempfile.TemporaryDirectory() as directory:
        show("Isolation", asyncio.run(measure((first, second), Path(directory))))


if __name__ == "__main__":
    main()
