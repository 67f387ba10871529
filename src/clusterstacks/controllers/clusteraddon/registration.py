"""Registers the ClusterAddon controller, and the one that creates a ClusterAddon for each Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.clusteraddon import addon_name
from clusterstacks.api.clusterapi import cluster_view, is_watched
from clusterstacks.api.compatibilityrule import CompatibilityRule
from clusterstacks.api.names import CLUSTER_KIND, Kind
from clusterstacks.compat.library import facts
from clusterstacks.controllers.class_usage import CLASS_INDEX, CLUSTERS, cluster_of
from clusterstacks.controllers.clusteraddon.addon_inputs import stable
from clusterstacks.controllers.clusteraddon.class_access import ClassAccess
from clusterstacks.controllers.clusteraddon.compat_check import ADVISORY, CompatCheck
from clusterstacks.controllers.clusteraddon.create_addon import AddonCreator
from clusterstacks.controllers.clusteraddon.reconciler import AddonReconciler
from clusterstacks.controllers.clusteraddon.rollout_executor import RolloutExecutor
from clusterstacks.controllers.clusteraddon.snapshot import ContractKinds
from clusterstacks.controllers.registration import (
    CachedKind,
    Reconciler,
    Registration,
    Watch,
    is_news,
    of_watched,
    ready_condition,
    self_key,
)
from clusterstacks.domain.documents import at
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import InvalidName, parse_class, release_named
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.runtime.cache import key_of
from clusterstacks.runtime.informer import drop_managed_fields
from clusterstacks.sources.owners import STACK_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.controllers.registration import ControllerContext, ToKeys
    from clusterstacks.runtime.cache import CacheChange, ObjectCache

NAME = "clusteraddon"


class ClusterWatches:
    """Maps changes to the Clusters that they concern."""

    def __init__(self, clusters: ObjectCache, releases: ObjectCache, watch_filter: str) -> None:
        self._clusters = clusters
        self._releases = releases
        self._watch_filter = watch_filter

    def of_stack(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Clusters of the classes of a ClusterStack, which may offer them to other namespaces now."""
        if is_news(change) and of_watched(change, self._watch_filter):
            for release in self._releases.by_index(STACK_INDEX, str(change.key)):
                yield from self._of_class(key_of(release))

    def of_release(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Clusters that use a ClusterStackRelease."""
        if not of_watched(change, self._watch_filter):
            return
        if is_news(change) or at(change.old, "status", "ready") != at(change.new, "status", "ready"):
            yield from self._of_class(change.key)

    def of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the Cluster itself."""
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

    def _of_class(self, release: ObjectKey) -> Iterator[ObjectKey]:
        name = release_named(release.name)
        if name is None:
            return
        for cluster in self._clusters.by_index(CLASS_INDEX, str(ObjectKey(release.namespace, name.class_name))):
            if is_watched(cluster, self._watch_filter):
                yield key_of(cluster)


def concerns_addons(change: CacheChange) -> bool:
    """Return whether a part of a Cluster changed that decides anything here.

    Its conditions are left out, except those that are read. Our own is among them: a failure whose message is never the
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
    """Read a rule; None where it cannot be read, and so does not count."""
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
    """Map a change to the ClusterAddons of the Clusters that it concerns."""

    def to_keys(change: CacheChange) -> Iterator[ObjectKey]:
        for cluster in clusters(change):
            yield ObjectKey(cluster.namespace, addon_name(cluster.name))

    return to_keys


def _cluster_watches(env: ControllerContext) -> ClusterWatches:
    return ClusterWatches(env.cache(CLUSTER_KIND), env.cache(Kind.CLUSTER_STACK_RELEASE), env.watch_filter)


def _build_creator(env: ControllerContext) -> Reconciler:
    creator = AddonCreator(
        client=env.client,
        clock=env.clock,
        releases=env.cache(Kind.CLUSTER_STACK_RELEASE),
        addons=env.cache(Kind.CLUSTER_ADDON),
        access=ClassAccess(env.client, env.cache(Kind.CLUSTER_STACK)),
        events=env.events,
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
    supply = env.make_supply(env.enqueue(NAME))
    rollout = RolloutExecutor(
        client=env.client, supply=supply, renderer=env.renderer, events=env.events, metrics=env.metrics
    )
    reconciler = AddonReconciler(
        client=env.client,
        clock=env.clock,
        access=ClassAccess(env.client, env.cache(Kind.CLUSTER_STACK)),
        contracts=ContractKinds(env.client),
        workloads=env.workloads,
        rollout=rollout,
        compat_check=CompatCheck(store=env.releases, rules_of=env.rules, upstream=facts()),
    )
    clusters = _cluster_watches(env)
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_ADDON, reconciler.work, ADVISORY).reconcile,
        watches=(
            Watch(Kind.CLUSTER_STACK, addons_of(clusters.of_stack)),
            Watch(Kind.CLUSTER_STACK_RELEASE, addons_of(clusters.of_release)),
            Watch(Kind.CLUSTER_ADDON, self_key(env.watch_filter)),
            Watch(CLUSTER_KIND, addons_of(clusters.of_cluster)),
            Watch(Kind.COMPATIBILITY_RULE, addons_of(clusters.of_rule)),
        ),
        forget=supply.forget,
    )


def _without_status(manifest: Manifest) -> Manifest:
    """Keep only the condition Ready of the status, for metrics: the rest, which is long, is read live."""
    kept = {key: value for key, value in drop_managed_fields(manifest).items() if key != "status"}
    status = ready_condition(manifest)
    return {**kept, "status": status} if status else kept


CREATOR_REGISTRATION = Registration(
    name="cluster",
    kind=CLUSTER_KIND,
    build=_build_creator,
    caches=(CLUSTERS,),
    concurrency_of="clusterstackrelease",
    reports_ready=False,
)

REGISTRATION = Registration(
    name=NAME,
    kind=Kind.CLUSTER_ADDON,
    build=_build,
    caches=(
        CachedKind(kind=Kind.CLUSTER_ADDON, trim=_without_status),
        CLUSTERS,
        CachedKind(kind=Kind.COMPATIBILITY_RULE, namespaced=False, required=False),
    ),
    concurrency=64,
    concurrency_help="clusters handled at a time",
)
