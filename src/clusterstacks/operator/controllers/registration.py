"""Registers controllers: the kinds they keep in memory, what enqueues their objects, and how they are built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model.kinds.clusterapi import is_watched
from clusterstacks.model.kinds.names import GROUP, Kind, OpenStackKind
from clusterstacks.model.objects import ObjectKey, drop_managed_fields
from clusterstacks.operator.controllers.class_access import ClassAccess
from clusterstacks.operator.controllers.ready_messages import ready_message
from clusterstacks.operator.controllers.status_reconciler import StatusPatch, StatusReconciler
from clusterstacks.runtime.cache import CacheChange, Index, ObjectCache

if TYPE_CHECKING:
    from datetime import timedelta

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.files.compatibility import Rule
    from clusterstacks.model.kinds.provider_refs import KindPattern
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.outcomes import Outcome
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.shard_moves import ShardMoves
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.plan.compat.remote_statements import RemoteStatements
    from clusterstacks.release.sources.fetcher import ReleaseFetcher
    from clusterstacks.release.sources.periodic_listing import SourceListings
    from clusterstacks.release.sources.stack_source import SourcePolicy
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.controller import Reconcile
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.informer import Informer, Trim
    from clusterstacks.runtime.metrics import Metrics

ToKeys: TypeAlias = Callable[[CacheChange], Iterable[ObjectKey]]
"""Maps a change of an object to the keys to enqueue; controller-runtime calls it MapFunc."""

Enqueue: TypeAlias = Callable[[ObjectKey], None]

_WATCHED_METADATA = ("generation", "labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedKind:
    """A kind whose objects the operator keeps in memory."""

    kind: str
    group: str = GROUP
    """Of our kinds, that of ``Kind.group``."""
    indexes: Mapping[str, Index] = field(default_factory=dict)
    trim: Trim = drop_managed_fields
    keep_unreadable: bool = False
    """True if the readable part of an unreadable object is kept. Of a Cluster and its class only names, metadata and
    versions decide anything, and a release that a Cluster uses must not be deleted because the Cluster's variables
    cannot be read. In our own kinds a missing field has a meaning."""
    namespaced: bool = True
    """True if ``--namespace`` limits it."""
    metadata_only: bool = False
    required: bool = True
    """True if controllers wait for it. With a partly filled cache they would delete objects in use. Only
    CompatibilityRules are optional: clusters come up without them."""
    sharded: bool = False
    """True if a shard watches only the objects with its label. The main instance needs all of them, for example to
    delete no release that is in use."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Enqueues objects when an object of a cached kind changes."""

    kind: str
    to_keys: ToKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """A reconciler, and the changes that enqueue its objects."""

    reconcile: Reconcile
    watches: tuple[Watch, ...]
    forget: Callable[[ObjectKey], None] | None = None
    """Called for each deleted object of its kind, before the watches."""
    source_keys: Callable[[ObjectKey], Iterable[ObjectKey]] | None = None
    """Returns what to enqueue when the source of a ClusterStack has other releases than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """The parts of the operator that reconcilers are built from, and the values of its flags."""

    client: Client
    clock: Clock
    events: EventRecorder
    metrics: Metrics
    renderer: Renderer
    workloads: Workloads
    addon_sweep: AddonSweep
    sync_sweep: AddonSweep
    """That of the bindings of ClusterResourceSyncs, with the same locks."""
    informers: Mapping[str, Informer]
    """By kind; one for each :class:`CachedKind`."""
    watch_kind: Callable[[CachedKind], Informer]
    """Builds and starts the informer of a further kind, which is known only from references to its objects."""
    enqueue: Callable[[str], Enqueue]
    """By name of a controller, the function that enqueues one of its objects; callable once the controllers run."""
    make_fetcher: Callable[[Enqueue], ReleaseFetcher]
    """Returns a fetcher of releases; its argument is called with an object whose release was fetched."""
    source_policy: SourcePolicy
    listings: SourceListings
    statements: RemoteStatements
    """Facts of releases that are only in the source of a ClusterStack."""
    rules: Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...] | None]
    """Returns the CompatibilityRules that apply to a Cluster, by its release and labels; None while unknown."""
    watch_filter: str
    shards: ShardMoves
    provider_kinds: Collection[KindPattern]
    class_kinds: Collection[str]
    drift_interval: timedelta | None
    image_url: Callable[[ObjectKey], Awaitable[str]] | None
    """Returns the URL at which the operator serves a node image, by namespace and digest; None if it serves none."""

    def cache(self, kind: str) -> ObjectCache:
        """Return the cached objects of a kind."""
        return self.informers[kind].cache

    def class_access(self) -> ClassAccess:
        """Build the decision whether Clusters may use releases, from the caches."""
        return ClassAccess(
            client=self.client,
            stacks=self.cache(Kind.CLUSTER_STACK),
            releases=self.cache(Kind.CLUSTER_STACK_RELEASE),
            addons=self.cache(Kind.CLUSTER_ADDON),
            listed=self.listings.known,
        )

    def status_reconciler(
        self,
        kind: Kind | OpenStackKind,
        work: Callable[[StatusPatch], Awaitable[Outcome | timedelta | None]],
        advisory: frozenset[str] = frozenset(),
    ) -> StatusReconciler:
        """Build the reconciler that reads an object, does the work, and writes its status."""
        return StatusReconciler(
            group=kind.group,
            kind=kind,
            client=self.client,
            clock=self.clock,
            events=self.events,
            work=work,
            advisory=advisory,
            ready_message=partial(ready_message, kind),
            informer=self.informers[kind],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A controller as the operator registers it."""

    name: str
    """Name in metrics and logs, and of the flag ``--NAME-concurrency``."""
    kind: str
    build: Callable[[ControllerContext], Reconciler]
    caches: tuple[CachedKind, ...] = ()
    concurrency: int = 0
    """Default of the flag; 0 for a controller without a flag."""
    concurrency_of: str = ""
    """Name of the controller whose flag a controller without a flag uses."""
    concurrency_help: str = ""
    reports_ready: bool = True
    """True if its objects have the condition Ready, by which metrics count them."""
    in_shards: bool = False
    """True if every shard has it, for its own objects."""


def is_news(change: CacheChange) -> bool:
    """Return whether more than the status changed; only we write the status of our kinds."""
    if change.old is None or change.new is None:
        return True
    old, new = change.old["metadata"], change.new["metadata"]
    return any(old.get(key) != new.get(key) for key in _WATCHED_METADATA)


def of_watched(change: CacheChange, watch_filter: str) -> bool:
    """Return whether the changed object belongs to the operator with this ``--watch-filter``."""
    return is_watched(change.new or change.old or {}, watch_filter)


def self_key(watch_filter: str) -> ToKeys:
    """Return a mapper that enqueues the changed object."""

    def to_keys(change: CacheChange) -> Iterator[ObjectKey]:
        if is_news(change) and of_watched(change, watch_filter):
            yield change.key

    return to_keys


def present(store: ObjectCache, keys: Iterable[ObjectKey], watch_filter: str) -> Iterator[ObjectKey]:
    """Yield the keys of objects that exist and belong to this operator."""
    for key in keys:
        manifest = store.get(key)
        if manifest is not None and is_watched(manifest, watch_filter):
            yield key
