"""Objects of the end-to-end tests: a stack, a cluster, and its addons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client


def stack(namespace: str, minor: str = "1.35", **spec: Any) -> Manifest:
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStack",
        "metadata": {"name": f"demo-{minor.replace('.', '-')}", "namespace": namespace},
        "spec": {"provider": "local", "name": "demo", "kubernetesVersion": minor, "noProvider": True, **spec},
    }


def cluster(namespace: str, name: str, class_name: str, version: str = "v1.35.4", **topology: Any) -> Manifest:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/16"]}},
            "topology": {"classRef": {"name": class_name}, "version": version, **topology},
        },
    }


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def addon_of(client: Client, namespace: str, cluster: str) -> Manifest | None:
    return await client.find(await client.resource(GROUP, Kind.CLUSTER_ADDON), f"cluster-addon-{cluster}", namespace)


async def delivered(client: Client, namespace: str, cluster: str, class_name: str) -> Manifest | None:
    """Return the ClusterAddon if it reports the addons of the class as delivered; asserts otherwise."""
    addon = await addon_of(client, namespace, cluster)
    assert addon is not None, "no ClusterAddon"
    conditions = [(text(one, "type"), text(one, "status"), text(one, "message")) for one in conditions_of(addon)]
    assert text(addon, "spec", "clusterStack") == class_name, conditions
    assert at(addon, "status", "ready") is True, conditions
    return addon


def conditions_of(manifest: Manifest) -> list[Manifest]:
    return mappings(manifest, "status", "conditions")


async def cluster_condition(client: Client, namespace: str, name: str, kind: str) -> Manifest:
    manifest = await client.get(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND), name, namespace)
    return next((one for one in conditions_of(manifest) if one["type"] == kind), {})


async def set_topology(client: Client, namespace: str, name: str, class_name: str, version: str = "") -> None:
    topology: Manifest = {"classRef": {"name": class_name}}
    if version:
        topology["version"] = version
    clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    await client.merge_patch(clusters, name, {"spec": {"topology": topology}}, namespace)


async def create(client: Client, manifest: Manifest) -> Manifest:
    group, _, version = manifest["apiVersion"].rpartition("/")
    resource = await client.resource(group, manifest["kind"], version)
    return await client.create(resource, manifest, manifest["metadata"].get("namespace", ""))
