"""Keeps the bindings of annotated ClusterResourceSets, which belong to Cluster API and are not written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import mapping
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import is_moving, is_watched
from clusterstacks.model.kinds.clusterresourceset import is_annotated, sync_of_set
from clusterstacks.model.kinds.clusterstack import DeletionPolicy
from clusterstacks.model.kinds.names import (
    PAUSED_ANNOTATION,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    SYNC_DELETION_POLICY_ANNOTATION,
    SYNC_GROUP,
    Kind,
    sync_name,
)
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Stalled
from clusterstacks.net.kube.errors import KindNotServed, NotFound
from clusterstacks.operator.controllers.clusterresourcesync.reconciler import is_present
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusterresourcesync.reconciler import SyncBindings
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.events import EventRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSetReconciler:
    """Keeps one binding for each Cluster that an annotated ClusterResourceSet selects.

    Without the annotation the bindings go, and the objects stay. Nothing delays the deletion of a ClusterResourceSet,
    so its bindings have its deletion policy. While an annotation is not valid, nothing changes.
    """

    client: Client
    sets: ObjectCache
    bindings: SyncBindings
    events: EventRecorder

    async def reconcile(self, key: ObjectKey) -> Stalled | None:
        """Reconcile one ClusterResourceSet, which is read from the API server if there is anything to do for it."""
        bindings = self.bindings.of(ObjectKey(key.namespace, sync_name(key.name)))
        cached = self.sets.get(key)
        if not bindings and (cached is None or not is_annotated(cached)):
            return None
        try:
            resource = await self.client.resource(RESOURCE_SET_GROUP, RESOURCE_SET_KIND)
        except KindNotServed:
            return None
        manifest = await self.client.find(resource, key.name, key.namespace)
        is_gone = manifest is None or "deletionTimestamp" in manifest["metadata"]
        if manifest is not None and not is_gone and self._is_left_alone(manifest):
            return None
        try:
            sync = sync_of_set(manifest) if manifest is not None and not is_gone else None
        except SpecError as error:
            await self.events.record(manifest or {}, "Warning", error.code, error.message)
            return Stalled(error.code, error.message)
        policy = sync.spec.deletion_policy if sync is not None else DeletionPolicy.ORPHAN
        for binding in filter(is_present, bindings.values()):
            if not is_gone:
                await self._set_policy(binding, policy)
            if sync is None:
                await self.bindings.delete(key_of(binding))
        if manifest is not None and sync is not None:
            await self.bindings.keep(sync, StatusPatch(manifest))
        return None

    def _is_left_alone(self, manifest: Manifest) -> bool:
        is_paused = PAUSED_ANNOTATION in mapping(manifest, "metadata", "annotations")
        return is_paused or is_moving(manifest) or not is_watched(manifest, self.bindings.watch_filter)

    async def _set_policy(self, binding: Manifest, policy: DeletionPolicy) -> None:
        """Write into a binding that its objects are deleted with it; without that they stay."""
        wanted = policy.value if policy is DeletionPolicy.DELETE else None
        annotations = mapping(binding, "metadata", "annotations")
        if (annotations.get(SYNC_DELETION_POLICY_ANNOTATION) == DeletionPolicy.DELETE) == bool(wanted):
            return
        resource = await self.client.resource(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING)
        patch = {"metadata": {"annotations": {SYNC_DELETION_POLICY_ANNOTATION: wanted}}}
        key = key_of(binding)
        try:
            await self.client.merge_patch(resource, key.name, patch, key.namespace)
        except NotFound:
            return
