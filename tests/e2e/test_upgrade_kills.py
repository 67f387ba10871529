"""One ClusterUpgrade over two minors, while the operator, Cluster API's core manager or both are killed at its steps.

``make fuzz-upgrades`` does it with ten clusters, three of which cause a kill at each step to each minor. What happened
is read from the audit logs, because a watch may miss a state.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from clusterstacks.dev import capi_managers, process_records, restart
from clusterstacks.dev.provider import kinds
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import (
    API_VERSION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    GROUP,
    UPGRADE_HOLD_ANNOTATION,
    UPGRADE_STEP_ANNOTATION,
    ClusterPhase,
    Kind,
    UpgradePhase,
)
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.pool import Pool
from clusterstacks.runtime.informer import Informer
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, stack
from tests.support.builders.hooked_stack import HookedStack
from tests.support.builders.manifests import named
from tests.support.builders.stacks import stage
from tests.support.observing.request_audit import RequestAudit
from tests.support.observing.upgrade_history import (
    addon_spans,
    contents,
    control_plane_spans,
    effective,
    node_spans,
    ranges_violated,
    skew_violated,
)
from tests.support.running.kubectl import Kubectl
from tests.support.running.local_environment import AUDIT_LOG
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.observing.request_audit import AuditedRequest
    from tests.support.running.local_environment import Local

HOME, UPGRADE = "upgrade-kills", "all"
UNLIMITED = 1_000_000
"""Writes of an operator that is killed at a step."""
VERSIONS = ("v1.34.7", "v1.35.4", "v1.36.3")
CLUSTERS = [f"c{number}" for number in range(int(os.environ.get("UPGRADED_CLUSTERS", "2")))]
AT_ONCE = 5
SECONDS = 600 + 100 * len(CLUSTERS)
KILLS_A_STEP = int(os.environ.get("KILLS_A_STEP", "1"))
"""Kills at each step of the upgrade to each minor, each caused by another cluster."""

log = logging.getLogger(__name__)


def supported(addon: str, minor: int) -> str:
    """Return the range of an addon: ``network`` goes before the control plane, the others after it.

    The releases do not state it: the stages of their bundles are the only order.
    """
    return f">=1.{minor - 1} <1.{minor + 1}" if addon == "network" else f">=1.{minor} <1.{minor + 2}"


def watched(addon: str) -> dict[str, Any]:
    found = {"key": "own", "apiVersion": "v1", "kind": "ConfigMap", "name": addon, "namespace": "kube-system"}
    return {"objects": [found], "conditions": f'own.metadata.name == "{addon}"'}


STACK = HookedStack(
    name="killed",
    installed=["network", "ccm", "agent", "storage"],
    hooks={
        "BeforeClusterUpgrade": [
            stage("network", waitForPostCondition=watched("network")),
            stage("migration"),
            stage("migration", "delete"),
        ],
        "AfterControlPlaneUpgrade": [stage("ccm")],
        "AfterWorkersUpgrade": [stage("agent")],
        "AfterClusterUpgrade": [stage("storage")],
    },
)


@dataclass(frozen=True)
class Seen:
    """What the management cluster shows of one cluster that is upgraded to ``version``."""

    version: str
    entry: Manifest
    """Its state in the ClusterUpgrade."""
    cluster: Manifest
    addon: Manifest
    control_plane: Manifest

    def is_done(self, *stages: str) -> bool:
        """Whether these stages are done, or the upgrade is."""
        done = {
            (text(one, "name"), text(one, "action"))
            for one in mappings(self.addon, "status", "stages")
            if text(one, "phase") == "done"
        }
        return self.ready or (self.targeted and {tuple(one.split(":")) for one in stages} <= done)

    @property
    def targeted(self) -> bool:
        return text(self.addon, "status", "targetKubernetesVersion") == self.version

    @property
    def ready(self) -> bool:
        status = mapping(self.addon, "status")
        return status.get("ready") is True and status.get("deliveredKubernetesVersion") == self.version

    def has_versions(self, *path: str) -> bool:
        return {text(one, "version") for one in mappings(self.cluster, "status", *path)} == {self.version}

    @property
    def reconciled(self) -> bool:
        generation = at(self.cluster, "metadata", "generation")
        conditions = mappings(self.cluster, "status", "conditions")
        found = next((one for one in conditions if one.get("type") == "TopologyReconciled"), {})
        return found.get("status") == "True" and found.get("observedGeneration") == generation

    @property
    def released(self) -> bool:
        return UPGRADE_HOLD_ANNOTATION not in mapping(self.cluster, "metadata", "annotations")


STEPS: dict[str, Callable[[Seen], bool]] = {
    "announced": lambda seen: text(seen.entry, "step").startswith(f"{VERSIONS.index(seen.version)}/"),
    "requested": lambda seen: text(seen.cluster, "spec", "topology", "version") == seen.version,
    "held": lambda seen: text(seen.addon, "status", "upgradeHold", "version") == seen.version,
    "network delivered": lambda seen: seen.is_done("network:apply"),
    "migration applied": lambda seen: seen.is_done("migration:apply"),
    "migration deleted": lambda seen: seen.is_done("migration:delete"),
    "released": lambda seen: seen.is_done("migration:delete") and seen.released,
    "control plane rolls": lambda seen: text(seen.control_plane, "spec", "version") == seen.version,
    "control plane upgraded": lambda seen: seen.has_versions("controlPlane", "versions"),
    "ccm delivered": lambda seen: seen.is_done("ccm:apply"),
    "workers upgraded": lambda seen: seen.has_versions("workers", "versions"),
    "agent delivered": lambda seen: seen.is_done("agent:apply"),
    "topology reconciled": lambda seen: seen.has_versions("workers", "versions") and seen.reconciled,
    "ready": lambda seen: seen.ready,
    "done": lambda seen: text(seen.entry, "phase") == ClusterPhase.DONE and seen.version == VERSIONS[-1],
}
"""The steps of an upgrade in order; the last one that holds is the one that a cluster has reached."""

OPERATOR, CORE = "operator", capi_managers.CORE.name
VICTIMS = ((OPERATOR,), (CORE,), (OPERATOR, CORE))


@dataclass
class Mortals:
    """The operator and the core manager; both start again after each kill, as in a Deployment."""

    local: Local
    operator: subprocess.Popen[bytes]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def kill(self, victims: Sequence[str]) -> None:
        async with self.lock:
            state = self.local.state
            if OPERATOR in victims:
                self.operator.kill()
                self.operator.wait()
            if CORE in victims:
                record = process_records.read(state.records, CORE)
                if record is not None and record.alive:
                    os.kill(record.pid, signal.SIGKILL)
                await eventually(self.start_core, about="the start of the core manager")
            self.start()

    async def start_core(self) -> bool:
        try:
            await asyncio.to_thread(restart.ask, self.local.state, restart.RestartRequest(CORE))
        except DependencyError as error:
            raise AssertionError(error.message) from None  # it may end while it starts on a busy machine
        return True

    def start(self) -> None:
        if self.operator.poll() is not None:
            self.operator = self.local.mortal_operator(HOME, UNLIMITED)

    async def keep_running(self) -> None:
        """Start the operator again when it has ended by itself: on a busy machine it may lose its Lease."""
        while True:
            await asyncio.sleep(1)
            async with self.lock:
                self.start()


@dataclass
class Observer:
    """Follows the upgrades of all clusters by watches, and has a kill done at each step."""

    client: Client
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    kills: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By version, step and victims."""

    def __post_init__(self) -> None:
        kinds_watched = (
            (CLUSTER_API_GROUP, CLUSTER_KIND),
            (GROUP, Kind.CLUSTER_ADDON),
            (kinds.GROUP, kinds.CONTROL_PLANE),
            (GROUP, Kind.CLUSTER_UPGRADE),
        )
        self.informers = [Informer(self.client, group, kind, namespace=HOME) for group, kind in kinds_watched]
        for informer in self.informers:
            informer.subscribe(lambda _: self.changed.set())

    def step(self, name: str, version: str) -> int:
        """Return the number of the last step that the cluster has reached."""
        clusters, addons, control_planes, _ = (one.cache for one in self.informers)
        found = clusters.get(ObjectKey(HOME, name)) or {}
        reference = text(found, "spec", "controlPlaneRef", "name")
        seen = Seen(
            version,
            next((one for one in mappings(self.status, "clusters") if text(one, "name") == name), {}),
            found,
            addons.get(ObjectKey(HOME, f"cluster-addon-{name}")) or {},
            control_planes.get(ObjectKey(HOME, reference)) or {},
        )
        return max((at for at, holds in enumerate(STEPS.values()) if holds(seen)), default=-1)

    @property
    def status(self) -> Manifest:
        """The status of the ClusterUpgrade."""
        return mapping(self.informers[-1].cache.get(ObjectKey(HOME, UPGRADE)) or {}, "status")

    async def upgrade(self, mortals: Mortals) -> None:
        """Kill at the steps until the upgrade is done."""
        reached = dict.fromkeys(product(CLUSTERS, VERSIONS[1:]), -1)
        while text(self.status, "phase") != UpgradePhase.DONE:
            await self.changed.wait()
            self.changed.clear()
            assert not self.status.get("failed"), self.status
            assert self.status.get("running", 0) <= AT_ONCE, self.status
            for name, version in reached:
                step = self.step(name, version)
                if step <= reached[name, version]:
                    continue
                reached[name, version] = step
                label = list(STEPS)[step]
                victims = VICTIMS[self.kills.total() % len(VICTIMS)]
                if sum(count for (*at, _), count in self.kills.items() if at == [version, label]) < KILLS_A_STEP:
                    self.kills[version, label, " and ".join(victims)] += 1
                    log.warning("%s: %s, %s: kill %s", name, version, label, " and ".join(victims))
                    await mortals.kill(victims)


