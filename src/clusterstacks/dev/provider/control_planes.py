"""LocalControlPlane: the API server of a cluster, its version and its kubeconfig."""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING

from clusterstacks.dev.kubeconfig_writer import to_bytes
from clusterstacks.dev.provider.kinds import CLUSTER_NAME_LABEL
from clusterstacks.dev.provider.object_writer import (
    MANAGER,
    add_finalizer,
    conditions,
    owner_reference,
    remove_finalizer,
    write_status,
)
from clusterstacks.dev.provider.workload_servers import WantedServer
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.net.kube.errors import Conflict, NotFound

if TYPE_CHECKING:
    from datetime import timedelta

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.provider.workload_servers import WorkloadServers
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.informer import Informer


def cluster_of(manifest: Manifest) -> ObjectKey | None:
    """Return the Cluster of a provider object; None until Cluster API has labelled it."""
    metadata = manifest["metadata"]
    name = (metadata.get("labels") or {}).get(CLUSTER_NAME_LABEL)
    return ObjectKey(metadata["namespace"], name) if name else None


class ControlPlaneReconciler:
    """Runs a kube-apiserver for each LocalControlPlane with the minor of its ``spec.version``."""

    def __init__(self, client: Client, control_planes: Informer, servers: WorkloadServers) -> None:
        self._client = client
        self._control_planes = control_planes
        self._servers = servers

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Reconcile one control plane."""
        seen = self._control_planes.cache.get(key)
        cluster = cluster_of(seen) if seen else None
        if seen is None or cluster is None:
            return None
        resource = self._control_planes.resource
        if seen["metadata"].get("deletionTimestamp"):
            await self._servers.remove(cluster, seen["metadata"]["uid"])
            await self._withdraw(cluster, seen)
            await remove_finalizer(self._client, resource, seen)
            return None
        try:
            await add_finalizer(self._client, resource, seen)
            await self._serve(cluster, seen)
        except NotFound:
            return None  # deleted meanwhile: an event follows
        except SpecError as error:
            status = {"conditions": conditions(seen, ("Available", False, error.code, error.message))}
            await write_status(self._client, resource, seen, status)
        return None

    async def _serve(self, cluster: ObjectKey, seen: Manifest) -> None:
        version = seen.get("spec", {}).get("version", "")
        wanted = WantedServer(cluster, seen["metadata"]["uid"], KubernetesVersion.parse(version))
        resource = self._control_planes.resource
        if not self._servers.runs(wanted):
            rolling = ("RollingOut", True, "Starting", f"the API server starts with version {version}")
            await write_status(self._client, resource, seen, {"conditions": conditions(seen, rolling)})
        server = await self._servers.ensure(wanted)
        # The Secret is written first: Cluster API connects as soon as the control plane is initialized.
        secrets = await self._client.resource("", "Secret")
        await self._client.apply(secrets, _secret(cluster, seen, server), manager=MANAGER, force=True)
        now = await self._client.get(resource, seen["metadata"]["name"], seen["metadata"]["namespace"])
        await write_status(self._client, resource, now, _ready(now, version))

    async def _withdraw(self, cluster: ObjectKey, seen: Manifest) -> None:
        """Delete the kubeconfig, so that a new cluster of that name is not reached with the old one.

        The garbage collector discovers new kinds only every 30 s.
        """
        secrets = await self._client.resource("", "Secret")
        secret = await self._client.find(secrets, _secret_name(cluster), cluster.namespace)
        owners = (secret or {"metadata": {}})["metadata"].get("ownerReferences") or []
        if secret and any(owner["uid"] == seen["metadata"]["uid"] for owner in owners):
            with contextlib.suppress(NotFound, Conflict):
                uid = secret["metadata"]["uid"]
                await self._client.delete(secrets, _secret_name(cluster), cluster.namespace, uid=uid)


def _secret_name(cluster: ObjectKey) -> str:
    return f"{cluster.name}-kubeconfig"


def _ready(seen: Manifest, version: str) -> Manifest:
    return {
        "initialization": {"controlPlaneInitialized": True},
        "externalManagedControlPlane": True,
        "versions": [{"version": version}],
        "observedGeneration": seen["metadata"].get("generation", 1),
        "conditions": conditions(
            seen, ("Available", True, "Available", ""), ("RollingOut", False, "NotRollingOut", "")
        ),
    }


def _secret(cluster: ObjectKey, owner: Manifest, server: ApiServer) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _secret_name(cluster),
            "namespace": cluster.namespace,
            "labels": {CLUSTER_NAME_LABEL: cluster.name},
            "ownerReferences": [owner_reference(owner)],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(to_bytes(server.kubeconfig)).decode()},
    }
