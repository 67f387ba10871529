"""ClusterResourceSyncs beside Cluster API's ClusterResourceSets: many logical clusters, in one run.

Each logical cluster has a namespace in both clusters: for its Cluster, kubeconfig, source and sync or set in the
management cluster, and for its objects in the workload cluster, which all share. The core manager with the
ClusterResourceSet controller is connected to all of them before the first measurement; the operator is not. The bare
client applies equal objects with a client for each cluster, and as many requests at a time as the operator.

Requests and times are those of the audit logs of both API servers: from the first write of the user to the last write
of an object. CPU time and memory (PSS) are those of the process, until it is quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import uvloop
import yaml

from benchmarks.deliveries import api_server
from benchmarks.fleet import Bench
from benchmarks.installation import AuditedEnvironment
from benchmarks.rollouts import peak_memory, pss, tree, tree_cpu
from clusterstacks.dev.environment import CLIENT_GRACE, EnvironmentSettings
from clusterstacks.dev.go_build import cluster_api_version
from clusterstacks.dev.private_files import private_directory
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.dev.toolchain import CORE
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, CLUSTER_NAME_LABEL, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.app import COMPONENT
from clusterstacks.operator.controllers.clusteraddon.registration import REGISTRATION
from clusterstacks.operator.controllers.workload_clients import BUDGET, KUBECONFIG_TYPE
from tests.support.builders.e2e_objects import create, namespace
from tests.support.builders.manifests import config_map, crd, named
from tests.support.observing.audit_log import audit_flags
from tests.support.observing.request_audit import ALL_REQUESTS, AuditedRequest, RequestAudit, by_verb_and_kind, of_agent
from tests.support.running.world import condition_of, install
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.processes import Process
    from clusterstacks.model.objects import Manifest

CLUSTERS = 200
OBJECTS = 10
MINUTES = 5
DRIFTED = 0.05
"""Share of the objects that a user edits or deletes."""
INTERVAL = timedelta(seconds=60)
LATE = timedelta(seconds=5)
"""Delay after the interval within which a difference is to be corrected."""
QUIET_SECONDS = 4.0
POLL_SECONDS = 0.2
PATIENCE_SECONDS = 600
AT_ONCE = 32
"""Concurrent requests of the user."""
USER = "user"
LABEL = "benchmark"
PROBE = "/"
"""Path that the core manager requests from every cluster every ten seconds, for all of its controllers."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A controller under measurement."""

    title: str
    word: str
    """In the names of everything it reads and writes."""
    agents: tuple[str, ...]
    """Its user agents in the two clusters."""
    api_version: str
    kind: str
    spec: Manifest

    def manifest(self, cluster: str) -> Manifest:
        """Return the object that delivers the source to a cluster."""
        resources = [{"kind": "ConfigMap", "name": self.word}]
        selector = {"matchLabels": {LABEL: "true"}}
        spec = {"clusterSelector": selector, "resources": resources, **self.spec}
        # The name decides about the ApplySet, whose members must not be those of another logical cluster.
        return named(self.api_version, self.kind, f"{self.word}-{cluster}", cluster, spec=spec)


SYNC = Subject(
    "ClusterResourceSync",
    "sync",
    (COMPONENT, "cluster-stacks"),
    SYNC_API_VERSION,
    Kind.CLUSTER_RESOURCE_SYNC,
    {"interval": f"{INTERVAL.total_seconds():.0f}s"},
)
SET = Subject(
    "ClusterResourceSet",
    "set",
    (f"{CORE}-{cluster_api_version()}",),
    f"addons.{CLUSTER_API_GROUP}/v1beta2",
    "ClusterResourceSet",
    {"strategy": "Reconcile"},
)
OPERATOR = ("benchmarks.logical_operator", "--leader-elect=false")
"""Program and flags; like the core manager, it runs without leader election."""


GROUP, KIND = "benchmark.example.org", "LogicalCluster"
INFRASTRUCTURE = crd(KIND, GROUP, versions=("v1beta2",))
"""Infrastructure that no controller looks after, so that only the subjects have work."""
INFRASTRUCTURE["metadata"]["labels"] = {f"{CLUSTER_API_GROUP}/v1beta2": "v1beta2"}


