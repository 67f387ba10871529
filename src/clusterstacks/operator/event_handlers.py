"""Which change of which object wakes which reconciler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.clusteraddon import addon_name
from clusterstacks.api.clusterapi import cluster_view, is_watched
from clusterstacks.api.compatibilityrule import CompatibilityRule
from clusterstacks.api.untyped import at, mappings, text
from clusterstacks.controllers.clusteraddon.create_addon import releases_used
from clusterstacks.controllers.clusteraddon.input_digest import stable
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import InvalidName, parse_class, parse_release, release_named
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.runtime.cache import key_of
from clusterstacks.sources.owners import STACK_INDEX, stacks_owning

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.runtime.cache import CacheChange, Store
    from clusterstacks.runtime.controller import ReconcilerHost

CLASS_INDEX = "class"
"""Index of Clusters by ``namespace/name`` of their class."""

_WATCHED_METADATA = ("generation", "labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")


def class_key(cluster: Manifest) -> list[str]:
    """Values of the index: the class a Cluster uses and those of the releases its addons come from."""
    view = cluster_view(cluster)
    classes = {ObjectKey(key.namespace, parse_release(key.name).class_name) for key in releases_used(view)}
    return sorted(str(key) for key in ({view.class_key} if view.class_name else set()) | classes)


def class_namespace(cluster: Manifest) -> list[str]:
    """Values of an index: the namespace of the class a Cluster uses."""
    view = cluster_view(cluster)
    return [view.class_namespace] if view.class_name else []


def _delivered(addon: Manifest) -> tuple[str, ...]:
    """The class a ClusterAddon has delivered, and the releases its addons come from."""
    releases = [text(one, "release") for one in mappings(addon, "spec", "addons")]
    return text(addon, "spec", "clusterStack"), *releases


def is_news(change: CacheChange) -> bool:
    """Whether more than the status changed, which for our kinds only we write."""
    if change.old is None or change.new is None:
        return True
    old, new = change.old["metadata"], change.new["metadata"]
    return any(old.get(key) != new.get(key) for key in _WATCHED_METADATA)


def concerns_addons(change: CacheChange) -> bool:
    """Whether something of a Cluster changed that decides anything here.

    Its conditions are left out, except those that are read. Our own is among them: a failure whose message is never the
    same twice would wake the reconciler that has just failed, at once and for ever.
    """
    if change.old is None or change.new is None:
        return True
    try:
        return _decisive(change.old) != _decisive(change.new)
    except RecursionError:
        return True  # nested too deep to be compared; the reconciler says so


def _decisive(cluster: Manifest) -> tuple[ClusterView, Manifest]:
    return cluster_view(cluster), stable(cluster)


def _rule(manifest: Manifest) -> CompatibilityRule | None:
    """Read a rule; one that cannot be read counts for nobody."""
    try:
        return CompatibilityRule.parse(manifest)
    except SpecError:
        return None


def _selects(rule: CompatibilityRule, cluster: ClusterView) -> bool:
    try:
        return rule.selects(parse_class(cluster.class_name), cluster.labels)
    except InvalidName:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandlers:
    """The subscribers of the informers."""

    watch_filter: str
    stack_host: ReconcilerHost
    release_host: ReconcilerHost
    creator_host: ReconcilerHost
    addon_host: ReconcilerHost
    stacks: Store
    releases: Store
    clusters: Store

    def stack_changed(self, change: CacheChange) -> None:
        """A ClusterStack wakes itself, a changed offer the Clusters of its classes, another source its releases."""
        if not is_news(change) or not self._watched(change):
            return
        self.stack_host.enqueue(change.key)
        other_source = at(change.old, "spec", "source") != at(change.new, "spec", "source")
        for release in self.releases.by_index(STACK_INDEX, str(change.key)):
            self._wake_clusters_of(key_of(release))
            if other_source:
                self._enqueue_release(key_of(release))

    def release_changed(self, change: CacheChange) -> None:
        """A ClusterStackRelease wakes itself, its ClusterStacks (always: they sum it up) and its class's Clusters."""
        for manifest in filter(None, (change.old, change.new)):
            for owner in stacks_owning(manifest):
                self._enqueue_stack(owner)
        if not self._watched(change):
            return
        if is_news(change):
            self.release_host.enqueue(change.key)
        if is_news(change) or at(change.old, "status", "ready") != at(change.new, "status", "ready"):
            self._wake_clusters_of(change.key)

    def addon_changed(self, change: CacheChange) -> None:
        """A ClusterAddon wakes itself; a deleted one is created again while its Cluster exists (D21).

        One that has left a class behind wakes the stacks, which kept the old release for it.
        """
        if not is_news(change) or not self._watched(change):
            return
        self.addon_host.enqueue(change.key)
        cluster = ObjectKey(change.key.namespace, text(change.new or change.old or {}, "spec", "clusterRef", "name"))
        if change.new is None and cluster.name:
            self.creator_host.enqueue(cluster)
        recorded = {_delivered(manifest) for manifest in (change.old, change.new) if manifest}
        using = self.clusters.get(cluster)
        if len(recorded) > 1 and using is not None:
            self._wake_release_of(using)

    def cluster_changed(self, change: CacheChange) -> None:
        """A Cluster wakes its ClusterAddon; one that took or left a class wakes that class's releases and stacks."""
        if not self._watched(change) or not concerns_addons(change):
            return
        self.creator_host.enqueue(change.key)
        self.addon_host.enqueue(ObjectKey(change.key.namespace, addon_name(change.key.name)))
        before = set(class_key(change.old)) if change.old else set()
        after = set(class_key(change.new)) if change.new else set()
        for manifest in filter(None, (change.old, change.new)):
            if before != after:
                self._wake_release_of(manifest)

    def class_changed(self, change: CacheChange) -> None:
        """A ClusterClass wakes the release it comes from."""
        try:
            release = parse_class(change.key.name)
        except InvalidName:
            return
        self._enqueue_release(ObjectKey(change.key.namespace, release.release))

    def rule_changed(self, change: CacheChange) -> None:
        """A CompatibilityRule wakes the ClusterAddons of the Clusters it was or is for."""
        if not is_news(change):
            return
        rules = [rule for manifest in (change.old, change.new) if manifest and (rule := _rule(manifest)) is not None]
        for cluster in self.clusters.all():
            view = cluster_view(cluster)
            if is_watched(cluster, self.watch_filter) and any(_selects(rule, view) for rule in rules):
                self.addon_host.enqueue(ObjectKey(view.namespace, addon_name(view.name)))

    def provider_changed(self, key: ObjectKey) -> None:
        """A provider object wakes the release of its name."""
        self._enqueue_release(key)

    def source_changed(self, stacks: Collection[ObjectKey]) -> None:
        """New or fewer releases wake the ClusterStacks that follow the source, and releases that may have waited."""
        for stack in map(str, stacks):
            self._enqueue_stack(stack)
            for release in self.releases.by_index(STACK_INDEX, stack):
                if (release.get("status") or {}).get("ready") is not True:
                    self._enqueue_release(key_of(release))

    def _watched(self, change: CacheChange) -> bool:
        return is_watched(change.new or change.old or {}, self.watch_filter)

    def _enqueue_stack(self, name: str) -> None:
        namespace, _, stack = name.partition("/")
        key = ObjectKey(namespace, stack)
        manifest = self.stacks.get(key)
        if manifest is not None and is_watched(manifest, self.watch_filter):
            self.stack_host.enqueue(key)

    def _enqueue_release(self, key: ObjectKey) -> None:
        manifest = self.releases.get(key)
        if manifest is not None and is_watched(manifest, self.watch_filter):
            self.release_host.enqueue(key)

    def _wake_release_of(self, cluster: Manifest) -> None:
        """Wake what may now be deleted, kept or created again."""
        keys = releases_used(cluster_view(cluster))
        for key in keys:
            self._enqueue_release(key)
        for stack in self.stacks:
            if stack.namespace in {key.namespace for key in keys}:
                self._enqueue_stack(str(stack))

    def _wake_clusters_of(self, release: ObjectKey) -> None:
        name = release_named(release.name)
        if name is None:
            return
        for cluster in self.clusters.by_index(CLASS_INDEX, str(ObjectKey(release.namespace, name.class_name))):
            metadata = cluster["metadata"]
            if is_watched(cluster, self.watch_filter):
                self.creator_host.enqueue(ObjectKey(metadata["namespace"], metadata["name"]))
                self.addon_host.enqueue(ObjectKey(metadata["namespace"], addon_name(metadata["name"])))
