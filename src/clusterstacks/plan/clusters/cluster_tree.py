"""Draws stacks, clusters and syncs as a tree with the state of each part, for csctl status and the demo."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.conditions import Severity, from_documents
from clusterstacks.model.documents import at, counted, mapping, mappings, text
from clusterstacks.model.kinds.clusterapi import cluster_class_view, cluster_view
from clusterstacks.model.kinds.names import AddonCondition, ClusterPhase, Reason, UpgradePhase
from clusterstacks.plan.clusters.cluster_summary import HELD, PAUSED, RunningUpgrade, summarize_all
from clusterstacks.plan.clusters.deliveries import PastDelivery
from clusterstacks.plan.clusters.sync_summary import sync_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from clusterstacks.model.conditions import Condition
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary
    from clusterstacks.plan.clusters.sync_summary import SyncState, SyncSummary


POOL_LABEL: Final = "topology.cluster.x-k8s.io/deployment-name"
"""On MachineDeployments and their Machines: the name of the pool in the Cluster's topology."""

_DEPLOYMENT_LABEL: Final = "cluster.x-k8s.io/deployment-name"
"""On Machines: the name of their MachineDeployment."""


class NodeState(Enum):
    """State of a node of the tree; ``FAILED`` needs a person."""

    DONE = "done"
    WORKING = "working"
    FAILED = "failed"


_DELIVERIES: Final = {
    "Deleted": NodeState.DONE,
    "Delivered": NodeState.DONE,
    "Failed": NodeState.FAILED,
    "RolledBack": NodeState.FAILED,
    "Running": NodeState.WORKING,
}
"""States of deliveries by their results."""


_UPGRADES: Final[Mapping[str, NodeState]] = {
    UpgradePhase.DONE: NodeState.DONE,
    ClusterPhase.FAILED: NodeState.FAILED,
    UpgradePhase.BLOCKED: NodeState.FAILED,
    UpgradePhase.STOPPED: NodeState.FAILED,
}
"""States of ClusterUpgrades, and of Clusters in them, by phase; all others are at work."""


