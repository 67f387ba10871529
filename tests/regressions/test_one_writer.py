"""USER-19: one of several operators writes, proven by the API server's audit log.

The peer in Go is kube-controller-manager with the Go operator's lock: both are client-go's leader election.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.dev import binaries
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.processes import start_on_free_port
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import GROUP, Kind
from clusterstacks.model.kinds.shards import MAIN_LEASE
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import AlreadyExists
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.lease_settings import ElectionSettings
from clusterstacks.runtime.leader_election import LEASES
from clusterstacks.runtime.leases import LeaseDurations
from tests.support.observing.audit_log import AuditLog, Write, audit_flags, outside, tenures
from tests.support.running.admission import guarded
from tests.support.running.world import attempts, foreign_crds, install, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("USER-19")

pytestmark = pytest.mark.timeout(900)  # they start several operators and wait for leases to run out

ROOT = Path(__file__).parents[2]
BRIEF = LeaseDurations(15, 11.0, 0.5)
"""Long enough for a busy machine, short enough for a test."""
SECONDS = 150
"""How long anything may take on a busy machine; nothing here takes longer than a lease lasts."""


@pytest.fixture(scope="module")
def audited(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run an API server that notes every write."""
    directory = tmp_path_factory.mktemp("audited")
    settings = ApiServerSettings(
        name="audited",
        binary=binaries.resolve(["kube-apiserver"])["kube-apiserver"].path,
        directory=directory,
        etcd=etcd.access,
        prefix="/audited",
        port=0,
        flags=(*WITHOUT_SERVICE_ACCOUNTS, *audit_flags(directory)),
    )
    server = start_on_free_port(lambda port: ApiServer(replace(settings, port=port)))
    yield server
    server.stop(timedelta(0))


