"""Registers the controllers of ClusterResourceSyncs and of their bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterresourcesync import ClusterResourceSync
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, SYNC_GROUP, Kind
from clusterstacks.model.objects import ObjectKey, drop_managed_fields
from clusterstacks.operator.controllers.class_usage import CLUSTERS
from clusterstacks.operator.controllers.clusteraddon.workload_gate import WorkloadGate
from clusterstacks.operator.controllers.clusterresourcesync.binding_reconciler import ADVISORY, BindingReconciler
from clusterstacks.operator.controllers.clusterresourcesync.reconciler import SYNC_INDEX, SyncReconciler, is_selected
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

CLUSTER_INDEX = "cluster"
"""Index of bindings by ``namespace/name`` of their Cluster."""

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
        """Yield the syncs that select a Cluster now or did before, if its labels or its deletion have changed."""
        if not of_watched(change, self._watch_filter) or _selected_by(change.old) == _selected_by(change.new):
            return
        for sync in self._syncs.all():
            if key_of(sync).namespace == change.key.namespace and _selects(sync, change):
                yield key_of(sync)

    def sync_of_binding(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the sync of a binding."""
        yield ObjectKey(change.key.namespace, text(change.new or change.old or {}, "spec", "syncName"))

    def bindings_of_sync(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a sync."""
        if is_news(change):
            yield from (key_of(one) for one in self._bindings.by_index(SYNC_INDEX, str(change.key)))

    def bindings_of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a Cluster, if it is new, has become available, or its spec or metadata changed."""
        if not of_watched(change, self._watch_filter) or _decisive(change.old) == _decisive(change.new):
            return
        yield from (key_of(one) for one in self._bindings.by_index(CLUSTER_INDEX, str(change.key)))


def _selected_by(cluster: Manifest | None) -> object:
    """Return what decides which syncs select a Cluster."""
    metadata = mapping(cluster or {}, "metadata")
    return cluster is not None, metadata.get("labels"), "deletionTimestamp" in metadata


def _selects(sync: Manifest, change: CacheChange) -> bool:
    try:
        parsed = ClusterResourceSync.parse(sync)
    except SpecError:
        return False  # its own reconcile reports that
    return is_selected(parsed, change.old) or is_selected(parsed, change.new)


def _decisive(cluster: Manifest | None) -> object:
    if cluster is None:
        return None
    initialized = [
        at(cluster, "status", "initialization"),
        at(cluster, "status", "infrastructureReady"),
        at(cluster, "status", "controlPlaneReady"),
    ]
    # Templates of sources may have anything of the spec.
    metadata = [at(cluster, "metadata", field) for field in ("generation", "labels", "annotations")]
    return [at(cluster, "spec", "paused"), metadata, initialized]


def _syncs_by_binding(binding: Manifest) -> list[str]:
    return [str(ObjectKey(text(binding, "metadata", "namespace"), text(binding, "spec", "syncName")))]


def _clusters_of_bindings(binding: Manifest) -> list[str]:
    return [str(ObjectKey(text(binding, "metadata", "namespace"), text(binding, "spec", "clusterName")))]


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
            indexes={SYNC_INDEX: _syncs_by_binding, CLUSTER_INDEX: _clusters_of_bindings},
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