@asynccontextmanager
async def mortals(local: Local) -> AsyncIterator[Mortals]:
    found = Mortals(local, local.mortal_operator(HOME, UNLIMITED))
    keeper = asyncio.create_task(found.keep_running())
    try:
        yield found
    finally:
        keeper.cancel()
        found.operator.kill()
        found.operator.wait()


@asynccontextmanager
async def observer(client: Client) -> AsyncIterator[Observer]:
    found = Observer(client)
    watches = [asyncio.create_task(one.run()) for one in found.informers]
    try:
        yield found
    finally:
        for watch in watches:
            watch.cancel()


async def test_no_kill_skips_or_repeats_a_stage_or_leaves_a_stated_range(local: Local, tmp_path: Path) -> None:
    releases = [STACK.build(version, tmp_path, local.releases) for version in VERSIONS]
    async with Pool() as pool, asyncio.timeout(SECONDS):
        client = local.management(pool)
        await create(client, namespace(HOME))
        async with mortals(local) as victims, observer(client) as observed:
            await install(local, client, releases[0].class_name)
            spec = {"clusters": {"selector": {}}, "to": releases[-1].release, "maxConcurrent": AT_ONCE}
            await create(client, named(API_VERSION, Kind.CLUSTER_UPGRADE, UPGRADE, HOME, spec=spec))
            await observed.upgrade(victims)
        requests = effective(RequestAudit(local.state.kubeconfig.parent / AUDIT_LOG).since_last())
        management = [one for one in requests if one.namespace == HOME]
        for name in CLUSTERS:
            await check(local, client, name, management)
    log.warning("%d kills: %s", observed.kills.total(), dict(observed.kills))
    assert {killed for *_, killed in observed.kills} == {" and ".join(victims) for victims in VICTIMS}