@dataclass(kw_only=True)
class Arena:
    """One test's namespace, in which operators compete for the lease and have something to write all the time."""

    server: ApiServer
    client: Client
    namespace: str
    directory: Path
    log: AuditLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = AuditLog(self.server.settings.directory / "audit.log")

    @property
    def lease(self) -> str:
        return f"leases/{self.namespace}/{MAIN_LEASE}"

    async def holder(self) -> str:
        lease = await self.client.find(LEASES, MAIN_LEASE, self.namespace)
        return str(lease["spec"].get("holderIdentity") or "") if lease else ""

    async def held_by(self, name: str) -> None:
        async def look() -> bool:
            holder = await self.holder()
            assert name in holder, holder
            return bool(holder)

        await eventually(look, seconds=SECONDS, about=f"{name} holds the lease")

    def writes(self) -> list[Write]:
        """Return the writes in this namespace so far."""
        return [write for write in self.log.writes() if f"/{self.namespace}/" in write.about]

    async def writes_of(self, user: str) -> None:
        """Wait until a user has written something more than its lease."""
        before = len(self._done_by(user))

        async def look() -> bool:
            return len(self._done_by(user)) > before

        await eventually(look, seconds=SECONDS, about=f"a write of {user}")

    def _done_by(self, user: str) -> list[Write]:
        return [write for write in self.writes() if write.user == user and not write.lease]

    async def work(self) -> None:
        """Change things again and again: our operator answers by a status, the peer in Go by a ServiceAccount."""
        stacks = await self.client.resource(GROUP, Kind.CLUSTER_STACK)
        accounts = await self.client.resource("", "ServiceAccount")
        for number in itertools.count():
            versions = {"spec": {"versions": [f"v{number % 2}"]}}
            await self.client.merge_patch(stacks, "work", versions, self.namespace)
            if await self.client.find(accounts, "default", self.namespace) is not None:
                await self.client.delete(accounts, "default", self.namespace)
            await asyncio.sleep(0.2)

    def kubeconfig(self, user: str) -> Path:
        document = yaml.safe_load(self.server.kubeconfig_path.read_text())
        document["users"][0]["user"]["as"] = user
        path = self.directory / user
        path.write_text(yaml.safe_dump(document))
        return path

    @asynccontextmanager
    async def operator(self, user: str, durations: LeaseDurations = BRIEF, *flags: str) -> AsyncIterator[Replica]:
        stop = self.directory / f"stop-{user}"
        argv = [
            *(sys.executable, "-m", "tests.support.running.short_lease_operator"),
            *map(str, (durations.duration, durations.renew_deadline, durations.retry, stop)),
            f"--kubeconfig={self.kubeconfig(user)}",
            f"--release-dir={self.directory}",
            f"--cache-dir={self.directory / f'cache-{user}'}",
            f"--namespace={self.namespace}",
            f"--leader-elect-namespace={self.namespace}",
            f"--leader-elect-identity={user}",
            "--webhook-port=0",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            *flags,
        ]
        async with self._process(user, argv) as process:
            yield Replica(process, stop, self.directory / f"{user}.log")

    @asynccontextmanager
    async def peer_in_go(self, user: str) -> AsyncIterator[subprocess.Popen[bytes]]:
        argv = [
            str(binaries.resolve(["kube-controller-manager"])["kube-controller-manager"].path),
            f"--kubeconfig={self.kubeconfig(user)}",
            "--secure-port=0",
            "--controllers=serviceaccount-controller",
            "--use-service-account-credentials=false",
            f"--leader-elect-resource-name={MAIN_LEASE}",
            f"--leader-elect-resource-namespace={self.namespace}",
            f"--leader-elect-lease-duration={BRIEF.duration}s",
            f"--leader-elect-renew-deadline={BRIEF.renew_deadline}s",
            f"--leader-elect-retry-period={BRIEF.retry}s",
        ]
        async with self._process(user, argv) as process:
            yield process

    @asynccontextmanager
    async def _process(self, user: str, argv: list[str]) -> AsyncIterator[subprocess.Popen[bytes]]:
        with (self.directory / f"{user}.log").open("ab") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=ROOT)  # noqa: ASYNC220 - it returns at once
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Replica:
    """An operator as a process."""

    process: subprocess.Popen[bytes]
    stop: Path
    log: Path

    async def stop_at_a_send(self) -> None:
        """Stop the process right before it sends a write that has not passed the gate."""
        self.stop.touch()

        state = Path(f"/proc/{self.process.pid}/stat")

        async def stopped() -> bool:
            return await asyncio.to_thread(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T")

        await eventually(stopped, seconds=SECONDS, about="the process stops itself")

    async def ended(self) -> int:
        async def look() -> tuple[int] | None:
            code = self.process.poll()
            return None if code is None else (code,)

        return (await eventually(look, seconds=SECONDS, about="its end"))[0]

    async def says(self, text: str) -> None:
        async def look() -> bool:
            assert text in self.log.read_text(), self.log.read_text()[-2000:]
            return True

        await eventually(look, seconds=SECONDS, about=text)


_installed: set[str] = set()


@pytest.fixture
async def arena(audited: ApiServer, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Arena]:
    namespace = f"arena-{len(_installed)}-{abs(hash(request.node.name)) % 10**6}"
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(Pool())
        client = Client(parse_kubeconfig(audited.kubeconfig, base=None), pool)
        if audited.url not in _installed:
            await install(client, [*all_crds(), *foreign_crds()])
            await bind(client, "ours", "other", "go")
            _installed.add(audited.url)
        namespaces = await client.resource("", "Namespace")
        await client.create(namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        made = Arena(server=audited, client=client, namespace=namespace, directory=tmp_path)
        await client.create(await client.resource(GROUP, Kind.CLUSTER_STACK), work(namespace))
        working = asyncio.create_task(made.work())
        yield made
        assert not working.done()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def work(namespace: str) -> Manifest:
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStack",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {
            "provider": "local",
            "name": "work",
            "kubernetesVersion": "1.35",
            "versions": ["v0"],
            "noProvider": True,
        },
    }


async def bind(client: Client, *users: str) -> None:
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "competitors"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user} for user in users],
    }
    try:
        await client.create(await client.resource(group, "ClusterRoleBinding"), binding)
    except AlreadyExists:
        return


@pytest.mark.regression("USER-19")
async def test_without_leader_election_two_operators_write(arena: Arena) -> None:
    """The reference for the other tests: the audit log shows two writers."""
    async with (
        arena.operator("ours", BRIEF, "--leader-elect=false"),
        arena.operator("other", BRIEF, "--leader-elect=false"),
    ):
        await asyncio.gather(arena.writes_of("ours"), arena.writes_of("other"))
    assert outside(arena.writes(), arena.lease, {"ours", "other"})


