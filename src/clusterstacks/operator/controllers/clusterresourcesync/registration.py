"""Registers the controllers of ClusterResourceSyncs and of their bindings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterresourceset import sync_of_set
from clusterstacks.model.kinds.clusterresourcesync import ClusterResourceSync, SyncSourceKind
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    SYNC_GROUP,
    Kind,
    set_name,
    sync_name,
)
from clusterstacks.model.objects import ObjectKey, drop_managed_fields
from clusterstacks.operator.controllers.class_usage import CLUSTERS
from clusterstacks.operator.controllers.clusteraddon.workload_gate import WorkloadGate
from clusterstacks.operator.controllers.clusterresourcesync.binding_reconciler import ADVISORY, BindingReconciler
from clusterstacks.operator.controllers.clusterresourcesync.reconciler import (
    SYNC_INDEX,
    SyncBindings,
    SyncReconciler,
    is_selected,
)
from clusterstacks.operator.controllers.clusterresourcesync.set_reconciler import ResourceSetReconciler
from clusterstacks.operator.controllers.clusterresourcesync.sync_sources import SyncSources
from clusterstacks.operator.controllers.held_reports import HeldReports
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
from clusterstacks.operator.controllers.shard_moves import cluster_of_binding
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.registration import ControllerContext, ToKeys
    from clusterstacks.runtime.cache import CacheChange, ObjectCache
    from clusterstacks.runtime.informer import Informer

NAME = "clusterresourcesync"
SET_NAME = "clusterresourceset"
BINDING_NAME = "clusterresourcesyncbinding"
SWEEP_NAME = "clusterresourcesyncdrift"

SOURCE_INDEX: Final = "source"
"""Index of syncs and ClusterResourceSets by ``namespace/name`` of their ConfigMaps."""

CLUSTER_INDEX: Final = "cluster"
"""Index of bindings by ``namespace/name`` of their Cluster."""


class SyncWatches:
    """Maps changes to the syncs and bindings that they concern."""

    def __init__(self, syncs: ObjectCache, sets: ObjectCache, bindings: ObjectCache, watch_filter: str) -> None:
        self._syncs = syncs
        self._sets = sets
        self._bindings = bindings
        self._watch_filter = watch_filter

    def syncs_of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the syncs that select a Cluster now or did before, if its labels or its deletion have changed."""
        return self._selecting(self._syncs, ClusterResourceSync.parse, change)

    def sets_of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the annotated ClusterResourceSets that select such a Cluster."""
        return self._selecting(self._sets, sync_of_set, change)

    def _selecting(
        self, cache: ObjectCache, parse: Callable[[Manifest], ClusterResourceSync | None], change: CacheChange
    ) -> Iterator[ObjectKey]:
        if not of_watched(change, self._watch_filter) or _selected_by(change.old) == _selected_by(change.new):
            return
        for manifest in cache.all():
            if key_of(manifest).namespace == change.key.namespace and _selects(parse, manifest, change):
                yield key_of(manifest)

    def sync_of_binding(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the ClusterResourceSync of a binding."""
        name = text(change.new or change.old or {}, "spec", "syncName")
        if not set_name(name):
            yield ObjectKey(change.key.namespace, name)

    def set_of_binding(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the ClusterResourceSet of a binding that is new, is deleted, or has another policy."""
        name = set_name(text(change.new or change.old or {}, "spec", "syncName"))
        if name and is_news(change):
            yield ObjectKey(change.key.namespace, name)

    def bindings_of_sync(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a sync."""
        if is_news(change):
            yield from (key_of(one) for one in self._bindings.by_index(SYNC_INDEX, str(change.key)))

    def bindings_of_set(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a ClusterResourceSet."""
        return self.bindings_of_sync(replace(change, key=ObjectKey(change.key.namespace, sync_name(change.key.name))))

    def bindings_of_config_map(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of the syncs and ClusterResourceSets that name a ConfigMap."""
        for cache, name in ((self._syncs, str), (self._sets, sync_name)):
            for sync in cache.by_index(SOURCE_INDEX, str(change.key)):
                key = ObjectKey(change.key.namespace, name(key_of(sync).name))
                yield from (key_of(one) for one in self._bindings.by_index(SYNC_INDEX, str(key)))

    def bindings_of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the bindings of a Cluster, if it is new, has become available, or its spec or metadata changed."""
        if not of_watched(change, self._watch_filter) or _decisive(change.old) == _decisive(change.new):
            return
        yield from (key_of(one) for one in self._bindings.by_index(CLUSTER_INDEX, str(change.key)))


def _selected_by(cluster: Manifest | None) -> object:
    """Return what decides which syncs select a Cluster."""
    metadata = mapping(cluster or {}, "metadata")
    return cluster is not None, metadata.get("labels"), "deletionTimestamp" in metadata


def _selects(parse: Callable[[Manifest], ClusterResourceSync | None], manifest: Manifest, change: CacheChange) -> bool:
    try:
        sync = parse(manifest)
    except SpecError:
        return False  # its own reconcile reports that
    return sync is not None and (is_selected(sync, change.old) or is_selected(sync, change.new))


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


def _syncs_by_config_map(sync: Manifest) -> list[str]:
    namespace, sources = text(sync, "metadata", "namespace"), mappings(sync, "spec", "resources")
    names = {text(source, "name") for source in sources if text(source, "kind") == SyncSourceKind.CONFIG_MAP}
    return [str(ObjectKey(namespace, name)) for name in names]


def _watch_config_maps(env: ControllerContext, to_keys: ToKeys) -> Informer:
    config_maps = CachedKind(group="", kind=SyncSourceKind.CONFIG_MAP, trim=_revision_only, metadata_only=True)
    informer = env.watch_kind(config_maps)
    enqueue = env.enqueue(BINDING_NAME)

    def changed(change: CacheChange) -> None:
        for key in to_keys(change):
            enqueue(key)

    informer.subscribe(changed)
    return informer


def _revision_only(config_map: Manifest) -> Manifest:
    kept = ("name", "namespace", "uid", "resourceVersion")
    return {**config_map, "metadata": {field: at(config_map, "metadata", field) for field in kept}}


def _bindings_by_cluster(binding: Manifest) -> list[str]:
    return [str(ObjectKey(text(binding, "metadata", "namespace"), text(binding, "spec", "clusterName")))]


def _watches(env: ControllerContext) -> SyncWatches:
    syncs, sets = env.cache(Kind.CLUSTER_RESOURCE_SYNC), env.cache(RESOURCE_SET_KIND)
    return SyncWatches(syncs, sets, env.cache(Kind.CLUSTER_RESOURCE_SYNC_BINDING), env.watch_filter)


def _bindings(env: ControllerContext) -> SyncBindings:
    return SyncBindings(
        client=env.client,
        clusters=env.cache(CLUSTER_KIND),
        informer=env.informers[Kind.CLUSTER_RESOURCE_SYNC_BINDING],
        watch_filter=env.watch_filter,
    )


def _build(env: ControllerContext) -> Reconciler:
    reconciler = SyncReconciler(client=env.client, bindings=_bindings(env), held=HeldReports(env.clock))
    watches = _watches(env)
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_RESOURCE_SYNC, reconciler.work).reconcile,
        watches=(
            Watch(Kind.CLUSTER_RESOURCE_SYNC, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_RESOURCE_SYNC_BINDING, watches.sync_of_binding),
            Watch(CLUSTER_KIND, watches.syncs_of_cluster),
        ),
    )


def _build_set(env: ControllerContext) -> Reconciler:
    sets = env.cache(RESOURCE_SET_KIND)
    reconciler = ResourceSetReconciler(client=env.client, sets=sets, bindings=_bindings(env), events=env.events)
    watches = _watches(env)
    return Reconciler(
        reconcile=reconciler.reconcile,
        watches=(
            Watch(RESOURCE_SET_KIND, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_RESOURCE_SYNC_BINDING, watches.set_of_binding),
            Watch(CLUSTER_KIND, watches.sets_of_cluster),
        ),
    )


def _build_binding(env: ControllerContext) -> Reconciler:
    informers = {
        (CLUSTER_API_GROUP, CLUSTER_KIND): env.informers[CLUSTER_KIND],
        (SYNC_GROUP, str(Kind.CLUSTER_RESOURCE_SYNC)): env.informers[Kind.CLUSTER_RESOURCE_SYNC],
        (RESOURCE_SET_GROUP, RESOURCE_SET_KIND): env.informers[RESOURCE_SET_KIND],
    }
    watches = _watches(env)
    reconciler = BindingReconciler(
        client=env.client,
        cached_reads=CachedReader(client=env.client, informers=informers),
        workloads=env.workloads,
        gate=WorkloadGate(env.workloads, env.clock),
        sources=SyncSources(
            env.client, env.clock, env.renderer, partial(_watch_config_maps, env, watches.bindings_of_config_map)
        ),
        sweep=env.sync_sweep,
        metrics=env.metrics,
    )
    kind = Kind.CLUSTER_RESOURCE_SYNC_BINDING
    work = env.shards.guard(kind, cluster_of_binding, reconciler.work, env.sync_sweep.forget)
    return Reconciler(
        reconcile=env.status_reconciler(kind, work, ADVISORY).reconcile,
        watches=(
            Watch(Kind.CLUSTER_RESOURCE_SYNC_BINDING, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_RESOURCE_SYNC, watches.bindings_of_sync),
            Watch(RESOURCE_SET_KIND, watches.bindings_of_set),
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
        CachedKind(
            kind=Kind.CLUSTER_RESOURCE_SYNC,
            group=SYNC_GROUP,
            indexes={SOURCE_INDEX: _syncs_by_config_map},
            required=False,
        ),
        CachedKind(
            kind=Kind.CLUSTER_RESOURCE_SYNC_BINDING,
            group=SYNC_GROUP,
            indexes={SYNC_INDEX: _syncs_by_binding, CLUSTER_INDEX: _bindings_by_cluster},
            trim=drop_managed_fields,
            required=False,
            sharded=True,
        ),
        CLUSTERS,
    ),
    concurrency_of="clusteraddon",
)

SET_REGISTRATION = Registration(
    name=SET_NAME,
    kind=RESOURCE_SET_KIND,
    build=_build_set,
    caches=(
        CachedKind(
            kind=RESOURCE_SET_KIND,
            group=RESOURCE_SET_GROUP,
            indexes={SOURCE_INDEX: _syncs_by_config_map},
            required=False,
        ),
    ),
    concurrency_of="clusteraddon",
    reports_ready=False,
)

BINDING_REGISTRATION = Registration(
    name=BINDING_NAME,
    kind=Kind.CLUSTER_RESOURCE_SYNC_BINDING,
    build=_build_binding,
    concurrency_of="clusteraddon",
    in_shards=True,
)

SWEEP_REGISTRATION = Registration(
    name=SWEEP_NAME,
    kind=Kind.CLUSTER_RESOURCE_SYNC_BINDING,
    build=_build_sweep,
    concurrency_of="clusteraddon",
    reports_ready=False,
    in_shards=True,
)