@dataclass(frozen=True, slots=True)
class ViewNode:
    """One line of the tree; ``detail`` describes its activity."""

    title: str
    state: NodeState
    detail: str = ""
    children: tuple[ViewNode, ...] = ()

    def lines(self, depth: int = 0) -> Iterator[tuple[int, ViewNode]]:
        """Yield this node and its descendants with their depth."""
        yield depth, self
        for child in self.children:
            yield from child.lines(depth + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The objects of the management cluster in the tree."""

    stacks: Sequence[Manifest] = field(default_factory=tuple)
    releases: Sequence[Manifest] = field(default_factory=tuple)
    classes: Sequence[Manifest] = field(default_factory=tuple)
    clusters: Sequence[Manifest] = field(default_factory=tuple)
    addons: Sequence[Manifest] = field(default_factory=tuple)
    bindings: Sequence[Manifest] = field(default_factory=tuple)
    pools: Sequence[Manifest] = field(default_factory=tuple)
    machines: Sequence[Manifest] = field(default_factory=tuple)
    upgrades: Sequence[Manifest] = field(default_factory=tuple)


def picture(snapshot: Snapshot) -> tuple[ViewNode, ...]:
    """Draw every stack and every cluster."""
    return (
        *(_stack(stack, snapshot) for stack in snapshot.stacks),
        *(_cluster(cluster, snapshot) for cluster in snapshot.clusters),
    )


def cluster_status(cluster: Manifest, snapshot: Snapshot) -> ViewNode:
    """Draw a cluster with versions, progress, health, drift and the last change of its addons, and its syncs."""
    (summary,) = summarize_all([cluster], snapshot.addons, snapshot.bindings, snapshot.upgrades)
    node = _cluster(cluster, snapshot)
    children = [*node.children, *findings(summary)]
    done = summary.ready.status == "True" and all(child.state is NodeState.DONE for child in children)
    failed = any(child.state is NodeState.FAILED for child in children)
    state = NodeState.DONE if done else NodeState.FAILED if failed else NodeState.WORKING
    return replace(overview(summary), state=state, children=(*children, *_last_delivery(summary)))


def overview(summary: ClusterSummary) -> ViewNode:
    """Draw a cluster in one line."""
    stage, concern, upgrade = summary.stage, summary.concern, summary.upgrade
    release = f"release {summary.release_change}" if summary.release_change else "no addons yet"
    parts = [
        f"class {summary.class_name}" if summary.class_name else "",
        release if summary.of_cluster_stack else "",
        f"Kubernetes {summary.kubernetes_change}" if summary.kubernetes_change else "",
        f"stage {stage.number} of {stage.total}" if stage.total else "",
        f"upgrade {upgrade.name} {text(upgrade.entry, 'step')}".rstrip() if upgrade else "",
        f"{concern.reason}{_since(concern)}" if concern.reason else "",
    ]
    return ViewNode(f"Cluster {summary.key}", _concern_state(summary), ", ".join(filter(None, parts)))


def findings(summary: ClusterSummary) -> Iterator[ViewNode]:
    """Draw what a cluster waits for, the health and drift of its addons, and its last change."""
    concern, stage = summary.concern, summary.stage
    all_healthy = "the object is healthy" if summary.objects == 1 else f"all {summary.objects} objects are healthy"
    if (upgrade := summary.upgrade) is not None:
        mark = NodeState.FAILED if upgrade.failed else NodeState.WORKING
        yield ViewNode("upgrade", mark, f"{upgrade.name}: {upgrade.activity}")
    if stage.total:
        yield ViewNode("rollout", NodeState.WORKING, f"stage {stage.number} of {stage.total}, {stage.current}")
    if summary.ready.status != "True" or summary.pause or summary.hold[0] == HELD:
        waits = f"{concern.reason}: {' '.join(concern.message.split())}{_since(concern)}"
        yield ViewNode("waits for", _concern_state(summary), waits)
    if summary.hold[0]:
        state, since = summary.hold
        hold_state = (
            NodeState.FAILED if state == "NotHonoured" else NodeState.WORKING if state == HELD else NodeState.DONE
        )
        yield ViewNode("upgrade hold", hold_state, f"{state}: upgrade to {summary.wanted}, requested {since}")
    for kind, title, fine in (
        (AddonCondition.HEALTHY, "health", all_healthy),
        (AddonCondition.IN_SYNC, "drift", "no object differs from what was delivered"),
        (AddonCondition.WITHIN_RANGES, "ranges", "the versions are within the ranges"),
    ):
        if (condition := summary.conditions.get(kind)) is not None:
            detail = (
                fine if condition.status == "True" else f"{condition.message or condition.reason}{_since(condition)}"
            )
            yield ViewNode(title, _condition_state(condition), detail)
    if (last := summary.last_change) is not None:
        yield ViewNode("last change", _condition_state(last), f"{last.type} became {last.status}{_since(last)}")


def delivery_state(delivery: PastDelivery) -> NodeState | None:
    """Return the state of a delivery by its result; None for one that was superseded."""
    return _DELIVERIES.get(delivery.result)


def _last_delivery(summary: ClusterSummary) -> Iterator[ViewNode]:
    """Draw the last delivery; that it failed says nothing about what was done since."""
    if summary.last_delivery:
        delivery = PastDelivery(summary.last_delivery)
        detail = f"{delivery.title}: {delivery.outcome}, {delivery.numbers}, since {delivery.began}"
        yield ViewNode("last delivery", delivery_state(delivery) or NodeState.WORKING, detail)


def _condition_state(condition: Condition) -> NodeState:
    if condition.status == "True" and condition.type != PAUSED:
        return NodeState.DONE
    return NodeState.FAILED if condition.severity in (Severity.ERROR, Severity.WARNING) else NodeState.WORKING


def _concern_state(summary: ClusterSummary) -> NodeState:
    """Return the state of what is to be looked at first; a control plane that starts or is replaced has not failed."""
    changes = summary.upgrading or not summary.running
    if changes and summary.concern.reason == Reason.CONTROL_PLANE_NOT_READY:
        return NodeState.WORKING
    return _condition_state(summary.concern)


def _since(condition: Condition) -> str:
    return f", since {condition.last_transition_time}" if condition.last_transition_time else ""


def _name(manifest: Manifest) -> str:
    return text(manifest, "metadata", "name")


def _stack(stack: Manifest, snapshot: Snapshot) -> ViewNode:
    usable = text(stack, "status", "usableVersions")
    return ViewNode(
        f"ClusterStack {text(stack, 'metadata', 'name')}",
        _state(stack, ready=_is_ready(stack)),
        f"usable: {usable}" if usable else _message(stack),
        tuple(_release(release, snapshot) for release in snapshot.releases if _offers(stack, release)),
    )


def _offers(stack: Manifest, release: Manifest) -> bool:
    provider, name, minor = (text(stack, "spec", key) for key in ("provider", "name", "kubernetesVersion"))
    return text(release, "metadata", "name").startswith(f"{provider}-{name}-{minor.replace('.', '-')}-")


def _release(release: Manifest, snapshot: Snapshot) -> ViewNode:
    name, ready = text(release, "metadata", "name"), at(release, "status", "ready") is True
    version = text(release, "status", "kubernetesVersion")
    classes = [manifest for manifest in snapshot.classes if text(manifest, "metadata", "name") == name]
    children = tuple(_class(manifest) for manifest in classes)
    detail = f"Kubernetes {version}" if ready else _message(release)
    return ViewNode(f"ClusterStackRelease {name}", _state(release, ready=ready), detail, children)


def _class(manifest: Manifest) -> ViewNode:
    view = cluster_class_view(manifest)
    state = NodeState.DONE if view.ready else NodeState.WORKING
    return ViewNode(f"ClusterClass {view.name}", state, "accepted by Cluster API" if view.ready else view.cause)


def _cluster(manifest: Manifest, snapshot: Snapshot) -> ViewNode:
    view = cluster_view(manifest)
    addons = [addon for addon in snapshot.addons if text(addon, "spec", "clusterRef", "name") == view.name]
    bindings = [binding for binding in snapshot.bindings if text(binding, "spec", "clusterName") == view.name]
    pools = [pool for pool in snapshot.pools if text(pool, "spec", "clusterName") == view.name]
    children = (
        _control_plane(view, addons),
        *(_workers(pool, snapshot) for pool in pools),
        *(_addons(addon) for addon in addons),
        *_syncs(bindings),
    )
    state = NodeState.DONE if all(child.state is NodeState.DONE for child in children) and addons else NodeState.WORKING
    return ViewNode(f"Cluster {view.name}", state, f"class {view.class_name}", children)


def _control_plane(view: ClusterView, addons: Sequence[Manifest]) -> ViewNode:
    running = ", ".join(view.control_plane_versions)
    if not view.control_plane_initialized or not running:
        return ViewNode("control plane", NodeState.WORKING, "starting")
    if view.version and view.control_plane_versions != (view.version,):
        holds = [mapping(addon, "status", "upgradeHold") for addon in addons]
        is_waiting = any(text(hold, "state") == "Held" and text(hold, "version") == view.version for hold in holds)
        wait = "waits for the stages of BeforeClusterUpgrade before" if is_waiting else "not yet"
        return ViewNode("control plane", NodeState.WORKING, f"{running}, {wait} {view.version}")
    return ViewNode("control plane", NodeState.DONE, running)


def _workers(pool: Manifest, snapshot: Snapshot) -> ViewNode:
    """Draw a pool; while it rolls it has Machines of both versions, and the old ones go.

    A Cluster without a topology has MachineDeployments without the label of a pool.
    """
    pool_name, label = text(pool, "metadata", "labels", POOL_LABEL), POOL_LABEL
    if not pool_name:
        pool_name, label = _name(pool), _DEPLOYMENT_LABEL
    machines = [
        machine
        for machine in snapshot.machines
        if text(machine, "spec", "clusterName") == text(pool, "spec", "clusterName")
        and text(machine, "metadata", "labels", label) == pool_name
    ]
    wanted, available = at(pool, "spec", "replicas") or 0, at(pool, "status", "availableReplicas") or 0
    version = text(pool, "spec", "template", "spec", "version")
    # The status counts workers of the previous template until Cluster API has seen the new one.
    current = all(text(machine, "spec", "version") == version for machine in machines)
    current = current and at(pool, "status", "upToDateReplicas") == wanted
    detail = f"{available} of {wanted} available, {version}"
    state = NodeState.DONE if current and available == wanted == len(machines) else NodeState.WORKING
    return ViewNode(f"workers {pool_name}", state, detail, tuple(map(_machine, machines)))


def _machine(machine: Manifest) -> ViewNode:
    phase, version = text(machine, "status", "phase") or "Pending", text(machine, "spec", "version")
    state = NodeState.DONE if phase == "Running" else NodeState.WORKING
    return ViewNode(f"Machine {text(machine, 'metadata', 'name')}", state, f"{version} {phase}")


def _addons(addon: Manifest) -> ViewNode:
    ready = at(addon, "status", "ready") is True
    stages = tuple(map(_stage, mappings(addon, "status", "stages")))
    delivered = tuple(
        ViewNode(text(entry, "name"), NodeState.DONE, _delivered(entry))
        for entry in mappings(addon, "status", "addons")
    )
    return ViewNode("addons", _state(addon, ready=ready), _objects(addon, ready=ready), stages or delivered)


def _delivered(addon: Manifest) -> str:
    """Return version, objects and release of an addon, which may be of another release than the class."""
    number = at(addon, "objects")
    objects = f"{counted(number if isinstance(number, int) else 0, 'object')} of {text(addon, 'release')}"
    return ", ".join(filter(None, (text(addon, "version"), objects)))


def _syncs(bindings: Sequence[Manifest]) -> Iterator[ViewNode]:
    """Draw the syncs of a cluster, if it has any."""
    syncs = sorted(map(sync_state, bindings), key=lambda sync: sync.name)
    nodes = sync_nodes(syncs)
    if nodes:
        states = {node.state for node in nodes}
        worst = next(state for state in (NodeState.FAILED, NodeState.WORKING, NodeState.DONE) if state in states)
        yield ViewNode("syncs", worst, f"{sum(sync.ready for sync in syncs)} of {len(syncs)} delivered", nodes)


def sync_nodes(syncs: Iterable[SyncState]) -> tuple[ViewNode, ...]:
    """Draw the syncs of one cluster: the number of objects, or what to look at."""
    return tuple(ViewNode(sync.name, _condition_state(sync.concern), _sync_detail(sync)) for sync in syncs)


def _sync_detail(sync: SyncState) -> str:
    if sync.concern.reason:
        return f"{sync.concern.reason}: {' '.join(sync.concern.message.split())}{_since(sync.concern)}"
    return f"{counted(sync.objects, 'object')} in place"


def upgrade_overview(upgrade: Manifest) -> ViewNode:
    """Draw a ClusterUpgrade in one line, with one for each of its Clusters that runs, has failed or is blocked."""
    status, phase = mapping(upgrade, "status"), text(upgrade, "status", "phase")
    counted = [f"{at(status, key) or 0} {key}" for key in ("running", "failed")]
    done = f"{text(status, 'done') or 0} done"
    begun = (ClusterPhase.RUNNING, ClusterPhase.FAILED, ClusterPhase.BLOCKED)
    shown = [entry for entry in mappings(status, "clusters") if text(entry, "phase") in begun]
    children = tuple(
        ViewNode(
            text(entry, "name"),
            _UPGRADES.get(text(entry, "phase"), NodeState.WORKING),
            RunningUpgrade(_name(upgrade), entry).activity,
        )
        for entry in shown
    )
    title = f"ClusterUpgrade {text(upgrade, 'metadata', 'namespace')}/{_name(upgrade)}"
    detail = f"to {text(upgrade, 'spec', 'to')}: {', '.join([phase or 'not begun', done, *counted])}"
    return ViewNode(title, _UPGRADES.get(phase, NodeState.WORKING), detail, children)


def sync_overview(sync: SyncSummary) -> ViewNode:
    """Draw a sync in one line."""
    parts = [f"{sync.synced} of {sync.clusters} clusters have all objects"]
    parts += [f"{sync.drifted} with differences"] if sync.drifted else []
    if sync.concern.reason:
        parts.append(f"{sync.concern.reason}{_since(sync.concern)}")
    return ViewNode(f"Sync {sync.key.namespace}/{sync.name}", _condition_state(sync.concern), ", ".join(parts))


def _stage(stage: Manifest) -> ViewNode:
    hook, phase = text(stage, "hook"), text(stage, "phase")
    title = f"{text(stage, 'action')} {text(stage, 'name')}"
    state = NodeState.DONE if phase == "done" else NodeState.WORKING
    return ViewNode(f"{hook}: {title}" if hook else title, state, phase)


def _objects(addon: Manifest, *, ready: bool) -> str:
    counted = Counter(text(resource, "status") for resource in mappings(addon, "status", "resources"))
    objects = f"{counted['synced']} objects in place"
    if counted["not-synced"]:
        objects += f", {counted['not-synced']} not"
    return objects if ready or not _message(addon) else _message(addon)


def _is_ready(manifest: Manifest) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in _conditions(manifest))


def _state(manifest: Manifest, *, ready: bool) -> NodeState:
    if ready:
        return NodeState.DONE
    wrong = any(condition.type == "Ready" and condition.severity == "Error" for condition in _conditions(manifest))
    return NodeState.FAILED if wrong else NodeState.WORKING


def _message(manifest: Manifest) -> str:
    return next((condition.message for condition in _conditions(manifest) if condition.type == "Ready"), "")


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    return from_documents(mapping(manifest, "status").get("conditions"))
