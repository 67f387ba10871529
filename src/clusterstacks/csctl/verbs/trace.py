"""``csctl trace``: tell which addon, release, source and signature an object of a workload cluster comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.management_objects import ObjectQuery, get_cluster, read_all
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.deliver.apply.record_store import ADDON_RECORD, RecordStore
from clusterstacks.model.conditions import from_documents
from clusterstacks.model.documents import at, listed, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import GROUP, Kind, ReleaseCondition, addon_name
from clusterstacks.release.sources.owners import is_stack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey

UNKNOWN = "unknown"


@click.command(short_help="Tell where an object of a workload cluster comes from.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@click.argument("kind", metavar="KIND")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@cluster_options
@form_option()
def trace(cluster: ObjectKey, kind: str, name: str, management: ManagementCluster, form: str) -> None:
    """Tell which addon or sync delivered an object of a workload cluster, and from which release.

    KIND is written as Deployment or Deployment.apps; upper and lower case do not matter. csctl reads the delivery
    records in the workload cluster, and from the ClusterStackRelease the digest of the files and the keys that signed
    them.
    """
    origins = output.run_counted(_read(management, cluster, kind, name))
    if form != TEXT:
        output.print_document(origins, form)
        return
    for number, origin in enumerate(origins):
        if number:
            output.say("")
        for field, value in origin.items():
            output.say(f"{field}:".ljust(11) + value)


async def _read(management: ManagementCluster, cluster: ObjectKey, kind: str, name: str) -> list[dict[str, str]]:
    from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
    from clusterstacks.model.kinds.clusterapi import class_of
    from clusterstacks.operator.controllers.workload_clients import Workloads

    async with management.connected() as client, Workloads(client) as workloads:
        _, place = class_of(await get_cluster(client, cluster))
        read = await RecordStore(await workloads.connect(cluster), RECORD_NAMESPACE, str(cluster)).read()
        addons = {f"{ADDON_RECORD} {addon}": stored.record for addon, stored in read.stored.items()}
        found = find_objects(addons | read.others, kind, name)
        if not found:
            problem = f"no addon or sync of Cluster {cluster} has delivered {kind} {name}"
            raise SpecError("NotDelivered", listed(f"{problem}: check kind and name", [*read.unreadable.values()]))
        own, unknown = addon_name(cluster.name), "what it says is unknown"
        queries = [
            ObjectQuery(GROUP, Kind.CLUSTER_ADDON, cluster.namespace, name=own, consequence=unknown),
            ObjectQuery(GROUP, Kind.CLUSTER_STACK_RELEASE, place, consequence=unknown),
            ObjectQuery(GROUP, Kind.CLUSTER_STACK, place, consequence=unknown),
        ]
        addon, releases, stacks = [objects or [] for objects in await read_all(client, queries)]
    delivered = {text(entry, "name"): entry for one in addon for entry in mappings(one, "status", "addons")}
    origins = []
    for identity, title in found:
        deliverer, _, own = title.partition(" ")
        origin = {deliverer: f"{cluster.namespace}/{own}"}
        if deliverer == ADDON_RECORD:
            origin = release_origin(delivered.get(own, {"name": own}), releases, stacks)
        origins.append({"object": str(identity), "cluster": str(cluster), **origin})
    return origins


def find_objects(records: Mapping[str, DeliveryRecord], kind: str, name: str) -> list[tuple[ObjectId, str]]:
    """Return the objects of a kind (``Deployment`` or ``Deployment.apps``) and name, each with the title of its record.

    ``records`` have kind and name of a record as their keys. Without a namespace, the name is that of objects in any.
    """
    namespace, slash, bare = name.rpartition("/")
    return sorted(
        (known.id, title)
        for title, record in records.items()
        for known in record.members
        if kind.lower() in (known.id.kind.lower(), f"{known.id.kind}.{known.id.group}".lower())
        and known.id.name == bare
        and (not slash or known.id.namespace == namespace)
    )


def release_origin(addon: Manifest, releases: Sequence[Manifest], stacks: Sequence[Manifest]) -> dict[str, str]:
    """Return an addon of ``status.addons``, and source, digest and signature of its release, as far as they are known.

    ``releases`` and ``stacks`` are the ClusterStackReleases and ClusterStacks of the namespace of the class.
    """
    name = text(addon, "release")
    release = next((one for one in releases if text(one, "metadata", "name") == name), {})
    owners = mappings(release, "metadata", "ownerReferences")
    stack = next(
        (one for one in stacks if any(is_stack(owner, text(one, "metadata", "name")) for owner in owners)), None
    )
    return {
        "addon": f"{text(addon, 'name')} {text(addon, 'version')}".rstrip(),
        "release": name or UNKNOWN,
        "source": _source(stack) if stack is not None else UNKNOWN,
        "digest": text(release, "status", "digest") or UNKNOWN,
        "signature": _signature(release) if release else UNKNOWN,
    }


def _source(stack: Manifest) -> str:
    from clusterstacks.model.kinds.clusterstack import ClusterStack
    from clusterstacks.release.sources.stack_source import named_settings

    settings = named_settings(ClusterStack.parse(stack))
    return str(settings.address) if settings is not None else "that of the operator"


def _signature(release: Manifest) -> str:
    conditions = from_documents(at(release, "status", "conditions"))
    verified = next((one for one in conditions if one.type == ReleaseCondition.SIGNATURE_VERIFIED), None)
    if verified is None:
        return "not checked: neither the operator nor the ClusterStack has trusted keys"
    keys = ", ".join(at(release, "status", "signedBy") or ())
    return f"verified by key {keys}" if verified.status == "True" else f"not verified: {verified.message}"
