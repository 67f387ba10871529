"""What 100 ClusterUpgrades cost the operator and its API server: without work, running, and for a whole upgrade.

One API server is management cluster and all workload clusters. Each ClusterUpgrade has a Cluster of its own, with a
release without addons for each of three Kubernetes minors; this program plays Cluster API. Requests are those of the
operator in the audit log, without watches and Leases. ``CLUSTERS=10 MINUTES=0.2`` makes it short.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvloop

from benchmarks.deliveries import api_server
from benchmarks.rollouts import pss, tree, tree_cpu
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.operator.app import COMPONENT
from clusterstacks.runtime.concurrency import gather
from tests.integration.controllers.test_cluster_upgrade_troubles import FIRST, VERSIONS, offer
from tests.integration.controllers.test_cluster_upgrades import upgrade
from tests.support.observing.audit_log import audit_flags
from tests.support.observing.request_audit import ALL_REQUESTS, AuditedRequest, RequestAudit, by_verb_and_kind, of_agent
from tests.support.running.admission import of_minor
from tests.support.running.operator_process import OPERATOR, process
from tests.support.running.world import finished_status, opened_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

CLUSTERS: Final = int(os.environ.get("CLUSTERS", "100"))
MINUTES: Final = float(os.environ.get("MINUTES", "2"))
CHANGES: Final = 10
"""Changes of the status of each Cluster a minute while its nodes roll."""
AT_ONCE: Final = 16
QUIET_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 900
NAMES: Final = [f"c{number:03}" for number in range(CLUSTERS)]


@dataclass(slots=True)
class Bench:
    """The Clusters, and the operator under measurement."""

    world: World
    pid: int
    audit: RequestAudit
    requests: list[AuditedRequest] = field(default_factory=list)
    """Those of the operator since the beginning of a measurement."""

    async def each(self, work: Callable[[str], Awaitable[object]]) -> None:
        """Do something with each Cluster."""
        await gather(work, NAMES, at_once=AT_ONCE)

    async def create(self, class_name: str) -> None:
        """Create the Clusters, and wait for their addons."""

        async def one(name: str) -> None:
            await self.world.cluster(name, class_name, version=FIRST)
            await self.world.addons_ready(name, class_name)

        await self.each(one)

    async def ask(self, to: str, **spec: object) -> None:
        """Create an upgrade of each Cluster."""

        async def one(name: str) -> None:
            await self.world.create(upgrade(self.world, to, name, {"names": [name]}, **spec))

        await self.each(one)

    async def forget(self) -> None:
        """Delete all upgrades."""

        async def one(name: str) -> None:
            await self.world.delete(await self.world.get(Kind.CLUSTER_UPGRADE, name))

        await self.each(one)

    async def update_worker(self, name: str, number: int) -> None:
        """Write that so many workers of a Cluster are updated."""
        cluster = await self.world.get(CLUSTER_KIND, name)
        await self.world.patch(cluster, {"status": {"workers": {"upToDateReplicas": number}}}, "status")

    async def finish(self, name: str) -> None:
        """Write that a Cluster has its version."""
        cluster = await self.world.get(CLUSTER_KIND, name)
        status = finished_status(_version(cluster))
        conditions = [{**one, "observedGeneration": cluster["metadata"]["generation"]} for one in status["conditions"]]
        ours = [one for one in mappings(cluster, "status", "conditions") if one["type"].startswith("ClusterStack")]
        await self.world.patch(cluster, {"status": {**status, "conditions": [*conditions, *ours]}}, "status")

    async def reached(self, version: str) -> None:
        """Wait until each Cluster asks for a version."""
        await self._all(
            (CLUSTER_API_GROUP, CLUSTER_KIND), lambda one: _version(one) == version, f"the step to {version}"
        )

    async def phase(self, phase: str) -> None:
        """Wait until each upgrade has a phase."""
        await self._all((GROUP, Kind.CLUSTER_UPGRADE), lambda one: text(one, "status", "phase") == phase, phase)

    async def _all(self, kind: tuple[str, str], holds: Callable[[Manifest], bool], about: str) -> None:
        resource = await self.world.client.resource(*kind)

        async def look() -> bool:
            found = (await self.world.client.list(resource, self.world.namespace)).items
            count = sum(map(holds, found))
            assert count == CLUSTERS, f"{count} of {CLUSTERS}"
            return True

        await eventually(look, seconds=PATIENCE_SECONDS, about=about)

    def read(self) -> bool:
        """Read the audit log; return whether the operator has written anything since the last time."""
        found = [one for one in of_agent(self.audit.since_last(), COMPONENT) if one.verb != "watch"]
        self.requests += found
        return any(one.is_write for one in found)

    async def settle(self) -> None:
        """Wait until the operator writes nothing; while an upgrade runs, it reads now and then."""
        self.read()
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            if not self.read():
                return

    async def measure(self, title: str, work: Awaitable[object], minutes: float = 1) -> None:
        """Print what the operator needs for some work, a minute."""
        self.read()
        self.requests.clear()
        cpu = tree_cpu(self.pid)
        await work
        cpu = tree_cpu(self.pid) - cpu
        self.read()
        counts = by_verb_and_kind(self.requests).most_common()
        kinds = ", ".join(f"{count / minutes:.3g} {what}" for what, count in counts)
        memory = sum(map(pss, tree(self.pid))) / 1e6
        figures = f"{len(self.requests) / minutes:.3g} ({kinds})" if kinds else "0"
        print(f"| {title} | {figures} | {cpu / minutes:.3g} s | {memory:.0f} MB |", flush=True)

    async def idle(self, title: str) -> None:
        """Measure while nothing changes."""
        await self.settle()
        await self.measure(f"{title}, a minute", asyncio.sleep(60 * MINUTES), MINUTES)

    async def moving(self) -> None:
        """Change the status of each Cluster some times a minute."""
        loop = asyncio.get_running_loop()
        begin, count = loop.time(), int(CHANGES * MINUTES * CLUSTERS)
        for number, name in zip(range(count), cycle(NAMES), strict=False):
            await asyncio.sleep(begin + number * 60 * MINUTES / count - loop.time())
            await self.update_worker(name, 1 + number)


def _version(cluster: Manifest) -> str:
    return text(cluster, "spec", "topology", "version")


async def measure(bench: Bench) -> None:
    world, names = bench.world, []
    for minor, version in VERSIONS.items():
        stack = of_minor(world.stack, minor)
        names.append(stack.release("v1"))
        world.publish(names[-1], stack.files("v1", {}, kubernetes=version))
    await offer(world, names)
    await bench.create(names[0].class_name)
    print(f"\n## {CLUSTERS} ClusterUpgrades\n\n| what | requests | CPU | memory (PSS) |\n|---|---|---|---|")
    last = names[-1].release
    await bench.idle("no ClusterUpgrade")

    opens = datetime.now(UTC) + timedelta(hours=12)
    await bench.ask(last, window={"start": f"{opens:%H:%M}", "duration": "1h"})
    await bench.phase("Waiting")
    await bench.idle("waiting for a window")
    await bench.forget()

    async def step(version: str) -> None:
        await bench.each(bench.finish)
        await bench.reached(version)
        await bench.settle()

    async def first() -> None:
        await bench.ask(last)
        await bench.reached(VERSIONS["1.35"])
        await bench.settle()

    await bench.measure("all begin: a look, a plan and a step of each", first())
    await bench.idle("running, nothing changes")
    changes = f"{CHANGES} changes of each Cluster a minute"
    await bench.measure(f"running, {changes}", bench.moving(), MINUTES)
    await bench.forget()
    await bench.measure(f"the same without ClusterUpgrades, {changes}", bench.moving(), MINUTES)
    await bench.ask(last)
    await bench.settle()
    await bench.measure("the next step of each", step(VERSIONS["1.36"]))

    async def end() -> None:
        await bench.each(bench.finish)
        await bench.phase("Done")
        await bench.settle()

    await bench.measure("the end of each", end())
    await bench.idle("done")
    await bench.forget()
    await bench.ask("latest")
    await bench.phase("Done")
    await bench.idle("done, following latest")


async def run(directory: Path) -> None:
    logs = directory / "logs"
    logs.mkdir()
    with api_server(*audit_flags(logs, ALL_REQUESTS)) as server:
        async with opened_world(server, server, directory) as world, process(world, OPERATOR) as operator:
            await measure(Bench(world, operator.pid, RequestAudit(logs / "audit.log")))


def main() -> None:
    """Print the table."""
    with (
        tempfile.TemporaryDirectory() as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(run(Path(directory)))


if __name__ == "__main__":
    main()
