"""Draws stacks and clusters as a tree with the state of each part. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from clusterstacks.api.clusterapi import cluster_class_view, cluster_view
from clusterstacks.domain.conditions import from_documents
from clusterstacks.domain.documents import at, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusterstacks.domain.conditions import Condition
    from clusterstacks.domain.objects import Manifest


class NodeState(Enum):
    """State of a part."""

    DONE = "done"
    WORKING = "working"
    FAILED = "failed"


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


def picture(snapshot: Snapshot) -> tuple[ViewNode, ...]:
    """Draw every stack and every cluster."""
    return (
        *(_stack(stack, snapshot) for stack in snapshot.stacks),
        *(_cluster(cluster, snapshot) for cluster in snapshot.clusters),
    )


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
    classes = [found for found in snapshot.classes if text(found, "metadata", "name") == name]
    children = tuple(_class(found) for found in classes)
    detail = f"Kubernetes {version}" if ready else _message(release)
    return ViewNode(f"ClusterStackRelease {name}", _state(release, ready=ready), detail, children)


def _class(manifest: Manifest) -> ViewNode:
    view = cluster_class_view(manifest)
    state = NodeState.DONE if view.ready else NodeState.WORKING
    return ViewNode(f"ClusterClass {view.name}", state, "accepted by Cluster API" if view.ready else view.cause)


def _cluster(manifest: Manifest, snapshot: Snapshot) -> ViewNode:
    view = cluster_view(manifest)
    running = ", ".join(view.control_plane_versions)
    up = view.control_plane_initialized and bool(running)
    server = ViewNode("API server", NodeState.DONE if up else NodeState.WORKING, running or "starting")
    addons = [addon for addon in snapshot.addons if text(addon, "spec", "clusterRef", "name") == view.name]
    children = (server, *(_addons(addon) for addon in addons))
    state = NodeState.DONE if all(child.state is NodeState.DONE for child in children) and addons else NodeState.WORKING
    return ViewNode(f"Cluster {view.name}", state, f"class {view.class_name}", children)


def _addons(addon: Manifest) -> ViewNode:
    ready = at(addon, "status", "ready") is True
    stages = tuple(
        ViewNode(
            f"{text(stage, 'action')} {text(stage, 'name')}",
            NodeState.DONE if text(stage, "phase") == "done" else NodeState.WORKING,
            f"{text(stage, 'hook')}: {text(stage, 'phase')}",
        )
        for stage in mappings(addon, "status", "stages")
    )
    delivered = tuple(
        ViewNode(text(one, "name"), NodeState.DONE, f"{at(one, 'objects')} objects of {text(one, 'release')}")
        for one in mappings(addon, "status", "addons")
    )
    return ViewNode("addons", _state(addon, ready=ready), _objects(addon, ready=ready), stages or delivered)


def _objects(addon: Manifest, *, ready: bool) -> str:
    counted = Counter(text(resource, "status") for resource in mappings(addon, "status", "resources"))
    objects = f"{counted['synced']} objects in place"
    if counted["not-synced"]:
        objects += f", {counted['not-synced']} not"
    return objects if ready or not _message(addon) else _message(addon)


def _is_ready(manifest: Manifest) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in _conditions(manifest))


def _state(manifest: Manifest, *, ready: bool) -> NodeState:
    if ready:
        return NodeState.DONE
    wrong = any(one.type == "Ready" and one.severity == "Error" for one in _conditions(manifest))
    return NodeState.FAILED if wrong else NodeState.WORKING


def _message(manifest: Manifest) -> str:
    return next((one.message for one in _conditions(manifest) if one.type == "Ready"), "")


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    return from_documents(mapping(manifest, "status").get("conditions"))
