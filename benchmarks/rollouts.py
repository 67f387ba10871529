"""Whole rollouts beside bare applies: installs and upgrades of 10, 40, 200 and 563 objects in three addons.

Real Cluster API core manager, one workload cluster, the operator as its own process. Half of the objects are
ConfigMaps, the other half Deployments and Roles; an upgrade to a class of the same Kubernetes version changes 30 % of
them. *Bare applies* are server-side applies of equal objects in another namespace of the same workload cluster, in the
same run: the limit of that server. CPU and memory are those of the operator with its render workers; memory is the
proportional set size (PSS), so pages that processes share count once.

``python -m benchmarks.rollouts --before ../other/checkout`` also measures the operator of another checkout, after
``make setup`` there; both take turns, run by run, so that they share the load of the machine. Sizes as arguments
(``python -m benchmarks.rollouts 563``) replace the four default ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from contextlib import AsyncExitStack, ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import uvloop

from benchmarks.fleet import FLEET, Bench, release_ready, until
from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.deliver.apply.delivery import Delivery
from clusterstacks.dev import supervisor, teardown
from clusterstacks.dev.demo.scenario import stacks
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.workload_clients import BUDGET
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, stack
from tests.support.builders.manifests import config_map, deployment, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest

SIZES = (10, 40, 200, 563)
RUNS = 5
CHANGED_OF_TEN = 3
ADDONS = ("network", "metrics", "storage")
HOME, BARE = "kube-system", "default"
"""Namespaces of the delivered objects and of those of the bare applies."""
NAME = "subject"
SAMPLE_SECONDS = 0.25
"""Reading the PSS of operator and worker takes some 5 ms of CPU time, which the measured processes lack."""
SETTLE_SECONDS = 1
"""Pause before a rollout, in which Cluster API and the operator react to the end of the previous one."""
KINDS = ("install", "upgrade")


class Cost(NamedTuple):
    """One rollout: wall time, bare applies and CPU time in seconds, and the highest PSS in bytes."""

    seconds: float
    bare: float
    cpu: float
    memory: int


@dataclass(frozen=True)
class Size:
    """The two releases of a size, which differ in 30 % of their objects."""

    count: int
    first: ReleaseName
    second: ReleaseName


def objects(count: int, home: str, version: str) -> list[Manifest]:
    """Return half ConfigMaps, half Deployments and Roles; ``v2`` changes three of ten."""
    found: list[Manifest] = []
    for number in range(count):
        name, word = f"b{count}-{number}", version if number % 10 < CHANGED_OF_TEN else "v1"
        rule = {"apiGroups": [""], "resources": [f"pods-{word}"], "verbs": ["get", "list"]}
        match number % 4:
            case 0 | 2:
                found.append(config_map(name, home, key=word, text="a line of configuration\n" * 10))
            case 1:
                found.append(deployment(name, home, image=f"example.org/app:{word}"))
            case _:
                found.append(named("rbac.authorization.k8s.io/v1", "Role", name, home, rules=[rule]))
    return found


def build(root: Path, releases: Path, count: int) -> Size:
    """Build the two releases of a stack of its own: the demo's class, and addons with this number of objects."""
    first, second = (_release(root, releases, count, version) for version in ("v1", "v2"))
    return Size(count, first, second)


def _release(root: Path, releases: Path, count: int, version: str) -> ReleaseName:
    source = root / f"stack-{count}-{version}"
    shutil.copytree(stacks() / "demo/1-35", source, ignore=shutil.ignore_patterns("cluster-addon", "clusteraddon.yaml"))
    for path, old, new in (
        ("csctl.yaml", "clusterStackName: demo", f"clusterStackName: {_stack(count)}"),
        ("cluster-class/Chart.yaml", "local-demo-", f"local-{_stack(count)}-"),
    ):
        (source / path).write_text((source / path).read_text().replace(old, new))
    rendered = objects(count, HOME, version)
    for number, addon in enumerate(ADDONS):
        chart = source / "cluster-addon" / addon
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {addon}\nversion: 1.0.0\n")
        (chart / "overwrite.yaml").write_text("values: |\n  cluster: {{ .Cluster.metadata.name }}\n")
        share = rendered[number :: len(ADDONS)]
        (chart / "templates/all.yaml").write_text("\n---\n".join(json.dumps(one) for one in share))
    stages = {"AfterControlPlaneInitialized": [{"name": addon, "action": "apply"} for addon in ADDONS]}
    config = {
        "apiVersion": "clusteraddonconfig.x-k8s.io/v1alpha1",
        "clusterAddonVersion": "clusteraddons.clusterstack.x-k8s.io/v1alpha1",
        "addonStages": stages,
    }
    (source / "clusteraddon.yaml").write_text(json.dumps(config))
    return build_release(source, releases, cluster_stack=version, cluster_addon=version, node_image="v1")


