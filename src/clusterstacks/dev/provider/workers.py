"""Reconciles workers: each LocalMachine is a Node of its workload cluster, and bootstrap data is an empty Secret.

Without simulated Pods the provider writes the status of the Node; with them kwok does.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.dev.provider.control_planes import cluster_of
from clusterstacks.dev.provider.kinds import CLUSTER_NAME_LABEL
from clusterstacks.dev.provider.kwok_stages import node
from clusterstacks.dev.provider.object_writer import (
    MANAGER,
    add_finalizer,
    conditions,
    owner_reference,
    remove_finalizer,
    write_status,
)
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.kube.resources import Resource

if TYPE_CHECKING:
    from clusterstacks.dev.provider.workload_servers import WorkloadServers
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.pool import Pool
    from clusterstacks.runtime.informer import Informer

NODES: Final = Resource("", "v1", "Node", "nodes", namespaced=False)
RETRY: Final = timedelta(seconds=0.5)
"""Interval at which a machine looks for its owner's bootstrap data and for its API server; arbitrary."""


class BootstrapReconciler:
    """Writes the bootstrap data of each LocalBootstrapConfig: nothing boots, so it is empty."""

    def __init__(self, client: Client, configs: Informer) -> None:
        self._client = client
        self._configs = configs

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Reconcile one LocalBootstrapConfig."""
        seen = self._configs.cache.get(key)
        cluster = cluster_of(seen) if seen else None
        if seen is None or cluster is None or seen["metadata"].get("deletionTimestamp"):
            return None
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {CLUSTER_NAME_LABEL: cluster.name},
                "ownerReferences": [owner_reference(seen)],
            },
            "type": "cluster.x-k8s.io/secret",
            "data": {"value": base64.b64encode(b"#cloud-config\n").decode()},
        }
        try:
            secrets = await self._client.resource("", "Secret")
            await self._client.apply(secrets, secret, manager=MANAGER, force=True)
            status = {
                "dataSecretName": key.name,
                "initialization": {"dataSecretCreated": True},
                "conditions": conditions(seen, ("Ready", True, "DataSecretAvailable", "")),
            }
            await write_status(self._client, self._configs.resource, seen, status)
        except NotFound:
            return None  # deleted meanwhile
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReconciler:
    """Creates and deletes the Node of each LocalMachine."""

    client: Client
    pool: Pool
    machines: Informer
    servers: WorkloadServers

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Reconcile one LocalMachine; the Node has the name and the version of its Machine."""
        seen = self.machines.cache.get(key)
        cluster = cluster_of(seen) if seen else None
        owners = mappings(seen or {}, "metadata", "ownerReferences")
        owner = next((text(one, "name") for one in owners if one.get("kind") == "Machine"), "")
        if seen is None or cluster is None or not owner:
            return None
        resource = self.machines.resource
        server = self.servers.serving(cluster)
        workload = Client(load_kubeconfig([server.kubeconfig_path]), self.pool) if server else None
        if seen["metadata"].get("deletionTimestamp"):
            if workload:
                await _delete_node(workload, owner)
            await remove_finalizer(self.client, resource, seen)
            return None
        try:
            await add_finalizer(self.client, resource, seen)
            machines = await self.client.resource(CLUSTER_API_GROUP, "Machine")
            machine = await self.client.get(machines, owner, key.namespace)
            if workload is None or not text(machine, "spec", "bootstrap", "dataSecretName"):
                return RETRY
            await self._provide(workload, seen, machine)
        except NotFound:
            return None  # deleted meanwhile: an event follows
        return None

    async def _provide(self, workload: Client, seen: Manifest, machine: Manifest) -> None:
        metadata = seen["metadata"]
        name, version = machine["metadata"]["name"], text(machine, "spec", "version")
        provider_id = f"local:///{metadata['namespace']}/{metadata['name']}"
        wanted = node(name, version, provider_id)
        await workload.apply(NODES, wanted, manager=MANAGER, force=True)
        if not self.servers.simulates_pods:
            status = {"status": _node_status(name, version)}
            await workload.merge_patch(NODES, name, status, subresource="status", manager=MANAGER)
        if text(seen, "spec", "providerID") != provider_id:
            patch = {"spec": {"providerID": provider_id}}
            seen = await self.client.merge_patch(
                self.machines.resource, metadata["name"], patch, metadata["namespace"], manager=MANAGER
            )
        provisioned: Manifest = {
            "initialization": {"provisioned": True},
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": conditions(seen, ("Ready", True, "Provisioned", "")),
        }
        await write_status(self.client, self.machines.resource, seen, provisioned)


def _node_status(name: str, version: str) -> Manifest:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    healthy = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    return {
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {**dict.fromkeys(_NODE_INFO, ""), "kubeletVersion": version},
        "conditions": [
            {"type": kind, "status": status, "reason": "Simulated", "lastTransitionTime": now, "lastHeartbeatTime": now}
            for kind, status in healthy.items()
        ],
    }


_NODE_INFO: Final = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)
"""Fields that the API requires."""


async def _delete_node(workload: Client, name: str) -> None:
    found = await workload.find(NODES, name)
    if found:
        await workload.delete(NODES, name, uid=found["metadata"]["uid"])
