"""The operator on a real local environment: readiness, five clusters, idle cost, a frozen neighbour, a restart.

Real Cluster API core manager, one kube-apiserver per cluster, everything on the same machine. Memory and CPU are the
operator process's, from /proc. Writes are counted by the API servers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Figure, show
from clusterstacks.dev import inspection, process_records, supervisor, teardown
from clusterstacks.dev.demo.scenario import build_first, build_second
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.provider.kinds import GROUP, TEMPLATES
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, set_topology, stack
from tests.support.observing.write_counter import writes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

RUNS = 5
CLUSTERS = 5
IDLE_SECONDS = 60
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 120
FLEET = "fleet"
KINDS = ",".join(f"{kind}.{GROUP}" for kind in TEMPLATES)


class Bench:
    """A running environment without operator, and the operator under measurement."""

    def __init__(self, root: Path, state: StateDirectory) -> None:
        self.root = root
        self.state = state
        self.releases = root / "releases"
        self.cache = root / "cache"

    @contextmanager
    def operator(
        self, checkout: Path | None = None, program: str = "clusterstacks.operator.main", *flags: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run the operator; ``checkout`` is that of another version with its own environment (``make setup``)."""
        command = [
            checkout / ".venv/bin/python" if checkout else sys.executable,
            *("-m", program),
            f"--kubeconfig={self.state.kubeconfig}",
            f"--release-dir={self.releases}",
            f"--cache-dir={self.cache}",
            f"--class-kinds={KINDS}",
            "--leader-elect-namespace=default",
            "--leader-elect-identity=benchmark",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            *flags,
        ]
        with (self.root / "operator.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        except BaseException as error:
            error.add_note(f"the last messages of the operator:\n{(self.root / 'operator.log').read_text()[-3000:]}")
            raise
        finally:
            process.terminate()
            process.wait()

    def workload(self, name: str, pool: Pool) -> Client:
        return Client(load_kubeconfig([self.state.cluster_kubeconfig(FLEET, name)]), pool)

    def api_server_pid(self, name: str) -> int:
        return next(one.pid for one in process_records.read_all(self.state.records) if one.name == f"{FLEET}/{name}")


async def until(look: Callable[[], Awaitable[object]]) -> float:
    """Seconds until ``look`` finds something."""
    began = time.perf_counter()
    while True:
        try:
            if await look():
                return time.perf_counter() - began
        except AssertionError:
            pass
        assert time.perf_counter() - began < PATIENCE_SECONDS, "it never happened"
        await asyncio.sleep(POLL_SECONDS)


async def measure(bench: Bench) -> None:
    first, second = build_first(bench.releases), build_second(bench.releases)
    async with Pool() as pool:
        client = Client(load_kubeconfig([bench.state.kubeconfig]), pool)
        with bench.operator() as operator:
            await ready_operator(client, first.release)
            figures = [await readiness(client, first.release)]
            figures += await fleet(client, first.class_name)
            figures += await idle(operator)
            figures += await frozen(bench, client, (first.class_name, second.class_name))
        figures.append(await restart(bench, client, pool))
    show("Operator", figures)
    show_environment(bench)


async def ready_operator(client: Client, release: str) -> None:
    """Let the operator have done everything once: processes and caches are warm."""
    await create(client, namespace(FLEET))
    await create(client, stack(FLEET, versions=["v1", "v2"], autoSubscribe=False))
    await until(lambda: release_ready(client, FLEET, release))


async def readiness(client: Client, release: str) -> Figure:
    seconds = []
    for run in range(RUNS):
        home = f"ready-{run}"
        await create(client, namespace(home))
        await create(client, stack(home, versions=["v1"], autoSubscribe=False))
        seconds.append(await until(lambda home=home: release_ready(client, home, release)))  # type: ignore[misc]
    return Figure("ClusterStack created to release ready, class accepted", seconds, "s")


async def fleet(client: Client, class_name: str) -> list[Figure]:
    names = [f"c{number}" for number in range(CLUSTERS)]
    began = time.perf_counter()
    for name in names:
        await create(client, cluster(FLEET, name, class_name))
    for name in names:
        await until(lambda name=name: delivered(client, FLEET, name, class_name))  # type: ignore[misc]
    return [Figure(f"{CLUSTERS} Clusters created at once to all addons delivered", [time.perf_counter() - began], "s")]


async def idle(operator: subprocess.Popen[bytes]) -> list[Figure]:
    await asyncio.sleep(45)  # render workers end after 30 s
    cpu = cpu_seconds(operator.pid)
    await asyncio.sleep(IDLE_SECONDS)
    used = cpu_seconds(operator.pid) - cpu
    return [
        Figure(f"operator idle, {CLUSTERS} clusters: memory (RSS)", [memory(operator.pid) / 1e6], "MB"),
        Figure(f"operator idle, {CLUSTERS} clusters: CPU a minute", [used * 60 / IDLE_SECONDS], "s"),
    ]


async def frozen(bench: Bench, client: Client, classes: tuple[str, str]) -> list[Figure]:
    """Upgrade one cluster to and fro while another's API server does not answer."""
    neighbour = bench.api_server_pid("c1")
    calm = [await upgrade(client, "c0", classes[1 - run % 2]) for run in range(RUNS)]
    stopped, caught = [], []
    for run in range(RUNS):
        os.kill(neighbour, signal.SIGSTOP)
        try:
            stopped.append(await upgrade(client, "c0", classes[run % 2]))
        finally:
            os.kill(neighbour, signal.SIGCONT)
    for run in range(RUNS):
        await set_topology(client, FLEET, "c1", classes[1 - run % 2])
        await asyncio.sleep(0.15)  # the upgrade takes 0.3 s: now it is in the middle
        os.kill(neighbour, signal.SIGSTOP)
        try:
            caught.append(await upgrade(client, "c0", classes[1 - run % 2]))
        finally:
            os.kill(neighbour, signal.SIGCONT)
        await until(lambda run=run: delivered(client, FLEET, "c1", classes[1 - run % 2]))  # type: ignore[misc]
    return [
        Figure("upgrade of a cluster", calm, "s"),
        Figure("the same, another cluster frozen while idle", stopped, "s"),
        Figure("the same, another cluster frozen during its upgrade", caught, "s"),
    ]


async def upgrade(client: Client, name: str, class_name: str) -> float:
    await set_topology(client, FLEET, name, class_name)
    return await until(lambda: delivered(client, FLEET, name, class_name))


async def restart(bench: Bench, client: Client, pool: Pool) -> Figure:
    servers = [client, *(bench.workload(f"c{number}", pool) for number in range(CLUSTERS))]
    with bench.operator():
        await asyncio.sleep(15)
    before = [await writes(server) for server in servers]
    with bench.operator():
        await asyncio.sleep(15)
    after = [await writes(server) for server in servers]
    return Figure(
        "restart: writes to all API servers", [sum((b - a).total() for a, b in zip(before, after, strict=True))], ""
    )


async def release_ready(client: Client, home: str, release: str) -> bool:
    releases = await client.resource("clusterstack.x-k8s.io", "ClusterStackRelease")
    found = await client.find(releases, release, home)
    return bool(found and found.get("status", {}).get("ready"))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def show_environment(bench: Bench) -> None:
    seen = inspection.inspect(bench.state)
    assert seen is not None
    show("Environment", [Figure(f"{one.name}: memory", [one.memory_bytes / 1e6], "MB") for one in seen.components])


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        state = StateDirectory(root / "state")
        began = time.perf_counter()
        supervisor.detach(EnvironmentSettings(state=state, operator=False), lambda _: None)
        print(f"environment started in {time.perf_counter() - began:.1f} s")
        try:
            asyncio.run(measure(Bench(root, state)))
        finally:
            teardown.down(state, lambda _: None)


if __name__ == "__main__":
    main()
