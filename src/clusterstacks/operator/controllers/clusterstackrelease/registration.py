"""Registers the ClusterStackRelease controller."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND, GroupKind
from clusterstacks.model.documents import at
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, Kind
from clusterstacks.model.names import InvalidName, parse_class
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.class_usage import CLUSTERS, releases_of_new_delivery, releases_taken_or_left
from clusterstacks.operator.controllers.clusterstackrelease.drift import (
    OBJECT_INDEX,
    DriftDetector,
    class_metadata,
    class_metadata_and_status,
    listed_objects,
)
from clusterstacks.operator.controllers.clusterstackrelease.facts_status import StatusFacts
from clusterstacks.operator.controllers.clusterstackrelease.reconciler import ReleaseReconciler
from clusterstacks.operator.controllers.clusterstackrelease.source_check import ADVISORY, SourceCheck
from clusterstacks.operator.controllers.provider_objects import ProviderObjects
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
from clusterstacks.operator.controllers.repair_pauses import RepairPauses
from clusterstacks.operator.image_requests import IMAGE_INDEX, images_of
from clusterstacks.release.sources.owners import STACK_INDEX, stacks_owning
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.operator.controllers.registration import ControllerContext
    from clusterstacks.runtime.cache import CacheChange, ObjectCache
    from clusterstacks.runtime.informer import Informer

NAME = "clusterstackrelease"


class ReleaseWatches:
    """Maps changes to the ClusterStackReleases that they concern, if these exist."""

    def __init__(self, releases: ObjectCache, clusters: ObjectCache, watch_filter: str) -> None:
        self._releases = releases
        self._clusters = clusters
        self._watch_filter = watch_filter

    def existing(self, keys: Iterable[ObjectKey]) -> Iterator[ObjectKey]:
        """Yield the keys of releases that exist and belong to this operator."""
        return present(self._releases, keys, self._watch_filter)

    def of_stack(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the releases of a ClusterStack that has another source than before."""
        if not is_news(change) or not of_watched(change, self._watch_filter):
            return
        if at(change.old, "spec", "source") != at(change.new, "spec", "source"):
            yield from self.existing(map(key_of, self._releases.by_index(STACK_INDEX, str(change.key))))

    def of_source(self, stack: ObjectKey) -> Iterator[ObjectKey]:
        """Yield the releases of a ClusterStack that may have waited for its source."""
        for release in self._releases.by_index(STACK_INDEX, str(stack)):
            if (release.get("status") or {}).get("ready") is not True:
                yield from self.existing([key_of(release)])

    def of_addon(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the deleted releases of a Cluster whose ClusterAddon records other releases than before."""
        return self._leaving(releases_of_new_delivery(change, self._clusters, self._watch_filter))

    def of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the deleted releases that a Cluster began or ceased to use."""
        return self._leaving(releases_taken_or_left(change, self._watch_filter))

    def _leaving(self, keys: Iterable[ObjectKey]) -> Iterator[ObjectKey]:
        """Yield the releases that are being deleted: for others it does not matter whether a Cluster uses them."""
        for key in self.existing(keys):
            if at(self._releases.get(key), "metadata", "deletionTimestamp"):
                yield key

    def of_class(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the release whose class a ClusterClass is, by its name."""
        with suppress(InvalidName):
            release = ObjectKey(change.key.namespace, parse_class(change.key.name).release)
            yield from self.existing([release])


def _build(env: ControllerContext) -> Reconciler:
    enqueue = env.enqueue(NAME)
    watches = ReleaseWatches(env.cache(Kind.CLUSTER_STACK_RELEASE), env.cache(CLUSTER_KIND), env.watch_filter)
    fetcher = env.make_fetcher(enqueue)
    source_check = SourceCheck(fetcher=fetcher, clock=env.clock)
    class_kinds = [GroupKind.parse(kind) for kind in env.class_kinds]

    def enqueue_existing(key: ObjectKey) -> None:
        for release in watches.existing([key]):
            enqueue(release)

    def watch_kind(group: str, kind: str) -> Informer:
        if (group, kind) == IMAGE_KIND:
            return env.watch_kind(CachedKind(group=group, kind=kind, trim=class_metadata_and_status))
        return env.watch_kind(CachedKind(group=group, kind=kind, trim=class_metadata, metadata_only=True))

    drift = DriftDetector(
        client=env.client,
        classes=env.informers[CLUSTER_CLASS_KIND],
        releases=env.cache(Kind.CLUSTER_STACK_RELEASE),
        watch_kind=watch_kind,
        enqueue=enqueue_existing,
        repairs=RepairPauses(env.clock),
        extra_kinds=class_kinds,
    )

    def forget(key: ObjectKey) -> None:
        for part in (fetcher, source_check, drift):
            part.forget(key)

    reconciler = ReleaseReconciler(
        client=env.client,
        fetcher=fetcher,
        source_check=source_check,
        facts=StatusFacts(fetcher=fetcher),
        drift=drift,
        renderer=env.renderer,
        access=env.class_access(),
        class_kinds=class_kinds,
        image_url=env.image_url,
        providers=ProviderObjects(
            client=env.client,
            kinds=env.provider_kinds,
            watch_kind=lambda group, kind: env.watch_kind(CachedKind(group=group, kind=kind)),
            enqueue=enqueue_existing,
        ),
        events=env.events,
        metrics=env.metrics,
        clock=env.clock,
    )
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_STACK_RELEASE, reconciler.work, ADVISORY).reconcile,
        watches=(
            Watch(Kind.CLUSTER_STACK, watches.of_stack),
            Watch(Kind.CLUSTER_STACK_RELEASE, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_ADDON, watches.of_addon),
            Watch(CLUSTER_KIND, watches.of_cluster),
            Watch(CLUSTER_CLASS_KIND, watches.of_class),
        ),
        forget=forget,
        source_keys=watches.of_source,
    )


REGISTRATION = Registration(
    name=NAME,
    kind=Kind.CLUSTER_STACK_RELEASE,
    build=_build,
    caches=(
        CachedKind(
            kind=Kind.CLUSTER_STACK_RELEASE,
            indexes={STACK_INDEX: stacks_owning, OBJECT_INDEX: listed_objects, IMAGE_INDEX: images_of},
        ),
        CLUSTERS,
        CachedKind(
            kind=CLUSTER_CLASS_KIND, group=CLUSTER_API_GROUP, trim=class_metadata_and_status, keep_unreadable=True
        ),
    ),
    concurrency=8,
    concurrency_help="releases reconciled at a time",
)
