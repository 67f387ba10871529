"""Registers the controllers of ClusterResourceSyncs and of their bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, text
from clusterstacks.model.kinds.clusterresourcesync import binding_name
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, SYNC_GROUP, Kind
from clusterstacks.model.objects import ObjectKey, drop_managed_fields
from clusterstacks.operator.controllers.class_usage import CLUSTERS
from clusterstacks.operator.controllers.clusteraddon.workload_gate import WorkloadGate
from clusterstacks.operator.controllers.clusterresourcesync.binding_reconciler import ADVISORY, BindingReconciler
from clusterstacks.operator.controllers.clusterresourcesync.reconciler import SYNC_INDEX, SyncReconciler
from clusterstacks.operator.controllers.clusterresourcesync.sync_sources import SyncSources
from clusterstacks.operator.controllers.object_reader import CachedReader
from clusterstacks.operator.controllers.registration import (
    CachedKind,
    Reconciler,
    Registration,
    Watch,
    is_news,
    of_watched,
    self_key,
)
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.registration import ControllerContext
    from clusterstacks.runtime.cache import CacheChange, ObjectCache

NAME = "clusterresourcesync"
BINDING_NAME = "clusterresourcesyncbinding"
SWEEP_NAME = "clusterresourcesyncdrift"


class SyncWatches:
    """Maps changes to the syncs and bindings that they concern."""

    def __init__(self, syncs: ObjectCache, bindings: ObjectCache, watch_filter: str) -> None:
        self._syncs = syncs
        self._bindings = bindings
        self._watch_filter = watch_filter

    def syncs_of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the syncs of the namespace of a Cluster, of which labels or deletion may have changed."""
        if is_news(change) and of_watched(change, self._watch_filter):
            yield from (key for sync in self._syncs.all() if (key := key_of(sync)).namespace == change.key.namespace)

    def sync_of_binding(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the sync of a binding."""
        yield ObjectKey(change.key.namespace, text(change.new or change.old or {}, "spec", "syncName"))

    def bindings_of_sync(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a sync."""
        if is_news(change):
            yield from (key_of(one) for one in self._bindings.by_index(SYNC_INDEX, str(change.key)))

    def bindings_of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a Cluster, if it is new, has become available, was paused, or is requested."""
        if not of_watched(change, self._watch_filter) or _decisive(change.old) == _decisive(change.new):
            return
        for sync in self._syncs.all():
            binding = ObjectKey(change.key.namespace, binding_name(key_of(sync).name, change.key.name))
            if key_of(sync).namespace == change.key.namespace and self._bindings.get(binding) is not None:
                yield binding


def _decisive(cluster: Manifest | None) -> object:
    if cluster is None:
        return None
    initialized = [
        at(cluster, "status", "initialization"),
        at(cluster, "status", "infrastructureReady"),
        at(cluster, "status", "controlPlaneReady"),
    ]
    return [at(cluster, "spec", "paused"), at(cluster, "metadata", "annotations"), initialized]


def _syncs_by_binding(binding: Manifest) -> list[str]:
    return [str(ObjectKey(text(binding, "metadata", "namespace"), text(binding, "spec", "syncName")))]


def _watches(env: ControllerContext) -> SyncWatches:
    caches = (env.cache(Kind.CLUSTER_RESOURCE_SYNC), env.cache(Kind.CLUSTER_RESOURCE_SYNC_BINDING))
    return SyncWatches(*caches, env.watch_filter)


def _build(env: ControllerContext) -> Reconciler:
    reconciler = SyncReconciler(
        client=env.client,
        clusters=env.cache(CLUSTER_KIND),
        bindings=env.cache(Kind.CLUSTER_RESOURCE_SYNC_BINDING),
        watch_filter=env.watch_filter,
    )
    watches = _watches(env)
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_RESOURCE_SYNC, reconciler.work).reconcile,
        watches=(
            Watch(Kind.CLUSTER_RESOURCE_SYNC, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_RESOURCE_SYNC_BINDING, watches.sync_of_binding),
            Watch(CLUSTER_KIND, watches.syncs_of_cluster),
        ),
    )


def _build_binding(env: ControllerContext) -> Reconciler:
    informers = {
        (CLUSTER_API_GROUP, CLUSTER_KIND): env.informers[CLUSTER_KIND],
        (SYNC_GROUP, str(Kind.CLUSTER_RESOURCE_SYNC)): env.informers[Kind.CLUSTER_RESOURCE_SYNC],
    }
    reconciler = BindingReconciler(
        client=env.client,
        cached_reads=CachedReader(client=env.client, informers=informers),
        workloads=env.workloads,
        gate=WorkloadGate(env.workloads, env.clock),
        sources=SyncSources(env.client, env.clock, env.renderer),
        sweep=env.sync_sweep,
        metrics=env.metrics,
    )
    watches = _watches(env)
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_RESOURCE_SYNC_BINDING, reconciler.work, ADVISORY).reconcile,
        watches=(
            Watch(Kind.CLUSTER_RESOURCE_SYNC_BINDING, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_RESOURCE_SYNC, watches.bindings_of_sync),
            Watch(CLUSTER_KIND, watches.bindings_of_cluster),
        ),
    )


def _build_sweep(env: ControllerContext) -> Reconciler:
    return Reconciler(reconcile=env.sync_sweep.reconcile, watches=(), forget=env.sync_sweep.forget)


REGISTRATION = Registration(
    name=NAME,
    kind=Kind.CLUSTER_RESOURCE_SYNC,
    build=_build,
    caches=(
        CachedKind(kind=Kind.CLUSTER_RESOURCE_SYNC, group=SYNC_GROUP, required=False),
        CachedKind(
            kind=Kind.CLUSTER_RESOURCE_SYNC_BINDING,
            group=SYNC_GROUP,
            indexes={SYNC_INDEX: _syncs_by_binding},
            trim=drop_managed_fields,
            required=False,
        ),
        CLUSTERS,
    ),
    concurrency_of="clusteraddon",
)

BINDING_REGISTRATION = Registration(
    name=BINDING_NAME,
    kind=Kind.CLUSTER_RESOURCE_SYNC_BINDING,
    build=_build_binding,
    concurrency_of="clusteraddon",
)

SWEEP_REGISTRATION = Registration(
    name=SWEEP_NAME,
    kind=Kind.CLUSTER_RESOURCE_SYNC_BINDING,
    build=_build_sweep,
    concurrency_of="clusteraddon",
    reports_ready=False,
)
