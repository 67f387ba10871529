"""A world in which faults are between the operator and both API servers, and the scenarios that it must survive."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.deliver.apply.policy import PRUNE_ANNOTATION
from clusterstacks.dev.kubeconfig_writer import to_bytes
from clusterstacks.dev.private_files import write_private
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, DRIFT_INTERVAL_ANNOTATION, Kind, Reason
from tests.support.builders.fault_schedules import ALWAYS, Phase, Server
from tests.support.builders.manifests import deployment
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.observing.request_audit import RequestAudit, applied_contents, deleted_names
from tests.support.running.quick_timeouts import SWEEP_INTERVAL
from tests.support.running.world import SECONDS, attempts, busy_workers, condition_of, is_ready, opened_world
from tests.support.servers.fault_proxy import AGENT, FaultProxy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.builders.fault_schedules import PlannedFault
    from tests.support.observing.request_audit import AuditedRequest
    from tests.support.running.world import World

CLUSTER = "one"
FIRST, SECOND, THIRD = ({"release": version} for version in ("v1", "v2", "v3"))
SAME = {"content": "same"}
CONTENTS: dict[str, list[dict[str, str]]] = {
    "changed": [FIRST, SECOND],
    "same": [SAME],
    "left": [SAME],
    "kept": [SAME],
    "added": [SECOND],
    "gone": [SAME],
}
"""Contents of each ConfigMap in the order in which they must be applied, by the end of its name."""
PRUNED = ("gone", "left")
AFTER_ROLLBACK = {**CONTENTS, "changed": [FIRST, SECOND, THIRD, SECOND], "tried": [SAME]}
"""The same after the third release, which does not become healthy."""
TRIED = "tried"
EDITED = {"content": "edited"}
NOTE = "example.org/note"
SWEEPS = 3
OFTEN = f"{SWEEP_INTERVAL.seconds}s"
FOREIGN = "foreign"
"""A ConfigMap of a user, which must stay."""


@dataclass(kw_only=True)
class AuditedServer:
    """An API server with an audit log of all writes."""

    server: ApiServer
    audit: RequestAudit


@dataclass(kw_only=True)
class FaultyWorld:
    """A world whose operator reaches both clusters by proxies only; ``world`` itself reads and writes without them."""

    world: World
    proxies: Mapping[Server, FaultProxy]
    audits: Mapping[Server, RequestAudit]
    schedule: Sequence[PlannedFault]
    phases: Sequence[Phase]
    requests: dict[Server, list[AuditedRequest]] = field(init=False, default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        servers: Mapping[Server, AuditedServer],
        directory: Path,
        schedule: Sequence[PlannedFault] = (),
        phases: Sequence[Phase] = ALWAYS,
    ) -> AsyncIterator[FaultyWorld]:
        """Open a world of its own, with an empty log of requests; ``directory`` is for its files."""
        directory.mkdir()  # noqa: ASYNC240  # a local directory
        management, workload = (servers[server].server for server in (Server.MANAGEMENT, Server.WORKLOAD))
        async with AsyncExitStack() as stack:
            world = await stack.enter_async_context(opened_world(management, workload, directory))
            proxies = {
                server: await stack.enter_async_context(FaultProxy.started(one.server, directory / server))
                for server, one in servers.items()
            }
            world.management_kubeconfig = directory / "proxied-kubeconfig"
            write_private(world.management_kubeconfig, to_bytes(proxies[Server.MANAGEMENT].kubeconfig))
            world.workload_kubeconfig = proxies[Server.WORKLOAD].kubeconfig
            audits = {server: one.audit for server, one in servers.items()}
            faulty = cls(world=world, proxies=proxies, audits=audits, schedule=schedule, phases=phases)
            faulty.collect()
            faulty.requests = {server: [] for server in Server}
            yield faulty

    @property
    def happened(self) -> list[PlannedFault]:
        """The faults that happened so far."""
        return [planned for proxy in self.proxies.values() for planned in proxy.happened]

    @property
    def rolls_back(self) -> bool:
        """Whether the scenario has a third release that does not become healthy."""
        return Phase.ROLLBACK in self.phases

    def begin(self, phase: Phase | None) -> None:
        """Begin a phase with its faults; None ends all faults."""
        for server, proxy in self.proxies.items():
            proxy.plan(one for one in self.schedule if one.phase is phase and one.server is server)

    def collect(self) -> list[AuditedRequest]:
        """Return the operator's writes since the last call."""
        found = []
        for server, audit in self.audits.items():
            writes = [one for one in audit.since_last() if one.agent == AGENT and not one.is_lease and not one.dry_run]
            self.requests.setdefault(server, []).extend(writes)
            found += writes
        return [one for one in found if one.is_write]

    # The scenario

    async def play(self) -> None:
        """Go through the phases; the releases are offered, and an operator runs."""
        play = {
            Phase.INSTALL: self._install,
            Phase.UPGRADE: self._upgrade,
            Phase.ROLLBACK: self._roll_back,
            Phase.DRIFT: self._drift,
        }
        for phase in self.phases:
            self.begin(phase)
            await play[phase]()

    async def offer(self) -> ReleaseName:
        """Publish the releases and create what users create before the operator starts; return the first release."""
        world, word = self.world, self.world.namespace

        def maps(**contents: dict[str, str]) -> list[dict[str, Any]]:
            return [config_map(f"{word}-{name}", **content) for name, content in contents.items()]

        kept = config_map(f"{word}-kept", **SAME)
        kept["metadata"]["annotations"] = {PRUNE_ANNOTATION: "disabled"}
        addons = {
            "v1": {
                "cni": templates(*maps(changed=FIRST, same=SAME, gone=SAME), kept),
                "csi": templates(*maps(left=SAME)),
            },
            "v2": {"cni": templates(*maps(changed=SECOND, same=SAME, added=SECOND))},
        }
        hooks: dict[str, dict[str, Any]] = {}
        if self.rolls_back:
            # Nothing runs in the cluster, so that the Deployment never becomes healthy.
            unhealthy = deployment(f"{word}-{TRIED}", "kube-system")
            addons["v3"] = {"cni": templates(*maps(changed=THIRD, same=SAME, added=SECOND, tried=SAME), unhealthy)}
            last = stage("cni", waitFor="Healthy", timeout="1s", rollback="OnFailure")
            hooks = {"v3": {"AfterControlPlaneInitialized": [last]}}
        for version, charts in addons.items():
            files = world.stack.files(version, charts, hooks=hooks.get(version))
            world.publish(world.stack.release(version), files)
        foreign = config_map(f"{word}-{FOREIGN}", **SAME)
        foreign["metadata"]["namespace"] = "kube-system"
        await world.workload.create(await world.workload.resource("", "ConfigMap"), foreign, "kube-system")
        await world.create(world.stack.manifest(word, *addons))
        return world.stack.release("v1")

    async def is_delivered(self, release: ReleaseName, present: Sequence[str], absent: Sequence[str] = ()) -> None:
        """Wait until the status says so, and compare what it says with the cluster in that moment."""
        word = self.world.namespace
        addon = await self.world.addons_ready(CLUSTER, release.class_name)
        for name in present:
            found = await self.world.delivered(f"{word}-{name}")
            contents = CONTENTS.get(name, [SAME])
            expected = contents[-1] if release == self.world.stack.release("v2") else contents[0]
            assert (found or {}).get("data") == expected, f"{name} of {release}: {found}"
        for name in absent:
            assert await self.world.delivered(f"{word}-{name}") is None, f"{name} of {release} still exists"
        listed = {one["name"].removeprefix(f"{word}-") for one in addon["status"]["resources"]}
        assert listed == set(present) - {FOREIGN, "kept"} or listed == set(present) - {FOREIGN}, listed
        await self.world.until(
            CLUSTER_KIND, CLUSTER, lambda one: condition_of(one, "ClusterStackAddonsReady").get("status") == "True"
        )

    async def _install(self) -> None:
        """Create the Cluster, and wait until it has the addons of its class."""
        release = self.world.stack.release("v1")
        await self.world.release_ready(release)
        cluster = await self.world.cluster(CLUSTER, release.class_name)
        if Phase.DRIFT in self.phases:
            await self.world.patch(cluster, {"metadata": {"annotations": {DRIFT_INTERVAL_ANNOTATION: OFTEN}}})
        await self.is_delivered(release, ["changed", "same", "gone", "kept", "left", FOREIGN], ["added"])

    async def _upgrade(self) -> None:
        """Change the class, and wait until the cluster has its addons and nothing else."""
        release = self.world.stack.release("v2")
        await self.world.release_ready(release)
        await self.world.set_class(CLUSTER, release.class_name)
        await self.is_delivered(release, ["changed", "same", "added", "kept", FOREIGN], PRUNED)

    async def _roll_back(self) -> None:
        """Change to a class whose addon does not become healthy, and wait until it returned to the one before."""
        world, word = self.world, self.world.namespace
        release = world.stack.release("v3")
        await world.release_ready(release)
        await world.set_class(CLUSTER, release.class_name)
        await world.says(Kind.CLUSTER_ADDON, addon_name(CLUSTER), "Ready", Reason.ROLLED_BACK)
        for name, expected in {"changed": SECOND, "same": SAME, "added": SECOND, "kept": SAME, FOREIGN: SAME}.items():
            found = await world.delivered(f"{word}-{name}")
            assert (found or {}).get("data") == expected, f"{name} after the rollback: {found}"
        deployments = await world.workload.resource("apps", "Deployment")
        assert await world.workload.find(deployments, f"{word}-{TRIED}", "kube-system") is None
        assert await world.delivered(f"{word}-{TRIED}") is None
        await world.says(CLUSTER_KIND, CLUSTER, "ClusterStackAddonsReady", Reason.ROLLED_BACK)
        # The status still has the health of the abandoned revision until it is read again.
        await world.until(
            Kind.CLUSTER_ADDON, addon_name(CLUSTER), lambda one: condition_of(one, "Healthy").get("status") == "True"
        )

    async def _drift(self) -> None:
        """Delete and edit objects behind the operator's back, and wait until a sweep has restored what is delivered."""
        world, word = self.world, self.world.namespace
        resource = await world.workload.resource("", "ConfigMap")

        async def edit(name: str, patch: Manifest) -> None:
            await world.workload.merge_patch(resource, f"{word}-{name}", patch, "kube-system", manager="kubectl-edit")

        await world.workload.delete(resource, f"{word}-same", "kube-system")
        await edit("changed", {"data": {"release": "edited"}})
        await edit("added", {"metadata": {"labels": None, "annotations": {NOTE: "mine"}}})
        for name in ("kept", FOREIGN):
            await edit(name, {"data": EDITED})

        async def restored() -> bool:
            found = {name: await world.delivered(f"{word}-{name}") or {} for name in ("changed", "same", "added")}
            contents = {name: one.get("data") for name, one in found.items()}
            assert contents == {"changed": SECOND, "same": SAME, "added": SECOND}, contents
            return PART_OF_LABEL in (found["added"]["metadata"].get("labels") or {})

        await eventually(restored, seconds=SECONDS, about="a sweep that restores all objects")
        await world.until(
            Kind.CLUSTER_ADDON, addon_name(CLUSTER), lambda one: condition_of(one, "InSync").get("status") == "True"
        )
        assert await restored()
        added = await world.delivered(f"{word}-added") or {}
        assert (added["metadata"].get("annotations") or {}).get(NOTE) == "mine"
        for name in ("kept", FOREIGN):
            found = await world.delivered(f"{word}-{name}")
            assert (found or {}).get("data") == EDITED, f"{name} after the sweep: {found}"

    def check_writes(self) -> None:
        """Check the contents that were applied to each object, and which objects were deleted."""
        self.collect()
        word = self.world.namespace
        workload, management = self.requests[Server.WORKLOAD], self.requests[Server.MANAGEMENT]
        contents, pruned = (AFTER_ROLLBACK, (*PRUNED, TRIED)) if self.rolls_back else (CONTENTS, PRUNED)
        assert applied_contents(workload, f"{word}-") == {f"{word}-{name}": found for name, found in contents.items()}
        assert deleted_names(workload, "configmaps") == Counter(f"{word}-{name}" for name in pruned)
        deleted = [f"{one} {one.name}" for one in management if one.verb.startswith("delete") and one.code < 300]
        assert not deleted, deleted

    async def rests(self, operator: Operator) -> None:
        """Check that the settled operator writes nothing when all objects are reconciled again."""
        self.begin(None)
        await self._reconcile_all(operator)
        self.collect()
        await self._reconcile_all(operator)
        writes = self.collect()
        assert not writes, f"written at rest: {[f'{one} {one.name}' for one in writes]}"

    async def _reconcile_all(self, operator: Operator) -> None:
        world = self.world
        if Phase.DRIFT in self.phases:
            await swept(operator)
        objects = {
            "clusterstack": await world.get(Kind.CLUSTER_STACK, world.namespace),
            "clusterstackrelease": await world.get(Kind.CLUSTER_STACK_RELEASE, str(world.stack.release("v2"))),
            "clusteraddon": await world.addon(CLUSTER),
        }
        for controller, manifest in objects.items():
            await settled(operator)
            await world.look_again(operator, controller, manifest)
        await settled(operator)
        assert is_ready(await world.release_ready(world.stack.release("v2")))
        assert is_ready(await world.addon(CLUSTER)) is not self.rolls_back


async def swept(operator: Operator) -> None:
    """Wait for some sweeps: the first one may still fail, and the second one reports that the cluster responds."""
    before = attempts(operator, "clusteraddonhealth")

    async def look() -> bool:
        return attempts(operator, "clusteraddonhealth") >= before + SWEEPS

    await eventually(look, seconds=SECONDS, about=f"{SWEEPS} sweeps")


async def settled(operator: Operator) -> None:
    """Wait until no reconcile runs, waits to run, or is to be repeated after a failure."""

    async def look() -> bool:
        queues = [controller.queue for controller in operator._controllers.values()]
        waiting = sum(map(len, queues)) + sum(len(queue._failures) for queue in queues)
        return not waiting and not busy_workers(operator)

    await eventually(look, seconds=SECONDS, about="the end of all reconciles")