def objects(word: str, cluster: str, version: str) -> list[Manifest]:
    """Return the objects of a logical cluster."""
    found = []
    for number in range(OBJECTS):
        one = config_map(f"{word}-{cluster}-{number}", cluster, key=version, text="a line of configuration\n" * 10)
        found.append({**one, "metadata": {**one["metadata"], "labels": {LABEL: word}}})
    return found


class Step(NamedTuple):
    """The work of a subject: time to its last write of an object, requests until it was quiet, and CPU seconds."""

    seconds: float
    workload: list[AuditedRequest]
    management: list[AuditedRequest]
    cpu: float

    @property
    def requests(self) -> int:
        return len(self.workload) + len(self.management)

    @property
    def writes(self) -> int:
        return sum(one.is_write for one in self.workload)


@dataclass(slots=True)
class Fleet:
    """The logical clusters, and the audit logs of both API servers."""

    management: Client
    workload: Client
    server: ApiServer
    logs: Sequence[RequestAudit]
    """Of the workload cluster and of the management cluster."""
    clusters: Sequence[str]
    requests: tuple[list[AuditedRequest], list[AuditedRequest]] = field(default_factory=lambda: ([], []))
    """The requests of the current step, in the order of ``logs``."""

    def read(self) -> None:
        """Read what is new in the logs."""
        for log, found in zip(self.logs, self.requests, strict=True):
            found.extend(log.since_last())

    def begin(self) -> None:
        """Forget the requests before a step."""
        self.read()
        self.requests = ([], [])

    def of(self, subject: Subject) -> tuple[list[AuditedRequest], list[AuditedRequest]]:
        """Return the requests of a subject in this step, without watches, Leases and probes."""
        workload, management = (
            [
                one
                for agent in subject.agents
                for one in of_agent(found, agent)
                if one.verb != "watch" and one.kind != PROBE
            ]
            for found in self.requests
        )
        return workload, management

    async def each(self, work: Callable[[str], Awaitable[object]]) -> None:
        """Do something with each cluster."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(cluster: str) -> None:
            async with slots:
                await work(cluster)

        await asyncio.gather(*map(one, self.clusters))

    async def create(self) -> None:
        """Create the clusters; infrastructure and control plane are reported, as their providers do."""
        kubeconfig = base64.b64encode(yaml.safe_dump(self.server.kubeconfig).encode()).decode()
        await install(self.management, [INFRASTRUCTURE])
        clusters = await self.management.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        initialized = {"controlPlaneInitialized": True, "infrastructureProvisioned": True}
        endpoint = {"host": self.server.settings.address, "port": self.server.settings.port}

        async def one(cluster: str) -> None:
            for client in (self.management, self.workload):
                await create(client, namespace(cluster))
            made = named("v1", "Secret", f"{cluster}-kubeconfig", cluster, type=KUBECONFIG_TYPE)
            made["metadata"]["labels"] = {CLUSTER_NAME_LABEL: cluster}
            await create(self.management, {**made, "data": {"value": kubeconfig}})
            status: Manifest = {"initialization": {"provisioned": True}}
            spec: Manifest = {"controlPlaneEndpoint": endpoint}
            await create(self.management, named(f"{GROUP}/v1beta2", KIND, cluster, cluster, spec=spec, status=status))
            spec |= {"infrastructureRef": {"apiGroup": GROUP, "kind": KIND, "name": cluster}}
            made = named(f"{CLUSTER_API_GROUP}/v1beta2", CLUSTER_KIND, cluster, cluster, spec=spec)
            await create(self.management, {**made, "metadata": {**made["metadata"], "labels": {LABEL: "true"}}})
            patch = {"status": {"initialization": initialized}}
            await self.management.merge_patch(clusters, cluster, patch, cluster, subresource="status")

        await self.each(one)

    async def write_sources(self, subject: Subject, version: str) -> None:
        """Write the sources of all clusters."""
        resource = await self.management.resource("", "ConfigMap")

        async def one(cluster: str) -> None:
            text = "---\n".join(yaml.safe_dump(manifest) for manifest in objects(subject.word, cluster, version))
            source = {**config_map(subject.word, cluster), "data": {"objects.yaml": text}}
            await self.management.apply(resource, source, manager=USER, force=True)

        await self.each(one)

    async def settle(self, subject: Subject) -> None:
        """Wait until a subject sends no requests."""
        quiet, seen = 0.0, -1
        while quiet < QUIET_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            self.read()
            count = sum(map(len, self.of(subject)))
            quiet = quiet + POLL_SECONDS if count == seen and count else 0.0  # it may be starting
            seen = count

    async def step(self, subject: Subject, process: int, act: Awaitable[None]) -> Step:
        """Do something that makes a subject write all of its objects."""
        self.begin()
        cpu = tree_cpu(process)
        await act
        wanted = OBJECTS * len(self.clusters)

        async def everything() -> dict[str, datetime]:
            written = self.written(subject)
            assert len(written) == wanted, f"{len(written)} of {wanted} objects are written"
            return written

        written = await eventually(everything, seconds=PATIENCE_SECONDS, about=f"the objects of {subject.title}s")
        await self.settle(subject)
        workload, management = self.of(subject)
        users = [one for one in of_agent(self.requests[1], USER) if one.is_write]
        seconds = (max(written.values()) - min(one.began for one in users)).total_seconds()
        return Step(seconds, workload, management, tree_cpu(process) - cpu)

    def written(self, subject: Subject) -> dict[str, datetime]:
        """Return the time of the last successful write of each object in this step."""
        self.read()
        return {
            one.name: one.ended
            for one in self.of(subject)[0]
            if one.kind == "configmaps" and one.is_write and one.code < 300
        }

    async def check(self, word: str, version: str) -> None:
        """Check every object."""
        resource = await self.workload.resource("", "ConfigMap")
        listed = (await self.workload.list(resource, labels=f"{LABEL}={word}")).items
        found = {one["metadata"]["name"]: one["data"] for one in listed}
        wanted = {
            one["metadata"]["name"]: one["data"] for cluster in self.clusters for one in objects(word, cluster, version)
        }
        assert found == wanted, f"objects of {word} are wrong"


@dataclass(slots=True)
class Run:
    """One run: the values of its rows, by row and subject."""

    fleet: Fleet
    manager: Process
    bench: Bench
    found: dict[str, dict[str, float]] = field(default_factory=dict)

    def note(self, row: str, **values: float) -> None:
        """Add figures to a row, and print them: a run takes many minutes."""
        self.found.setdefault(row, {}).update(values)
        print(row, values, flush=True)

    def note_step(self, row: str, subject: Subject, step: Step) -> None:
        """Note the figures of a step that writes all objects."""
        count = OBJECTS * len(self.fleet.clusters)
        self.note(f"{row}: time (s)", **{subject.word: step.seconds})
        self.note(f"{row}: objects a second", **{subject.word: count / step.seconds})
        self.note(f"{row}: requests an object", **{subject.word: step.requests / count})
        self.note(f"{row}: of these to the workload clusters", **{subject.word: len(step.workload) / count})
        self.note(f"{row}: CPU (s)", **{subject.word: step.cpu})
        for cluster, requests in (("workload", step.workload), ("management", step.management)):
            print(f"{row}, {subject.title}, {cluster} cluster:", dict(by_verb_and_kind(requests)), flush=True)

    async def measure(self, minutes: float) -> None:
        """Measure everything, each step with both subjects in turn."""
        fleet = self.fleet
        await fleet.create()
        await self.connected()
        for subject in (SET, SYNC):
            await fleet.write_sources(subject, "v1")
        connection = load_kubeconfig([fleet.server.kubeconfig_path])
        with peak_memory(self.manager.pid) as set_peak:
            await self.first_apply(SET, self.manager.pid)
            with self.bench.operator(None, *OPERATOR) as operator:
                await fleet.settle(SYNC)
                with peak_memory(operator.pid) as sync_peak:
                    await self.first_apply(SYNC, operator.pid)
                    async with AsyncExitStack() as pools:
                        clients = {
                            cluster: Client(
                                connection, await pools.enter_async_context(Pool()), budget=BUDGET, user_agent="bare"
                            )
                            for cluster in fleet.clusters
                        }
                        await self.bare("first apply", "v1", clients)
                        await self.bare("change of all sources", "v2", clients)
                    for subject, pid in ((SET, self.manager.pid), (SYNC, operator.pid)):
                        change = fleet.write_sources(subject, "v2")
                        self.note_step("change of all sources", subject, await fleet.step(subject, pid, change))
                        await fleet.check(subject.word, "v2")
                    self.note("highest memory (MB)", set=set_peak() / 1e6, sync=sync_peak() / 1e6)
        await self.restarts(minutes)

    async def connected(self) -> None:
        """Wait until the core manager has a connection to every cluster."""
        resource = await self.fleet.management.resource(CLUSTER_API_GROUP, CLUSTER_KIND)

        async def everywhere() -> bool:
            listed = (await self.fleet.management.list(resource)).items
            probes = [condition_of(cluster, "RemoteConnectionProbe").get("status") for cluster in listed]
            assert probes == ["True"] * len(self.fleet.clusters), f"{probes.count('True')} clusters are connected"
            return True

        await eventually(everywhere, seconds=PATIENCE_SECONDS, about="the connections of the core manager")
        await self.fleet.settle(SET)

    async def first_apply(self, subject: Subject, pid: int) -> None:
        async def act() -> None:
            await self.fleet.each(lambda cluster: create(self.fleet.management, subject.manifest(cluster)))

        self.note_step("first apply", subject, await self.fleet.step(subject, pid, act()))
        await self.fleet.check(subject.word, "v1")

    async def bare(self, row: str, version: str, clients: Mapping[str, Client]) -> None:
        """Apply equal objects with a client for each cluster."""
        slots = asyncio.Semaphore(REGISTRATION.concurrency)
        cpu, began = time.process_time(), time.perf_counter()

        async def one(cluster: str, client: Client) -> None:
            async with slots:
                resource = await client.resource("", "ConfigMap")
                manifests = objects("bare", cluster, version)
                await asyncio.gather(*(client.apply(resource, each, manager="bare") for each in manifests))

        await asyncio.gather(*(one(*each) for each in clients.items()))
        seconds, count = time.perf_counter() - began, OBJECTS * len(clients)
        self.note(f"{row}: time (s)", bare=seconds)
        self.note(f"{row}: objects a second", bare=count / seconds)
        self.note(f"{row}: CPU (s)", bare=time.process_time() - cpu)

    async def restarts(self, minutes: float) -> None:
        """Restart both with nothing changed, let them idle, and change objects by hand."""
        fleet = self.fleet
        fleet.begin()
        self.manager.stop(CLIENT_GRACE)
        await asyncio.to_thread(self.manager.launch)
        await fleet.settle(SET)
        self.note_restart(SET)
        with self.bench.operator(None, *OPERATOR) as operator:
            fleet.begin()
            await fleet.settle(SYNC)
            # The first sweep of each cluster reads the delivery records.
            await asyncio.sleep(1.5 * INTERVAL.total_seconds())
            fleet.read()
            self.note_restart(SYNC)
            await self.idle({SET: self.manager.pid, SYNC: operator.pid}, minutes)
            await self.drift()

    def note_restart(self, subject: Subject) -> None:
        workload, management = self.fleet.of(subject)
        self.note("restart: requests", **{subject.word: len(workload) + len(management)})
        self.note("restart: writes to the workload clusters", **{subject.word: sum(one.is_write for one in workload)})
        self.note(
            "restart: writes to the management cluster", **{subject.word: sum(one.is_write for one in management)}
        )

    async def idle(self, pids: dict[Subject, int], minutes: float) -> None:
        self.fleet.begin()
        before = {subject: tree_cpu(pid) for subject, pid in pids.items()}
        await asyncio.sleep(60 * minutes)
        self.fleet.read()
        for subject, pid in pids.items():
            workload, management = self.fleet.of(subject)
            self.note("idle: CPU a minute (s)", **{subject.word: (tree_cpu(pid) - before[subject]) / minutes})
            self.note("idle: requests a minute", **{subject.word: (len(workload) + len(management)) / minutes})
            self.note("idle: writes", **{subject.word: sum(one.is_write for one in (*workload, *management))})
            self.note("idle: memory (MB)", **{subject.word: sum(map(pss, tree(pid))) / 1e6})

    async def drift(self) -> None:
        """Edit and delete objects of both subjects at random times within an interval."""
        fleet, random = self.fleet, Random(0)
        resource = await fleet.workload.resource("", "ConfigMap")
        fleet.begin()

        async def change(word: str, cluster: str, number: int, *, delete: bool) -> None:
            await asyncio.sleep(random.uniform(0, INTERVAL.total_seconds()))
            name = f"{word}-{cluster}-{number}"
            if delete:
                await fleet.workload.delete(resource, name, cluster)
            else:
                edit = {"data": {"key": "by hand"}}
                await fleet.workload.merge_patch(resource, name, edit, cluster, manager="kubectl-edit")

        places = [(cluster, number) for cluster in fleet.clusters for number in range(OBJECTS)]
        drifted = random.sample(places, int(len(places) * DRIFTED))
        changes = [
            change(subject.word, *place, delete=index % 2 == 0)
            for subject in (SET, SYNC)
            for index, place in enumerate(drifted)
        ]
        await asyncio.gather(*changes)
        await asyncio.sleep((INTERVAL + 2 * LATE).total_seconds())
        fleet.read()
        for subject in (SET, SYNC):
            times = corrections(fleet.requests[0], subject)
            self.note(f"of {len(drifted)} differences, corrected", **{subject.word: len(times)})
            if times:
                self.note("time to the correction, median (s)", **{subject.word: median(times)})
                self.note("time to the correction, highest (s)", **{subject.word: max(times)})


def corrections(requests: Sequence[AuditedRequest], subject: Subject) -> list[float]:
    """Return the seconds from the write of the user to the next one of the subject, for each object."""
    changed: dict[str, AuditedRequest] = {}
    found: dict[str, float] = {}
    for one in requests:
        if one.kind != "configmaps" or not one.is_write or one.code >= 300 or not one.name.startswith(subject.word):
            continue
        if one.agent == USER:
            changed[one.name] = one
        elif one.agent in subject.agents and one.name in changed:
            found.setdefault(one.name, (one.ended - changed[one.name].ended).total_seconds())
    return list(found.values())


GOALS: dict[str, str] = {
    "first apply: requests an object": "<= 2.0",
    "first apply: times the rate of the controller": ">= 4",
    "first apply: times the rate of the bare client": ">= 0.7",
    "highest memory (MB)": "<= 150",
    "restart: writes to the workload clusters": "0",
    "restart: writes to the management cluster": "0",
    "time to the correction, highest (s)": f"<= {(INTERVAL + LATE).total_seconds():.0f}",
}


def show(found: dict[str, dict[str, float]], clusters: int) -> None:
    """Print the table."""
    for step in ("first apply", "change of all sources"):
        rates = found[f"{step}: objects a second"]
        found[f"{step}: times the rate of the controller"] = {SYNC.word: rates[SYNC.word] / rates[SET.word]}
        found[f"{step}: times the rate of the bare client"] = {SYNC.word: rates[SYNC.word] / rates["bare"]}
    columns = {SET.word: SET.title, SYNC.word: SYNC.title, "bare": "bare client"}
    print(f"\n## {clusters} clusters with {OBJECTS} objects\n")
    print(f"| what | {' | '.join(columns.values())} | goal |\n|{'---|' * (len(columns) + 2)}")
    for row, values in found.items():
        cells = [f"{values[column]:.4g}" if column in values else "" for column in columns]
        print(f"| {row} | {' | '.join(cells)} | {GOALS.get(row, '')} |")


async def measure(
    environment: AuditedEnvironment, server: ApiServer, logs: Path, bench: Bench, asked: argparse.Namespace
) -> Run:
    """Measure one run in a new environment."""
    manager = next(one for one in environment._processes if one.name == "cluster-api")  # noqa: SLF001 - measured
    async with Pool() as pool:
        management, workload = (
            Client(load_kubeconfig([path]), pool, budget=AT_ONCE, user_agent=USER)
            for path in (bench.state.kubeconfig, server.kubeconfig_path)
        )
        audits = [RequestAudit(path) for path in (logs / "audit.log", bench.state.management / "audit.log")]
        names = [f"c{number}" for number in range(asked.clusters)]
        run = Run(Fleet(management, workload, server, audits, names), manager, bench)
        await run.measure(asked.minutes)
        return run


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure ClusterResourceSyncs beside ClusterResourceSets.")
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="minutes without any change")
    asked = parser.parse_args(arguments)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = private_directory(root / "logs")
        server = stack.enter_context(api_server(*audit_flags(logs, ALL_REQUESTS)))
        private_directory(root / "releases")
        state = StateDirectory(root / "state")
        private_directory(state.root)
        environment = AuditedEnvironment(EnvironmentSettings(state=state, operator=False), lambda _: None)
        environment.start()
        stack.callback(environment.stop)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            run = runner.run(measure(environment, server, logs, Bench(root, state), asked))
    show(run.found, asked.clusters)


if __name__ == "__main__":
    main(sys.argv[1:])
