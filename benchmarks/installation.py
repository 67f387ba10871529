"""Requests and writes of an installation, an upgrade, a restart and an idle minute, from the API server's audit log.

Real Cluster API core manager, one kube-apiserver per cluster, everything on the same machine. Counted is every request
that the management API server receives from the operator, by its user agent: also discovery, and requests that the
server refuses. Requests for the Lease, and watches, which the server ends after a minute, are counted apart, because
they depend on time. A step ends when the operator has sent no other request for ``QUIET_SECONDS``.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.fleet import FLEET, Bench, cpu_seconds, release_ready, until
from clusterstacks.dev.demo.scenario import build_first, build_second
from clusterstacks.dev.environment import Environment, EnvironmentSettings
from clusterstacks.dev.private_files import private_directory
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.app import COMPONENT
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, set_topology, stack
from tests.support.observing.audit_log import audit_flags
from tests.support.observing.request_audit import (
    ALL_REQUESTS,
    AuditedRequest,
    RequestAudit,
    by_verb_and_kind,
    of_agent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.dev.apiserver import ApiServerSettings
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.dev.kube_components import Components

CLUSTERS = 5
RESTARTS = 3
QUIET_SECONDS = 4.0
"""Longer than the retries and the delayed checks of Cluster API and the operator; no figure contains it."""
IDLE_SECONDS = 60
POLL_SECONDS = 0.1


class AuditedEnvironment(Environment):
    """The local environment, whose management API server writes an audit log."""

    def _management(self, bench: Components, etcd: Etcd) -> ApiServerSettings:
        settings = super()._management(bench, etcd)
        settings.directory.mkdir(parents=True, exist_ok=True)
        return replace(settings, flags=(*settings.flags, *audit_flags(settings.directory, ALL_REQUESTS)))


class Meter:
    """Counts the requests of each step."""

    def __init__(self, audit: RequestAudit) -> None:
        self._audit = audit
        self.steps: dict[str, list[list[AuditedRequest]]] = {}

    async def settle(self, step: str = "") -> list[AuditedRequest]:
        """Wait until the operator is quiet; record its requests and those of all others for the step."""
        found: list[AuditedRequest] = []
        quiet = 0.0
        while quiet < QUIET_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            new = self._audit.since_last()
            found += new
            sent = [one for one in of_agent(new, COMPONENT) if one.verb != "watch"]
            quiet = 0.0 if sent or not of_agent(found, COMPONENT) else quiet + POLL_SECONDS
        if step:
            self.steps.setdefault(step, []).append(found)
        return of_agent(found, COMPONENT)

    def note(self, step: str) -> None:
        """Record what was sent since the last call for the step."""
        self.steps.setdefault(step, []).append(self._audit.since_last())


async def measure(bench: Bench, meter: Meter) -> None:
    first, second = build_first(bench.releases), build_second(bench.releases)
    async with Pool() as pool:
        client = Client(load_kubeconfig([bench.state.kubeconfig]), pool)
        with bench.operator():
            await create(client, namespace(FLEET))
            await meter.settle()
            await create(client, stack(FLEET, versions=["v1", "v2"], autoSubscribe=False))
            await until(lambda: release_ready(client, FLEET, first.release))
            await until(lambda: release_ready(client, FLEET, second.release))
            await meter.settle("ClusterStack with two releases")
            for number in range(CLUSTERS):
                await create(client, cluster(FLEET, f"c{number}", first.class_name))
                await until(lambda number=number: delivered(client, FLEET, f"c{number}", first.class_name))  # type: ignore[misc]
                await meter.settle("installation")
            for number in range(CLUSTERS):
                await set_topology(client, FLEET, f"c{number}", second.class_name)
                await until(lambda number=number: delivered(client, FLEET, f"c{number}", second.class_name))  # type: ignore[misc]
                await meter.settle("upgrade")
            await asyncio.sleep(IDLE_SECONDS)
            meter.note("idle minute")
        for _ in range(RESTARTS):
            await restart(bench, meter)


async def restart(bench: Bench, meter: Meter) -> None:
    meter.note("")
    with bench.operator() as operator:
        # The child's clock starts at its fork; the audit log has the server's clock, which is the same machine's.
        began = started_at(operator.pid)
        found = await meter.settle(f"restart with {CLUSTERS} clusters")
        quiet_after = max(one.ended.timestamp() for one in found if one.verb != "watch") - began
        print(f"restart: quiet after {quiet_after:.2f} s, {cpu_seconds(operator.pid):.2f} CPU-seconds")


def started_at(pid: int) -> float:
    """Return the time at which a process was started, since the epoch."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    # "btime" of /proc/stat has whole seconds only.
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def show(meter: Meter) -> None:
    """Print the tables: by user agent, then the operator's by verb and kind."""
    print("\n| step | user agent | requests | of these writes | watches | Lease |\n|---|---|---|---|---|---|")
    steps = {step: runs for step, runs in meter.steps.items() if step}
    for step, runs in steps.items():
        for agent in sorted({one.agent for run in runs for one in run}):
            own = [of_agent(run, agent) for run in runs]
            requests = [sum(one.verb != "watch" for one in run) for run in own]
            writes = [sum(one.is_write for one in run) for run in own]
            watches = [sum(one.verb == "watch" for one in run) for run in own]
            leases = [sum(one.is_lease and one.agent == agent for one in run) for run in runs]
            counts = " | ".join(map(_spread, (requests, writes, watches, leases)))
            print(f"| {step} | {agent} | {counts} |")
    print(f"\n| step | verb and kind ({COMPONENT}) | requests |\n|---|---|---|")
    for step, runs in steps.items():
        kinds = [by_verb_and_kind(of_agent(run, COMPONENT)) for run in runs]
        for what in sorted(set[str]().union(*kinds)):
            print(f"| {step} | {what} | {_spread([count[what] for count in kinds])} |")


def _spread(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{median(counts):g} ({low}-{high})"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        # As an installed package has it.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(root / "bytecode")
        state = StateDirectory(root / "state")
        private_directory(state.root)
        environment = AuditedEnvironment(EnvironmentSettings(state=state, operator=False), lambda _: None)
        environment.start()
        try:
            meter = Meter(RequestAudit(state.management / "audit.log"))
            asyncio.run(measure(Bench(root, state), meter))
        finally:
            environment.stop()
    show(meter)


if __name__ == "__main__":
    main()
