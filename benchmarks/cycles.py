"""Memory over 500 ClusterAddons: each is deleted, created again by the operator, and reconciled until it is ready.

The workload cluster keeps its addons, so a cycle costs reads and status writes, but no apply. Memory is the
proportional set size (PSS) of the operator; its render workers have ended when it is read.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import uvloop

from benchmarks.fleet import FLEET, Bench, release_ready, until
from benchmarks.report import Figure, show
from benchmarks.rollouts import pss, tree
from clusterstacks.dev import supervisor, teardown
from clusterstacks.dev.demo.scenario import build_first
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import GROUP, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, stack

CYCLES = 500
STEP = 100
NAME = "subject"


async def measure(bench: Bench) -> None:
    first = build_first(bench.releases)
    figures: list[Figure] = []
    async with Pool() as pool:
        client = Client(load_kubeconfig([bench.state.kubeconfig]), pool)
        with bench.operator() as operator:
            await create(client, namespace(FLEET))
            await create(client, stack(FLEET, versions=["v1"], autoSubscribe=False))
            await until(lambda: release_ready(client, FLEET, first.release))
            await create(client, cluster(FLEET, NAME, first.class_name))
            await until(lambda: delivered(client, FLEET, NAME, first.class_name))
            for number in range(CYCLES + 1):
                if number % STEP == 0:
                    await asyncio.sleep(15)  # render workers end after 10 s
                    memory = sum(pss(one) for one in tree(operator.pid)) / 1e6
                    figures.append(Figure(f"PSS after {number} cycles", [memory], "MB"))
                await renew(client, first.class_name)
    show("Memory over cycles", figures)


async def renew(client: Client, class_name: str) -> None:
    """Delete the ClusterAddon, and wait until another one is ready."""
    addons = await client.resource(GROUP, Kind.CLUSTER_ADDON)
    before = (await client.get(addons, addon_name(NAME), FLEET))["metadata"]["uid"]
    await client.delete(addons, addon_name(NAME), FLEET, uid=before)

    async def renewed() -> bool:
        found = await delivered(client, FLEET, NAME, class_name)
        return found is not None and found["metadata"]["uid"] != before

    await until(renewed)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        state = StateDirectory(root / "state")
        supervisor.detach(EnvironmentSettings(state=state, operator=False), lambda _: None)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(measure(Bench(root, state)))
        finally:
            teardown.down(state, lambda _: None)


if __name__ == "__main__":
    main()
