"""Creates and deletes the bindings of ClusterResourceSyncs, and sums up their state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more, at, text
from clusterstacks.model.kinds.clusterapi import cluster_view, is_moving, is_watched
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, ClusterResourceSync, binding_name
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    CLUSTER_NAME_LABEL,
    READY_CONDITION,
    SYNC_DELETION_POLICY_ANNOTATION,
    SYNC_FINALIZER,
    SYNC_GROUP,
    AddonCondition,
    Kind,
    Reason,
    SyncCondition,
)
from clusterstacks.model.kinds.shards import inherited_labels
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.errors import AlreadyExists, NotFound
from clusterstacks.operator.controllers.status_reconciler import add_finalizer, remove_finalizer
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.held_reports import HeldReports
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.informer import Informer

SYNC_INDEX: Final = "sync"
"""Index of bindings by ``namespace/name`` of their sync."""

CLUSTERS_SHOWN: Final = 3
"""Clusters that a message names (arbitrary)."""

DELETION_RETRY: Final = timedelta(seconds=5)
"""Interval at which the end of the bindings of a deleted sync is looked for, beside its event. Arbitrary."""


def is_selected(sync: ClusterResourceSync, cluster: Manifest | None) -> bool:
    """Return whether a sync selects a Cluster of its namespace; a Cluster that is deleted is not selected."""
    if cluster is None:
        return False
    view = cluster_view(cluster)
    return not view.deleting and sync.spec.cluster_selector.matches(view.labels)


def is_present(binding: Manifest) -> bool:
    """Return whether a binding is neither deleted nor moved to another management cluster."""
    return at(binding, "metadata", "deletionTimestamp") is None and not is_moving(binding)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBindings:
    """The bindings of syncs: one for each Cluster that a sync selects."""

    client: Client
    clusters: ObjectCache
    informer: Informer
    watch_filter: str

    def of(self, sync: ObjectKey) -> dict[ObjectKey, Manifest]:
        """Return the bindings of a sync."""
        return {key_of(one): one for one in self.informer.cache.by_index(SYNC_INDEX, str(sync))}

    def wanted(self, sync: ClusterResourceSync) -> dict[ObjectKey, ClusterView]:
        """Return the selected Clusters by the key of their binding."""
        selected = [
            cluster_view(cluster)
            for cluster in self.clusters.all()
            if text(cluster, "metadata", "namespace") == sync.key.namespace
            and is_watched(cluster, self.watch_filter)
            and is_selected(sync, cluster)
        ]
        return {ObjectKey(view.namespace, binding_name(sync.metadata.name, view.name)): view for view in selected}

    async def keep(self, sync: ClusterResourceSync, owner: StatusPatch) -> None:
        """Create the bindings of selected Clusters, and delete those of others.

        Args:
            sync: The sync.
            owner: The object that defines it, which owns the bindings.
        """
        bindings, wanted = self.of(sync.key), self.wanted(sync)
        for key in sorted(wanted.keys() - bindings.keys()):
            owner.require_live()
            await self._create(sync, wanted[key], owner.manifest)
        for key in sorted(bindings.keys() - wanted.keys()):
            if is_present(bindings[key]):
                owner.require_live()
                await self._delete_unselected(sync, bindings[key])

    async def _create(self, sync: ClusterResourceSync, cluster: ClusterView, owner: Manifest) -> None:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        binding = {
            "apiVersion": SYNC_API_VERSION,
            "kind": Kind.CLUSTER_RESOURCE_SYNC_BINDING.value,
            "metadata": {
                "name": binding_name(sync.metadata.name, cluster.name),
                "namespace": cluster.namespace,
                "labels": {CLUSTER_NAME_LABEL: cluster.name, **inherited_labels(cluster.labels)},
                "finalizers": [SYNC_FINALIZER],
                "ownerReferences": [reference, cluster.owner_reference()],
            },
            "spec": {"syncName": sync.metadata.name, "clusterName": cluster.name},
        }
        resource = await self.client.resource(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING)
        try:
            created = await self.client.create(resource, binding, namespace=cluster.namespace)
        except AlreadyExists:
            return
        self.informer.written(created)

    async def _delete_unselected(self, sync: ClusterResourceSync, binding: Manifest) -> None:
        """Delete a binding, which deletes its objects, if the API server confirms that its Cluster is not selected."""
        clusters = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        key = key_of(binding)
        cluster = await self.client.find(clusters, text(binding, "spec", "clusterName"), key.namespace)
        name = binding_name(sync.metadata.name, text(binding, "spec", "clusterName"))
        if name != key.name or not is_selected(sync, cluster):
            await self.delete(key)

    async def delete(self, binding: ObjectKey) -> None:
        """Delete a binding, which ends when its objects are deleted or orphaned; one that is gone is fine."""
        resource = await self.client.resource(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING)
        try:
            await self.client.delete(resource, binding.name, binding.namespace)
        except NotFound:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReconciler:
    """Keeps the bindings of a ClusterResourceSync, and sums up their state."""

    client: Client
    bindings: SyncBindings
    held: HeldReports

    async def work(self, patch: StatusPatch) -> Outcome | timedelta | None:
        """Reconcile one sync; while its clusters get their objects, their number is reported once a second."""
        if is_moving(patch.manifest):
            return None
        if patch.deleting:
            return await self._end(patch)
        sync = ClusterResourceSync.parse(patch.manifest)
        await add_finalizer(patch, SYNC_FINALIZER, self.client)
        await self.bindings.keep(sync, patch)
        wanted, bindings = sorted(self.bindings.wanted(sync)), self.bindings.of(patch.key)
        outcome = _summed_up(patch, [bindings.get(key) for key in wanted], wanted)
        leaving = [bindings[key] for key in sorted(bindings.keys() - {*wanted}) if _is_delayed(bindings[key])]
        if not leaving or isinstance(outcome, Waiting):
            return self.held.left(patch, outcome, {Reason.CLUSTERS_NOT_SYNCED}) or outcome
        message = f"not selected any more: {_remaining(leaving)}"
        patch.false(SyncCondition.CLUSTERS_SYNCED, Reason.BINDINGS_REMAIN, message, Severity.INFO)
        return Waiting(Reason.BINDINGS_REMAIN, message, None)

    async def _end(self, patch: StatusPatch) -> Outcome:
        patch.require_live()
        resource = await self.client.resource(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING)
        listed = (await self.client.list(resource, patch.key.namespace)).items
        remaining = [one for one in listed if text(one, "spec", "syncName") == patch.key.name]
        for one in remaining:
            if at(one, "metadata", "deletionTimestamp") is None:
                await self.bindings.delete(key_of(one))
        if not remaining:
            await remove_finalizer(patch, SYNC_FINALIZER, self.client)
            return Settled()
        message = _remaining(remaining)
        patch.false(SyncCondition.CLUSTERS_SYNCED, Reason.BINDINGS_REMAIN, message, Severity.INFO)
        return Waiting(Reason.BINDINGS_REMAIN, message, DELETION_RETRY)


def _summed_up(patch: StatusPatch, bindings: Sequence[Manifest | None], keys: Sequence[ObjectKey]) -> Outcome:
    """Report the numbers of clusters; wait for those that do not have all objects.

    Of a cluster that cannot be read now, or is paused, it is unknown whether it still has them.
    """
    delivered = [one for one in bindings if one is not None and at(one, "status", "ready") is True]
    unread = [f"{text(one, 'spec', 'clusterName')}: {why}" for one in delivered if (why := _unread(one))]
    drifted = [one for one in bindings if one is not None and _status(one, AddonCondition.IN_SYNC) == "False"]
    patch.status |= {"clusters": len(bindings), "synced": len(delivered) - len(unread), "drifted": len(drifted)}
    missing = [
        f"{text(one or {}, 'spec', 'clusterName') or key.name}: {_message(one)}"
        for key, one in zip(keys, bindings, strict=True)
        if one not in delivered
    ]
    if unread and not missing:
        message = (
            f"{len(unread)} of {len(bindings)} clusters had all objects, and are not read now: "
            f"{and_more(unread, CLUSTERS_SHOWN, separator='; ', noun='clusters')}"
        )
        patch.unknown(SyncCondition.CLUSTERS_SYNCED, Reason.HEALTH_UNKNOWN, message)
        return Settled()
    if not missing:
        patch.true(SyncCondition.CLUSTERS_SYNCED)
        return Settled()
    message = (
        f"{len(missing)} of {len(bindings)} clusters do not have all objects: "
        f"{and_more(missing, CLUSTERS_SHOWN, separator='; ', noun='clusters')}"
    )
    patch.false(SyncCondition.CLUSTERS_SYNCED, Reason.CLUSTERS_NOT_SYNCED, message, Severity.INFO)
    return Waiting(Reason.CLUSTERS_NOT_SYNCED, message, None)


def _remaining(bindings: Sequence[Manifest]) -> str:
    """Name the clusters in which objects are not deleted yet, with the way out."""
    clusters = [text(one, "spec", "clusterName") for one in bindings]
    return (
        f"the objects in {len(bindings)} clusters are not deleted yet: {and_more(clusters, CLUSTERS_SHOWN)}; the "
        "bindings say why. A cluster that will not come back is given up, with its objects, by: kubectl annotate "
        f"--namespace {key_of(bindings[0]).namespace} crsyncbinding {key_of(bindings[0]).name} "
        f"{SYNC_DELETION_POLICY_ANNOTATION}=Orphan"
    )


def _is_delayed(binding: Manifest) -> bool:
    """Return whether the deletion of a binding has reported why it waits."""
    return at(binding, "metadata", "deletionTimestamp") is not None and _status(binding, "Ready") == "False"


def _unread(binding: Manifest) -> str:
    """Return why nobody reads the objects of a cluster; empty if they are read."""
    if _status(binding, AddonCondition.PAUSED) == "True":
        return _message(binding, AddonCondition.PAUSED)
    return _message(binding, AddonCondition.HEALTHY) if _status(binding, AddonCondition.HEALTHY) == "Unknown" else ""


def _status(binding: Manifest, condition: str) -> str:
    return next((text(one, "status") for one in _conditions(binding) if one.get("type") == condition), "")


def _message(binding: Manifest | None, condition: str = READY_CONDITION) -> str:
    found = [text(one, "message") for one in _conditions(binding or {}) if one.get("type") == condition]
    return found[0] if found else "not delivered yet"


def _conditions(binding: Manifest) -> list[Manifest]:
    found = at(binding, "status", "conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
