"""Creates a ClusterAddon for every Cluster whose class comes from a release, also after its deletion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import (
    ADDON_FINALIZER,
    API_VERSION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    CLUSTER_NAME_LABEL,
    GROUP,
    SHARD_LABEL,
    Kind,
    Reason,
)
from clusterstacks.model.kinds.shards import inherited_labels, shard_of
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Stalled
from clusterstacks.net.kube.errors import AlreadyExists
from clusterstacks.operator.class_offer import OFFERED, OfferState
from clusterstacks.operator.controllers.class_access import CLASS_NOT_OFFERED
from clusterstacks.operator.controllers.class_usage import release_of
from clusterstacks.operator.controllers.clusteraddon.mirrored_conditions import mirror, withdraw_refusal

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.shard_moves import ShardMoves
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder

REFUSED_RECHECK = timedelta(minutes=5)
"""Interval at which a refusal is checked again: changes of namespace labels are not watched. Arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonCreator:
    """Creates ClusterAddons; the key is that of the Cluster. Clusters of other classes are never written.

    A Cluster whose class is not offered to its namespace gets no ClusterAddon, but the condition that its ClusterAddon
    would set. (The webhook rejects such a Cluster, but it may be older than the ClusterStack, the rule or the webhook.)
    """

    client: Client
    reads: CachedReader
    clock: Clock
    releases: ObjectCache
    addons: ObjectCache
    access: ClassAccess
    events: EventRecorder
    shards: ShardMoves

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Create the ClusterAddon of one Cluster if it is missing; recheck a refusal after ``REFUSED_RECHECK``."""
        if not self.shards.owns(key):
            await self._leave(key)
            return None
        if self.addons.get(ObjectKey(key.namespace, addon_name(key.name))) is not None:
            return None
        clusters = await self.reads.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        manifest = await self.reads.find(clusters, key.name, key.namespace)
        if manifest is None:
            return None
        cluster = cluster_view(manifest)
        if cluster.paused or cluster.deleting or cluster.moving:
            return None
        release = release_of(cluster)
        offer = await self.access.decide(cluster, [parse_release(release.name)]) if release is not None else OFFERED
        if offer.state is not OfferState.OFFERED:
            await mirror(self.client, manifest, Stalled(CLASS_NOT_OFFERED, offer.message), self.clock.now())
            await self.events.record(manifest, "Warning", CLASS_NOT_OFFERED, offer.message)
            return REFUSED_RECHECK
        await withdraw_refusal(self.client, manifest)
        if release is not None and self.releases.get(release) is not None:
            await self._create(cluster)
        return None

    async def _leave(self, key: ObjectKey) -> None:
        """End the requests to a Cluster of another shard; report one that nobody serves."""
        await self.shards.workloads.forget(key)
        cluster = self.shards.clusters.get(key)
        shard = shard_of(cluster)
        if cluster is None or shard not in self.shards.unserved():
            return
        message = f"shard {shard} does not run, so nothing is delivered: run it, or change the label {SHARD_LABEL}"
        if release_of(cluster_view(cluster)) is not None:
            await mirror(self.client, cluster, Stalled(Reason.SHARD_NOT_RUNNING, message), self.clock.now())
        await self.events.record(cluster, "Warning", Reason.SHARD_NOT_RUNNING, message)

    async def _create(self, cluster: ClusterView) -> None:
        addon = {
            "apiVersion": API_VERSION,
            "kind": Kind.CLUSTER_ADDON.value,
            "metadata": {
                "name": addon_name(cluster.name),
                "namespace": cluster.namespace,
                "labels": {CLUSTER_NAME_LABEL: cluster.name, **inherited_labels(cluster.labels)},
                "finalizers": [ADDON_FINALIZER],
                "ownerReferences": [cluster.owner_reference()],
            },
            "spec": {
                "clusterRef": {
                    "apiVersion": cluster.raw["apiVersion"],
                    "kind": CLUSTER_KIND,
                    "name": cluster.name,
                    "namespace": cluster.namespace,
                }
            },
        }
        addons = await self.client.resource(GROUP, Kind.CLUSTER_ADDON)
        try:
            created = await self.client.create(addons, addon, namespace=cluster.namespace)
        except AlreadyExists:
            return
        self.reads.written(created, GROUP)
