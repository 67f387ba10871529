"""Registers the controller of ClusterUpgrades."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import at, mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.clusterupgrade import ClusterUpgrade, upgrades_of
from clusterstacks.model.kinds.names import CLUSTER_CLASS_KIND, CLUSTER_KIND, ClusterPhase, Kind, UpgradePhase
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.class_usage import CLUSTERS
from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
from clusterstacks.operator.controllers.registration import (
    CachedKind,
    Reconciler,
    Registration,
    Watch,
    is_news,
    of_watched,
    self_key,
)
from clusterstacks.plan.compat.release_facts import FIELD as FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.outcomes import Outcome
    from clusterstacks.operator.controllers.clusterupgrade.reconciler import UpgradeReconciler
    from clusterstacks.operator.controllers.registration import ControllerContext
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.cache import CacheChange, ObjectCache

NAME: Final = "clusterupgrade"


class UpgradeWatches:
    """Maps changes to the ClusterUpgrades that they concern; those that are done cost nothing."""

    def __init__(self, upgrades: ObjectCache, clusters: ObjectCache, watch_filter: str) -> None:
        self._upgrades = upgrades
        self._clusters = clusters
        self._watch_filter = watch_filter

    def of_cluster(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the upgrades that select a Cluster, now or before, and are not done with it."""
        if not of_watched(change, self._watch_filter):
            return
        views = [cluster_view(manifest) for manifest in (change.old, change.new) if manifest is not None]
        changed = _selected_by(change.old) != _selected_by(change.new)
        for upgrade in self._of(views):
            if changed or not _is_done(upgrade, change.key.name):
                yield upgrade.key

    def of_addon(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the upgrades of the Cluster of a ClusterAddon."""
        name = text(change.new or change.old or {}, "spec", "clusterRef", "name")
        cluster = self._clusters.get(ObjectKey(change.key.namespace, name))
        views = [cluster_view(cluster)] if cluster is not None else []
        yield from (upgrade.key for upgrade in self._of(views) if not _is_done(upgrade, name))

    def of_release(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the upgrades that are not done, or follow what is published, when an offer changes."""
        if is_news(change) or any(
            at(change.old, "status", field) != at(change.new, "status", field) for field in ("ready", FACTS)
        ):
            for manifest in self._upgrades.all():
                with suppress(SpecError):
                    upgrade = ClusterUpgrade.parse(manifest)
                    if upgrade.spec.follows or text(manifest, "status", "phase") != UpgradePhase.DONE:
                        yield upgrade.key

    def of_other(self, change: CacheChange) -> Iterator[ObjectKey]:
        """Yield the other upgrades of a namespace when one begins or is done with a Cluster, or leaves it."""
        if is_news(change) or _phases(change.old) != _phases(change.new):
            same = (key for key in self._upgrades if key.namespace == change.key.namespace)
            yield from (key for key in same if key != change.key)

    def _of(self, views: Sequence[ClusterView]) -> Iterator[ClusterUpgrade]:
        """Yield the upgrades that select a Cluster in one of its states."""
        for upgrade in upgrades_of(self._upgrades.all(), views[0].namespace, [views[0].name]) if views else ():
            if any(upgrade.spec.clusters.include(view.name, view.labels) for view in views):
                yield upgrade


def _selected_by(cluster: Manifest | None) -> object:
    """Return what decides which upgrades select a Cluster."""
    metadata = mapping(cluster or {}, "metadata")
    return cluster is not None, metadata.get("labels"), "deletionTimestamp" in metadata


def _is_done(upgrade: ClusterUpgrade, name: str) -> bool:
    known = [one.phase for one in upgrade.status.clusters if one.name == name]
    return upgrade.status.target == upgrade.spec.to and known == [ClusterPhase.DONE.value] and not upgrade.spec.follows


def _phases(upgrade: Manifest | None) -> object:
    clusters = at(upgrade or {}, "status", "clusters") or ()
    return [(text(one, "name"), text(one, "phase")) for one in clusters]


def _reconciler(env: ControllerContext) -> UpgradeReconciler:
    # Without ClusterUpgrades the planner stays out of memory.
    from clusterstacks.operator.controllers.clusterupgrade.cluster_looks import ClusterLooks  # noqa: PLC0415
    from clusterstacks.operator.controllers.clusterupgrade.reconciler import UpgradeReconciler  # noqa: PLC0415

    return UpgradeReconciler(
        client=env.client,
        clock=env.clock,
        clusters=env.informers[CLUSTER_KIND],
        upgrades=env.cache(Kind.CLUSTER_UPGRADE),
        looks=ClusterLooks(
            client=env.client,
            clock=env.clock,
            contracts=ContractKinds(env.client),
            addons=env.cache(Kind.CLUSTER_ADDON),
            stacks=env.cache(Kind.CLUSTER_STACK),
            releases=env.cache(Kind.CLUSTER_STACK_RELEASE),
            classes=env.cache(CLUSTER_CLASS_KIND),
            statements=env.statements,
            rules=env.rules,
        ),
        watch_filter=env.watch_filter,
    )


def _build(env: ControllerContext) -> Reconciler:
    reconciler = cache(partial(_reconciler, env))

    async def work(patch: StatusPatch) -> Outcome | timedelta | None:
        return await reconciler().work(patch)

    watches = UpgradeWatches(env.cache(Kind.CLUSTER_UPGRADE), env.cache(CLUSTER_KIND), env.watch_filter)
    return Reconciler(
        reconcile=env.status_reconciler(Kind.CLUSTER_UPGRADE, work).reconcile,
        watches=(
            Watch(Kind.CLUSTER_UPGRADE, self_key(env.watch_filter)),
            Watch(Kind.CLUSTER_UPGRADE, watches.of_other),
            Watch(CLUSTER_KIND, watches.of_cluster),
            Watch(Kind.CLUSTER_ADDON, watches.of_addon),
            Watch(Kind.CLUSTER_STACK, watches.of_release),
            Watch(Kind.CLUSTER_STACK_RELEASE, watches.of_release),
            Watch(Kind.COMPATIBILITY_RULE, watches.of_release),
        ),
    )


REGISTRATION = Registration(
    name=NAME,
    kind=Kind.CLUSTER_UPGRADE,
    build=_build,
    caches=(CachedKind(kind=Kind.CLUSTER_UPGRADE, required=False), CLUSTERS),
    concurrency_of="clusterstack",
)