@pytest.mark.regression("USER-19")
async def test_operator_stopped_for_longer_than_its_lease_writes_nothing_when_resumed(arena: Arena) -> None:
    """With the durations of every installation: 15, 10 and 2 seconds."""
    async with arena.operator("ours", LeaseDurations()) as ours:
        await arena.held_by("ours")
        await arena.writes_of("ours")
        async with arena.operator("other", LeaseDurations()) as other:
            await other.says("is held by ours: this process writes nothing and waits for it")
            await ours.stop_at_a_send()
            await arena.held_by("other")
            await arena.writes_of("other")
            ours.process.send_signal(signal.SIGCONT)
            assert await ours.ended() == 1
            await ours.says("is lost: it could not be renewed in time. This process ends")
            await arena.writes_of("other")
    writes = arena.writes()
    assert outside(writes, arena.lease, {"ours", "other"}) == []
    assert [tenure.user for tenure in tenures(writes, arena.lease)] == ["ours", "other"]


@pytest.mark.regression("USER-19")
async def test_one_operator_writes_at_a_time_despite_kills_and_restarts(arena: Arena) -> None:
    async with arena.operator("ours") as ours:
        await arena.writes_of("ours")
        async with arena.operator("other") as other:
            await other.says("is held by ours")
            ours.process.kill()
            await arena.writes_of("other")
            async with arena.operator("ours") as again:
                await again.says("is held by other")
                other.process.send_signal(signal.SIGTERM)
                assert await other.ended() == 0
                await arena.writes_of("ours")
                again.process.kill()
                again.process.wait()
                async with arena.operator("ours"):  # as csctl dev starts it: with the identity it had
                    await arena.writes_of("ours")
    writes = arena.writes()
    assert outside(writes, arena.lease, {"ours", "other"}) == []
    held = tenures(writes, arena.lease)
    assert [tenure.user for tenure in held] == ["ours", "other", "ours"]
    released = next(write.done for write in writes if write.about == arena.lease and write.holder == "")
    assert held[2].begins - released < timedelta(seconds=BRIEF.duration), "it was released, not waited for"


@pytest.mark.regression("USER-19")
async def test_leader_election_is_compatible_with_client_go(arena: Arena) -> None:
    async with arena.operator("ours") as ours:
        await arena.writes_of("ours")
        async with arena.peer_in_go("go") as go:
            ours.process.send_signal(signal.SIGTERM)
            assert await ours.ended() == 0
            await arena.writes_of("go")
            async with arena.operator("ours") as again:
                await again.says(f"is held by {await arena.holder()}")
                go.kill()
                await arena.writes_of("ours")
                async with arena.peer_in_go("go"):
                    await again.stop_at_a_send()
                    await arena.writes_of("go")
                    again.process.send_signal(signal.SIGCONT)
                    assert await again.ended() == 1
    writes = arena.writes()
    # client-go tells of the end of its lead by an event, which is no harm.
    assert [line for line in outside(writes, arena.lease, {"ours", "go"}) if " events/" not in line] == []
    assert [tenure.user for tenure in tenures(writes, arena.lease)] == ["ours", "go", "ours", "go"]


@pytest.mark.regression("USER-19")
async def test_standby_replica_serves_webhooks_and_writes_nothing(world: World) -> None:
    await world.create(
        {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": MAIN_LEASE, "namespace": world.namespace},
            "spec": {"holderIdentity": "go", "leaseDurationSeconds": 3600},
        }
    )
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    async with guarded(world, election=ElectionSettings(world.namespace, "ours", BRIEF)) as operator:
        # Its webhooks were asked: their Secret and configuration are written without the lease.
        created = await world.create(world.stack.manifest(world.namespace, "v1"))
        assert operator._probes.ready().passed
        assert b"clusterstacks_leader 0.0" in operator._metrics.expose()
        assert attempts(operator, "clusterstack") == 0
        assert await world.get(Kind.CLUSTER_STACK, created["metadata"]["name"]) == created
        free = {"spec": {"holderIdentity": ""}}
        await world.client.merge_patch(LEASES, MAIN_LEASE, free, world.namespace)
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)
        assert b"clusterstacks_leader 1.0" in operator._metrics.expose()
