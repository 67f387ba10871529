"""Builds the JSON documents of the page from a snapshot of the management cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.documents import CONTROL_CHARACTERS, at, text
from clusterstacks.model.names import InvalidName, parse_class, release_named
from clusterstacks.plan.clusters.cluster_summary import addons_by_cluster, summarize_all
from clusterstacks.plan.clusters.cluster_tree import (
    NodeState,
    Snapshot,
    ViewNode,
    cluster_status,
    delivery_state,
    findings,
    overview,
    picture,
    sync_nodes,
)
from clusterstacks.plan.clusters.deliveries import past_deliveries
from clusterstacks.plan.clusters.leaving_support import leaving_support
from clusterstacks.plan.clusters.release_groups import group_by_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.model.versions import KubernetesMinor
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary
    from clusterstacks.plan.clusters.deliveries import PastDelivery
    from clusterstacks.plan.clusters.release_groups import ReleaseGroup
    from clusterstacks.plan.compat.support import SupportEnd

MAX_TEXT: Final = 2000
"""Longest text in characters (arbitrary: a screen); the rest is cut."""

MAX_ITEMS: Final = 2000
"""Longest list (arbitrary: a browser draws as many rows in less than a second)."""

MAX_CHILDREN: Final = 60
"""Nodes drawn below a node of the graph (arbitrary: a graph of more cannot be read)."""

MAX_TARGETS: Final = 50
"""Releases suggested as target of an upgrade (arbitrary)."""


def bounded(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a document with texts and lists of bounded length, and without control characters."""
    if isinstance(value, str):
        shown = CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", value[: MAX_TEXT + 1])
        return shown if len(value) <= MAX_TEXT else f"{shown[:MAX_TEXT]} …"
    if isinstance(value, dict):
        return {key: bounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [bounded(item) for item in value[:MAX_ITEMS]]
    return value


def fleet_document(
    snapshots: Mapping[str, Snapshot], minors: Mapping[KubernetesMinor, SupportEnd], today: date
) -> Manifest:
    """Return the stacks, the releases, and one line for each Cluster of a stack or a sync, of all contexts.

    ``support`` has a line for each Kubernetes minor in use that left support by ``minors``, or leaves it soon.
    """
    fleet: dict[str, list[Manifest]] = {"stacks": [], "releases": [], "clusters": []}
    summaries: list[ClusterSummary] = []
    for context, snapshot in snapshots.items():
        everything = summarize_all(snapshot.clusters, snapshot.addons, snapshot.bindings, snapshot.upgrades)
        own = [summary for summary in everything if summary.has_deliveries]
        groups = group_by_release(snapshot.releases, own)
        release_of = {cluster.key: group.name.release for group in groups for cluster in group.clusters}
        rows = {
            "stacks": map(_stack, snapshot.stacks, picture(Snapshot(stacks=snapshot.stacks))),
            "releases": map(_release, groups),
            "clusters": ({**_row(one), "group": release_of.get(one.key, ""), "labels": one.labels} for one in own),
        }
        for part, documents in rows.items():
            fleet[part] += [{"context": context, **document} for document in documents]
        summaries += own
    leaving = leaving_support(summaries, minors, today)
    return {**fleet, "support": [f"{version.told(today)}: {version.used()}" for version in leaving]}


def cluster_document(snapshot: Snapshot, key: ObjectKey) -> Manifest | None:
    """Return everything about one Cluster; None if it does not exist."""
    own = _of_namespace(snapshot, key)
    if not own.clusters:
        return None
    (cluster,) = own.clusters
    addon = addons_by_cluster(own.addons).get((key.namespace, key.name))
    (summary,) = summarize_all([cluster], own.addons, own.bindings, own.upgrades)
    state = cluster_status(cluster, own).state
    changes = [condition.document() for condition in summary.conditions.values() if condition.last_transition_time]
    return {
        **_row(summary),
        "state": state.value,
        "addons": [" ".join(addon) for addon in summary.addons],
        "syncs": [sync.name for sync in summary.syncs],
        "findings": [_node(finding) for finding in (*findings(summary), *_sync_findings(summary))],
        "changes": sorted(changes, key=lambda change: str(change["lastTransitionTime"]), reverse=True),
        "deliveries": [_delivery(delivery) for delivery in past_deliveries(addon)],
        "targets": _targets(snapshot.releases, summary),
        "graph": _graph(own, cluster, summary, state),
    }


def _sync_findings(summary: ClusterSummary) -> Iterator[ViewNode]:
    return (replace(node, title=f"sync {node.title}") for node in sync_nodes(summary.syncs))


def _row(summary: ClusterSummary) -> Manifest:
    line = overview(summary)
    return {
        "namespace": summary.key.namespace,
        "name": summary.key.name,
        "state": line.state.value,
        "ready": summary.ready.status == "True",
        "class": {"wanted": summary.class_name, "delivered": summary.delivered},
        "release": summary.release_change,
        "kubernetes": summary.kubernetes_change,
        "stage": {"number": summary.stage.number, "total": summary.stage.total, "current": summary.stage.current},
        "reason": summary.concern.reason,
        "message": summary.concern.message,
        "since": summary.concern.last_transition_time,
    }


def _delivery(delivery: PastDelivery) -> Manifest:
    state = delivery_state(delivery)
    return {
        "began": delivery.began,
        "title": delivery.title,
        "state": state.value if state else "",
        "outcome": delivery.outcome,
        "failure": delivery.failure,
        "numbers": delivery.numbers,
        "changes": list(delivery.changes()),
    }


def _stack(manifest: Manifest, node: ViewNode) -> Manifest:
    return {"namespace": text(manifest, "metadata", "namespace"), **_node(node)}


def _release(release: ReleaseGroup) -> Manifest:
    return {**release.document(), "clusters": len(release.clusters)}


def _targets(releases: Iterable[Manifest], summary: ClusterSummary) -> list[str]:
    """Return the ready releases of the Cluster's stack, the newest first, without the delivered one."""
    own = _class_release(summary.delivered) or _class_release(summary.class_name)
    ready = (
        release_named(text(release, "metadata", "name"))
        for release in releases
        if _is_in(release, summary.class_namespace) and at(release, "status", "ready") is True
    )
    same = {name for name in ready if name is not None and own is not None and name.same_stack(own) and name != own}
    return [name.release for name in sorted(same, reverse=True)][:MAX_TARGETS]


def _class_release(class_name: str) -> ReleaseName | None:
    try:
        return parse_class(class_name)
    except InvalidName:
        return None


def _of_namespace(snapshot: Snapshot, key: ObjectKey) -> Snapshot:
    """Return the snapshot with one Cluster, and with the workers, addons, syncs and upgrades in its namespace only."""

    def here(objects: Iterable[Manifest]) -> list[Manifest]:
        return [manifest for manifest in objects if _is_in(manifest, key.namespace)]

    return replace(
        snapshot,
        clusters=[cluster for cluster in here(snapshot.clusters) if text(cluster, "metadata", "name") == key.name],
        addons=here(snapshot.addons),
        bindings=here(snapshot.bindings),
        pools=here(snapshot.pools),
        machines=here(snapshot.machines),
        upgrades=here(snapshot.upgrades),
    )


def _is_in(manifest: Manifest, namespace: str) -> bool:
    return text(manifest, "metadata", "namespace") == namespace


@dataclass(slots=True)
class _Graph:
    """Nodes in the order of their drawing, and edges from the index of a node to that of another."""

    nodes: list[Manifest] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, node: ViewNode, parents: Iterable[int] = ()) -> int:
        """Add a node with all its descendants; return its index."""
        index = len(self.nodes)
        self.nodes.append(_node(node))
        self.edges += [(parent, index) for parent in parents]
        for child in node.children[:MAX_CHILDREN]:
            self.add(child, [index])
        if (hidden := len(node.children) - MAX_CHILDREN) > 0:
            self.add(ViewNode(f"and {hidden} more", NodeState.WORKING), [index])
        return index


