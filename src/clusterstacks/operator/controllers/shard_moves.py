"""Moves Clusters between shards: lets reconcilers work only on what this instance holds, and hands the rest over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, SHARD_LABEL, Kind
from clusterstacks.model.kinds.shards import ShardStep, decide_step, shard_of
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from clusterstacks.model.outcomes import Outcome
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.cache import ObjectCache

Work: TypeAlias = "Callable[[StatusPatch], Awaitable[Outcome | timedelta | None]]"

HAND_OVER_WAIT: Final = timedelta(seconds=5)
"""Interval at which the main instance looks whether a holder still runs that does not hand over. Arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMoves:
    """The part of an instance in the moves of Clusters; see :mod:`clusterstacks.model.kinds.shards`."""

    own: str
    """The shard of this instance."""
    client: Client
    clusters: ObjectCache
    """All Clusters in the main instance, and those with the label in a shard."""
    workloads: Workloads
    is_running: Callable[[str], Awaitable[bool]]
    """Returns whether an instance of a shard may hold its Lease now."""
    unserved: Callable[[], Collection[str]]
    """Returns the shards that have not run for a while."""

    def owns(self, cluster: ObjectKey) -> bool:
        """Return whether this instance is wanted for a Cluster, as far as it knows."""
        return shard_of(self.clusters.get(cluster)) == self.own

    def guard(self, kind: Kind, cluster_of: Callable[[StatusPatch], ObjectKey], work: Work, leave: Leave) -> Work:
        """Return the work of a reconciler, limited to the objects of ``kind`` that this instance holds.

        ``leave`` is called with an object before it is handed over.
        """

        async def guarded(patch: StatusPatch) -> Outcome | timedelta | None:
            cluster, holder = cluster_of(patch), shard_of(patch.manifest)
            wanted = await self._wanted(cluster, holder)
            match decide_step(self.own, wanted, holder):
                case ShardStep.WORK:
                    return await work(patch)
                case ShardStep.HAND_OVER:
                    leave(patch.key)
                    await self.workloads.forget(cluster)
                    await self._hand_over(kind, patch, wanted)
                case ShardStep.HAND_OVER_FOR:
                    if await self.is_running(holder):
                        return HAND_OVER_WAIT
                    await self._hand_over(kind, patch, wanted)
                case ShardStep.IGNORE:
                    pass
            return None

        return guarded

    async def _wanted(self, cluster: ObjectKey, holder: str) -> str:
        """Return the shard that a Cluster wants; without a Cluster, the holder ends what it has begun."""
        manifest = self.clusters.get(cluster)
        if manifest is None and self.own:
            clusters = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
            manifest = await self.client.find(clusters, cluster.name, cluster.namespace)
        return holder if manifest is None else shard_of(manifest)

    async def _hand_over(self, kind: Kind, patch: StatusPatch, wanted: str) -> None:
        """Change the holder, unless another instance has changed the object since it was read."""
        resource = await self.client.resource(kind.group, kind)
        revision = patch.manifest["metadata"]["resourceVersion"]
        metadata = {"resourceVersion": revision, "labels": {SHARD_LABEL: wanted or None}}
        try:
            await self.client.merge_patch(resource, patch.key.name, {"metadata": metadata}, patch.key.namespace)
        except Conflict:
            patch.require_live()
            raise


Leave: TypeAlias = "Callable[[ObjectKey], None]"


def cluster_of_addon(patch: StatusPatch) -> ObjectKey:
    """Return the Cluster of a ClusterAddon."""
    return ObjectKey(patch.key.namespace, text(patch.manifest, "spec", "clusterRef", "name"))


def cluster_of_binding(patch: StatusPatch) -> ObjectKey:
    """Return the Cluster of a ClusterResourceSyncBinding."""
    return ObjectKey(patch.key.namespace, text(patch.manifest, "spec", "clusterName"))