async def install(local: Local, client: Client, class_name: str) -> None:
    kubectl = Kubectl(local.state.kubeconfig, HOME)
    workers = {"machineDeployments": [{"class": "default", "name": "pool", "replicas": 1}]}
    for minor in ("1.34", "1.35", "1.36"):
        await create(client, stack(HOME, minor, name=STACK.name, versions=["v1"]))
    kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
    for name in CLUSTERS:
        await create(client, cluster(HOME, name, class_name, VERSIONS[0], workers=workers))
    for name in CLUSTERS:
        await eventually(partial(installed, client, name, class_name), seconds=SECONDS)


async def installed(client: Client, name: str, class_name: str) -> bool:
    await delivered(client, HOME, name, class_name)
    found = await client.get(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND), name, HOME)
    reported = mappings(found, "status", "workers", "versions")
    assert [(text(one, "version"), one.get("replicas")) for one in reported] == [(VERSIONS[0], 1)], reported
    assert UPGRADE_HOLD_ANNOTATION in mapping(found, "metadata", "annotations"), "the cluster is held"
    return True


async def check(local: Local, client: Client, name: str, management: Sequence[AuditedRequest]) -> None:
    """Read what happened to a cluster from the audit logs."""
    found = await client.get(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND), name, HOME)
    kubeconfig = local.state.cluster_kubeconfig(HOME, name)
    requests = effective(RequestAudit(kubeconfig.parent / AUDIT_LOG).since_last())
    workload = [one for one in requests if one.namespace == "kube-system"]

    steps = [one for one in management if (one.kind, one.name) == ("clusters", name) and _is_step(one)]
    # A request whose client was killed has another code, whether it was executed or not.
    assert len([one for one in steps if one.code < 300]) <= len(VERSIONS) - 1, "each patch is written once"
    asked = [version for version, _ in groupby(text(one.content, "spec", "topology", "version") for one in steps)]
    assert asked == list(VERSIONS[1:])
    assert json.loads(found["metadata"]["annotations"][UPGRADE_STEP_ANNOTATION])["number"] == len(VERSIONS) - 1

    control_plane = control_plane_spans(management, text(found, "spec", "controlPlaneRef", "name"))
    assert [one.version for one in control_plane] == list(VERSIONS)
    addons = {addon: addon_spans(workload, addon) for addon in STACK.installed}
    assert ranges_violated(control_plane, addons, supported) == []
    nodes = node_spans(requests)
    assert {one.version for one in nodes} == set(VERSIONS)
    assert skew_violated(control_plane, nodes) == []

    rendered = {addon: [(*data.values(),) for data, _ in contents(workload, addon)] for addon in STACK.installed}
    after = [("1-34", "34"), ("1-35", "35"), ("1-36", "36")]
    before = [("1-34", "34"), ("1-35", "34"), ("1-35", "35"), ("1-36", "35"), ("1-36", "36")]
    assert rendered == {"network": before, "ccm": after, "agent": after, "storage": after}, "no stage is skipped"

    migration = [one for one in workload if one.kind == "configmaps" and one.name == "migration"]
    effects = [[*found] for _, found in groupby(migration, key=lambda one: one.verb)]
    assert [found[0].verb for found in effects] == ["apply", "delete"] * 2, "no stage has an effect twice"
    for minor, server, (*_, deletion) in zip(("1-35", "1-36"), control_plane[1:], effects[1::2], strict=True):
        spans = {addon: next(one for one in found if one.version == minor) for addon, found in addons.items()}
        assert spans["network"].began < deletion.began < deletion.ended < server.began, minor
        assert server.began < spans["ccm"].began < spans["agent"].began < spans["storage"].began, minor


def _is_step(request: AuditedRequest) -> bool:
    return UPGRADE_STEP_ANNOTATION in mapping(request.content, "metadata", "annotations")
