"""Adopts the objects that Cluster API applied for a ClusterResourceSet: their fields become those of the operator.

Without it, an object that differs from its source, because Cluster API applies it only once, would be an object of
another writer, which a delivery does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
from clusterstacks.deliver.apply.delivery_plan import RecordedObject
from clusterstacks.deliver.apply.ownership import has_other_appliers
from clusterstacks.deliver.apply.targets import resolve
from clusterstacks.model.kinds.clusterresourceset import applied_sources
from clusterstacks.model.kinds.names import RESOURCE_SET_BINDING_KIND, RESOURCE_SET_GROUP
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.deliver.apply.delivery import Delivery
    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.apply.source_objects import SourceObjects
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.kinds.clusterresourcesync import SyncSource
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client


async def objects_to_adopt(
    client: Client, cluster: ObjectKey, resource_set: str, sources: Iterable[tuple[SyncSource, SourceObjects]]
) -> list[Manifest]:
    """Return the objects of the sources that Cluster API applied to a cluster for a ClusterResourceSet.

    Args:
        client: The management cluster, with the ClusterResourceSetBinding of the Cluster.
        cluster: The Cluster.
        resource_set: Name of the ClusterResourceSet.
        sources: Its sources with their objects.
    """
    resource = await client.resource(RESOURCE_SET_GROUP, RESOURCE_SET_BINDING_KIND)
    applied = applied_sources(await client.find(resource, cluster.name, cluster.namespace), resource_set)
    return [
        manifest
        for source, objects in sources
        if (source.kind, source.name) in applied
        for manifest in objects.manifests
    ]


async def adopt(
    client: Client, delivery: Delivery, name: str, known: DeliveryRecord | None, manifests: Sequence[Manifest]
) -> None:
    """Make live objects members of a record, without a write; those of a manager by server-side apply stay its own.

    Args:
        client: The workload cluster.
        delivery: The delivery to this cluster.
        name: Name of the record.
        known: The record; None before the first delivery.
        manifests: The objects as their sources define them.
    """

    async def find(target: ApplyTarget) -> RecordedObject | None:
        try:
            live = await client.find(target.place, target.id.name, target.id.namespace)
        except KindNotServed:
            return None
        if live is None or has_other_appliers(live):
            return None
        return RecordedObject(target.id, target.version, live["metadata"]["uid"])

    members = {member.id: member for member in (known.members if known else ()) if member.uid}
    targets = await resolve(client, manifests, default_namespace=RECORD_NAMESPACE)
    found = await gather(find, [one for one in targets if one.resource and one.id not in members])
    if adopted := [one for one in found if one is not None]:
        await delivery.adopt(name, [*members.values(), *adopted])
