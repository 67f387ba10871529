"""``csctl drift``: compare the delivered objects of a Cluster with what was delivered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.deliver.apply.drift_rules import NOT_COMPARED
from clusterstacks.deliver.apply.field_paths import with_field_of, written
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.objects import object_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.deliver.apply.drift_rules import DriftedObject
    from clusterstacks.model.drift_settings import DriftSettings
    from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey
    from clusterstacks.net.kube.client import Client

DIFFERENT: Final = 1
TROUBLE: Final = 2
"""Exit codes of --exit-code."""


@click.command(short_help="Show addon objects that differ from what was delivered.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
@form_option("text", "json", "yaml")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if an object differs, and with 2 if objects could not be compared, like diff(1).",
)
def drift(cluster: ObjectKey, management: ManagementCluster, form: str, *, exit_code: bool) -> int:
    """Compare all addon objects of a Cluster with what the operator delivered. Nothing is changed.

    csctl reads the delivery records in the workload cluster, with the kubeconfig that Cluster API keeps in the
    management cluster, and asks the API server by dry runs which fields an apply would change. Fields in
    spec.drift.ignoreDifferences of the ClusterStack are left out. Values are not shown. Exits with 0 even if objects
    differ, unless --exit-code is set.
    """
    try:
        objects, drifted, lost = asyncio.run(_compare(management, cluster))
    except ClusterStacksError as error:
        if not exit_code:
            raise
        output.show_error(error)
        return TROUBLE
    output.warn_all(lost)
    if form == TEXT:
        for drifted_object in drifted:
            output.say(str(drifted_object))
        differ = f"{len(drifted)} of {objects} objects differ from what was delivered."
        as_delivered = f"All {objects} objects are as they were delivered."
        if objects == 1:
            as_delivered = "The only object is as it was delivered."
        if drifted or not lost:
            output.say(differ if drifted else as_delivered)
    else:
        document = {
            "cluster": str(cluster),
            "objects": objects,
            "drift": [_document(drifted_object) for drifted_object in drifted],
            "records": lost,
        }
        output.print_document(document, form)
    return exit_code_of(drifted, lost) if exit_code else 0


def exit_code_of(drifted: Sequence[DriftedObject], lost: Sequence[str]) -> int:
    """Return the exit code of --exit-code, as that of diff(1)."""
    if lost or any(drifted_object.change == NOT_COMPARED for drifted_object in drifted):
        return TROUBLE
    return DIFFERENT if drifted else 0


async def _compare(management: ManagementCluster, cluster: ObjectKey) -> tuple[int, list[DriftedObject], list[str]]:
    """Return the number of recorded objects, those that differ, and why the records are not those of the delivery."""
    from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
    from clusterstacks.deliver.apply.health import members_selector
    from clusterstacks.deliver.apply.live_members import read_live_members
    from clusterstacks.deliver.apply.sweep import Sweep, SweepMemory, lost_records
    from clusterstacks.model.documents import mappings
    from clusterstacks.model.kinds.clusteraddon import addon_name
    from clusterstacks.model.kinds.names import GROUP, Kind
    from clusterstacks.operator.controllers.workload_clients import Workloads

    async with management.connected() as client, Workloads(client) as workloads:
        settings = await _settings(client, cluster)
        addons = await client.resource(GROUP, Kind.CLUSTER_ADDON)
        addon = await client.find(addons, addon_name(cluster.name), cluster.namespace)
        workload = await workloads.connect(cluster)
        delivery = Delivery(workload, RecordOwner(cluster), ignored=settings.ignored_fields)
        records = await delivery.records()
        memory = SweepMemory({known.id: addon for addon, record in records.items() for known in record.objects})
        members = await read_live_members(workload, memory.objects, labels=members_selector(records))
        sweep = Sweep(
            client=workload,
            delivery=delivery,
            memory=memory,
            live=members.live,
            everything=True,
        )
        drifts = await sweep.find(memory.suspects(members))
        manifests = [await delivery.manifests(addon) for addon in records if settings.ignored]
        lost = lost_records(mappings(addon or {}, "status", "addons"), {}, records, delivery.unreadable)
    output.warn_all(unused_exceptions(settings, memory.objects, manifests))
    return len(memory.objects), sorted((drift.object for drift in drifts), key=lambda drifted: drifted.id), lost


def unused_exceptions(
    settings: DriftSettings, objects: Iterable[ObjectId], manifests: Iterable[Sequence[Manifest] | None]
) -> list[str]:
    """Return the entries of ignoreDifferences that concern no delivered object, or no field of one.

    ``manifests`` are those of each addon; None where they are not known.
    """
    known, unused = [*manifests], []
    delivered = [manifest for listed in known for manifest in listed or ()]
    for ignored in settings.ignored:
        title = f"{ignored.kind} {ignored.name}".rstrip()
        if not any(ignored.concerns(identity) for identity in objects):
            unused.append(f"spec.drift.ignoreDifferences has no effect for {title}: no such object is delivered")
        elif None not in known:
            own = [manifest for manifest in delivered if ignored.concerns(object_id(manifest))]
            unused += [
                f"spec.drift.ignoreDifferences has no effect for {written(path)} of {title}: it is not delivered"
                for path in ignored.fields
                if all(with_field_of(manifest, {}, path) == manifest for manifest in own)
            ]
    return unused


async def _settings(client: Client, cluster: ObjectKey) -> DriftSettings:
    """Read the settings of the Cluster's ClusterStack; the defaults if this user may not read it."""
    from clusterstacks.model.drift_settings import DriftSettings
    from clusterstacks.model.errors import SpecError
    from clusterstacks.model.kinds.clusterapi import cluster_view
    from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
    from clusterstacks.operator.controllers.class_usage import release_of
    from clusterstacks.operator.controllers.clusteraddon.sweep_settings import read_sweep_settings
    from clusterstacks.plan.clusters.permissions import or_else
    from clusterstacks.runtime.cache import ObjectCache

    clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    manifest = await client.find(clusters, cluster.name, cluster.namespace)
    view = cluster_view(manifest) if manifest is not None else None
    key = release_of(view) if view is not None else None
    if view is None or key is None:
        raise SpecError(
            "ClusterNotFound",
            f"Cluster {cluster} does not exist, or has no class of a cluster stack: 'kubectl get clusters -n "
            f"{cluster.namespace}' lists the Clusters",
        )
    notices: list[str] = []
    resource = await client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
    consequence = "ignoreDifferences of the ClusterStack are not known"
    release = await or_else(client.find(resource, key.name, key.namespace), None, consequence, notices)
    release = release or {"metadata": {"namespace": key.namespace}}
    reading = read_sweep_settings(view, release, client=client, stacks=ObjectCache(), default=None)
    settings = await or_else(reading, DriftSettings(), consequence, notices)
    output.warn_all(notices)
    return settings


def _document(drifted: DriftedObject) -> dict[str, Any]:
    identity = drifted.id
    return {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "addon": drifted.addon,
        "change": drifted.change,
        "fields": [{"path": field.path, "managers": list(field.managers)} for field in drifted.fields],
        "error": drifted.error or None,
    }