def _stack(count: int) -> str:
    return f"bench{count}"


@dataclass(frozen=True)
class Side:
    """One version of the operator, which runs in an environment of its own."""

    name: str
    client: Client
    workload: Client
    pid: int


async def measure(benches: dict[str, tuple[Bench, Path | None]], built: list[Size], runs: int) -> None:
    """Print the costs of all sizes; the versions of the operator take turns."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(Pool())
        sides = []
        for name, (bench, checkout) in benches.items():
            client = Client(load_kubeconfig([bench.state.kubeconfig]), pool)
            operator = stack.enter_context(bench.operator(checkout))
            await prepare(client, built)
            sides.append(Side(name, client, bench.workload(NAME, pool), operator.pid))
        found: dict[tuple[str, int, str], list[Cost]] = {}
        for size in built:
            for run in range(runs):
                for side in sides if run % 2 == 0 else reversed(sides):
                    for kind, cost in zip(KINDS, await one_run(side, size), strict=True):
                        found.setdefault((kind, size.count, side.name), []).append(cost)
    show(found)


def show(found: dict[tuple[str, int, str], list[Cost]]) -> None:
    """Print a table with the medians; the spread of the times in brackets."""
    columns = ("what", "objects", "version", "time", "bare", "time / bare", "CPU", "highest PSS")
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for (kind, count, name), costs in sorted(found.items()):
        times, ratios = [one.seconds for one in costs], [one.seconds / one.bare for one in costs]
        cells = (
            f"{median(times):.2f} s ({min(times):.2f}-{max(times):.2f})",
            f"{median(one.bare for one in costs):.2f} s",
            f"{median(ratios):.1f} x ({min(ratios):.1f}-{max(ratios):.1f})",
            f"{median(one.cpu for one in costs):.2f} s",
            f"{median(one.memory for one in costs) / 1e6:.0f} MB",
        )
        print(f"| {kind} | {count} | {name} | {' | '.join(cells)} |")


async def one_run(side: Side, size: Size) -> tuple[Cost, Cost]:
    """Apply bare objects, then install and upgrade."""
    bare: list[float] = []
    for version in ("v1", "v2"):
        sent = objects(size.count, BARE, version)
        bare.append(await apply_bare(side.workload, [one for one in sent if version == "v1" or _changed(one)]))
    await delete_all(side.workload)
    await empty(side.client, side.workload)
    install = await roll_out(side, size.first.class_name, bare[0])
    return install, await roll_out(side, size.second.class_name, bare[1])


async def prepare(client: Client, built: list[Size]) -> None:
    """Have all releases ready, and a Cluster whose API server answers; it is paused between the runs."""
    await create(client, namespace(FLEET))
    for size in built:
        name = {"name": f"{_stack(size.count)}-1-35", "namespace": FLEET}
        wanted = stack(FLEET, versions=["v1", "v2"], autoSubscribe=False)
        await create(client, {**wanted, "metadata": name, "spec": {**wanted["spec"], "name": _stack(size.count)}})
    for size in built:
        for release in (size.first.release, size.second.release):
            await until(lambda release=release: release_ready(client, FLEET, release))  # type: ignore[misc]
    await create(client, cluster(FLEET, NAME, built[0].first.class_name))
    await until(lambda: delivered(client, FLEET, NAME, built[0].first.class_name))


def _changed(manifest: Manifest) -> bool:
    return int(manifest["metadata"]["name"].rpartition("-")[2]) % 10 < CHANGED_OF_TEN


async def roll_out(side: Side, class_name: str, bare: float) -> Cost:
    """Set the class of the Cluster, and wait until the ClusterAddon reports its delivery."""
    client, pid = side.client, side.pid
    clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    addons = await client.resource(GROUP, Kind.CLUSTER_ADDON)
    await asyncio.sleep(SETTLE_SECONDS)
    version = (await client.list_metadata(addons, FLEET)).resource_version
    patch = {"spec": {"paused": False, "topology": {"classRef": {"name": class_name}}}}
    with peak_memory(pid) as peak:
        cpu, began = tree_cpu(pid), time.perf_counter()
        await client.merge_patch(clusters, NAME, patch, FLEET)
        async with aclosing(client.watch(addons, FLEET, resource_version=version)) as events:
            async for event in events:
                status = event.object.get("status") or {}
                if event.object.get("spec", {}).get("clusterStack") == class_name and status.get("ready"):
                    break
        return Cost(time.perf_counter() - began, bare, tree_cpu(pid) - cpu, peak())


async def empty(client: Client, workload: Client) -> None:
    """Pause the Cluster, and delete its addon objects, their records and the ClusterAddon."""
    clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    addons = await client.resource(GROUP, Kind.CLUSTER_ADDON)
    await client.merge_patch(clusters, NAME, {"spec": {"paused": True}}, FLEET)
    await asyncio.sleep(1)
    await Delivery(workload).prune(())
    await client.delete(addons, addon_name(NAME), FLEET)

    async def gone() -> bool:
        return await client.find(addons, addon_name(NAME), FLEET) is None

    await until(gone)


async def apply_bare(client: Client, manifests: list[Manifest]) -> float:
    slots = asyncio.Semaphore(BUDGET)

    async def one(manifest: Manifest) -> None:
        group, _, version = manifest["apiVersion"].rpartition("/")
        resource = await client.resource(group, manifest["kind"], version)
        async with slots:
            await client.apply(resource, manifest, manager="bare")

    began = time.perf_counter()
    await asyncio.gather(*(one(manifest) for manifest in manifests))
    return time.perf_counter() - began


async def delete_all(client: Client) -> None:
    """Delete the objects of the bare applies."""
    for group, kind in (("", "ConfigMap"), ("apps", "Deployment"), ("rbac.authorization.k8s.io", "Role")):
        resource = await client.resource(group, kind)
        names = [one["metadata"]["name"] for one in (await client.list_metadata(resource, BARE)).items]
        names = [name for name in names if name.startswith("b")]
        await asyncio.gather(*(client.delete(resource, name, BARE) for name in names))


@contextmanager
def peak_memory(pid: int) -> Iterator[Callable[[], int]]:
    """Sample the PSS of a process with its children; yields what returns the highest so far."""
    highest, ended = 0, threading.Event()

    def sample() -> None:
        nonlocal highest
        while not ended.is_set():
            highest = max(highest, sum(pss(one) for one in tree(pid)))
            ended.wait(SAMPLE_SECONDS)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: highest
    finally:
        ended.set()
        thread.join()


def tree(pid: int) -> list[int]:
    """Return a process and its children; render workers have none."""
    try:
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return [pid]


def pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process, of its ended children, and of its running ones."""
    ticks = 0
    for one in tree(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Measure whole rollouts beside bare applies.")
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="numbers of objects")
    parser.add_argument("--before", type=Path, help="checkout whose operator is measured in turns with this one")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        root = Path(directory)
        built = [build(root, root / "releases", count) for count in asked.sizes]
        checkouts = {"now": None, **({"before": asked.before.resolve()} if asked.before else {})}
        benches: dict[str, tuple[Bench, Path | None]] = {}
        for name, checkout in checkouts.items():
            state = StateDirectory(root / name)
            supervisor.detach(EnvironmentSettings(state=state, operator=False), lambda _: None)
            stack.callback(teardown.down, state, lambda _: None)
            bench = Bench(root, state)
            bench.cache = root / f"cache-{name}"
            benches[name] = (bench, checkout)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(benches, built, asked.runs))


if __name__ == "__main__":
    main(sys.argv[1:])