def _graph(own: Snapshot, cluster: Manifest, summary: ClusterSummary, state: NodeState) -> Manifest:
    """Return the graph from the stacks of the Cluster's releases to its stages, addons and Machines."""
    graph = _Graph()
    releases: list[int] = []
    for stack in _stacks(own, summary):
        root = graph.add(stack)
        releases += range(root + 1, len(graph.nodes))
    (drawn,) = picture(replace(own, stacks=(), clusters=[cluster]))
    graph.add(ViewNode(f"Cluster {summary.key.name}", state, drawn.detail, drawn.children), releases)
    return {"nodes": graph.nodes, "edges": graph.edges}


def _stacks(own: Snapshot, summary: ClusterSummary) -> Iterator[ViewNode]:
    """Draw the stacks of the wanted and the delivered release, with these releases only."""
    names = {name.release for name in map(_class_release, (summary.delivered, summary.class_name)) if name is not None}
    used = [
        release
        for release in own.releases
        if _is_in(release, summary.class_namespace) and text(release, "metadata", "name") in names
    ]
    stacks = [stack for stack in own.stacks if _is_in(stack, summary.class_namespace)]
    return (stack for stack in picture(Snapshot(stacks=stacks, releases=used)) if stack.children)


def _node(node: ViewNode) -> Manifest:
    return {"title": node.title, "state": node.state.value, "detail": " ".join(node.detail.split())}
