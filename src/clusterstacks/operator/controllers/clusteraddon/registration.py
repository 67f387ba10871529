"""Registers the ClusterAddon controller, and the one that creates a ClusterAddon for each Cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterapi import cluster_view, is_watched
from clusterstacks.model.kinds.compatibilityrule import CompatibilityRule
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, CLUSTER_NAME_LABEL, GROUP, Kind
from clusterstacks.model.names import InvalidName, parse_class, release_named
from clusterstacks.model.objects import Manifest, ObjectKey, drop_managed_fields
from clusterstacks.operator.controllers.class_usage import CLASS_INDEX, CLUSTERS, SERIES_INDEX, cluster_of
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import stable
from clusterstacks.operator.controllers.clusteraddon.awaited_objects import AwaitedObjects
from clusterstacks.operator.controllers.clusteraddon.class_admission import ClassAdmission
from clusterstacks.operator.controllers.clusteraddon.compat_check import ADVISORY, CompatCheck, api_version_of
from clusterstacks.operator.controllers.clusteraddon.create_addon import AddonCreator
from clusterstacks.operator.controllers.clusteraddon.delivered_manifests import DeliveredManifests
from clusterstacks.operator.controllers.clusteraddon.departure import DepartedAddons
from clusterstacks.operator.controllers.clusteraddon.hold_review import HoldReview
from clusterstacks.operator.controllers.clusteraddon.reconciler import AddonReconciler
from clusterstacks.operator.controllers.clusteraddon.rollout_executor import RolloutExecutor
from clusterstacks.operator.controllers.clusteraddon.rollout_preparation import RolloutPreparation
from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
from clusterstacks.operator.controllers.clusteraddon.sweep_settings import SweepSwitch
from clusterstacks.operator.controllers.clusteraddon.workload_gate import WorkloadGate
from clusterstacks.operator.controllers.held_reports import HeldReports
from clusterstacks.operator.controllers.object_reader import CachedReader, LiveReader
from clusterstacks.operator.controllers.registration import (
    CachedKind,
    Reconciler,
    Registration,
    Watch,
    is_news,
    of_watched,
    present,
    self_key,
)
from clusterstacks.operator.controllers.shard_moves import cluster_of_addon
from clusterstacks.plan.compat.kubernetes import is_removed
from clusterstacks.plan.compat.library import facts
from clusterstacks.release.sources.verified_content import SOURCE_FIELD
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.operator.controllers.registration import ControllerContext, ToKeys
    from clusterstacks.runtime.cache import CacheChange, ObjectCache
    from clusterstacks.runtime.informer import Informer

NAME = "clusteraddon"
CREATOR_NAME = "cluster"
SWEEP_NAME = "clusteraddonhealth"
"""Controller of the sweep. The name is a label of metrics, from when it only checked the health."""

_IDENTITY = ("uid", "resourceVersion", "generation")


class ClusterWatches:
    """Maps changes to the Clusters that they concern."""

    def __init__(self, clusters: ObjectCache, watch_filter: str) -> None:
        self._clusters = clusters
        self._watch_filter = watch_filter

    def of_stack(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Clusters that name releases of a ClusterStack, whose offers may have changed."""
        if not is_news(change) or not of_watched(change, self._watch_filter):
            return
        spec = mapping(change.new or change.old or {}, "spec")
        minor = text(spec, "kubernetesVersion").replace(".", "-")
        series = ObjectKey(change.key.namespace, f"{text(spec, 'provider')}-{text(spec, 'name')}-{minor}")
        for cluster in self._clusters.by_index(SERIES_INDEX, str(series)):
            if is_watched(cluster, self._watch_filter):
                yield key_of(cluster)

    def of_release(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Clusters that use a ClusterStackRelease, if it may have become usable or unusable."""
        if not of_watched(change, self._watch_filter):
            return
        objects = (change.old, change.new)
        usable = [[at(release, "status", field) for field in ("ready", SOURCE_FIELD)] for release in objects]
        if is_news(change) or usable[0] != usable[1]:
            yield from self._of_class(change.key)

    def of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Cluster itself, if a part changed that its addons depend on."""
        if of_watched(change, self._watch_filter) and concerns_addons(change):
            yield change.key

    def of_deleted_addon(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Cluster of a deleted ClusterAddon, which is created again while its Cluster exists."""
        cluster = cluster_of(change)
        if change.new is None and cluster.name and of_watched(change, self._watch_filter):
            yield cluster

    def of_rule(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Clusters that a CompatibilityRule selected before or selects now."""
        if not is_news(change):
            return
        rules = [rule for manifest in (change.old, change.new) if manifest and (rule := _rule(manifest)) is not None]
        for cluster in self._clusters.all():
            view = cluster_view(cluster)
            if is_watched(cluster, self._watch_filter) and any(_selects(rule, view) for rule in rules):
                yield ObjectKey(view.namespace, view.name)

    def of_referenced(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Cluster of a control plane or infrastructure object, if its addons may depend on what changed."""
        try:
            same = change.old is not None and change.new is not None and stable(change.old) == stable(change.new)
        except RecursionError:
            same = False  # nested too deep to be compared; the reconciler reports it
        cluster = text(change.new or change.old or {}, "metadata", "labels", CLUSTER_NAME_LABEL)
        if not same:
            yield from present(self._clusters, [ObjectKey(change.key.namespace, cluster)], self._watch_filter)

    def _of_class(self, release: ObjectKey) -> Iterator[ObjectKey]:
        name = release_named(release.name)
        if name is None:
            return
        for cluster in self._clusters.by_index(CLASS_INDEX, str(ObjectKey(release.namespace, name.class_name))):
            if is_watched(cluster, self._watch_filter):
                yield key_of(cluster)


def concerns_addons(change: CacheChange) -> bool:
    """Return whether a part of a Cluster changed that decides anything here.

    Its conditions are left out, except those that are read. Ours is among them: a failure whose message is never the
    same twice would enqueue the object that has just failed, at once and for ever.
    """
    if change.old is None or change.new is None:
        return True
    try:
        return _decisive(change.old) != _decisive(change.new)
    except RecursionError:
        return True  # nested too deep to be compared; the reconciler reports it


def _decisive(cluster: Manifest) -> tuple[ClusterView, Manifest]:
    return cluster_view(cluster), stable(cluster)


def _rule(manifest: Manifest) -> CompatibilityRule | None:
    """Read a rule; None if it cannot be read: then it has no effect."""
    try:
        return CompatibilityRule.parse(manifest)
    except SpecError:
        return None


def _selects(rule: CompatibilityRule, cluster: ClusterView) -> bool:
    try:
        return rule.selects(parse_class(cluster.class_name), cluster.labels)
    except InvalidName:
        return False


def addons_of(clusters: ToKeys) -> ToKeys:
    """Return a mapper to the ClusterAddons of the Clusters that a change concerns."""

    def to_keys(change: CacheChange) -> Iterator[ObjectKey]:
        for cluster in clusters(change):
            yield ObjectKey(cluster.namespace, addon_name(cluster.name))

    return to_keys


def _cluster_watches(env: ControllerContext) -> ClusterWatches:
    return ClusterWatches(env.cache(CLUSTER_KIND), env.watch_filter)


def _cached_reads(env: ControllerContext) -> CachedReader:
    """Build the reader of Clusters and releases from the caches, and of the objects they refer to from further ones.

    A change of such an object enqueues the ClusterAddon of its Cluster.
    """
    enqueue, to_keys = env.enqueue(NAME), addons_of(_cluster_watches(env).of_referenced)

    def watch_kind(group: str, kind: str) -> Informer:
        return env.watch_kind(CachedKind(group=group, kind=kind, trim=_decisive_parts))

    def changed(change: CacheChange) -> None:
        for addon in to_keys(change):
            enqueue(addon)

    return CachedReader(client=env.client, informers=_informers(env), watch_kind=watch_kind, changed=changed)


def _informers(env: ControllerContext) -> dict[tuple[str, str], Informer]:
    kinds = {CLUSTER_KIND: CLUSTER_API_GROUP, Kind.CLUSTER_STACK_RELEASE: GROUP, Kind.CLUSTER_ADDON: GROUP}
    return {(group, str(kind)): env.informers[kind] for kind, group in kinds.items()}


def _decisive_parts(manifest: Manifest) -> Manifest:
    """Keep what may decide the values of addons; objects that are delivered from are read live."""
    metadata = {key: manifest["metadata"][key] for key in _IDENTITY if key in manifest["metadata"]}
    kept = stable(manifest)
    return {
        **{key: manifest[key] for key in ("apiVersion", "kind")},
        **kept,
        "metadata": {**{key: value for key, value in kept["metadata"].items() if value is not None}, **metadata},
    }


def _build_creator(env: ControllerContext) -> Reconciler:
    creator = AddonCreator(
        client=env.client,
        reads=CachedReader(client=env.client, informers=_informers(env)),
        clock=env.clock,
        releases=env.cache(Kind.CLUSTER_STACK_RELEASE),
        addons=env.cache(Kind.CLUSTER_ADDON),
        access=env.class_access(),
        events=env.events,
        shards=env.shards,
    )
    clusters = _cluster_watches(env)
    return Reconciler(
        reconcile=creator.reconcile,
        watches=(
            Watch(Kind.CLUSTER_STACK, clusters.of_stack),
            Watch(Kind.CLUSTER_STACK_RELEASE, clusters.of_release),
            Watch(Kind.CLUSTER_ADDON, clusters.of_deleted_addon),
            Watch(CLUSTER_KIND, clusters.of_cluster),
        ),
    )


def _build(env: ControllerContext) -> Reconciler:
    fetcher, awaited = env.make_fetcher(env.enqueue(NAME)), AwaitedObjects(env.enqueue(NAME))

    def forget(addon: ObjectKey) -> None:
        fetcher.forget(addon)
        awaited.forget(addon)

    cached_reads, stacks, access = _cached_reads(env), env.cache(Kind.CLUSTER_STACK), env.class_access()
    drift = SweepSwitch(sweep=env.addon_sweep, client=env.client, stacks=stacks, interval=env.drift_interval)
    reconciler = AddonReconciler(
        client=env.client,
        cached_reads=cached_reads,
        clock=env.clock,
        contracts=ContractKinds(env.client),
        workloads=env.workloads,
        admission=ClassAdmission(access),
        gate=WorkloadGate(env.workloads, env.clock),
        preparation=RolloutPreparation(
            fetcher=fetcher, renderer=env.renderer, metrics=env.metrics, clock=env.clock, drift=drift
        ),
        rollout=RolloutExecutor(
            client=env.client, events=env.events, clock=env.clock, sweep=env.addon_sweep, awaited=awaited
        ),
        awaited=awaited,
        hold=HoldReview(
            client=env.client, stacks=stacks, cached_reads=cached_reads, clock=env.clock, metrics=env.metrics
        ),
        held=HeldReports(env.clock),
        sweep=env.addon_sweep,
        drift=drift,
        compat_check=CompatCheck(stored=fetcher.stored, rules_of=env.rules, upstream=facts(), clock=env.clock),
        departed=DepartedAddons(
            client=env.client, stacks=stacks, workloads=env.workloads, events=env.events, clock=env.clock
        ),
    )

    def leave(addon: ObjectKey) -> None:
        awaited.forget(addon)
        env.addon_sweep.forget(addon)

    clusters = _cluster_watches(env)
    work = env.shards.guard(Kind.CLUSTER_ADDON, cluster_of_addon, reconciler.work, leave)
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_ADDON, work, ADVISORY).reconcile,
        watches=(
            Watch(Kind.CLUSTER_STACK, addons_of(clusters.of_stack)),
            Watch(Kind.CLUSTER_STACK_RELEASE, addons_of(clusters.of_release)),
            Watch(Kind.CLUSTER_ADDON, self_key(env.watch_filter)),
            Watch(CLUSTER_KIND, addons_of(clusters.of_cluster)),
            Watch(Kind.COMPATIBILITY_RULE, addons_of(clusters.of_rule)),
        ),
        forget=forget,
    )


def _build_sweep(env: ControllerContext) -> Reconciler:
    fetcher = env.make_fetcher(env.enqueue(SWEEP_NAME))
    delivered = DeliveredManifests(
        reads=LiveReader(env.client, _informers(env)),
        contracts=ContractKinds(env.client),
        fetcher=fetcher,
        renderer=env.renderer,
    )

    def forget(addon: ObjectKey) -> None:
        fetcher.forget(addon)
        env.addon_sweep.forget(addon)

    reconcile = partial(env.addon_sweep.reconcile, render=delivered.render)
    return Reconciler(reconcile=reconcile, watches=(), forget=forget)


def without_resources(manifest: Manifest) -> Manifest:
    """Remove the list of delivered objects, which is long, except those of APIs that a Kubernetes version removes."""
    kept = drop_managed_fields(manifest)
    if at(manifest, "status", "resources") is None:
        return kept
    resources = mappings(manifest, "status", "resources")
    concerned = [entry for entry in resources if is_removed(api_version_of(entry), text(entry, "kind"))]
    return {**kept, "status": {**kept["status"], "resources": concerned}}


CREATOR_REGISTRATION = Registration(
    name=CREATOR_NAME,
    kind=CLUSTER_KIND,
    build=_build_creator,
    caches=(CLUSTERS,),
    concurrency_of="clusterstackrelease",
    reports_ready=False,
    in_shards=True,
)

SWEEP_REGISTRATION = Registration(
    name=SWEEP_NAME,
    kind=Kind.CLUSTER_ADDON,
    build=_build_sweep,
    concurrency_of=NAME,
    reports_ready=False,
    in_shards=True,
)

REGISTRATION = Registration(
    name=NAME,
    kind=Kind.CLUSTER_ADDON,
    build=_build,
    caches=(
        CachedKind(kind=Kind.CLUSTER_ADDON, trim=without_resources, sharded=True),
        CLUSTERS,
        CachedKind(kind=Kind.COMPATIBILITY_RULE, namespaced=False, required=False),
    ),
    concurrency=64,
    concurrency_help="clusters reconciled at a time",
    in_shards=True,
)
