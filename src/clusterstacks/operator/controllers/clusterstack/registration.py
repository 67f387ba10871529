"""Registers the ClusterStack controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.class_usage import CLUSTERS, releases_of_new_delivery, releases_taken_or_left
from clusterstacks.operator.controllers.clusterstack.owned_releases import OwnedReleases
from clusterstacks.operator.controllers.clusterstack.reconciler import StackReconciler
from clusterstacks.operator.controllers.held_reports import HeldReports
from clusterstacks.operator.controllers.registration import (
    CachedKind,
    Reconciler,
    Registration,
    Watch,
    present,
    self_key,
)
from clusterstacks.release.sources.owners import stacks_owning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.operator.controllers.registration import ControllerContext
    from clusterstacks.runtime.cache import CacheChange


def _build(env: ControllerContext) -> Reconciler:
    stacks, clusters, watch_filter = env.cache(Kind.CLUSTER_STACK), env.cache(CLUSTER_KIND), env.watch_filter
    reconciler = StackReconciler(
        client=env.client,
        source_policy=env.source_policy,
        listings=env.listings,
        clusters=clusters,
        addons=env.cache(Kind.CLUSTER_ADDON),
        access=env.class_access(),
        releases=OwnedReleases(
            client=env.client, informer=env.informers[Kind.CLUSTER_STACK_RELEASE], events=env.events
        ),
        events=env.events,
        provider_kinds=env.provider_kinds,
        held=HeldReports(env.clock),
    )

    def owners(change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the ClusterStacks that own a ClusterStackRelease; each aggregates its status."""
        for manifest in filter(None, (change.old, change.new)):
            for owner in stacks_owning(manifest):
                namespace, _, name = owner.partition("/")
                yield from present(stacks, [ObjectKey(namespace, name)], watch_filter)

    def in_namespaces_of(releases: Iterable[ObjectKey]) -> Iterator[ObjectKey]:
        namespaces = {release.namespace for release in releases}
        if namespaces:
            yield from present(stacks, (key for key in stacks if key.namespace in namespaces), watch_filter)

    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_STACK, reconciler.work).reconcile,
        watches=(
            Watch(Kind.CLUSTER_STACK, self_key(watch_filter)),
            Watch(Kind.CLUSTER_STACK_RELEASE, owners),
            Watch(
                Kind.CLUSTER_ADDON,
                lambda change: in_namespaces_of(releases_of_new_delivery(change, clusters, watch_filter)),
            ),
            Watch(CLUSTER_KIND, lambda change: in_namespaces_of(releases_taken_or_left(change, watch_filter))),
        ),
        forget=env.listings.unfollow,
        source_keys=lambda stack: present(stacks, [stack], watch_filter),
    )


REGISTRATION = Registration(
    name="clusterstack",
    kind=Kind.CLUSTER_STACK,
    build=_build,
    caches=(CachedKind(kind=Kind.CLUSTER_STACK), CLUSTERS),
    concurrency=8,
    concurrency_help="ClusterStacks reconciled at a time",
)
