"""Reconciles LocalClusters, which contain the endpoint of a cluster's API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.dev.provider.control_planes import cluster_of
from clusterstacks.dev.provider.object_writer import (
    MANAGER,
    add_finalizer,
    conditions,
    remove_finalizer,
    write_status,
)
from clusterstacks.net.kube.errors import NotFound

if TYPE_CHECKING:
    from datetime import timedelta

    from clusterstacks.dev.provider.workload_servers import WorkloadServers
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.informer import Informer


class InfrastructureReconciler:
    """Marks a LocalCluster as provisioned once its API server serves and its kubeconfig exists.

    Earlier would be too early: Cluster API connects at once, and waits 30 s after a failed attempt.
    """

    def __init__(self, client: Client, clusters: Informer, control_planes: Informer, servers: WorkloadServers) -> None:
        self._client = client
        self._clusters = clusters
        self._control_planes = control_planes
        self._servers = servers

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Reconcile one LocalCluster; changes of the control plane enqueue it."""
        seen = self._clusters.cache.get(key)
        cluster = cluster_of(seen) if seen else None
        if seen is None or cluster is None:
            return None
        resource = self._clusters.resource
        if seen["metadata"].get("deletionTimestamp"):
            await remove_finalizer(self._client, resource, seen)
            return None
        try:
            await add_finalizer(self._client, resource, seen)
            await self._publish(cluster, seen)
        except NotFound:
            return None  # deleted meanwhile: an event follows
        return None

    async def _publish(self, cluster: ObjectKey, seen: Manifest) -> None:
        server = self._servers.serving(cluster)
        if server is None or not self._initialized(cluster):
            return
        resource = self._clusters.resource
        endpoint = {"host": server.settings.address, "port": server.settings.port}
        if seen.get("spec", {}).get("controlPlaneEndpoint") != endpoint:
            metadata = seen["metadata"]
            patch = {"spec": {"controlPlaneEndpoint": endpoint}}
            seen = await self._client.merge_patch(
                resource, metadata["name"], patch, metadata["namespace"], manager=MANAGER
            )
        status = {
            "initialization": {"provisioned": True},
            "conditions": conditions(seen, ("Ready", True, "Provisioned", "")),
        }
        await write_status(self._client, resource, seen, status)

    def _initialized(self, cluster: ObjectKey) -> bool:
        found = self._control_planes.cache.by_index("cluster", str(cluster))
        return any(
            (plane.get("status") or {}).get("initialization", {}).get("controlPlaneInitialized") for plane in found
        )
