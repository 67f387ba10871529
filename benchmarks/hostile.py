"""One cluster beside 100 hostile ones and a flooded port of the webhooks, compared with an operator that has only it.

Two operators with default settings run as processes of their own, each with its own API server, as in
``benchmarks.isolation``. One of them is attacked (``benchmarks.attackers``). Upgrades, comparisons of all objects, and
requests that the webhook has to refuse are made in turns, so that both series have the same load of the machine. The
same turns before the attacks show the error of the method: their ratios should be 1.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from benchmarks.deliveries import api_server
from benchmarks.isolation import NAME, POLL_SECONDS, Subject
from benchmarks.report import Figure, show
from benchmarks.rollouts import peak_memory
from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, RECONCILE_ANNOTATION
from tests.support.running.admission import forget, refusal
from tests.support.running.operator_process import OPERATOR, ROOT, process
from tests.support.running.world import cluster_manifest, opened_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from clusterstacks.dev.apiserver import ApiServer
    from tests.support.running.world import World

HOSTILE: Final = 100
TURNS: Final = int(os.environ.get("TURNS", "40"))
"""Turns of each kind of work in each part: an even number, so that each part begins with the first class."""
SETTLE_SECONDS: Final = 20
"""Time of an attack before it is measured: connections are open, and each hostile cluster was tried."""


@dataclass(slots=True)
class Part:
    """Seconds of each kind of work and the memory of both operators, in one part of the run."""

    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    memory: tuple[int, int] = (0, 0)
    unchecked: int = 0


@asynccontextmanager
async def attackers(*arguments: object) -> AsyncIterator[asyncio.StreamReader]:
    """Run attackers; yields their output."""
    program = [sys.executable, "-m", "benchmarks.attackers", *map(str, arguments)]
    running = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert running.stdout is not None
    try:
        yield running.stdout
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def measure(servers: Sequence[ApiServer], directory: Path) -> list[Figure]:
    parts: dict[str, Part] = {}
    async with AsyncExitStack() as stack:
        subjects: list[Subject] = []
        ports: list[int] = []
        for server in servers:
            place = directory / f"world-{len(subjects)}"
            place.mkdir()
            world = await stack.enter_async_context(opened_world(server, server, place))
            stack.push_async_callback(forget, world)  # once its operator has ended, nobody answers the API server
            ports.append(free_port())
            flags = {
                "webhook_port": ports[-1],
                "webhook_url": f"https://127.0.0.1:{ports[-1]}",
                "operator_namespace": world.namespace,
            }
            subjects.append(Subject(world, await stack.enter_async_context(process(world, OPERATOR, **flags))))
            await subjects[-1].prepare()
        attacked, alone = subjects
        parts["before the attacks"] = await compare(attacked, alone)
        output = await stack.enter_async_context(attackers("clusters", directory))
        port, mute, *modes = (await output.readline()).decode().split()
        servers_by_mode = dict.fromkeys(modes, f"https://127.0.0.1:{port}")
        servers_by_mode["handshake"] = f"https://127.0.0.1:{mute}"
        await connect_hostile(attacked, (directory / "ca.pem").read_bytes(), servers_by_mode)
        await asyncio.sleep(SETTLE_SECONDS)
        parts[f"beside {HOSTILE} hostile clusters"] = await compare(attacked, alone)
        await stack.enter_async_context(attackers("webhooks", ports[0]))
        await asyncio.sleep(SETTLE_SECONDS)
        parts[f"beside {HOSTILE} hostile clusters, with flooded webhooks"] = await compare(attacked, alone)
    return [figure for title, part in parts.items() for figure in figures(title, part)]


async def connect_hostile(subject: Subject, authority: bytes, servers: Mapping[str, str]) -> None:
    """Create the hostile clusters, whose control planes are said to be there."""
    for number in range(HOSTILE):
        mode, server = list(servers.items())[number % len(servers)]
        name = f"{mode}-{number // len(servers)}"
        access = {"server": f"{server}/{name}", "certificate-authority-data": base64.b64encode(authority).decode()}
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": access}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        manifest = cluster_manifest(subject.world.namespace, name, subject.class_name(0))
        await subject.world.create(manifest)
        await subject.world.connect(name, kubeconfig)
        await subject.world.finish(manifest)


async def compare(attacked: Subject, alone: Subject) -> Part:
    """Do all work with both in turns."""
    part = Part()

    async def ask(subject: Subject, number: int) -> None:
        part.unchecked += not await is_refused(subject.world, number)

    work: dict[str, Callable[[Subject, int], Awaitable[None]]] = {
        "upgrade": Subject.upgrade,
        "comparison of all objects": sweep,
        "refused change of a Cluster": ask,
    }
    with peak_memory(attacked.process.pid) as first, peak_memory(alone.process.pid) as second:
        for title, do in work.items():
            pairs = part.seconds[title] = []
            for number in range(1, TURNS + 1):
                took: dict[int, float] = {}
                for subject in (attacked, alone) if number % 2 else (alone, attacked):
                    began = time.monotonic()
                    await do(subject, number)
                    took[id(subject)] = time.monotonic() - began
                pairs.append((took[id(attacked)], took[id(alone)]))
        part.memory = (first(), second())
    return part


async def sweep(subject: Subject, _number: int) -> None:
    """Request a comparison of all objects, and wait for its end."""
    world, asked = subject.world, str(time.monotonic_ns())
    patch = {"metadata": {"annotations": {RECONCILE_ANNOTATION: asked}}}
    await world.patch(await world.get(CLUSTER_KIND, NAME), patch)
    while True:
        if (await world.addon(NAME))["status"].get("lastHandledReconcileAt") == asked:
            return
        await asyncio.sleep(POLL_SECONDS)


async def is_refused(world: World, _number: int) -> bool:
    """Ask for a class that is not offered; the API server allows it only if it has no answer of the webhook."""
    clusters = await world.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    patch: dict[str, Any] = {"spec": {"topology": {"classRef": {"name": world.stack.release("v9").class_name}}}}
    return bool(await refusal(world.client.merge_patch(clusters, NAME, patch, world.namespace, dry_run=True)))


def figures(title: str, part: Part) -> list[Figure]:
    found = []
    for what, pairs in part.seconds.items():
        first, second = map(list, zip(*pairs, strict=True))
        found += [
            Figure(f"{what}, {title}", first, "s"),
            Figure(f"{what} in turn with it, alone", second, "s"),
            Figure(f"{what}: ratio of a pair", [one / other for one, other in pairs], "x"),
            Figure(f"{what}: ratio of the 95th percentiles", [_p95(first) / _p95(second)], "x"),
        ]
    return [
        *found,
        Figure(f"changes that were not checked, {title}", [part.unchecked], f"of {2 * TURNS}"),
        Figure(f"highest PSS of the operator and its workers, {title}", [part.memory[0] / 1e6], "MB"),
        Figure("that of the operator with one cluster", [part.memory[1] / 1e6], "MB"),
    ]


def _p95(seconds: list[float]) -> float:
    return quantiles(seconds, n=20)[-1]


def main() -> None:
    """Print the table."""
    with api_server() as first, api_server() as second, tempfile.TemporaryDirectory() as directory:
        show("Hostile clusters and clients", asyncio.run(measure((first, second), Path(directory))))


if __name__ == "__main__":
    main()
