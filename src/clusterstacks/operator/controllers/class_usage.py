"""Looks up the classes and releases that Clusters use, and detects when that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.kinds.addon_annotations import releases_named
from clusterstacks.model.kinds.clusterapi import ClusterView, cluster_view
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.model.names import InvalidName, parse_class, parse_release, release_named
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.operator.controllers.registration import CachedKind, is_news, of_watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.runtime.cache import CacheChange, ObjectCache

CLASS_INDEX = "class"
"""Index of Clusters by ``namespace/name`` of their class."""

SERIES_INDEX = "series"
"""Index of Clusters by ``namespace/series`` of the releases they use, see :meth:`ReleaseName.series`."""

CLASS_NAMESPACE_INDEX = "class namespace"


def release_of(cluster: ClusterView) -> ObjectKey | None:
    """Return the ClusterStackRelease of a Cluster's class, by its name; None for a class of another origin."""
    try:
        return ObjectKey(cluster.class_namespace, parse_class(cluster.class_name).release)
    except InvalidName:
        return None


def releases_used(cluster: ClusterView) -> tuple[ObjectKey, ...]:
    """Return the ClusterStackReleases of a Cluster: of its class, and those its annotations request addons from."""
    try:
        own = parse_class(cluster.class_name)
    except InvalidName:
        return ()
    releases = releases_named(cluster.annotations, own)
    return tuple(ObjectKey(cluster.class_namespace, release.release) for release in releases)


def may_have_left(cluster: ClusterView, release: ObjectKey) -> bool:
    """Return whether a Cluster may still have Machines of another release of its stack than its own.

    A Machine does not name its class. So every release of the stack counts while Cluster API replaces Machines, which
    the status of the Cluster shows.
    """
    current, other = release_of(cluster), release_named(release.name)
    if current is None or other is None or current == release or current.namespace != release.namespace:
        return False
    return cluster.rolling and parse_release(current.name).same_stack(other)


def class_key(cluster: Manifest) -> list[str]:
    """Return the values of ``CLASS_INDEX``: the class of a Cluster, and the classes of the releases of its addons."""
    view = cluster_view(cluster)
    classes = {ObjectKey(key.namespace, parse_release(key.name).class_name) for key in releases_used(view)}
    return sorted(str(key) for key in ({view.class_key} if view.class_name else set()) | classes)


def series_key(cluster: Manifest) -> list[str]:
    """Return the values of ``SERIES_INDEX``: none for a class of another origin than a cluster stack."""
    used = releases_used(cluster_view(cluster))
    return sorted({str(ObjectKey(key.namespace, parse_release(key.name).series)) for key in used})


def class_namespace(cluster: Manifest) -> list[str]:
    """Return the values of ``CLASS_NAMESPACE_INDEX``: none for a Cluster without a class."""
    view = cluster_view(cluster)
    return [view.class_namespace] if view.class_name else []


CLUSTERS = CachedKind(
    kind=CLUSTER_KIND,
    group=CLUSTER_API_GROUP,
    indexes={CLASS_INDEX: class_key, SERIES_INDEX: series_key, CLASS_NAMESPACE_INDEX: class_namespace},
    keep_unreadable=True,
    sharded=True,
)


def releases_taken_or_left(change: CacheChange, watch_filter: str) -> Iterator[ObjectKey]:
    """Yield the ClusterStackReleases of a Cluster that changed its class or the releases of its addons.

    They may now be deleted, kept or created again. (A write of the spec always changes ``metadata.generation``.)
    """
    if not is_news(change) or not of_watched(change, watch_filter):
        return
    before, after = (releases_used(cluster_view(manifest)) if manifest else () for manifest in (change.old, change.new))
    if set(before) != set(after):
        yield from (*before, *after)


def releases_of_new_delivery(change: CacheChange, clusters: ObjectCache, watch_filter: str) -> Iterator[ObjectKey]:
    """Yield the ClusterStackReleases of a Cluster whose ClusterAddon now records other releases than before."""
    if not is_news(change) or not of_watched(change, watch_filter):
        return
    recorded = {_delivered(manifest) for manifest in (change.old, change.new) if manifest}
    cluster = clusters.get(cluster_of(change))
    if len(recorded) > 1 and cluster is not None:
        yield from releases_used(cluster_view(cluster))


def cluster_of(change: CacheChange) -> ObjectKey:
    """Return the Cluster of a ClusterAddon; its name is empty if the ClusterAddon names none."""
    return ObjectKey(change.key.namespace, text(change.new or change.old or {}, "spec", "clusterRef", "name"))


def _delivered(addon: Manifest) -> tuple[str, ...]:
    releases = [text(entry, "release") for entry in mappings(addon, "spec", "addons")]
    return text(addon, "spec", "clusterStack"), *releases
