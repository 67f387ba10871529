"""Summarizes ClusterResourceSyncs and their bindings: how many clusters have all objects, and what to look at first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.model.conditions import Condition, from_documents
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.kinds.names import CLUSTER_KIND, READY_CONDITION, AddonCondition, Kind
from clusterstacks.model.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.objects import Manifest

WELL: Final = Condition(READY_CONDITION, "True")
"""The concern about a sync if there is nothing to look at."""

_UNREPORTED: Final = Condition(READY_CONDITION, "Unknown", "NotReported", "the operator has not reported its state yet")


@dataclass(frozen=True, slots=True)
class SyncState:
    """A sync in one cluster, as its binding reports it."""

    name: str
    ready: bool
    """Whether the cluster has all objects."""
    objects: int
    """Objects that are in place."""
    concern: Condition
    """The condition to look at first, with reason and message; ``WELL`` if there is none."""

    def document(self) -> Manifest:
        """Return the state as JSON."""
        return {"name": self.name, "ready": self.ready, "objects": self.objects, **_said(self.concern)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSummary:
    """A sync in all of its clusters."""

    kind: str
    """ClusterResourceSync, or the kind of another object that has bindings."""
    key: ObjectKey
    ready: bool
    clusters: int
    synced: int
    drifted: int
    concern: Condition
    """As that of ``SyncState``."""

    @property
    def name(self) -> str:
        """The name, with the kind where it is not ClusterResourceSync."""
        return self.key.name if self.kind == Kind.CLUSTER_RESOURCE_SYNC else f"{self.key.name} ({self.kind})"

    def document(self) -> Manifest:
        """Return the summary as JSON."""
        return {
            "kind": self.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "ready": self.ready,
            "clusters": self.clusters,
            "synced": self.synced,
            "drifted": self.drifted,
            **_said(self.concern),
        }


def sync_state(binding: Manifest) -> SyncState:
    """Return the state of a sync in the cluster of a binding."""
    conditions = {condition.type: condition for condition in _conditions(binding)}
    found = [conditions.get(READY_CONDITION, _UNREPORTED)]
    found += [conditions[kind] for kind in (AddonCondition.HEALTHY, AddonCondition.IN_SYNC) if kind in conditions]
    paused = conditions.get(AddonCondition.PAUSED, WELL)
    troubled = paused if paused.reason else next((one for one in found if one.status != "True"), WELL)
    return SyncState(
        name=text(binding, "spec", "syncName"),
        ready=at(binding, "status", "ready") is True,
        objects=sum(text(entry, "status") == "synced" for entry in mappings(binding, "status", "resources")),
        concern=troubled,
    )


def summarize_syncs(syncs: Iterable[Manifest], bindings: Iterable[Manifest]) -> list[SyncSummary]:
    """Summarize ClusterResourceSyncs, and the other objects that have bindings, sorted by namespace and name."""
    known = {(_key(sync), Kind.CLUSTER_RESOURCE_SYNC.value): sync for sync in syncs}
    bound: dict[tuple[ObjectKey, str], list[Manifest]] = defaultdict(list)
    for binding in bindings:
        sync = ObjectKey(text(binding, "metadata", "namespace"), text(binding, "spec", "syncName"))
        bound[sync, _owner_kind(binding)].append(binding)
    return [_summarized(*sync, known.get(sync), bound[sync]) for sync in sorted({*known, *bound})]


def _summarized(key: ObjectKey, kind: str, sync: Manifest | None, bindings: Sequence[Manifest]) -> SyncSummary:
    by_cluster = sorted((text(binding, "spec", "clusterName"), sync_state(binding)) for binding in bindings)
    states = [state for _, state in by_cluster]
    ready = WELL
    if sync is not None:
        ready = next((one for one in _conditions(sync) if one.type == READY_CONDITION), _UNREPORTED)
    concerns = [
        replace(state.concern, message=f"Cluster {cluster}: {state.concern.message}")
        for cluster, state in by_cluster
        if state.concern.reason
    ]
    synced = sum(state.ready for state in states)
    return SyncSummary(
        kind=kind,
        key=key,
        ready=ready.status == "True" and synced == len(states),
        clusters=len(states),
        synced=synced,
        drifted=sum(_is_drifted(binding) for binding in bindings),
        concern=ready if ready.status != "True" else next(iter(concerns), WELL),
    )


def _is_drifted(binding: Manifest) -> bool:
    return any(one.type == AddonCondition.IN_SYNC and one.status == "False" for one in _conditions(binding))


def _owner_kind(binding: Manifest) -> str:
    owners = [text(owner, "kind") for owner in mappings(binding, "metadata", "ownerReferences")]
    return next((kind for kind in owners if kind != CLUSTER_KIND), Kind.CLUSTER_RESOURCE_SYNC.value)


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    return from_documents(mapping(manifest, "status").get("conditions"))


def _key(manifest: Manifest) -> ObjectKey:
    return ObjectKey(text(manifest, "metadata", "namespace"), text(manifest, "metadata", "name"))


def _said(concern: Condition) -> Manifest:
    return {"reason": concern.reason, "message": concern.message, "since": concern.last_transition_time}
