"""Reads what the demo shows: the objects of the management cluster, and the addons' objects in the workload cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, GROUP, Kind
from clusterstacks.api.untyped import mappings, text
from clusterstacks.devcluster.demo.view import Snapshot
from clusterstacks.domain.objects import ObjectId

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

_KINDS = {
    "stacks": (GROUP, Kind.CLUSTER_STACK),
    "releases": (GROUP, Kind.CLUSTER_STACK_RELEASE),
    "classes": (CLUSTER_API_GROUP, CLUSTER_CLASS_KIND),
    "clusters": (CLUSTER_API_GROUP, CLUSTER_KIND),
    "addons": (GROUP, Kind.CLUSTER_ADDON),
}


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object as the workload API server has it; ``revision`` changes with every write."""

    uid: str
    revision: str


async def snapshot(client: Client, namespace: str) -> Snapshot:
    """Read everything the picture shows."""
    found: dict[str, list[Manifest]] = {}
    for name, (group, kind) in _KINDS.items():
        found[name] = (await client.list(await client.resource(group, kind), namespace)).items
    return Snapshot(**found)


async def read_back(workload: Client, addon: Manifest) -> dict[ObjectId, LiveObject | None]:
    """Read every object that a ClusterAddon says it delivered; None for one that is not there."""
    found: dict[ObjectId, LiveObject | None] = {}
    for resource in mappings(addon, "status", "resources"):
        identity = ObjectId(
            text(resource, "group"), text(resource, "kind"), text(resource, "namespace"), text(resource, "name")
        )
        served = await workload.resource(identity.group, identity.kind, text(resource, "version"))
        live = await workload.find(served, identity.name, identity.namespace)
        found[identity] = (
            LiveObject(text(live, "metadata", "uid"), text(live, "metadata", "resourceVersion")) if live else None
        )
    return found
