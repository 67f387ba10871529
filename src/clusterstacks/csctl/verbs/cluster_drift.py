"""``csctl drift``: compare the delivered objects of a Cluster with what was delivered."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.management_objects import BINDINGS, ObjectQuery, read_all
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.deliver.apply.drift_rules import NOT_COMPARED
from clusterstacks.deliver.apply.field_paths import with_field_of, written
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    CLUSTER_NAME_LABEL,
    GROUP,
    SYNC_GROUP,
    Kind,
)
from clusterstacks.model.objects import ObjectId, object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from clusterstacks.deliver.apply.drift_rules import DriftedObject
    from clusterstacks.deliver.apply.health import UnhealthyObject
    from clusterstacks.model.drift_settings import DriftSettings
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.kinds.clusterresourcesync import ClusterResourceSync
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client

DIFFERENT: Final = 1
TROUBLE: Final = 2
"""Exit codes of --exit-code."""

SHOWN_CORRECTIONS: Final = 10
"""Restored objects that are listed (arbitrary); the status of ClusterAddon and bindings has up to 20 each."""


class Compared(NamedTuple):
    """The result of a comparison."""

    objects: Mapping[ObjectId, str]
    """The recorded objects, and the addon or sync that delivered each."""
    drifted: list[Found]
    lost: list[str]
    """Why the records are not those of the last delivery."""
    corrections: list[Manifest]
    """The last objects that the operator restored, the newest first."""
    unhealthy: Sequence[UnhealthyObject] = ()
    """The objects that are not healthy, if this was asked for."""


class Found(NamedTuple):
    """A drifted object, and the sync that delivered it; empty for one of an addon."""

    object: DriftedObject
    sync: str = ""

    def __str__(self) -> str:
        """``Secret kube-system/clouds-yaml (sync clouds): was deleted``, or as that of the object."""
        return f"{_named(self.object.id, self.sync)}{self.object.said}"


def _named(identity: ObjectId, sync: str) -> str:
    return f"{identity} (sync {sync}): " if sync else f"{identity} "


@click.command(short_help="Show objects that differ from what was delivered.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@cluster_options
@form_option()
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if an object differs, and with 2 if objects could not be compared, like diff(1).",
)
def drift(cluster: ObjectKey, management: ManagementCluster, form: str, *, exit_code: bool) -> int:
    """Compare all objects of a Cluster's addons and syncs with what the operator delivered. Nothing is changed.

    csctl reads the delivery records in the workload cluster, with the kubeconfig that Cluster API keeps in the
    management cluster, and asks the API server by dry runs which fields an apply would change. Fields in
    spec.drift.ignoreDifferences of the ClusterStack or ClusterResourceSync are left out. Values are not shown. Below
    are the objects that the operator restored last. Exits with 0 even if objects differ, unless --exit-code is set.
    """
    try:
        compared = asyncio.run(_compare(management, cluster))
    except ClusterStacksError as error:
        if not exit_code:
            raise
        output.show_error(error)
        return TROUBLE
    objects, drifted, lost, restored = len(compared.objects), compared.drifted, compared.lost, compared.corrections
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
        print_restored(restored)
    else:
        document = {
            "cluster": str(cluster),
            "objects": objects,
            "drift": [_document(drifted_object) for drifted_object in drifted],
            "corrections": restored,
            "records": lost,
        }
        output.print_document(document, form)
    return exit_code_of(drifted, lost) if exit_code else 0


def print_restored(restored: Sequence[Manifest]) -> None:
    """Print the first objects that the operator has restored."""
    if restored:
        output.say("Restored by the operator:")
    for entry in restored[:SHOWN_CORRECTIONS]:
        identity = ObjectId(*(text(entry, part) for part in ("group", "kind", "namespace", "name")))
        change = f"{text(entry, 'change')}, restored {text(entry, 'correctedAt')}"
        output.say(f"  {_named(identity, text(entry, 'sync'))}{change}")


def exit_code_of(drifted: Sequence[Found], lost: Sequence[str]) -> int:
    """Return the exit code of --exit-code, as that of diff(1)."""
    if lost or any(drifted_object.object.change == NOT_COMPARED for drifted_object in drifted):
        return TROUBLE
    return DIFFERENT if drifted else 0


async def _compare(management: ManagementCluster, cluster: ObjectKey) -> Compared:
    async with management.connected() as client:
        return await compare(client, cluster)


async def compare(client: Client, cluster: ObjectKey, *, health: bool = False) -> Compared:
    """Compare the delivered objects of a Cluster with what was delivered; with ``health``, also judge their health."""
    from clusterstacks.deliver.apply.record_store import ADDON_RECORD, SYNC_RECORD
    from clusterstacks.model.drift_settings import DriftSettings
    from clusterstacks.model.kinds.clusteraddon import addon_name
    from clusterstacks.model.kinds.clusterresourcesyncbinding import last_delivery
    from clusterstacks.operator.controllers.workload_clients import Workloads

    async with Workloads(client) as workloads:
        view = await _view(client, cluster)
        bindings, syncs = await _syncs(client, cluster)
        stack_settings = await _settings(client, cluster, view, has_syncs=bool(bindings))
        addon: Manifest = {}
        workload = await workloads.connect(cluster)
        parts = []
        if stack_settings is not None:
            addons = await client.resource(GROUP, Kind.CLUSTER_ADDON)
            addon = await client.find(addons, addon_name(cluster.name), cluster.namespace) or {}
            delivered = mappings(addon, "status", "addons")
            part = await _compare_records(workload, cluster, ADDON_RECORD, delivered, lambda _: stack_settings)
            parts.append(await _judged(workload, part, ADDON_RECORD) if health else part)
        if bindings:
            complete = [one for one in bindings if text(one, "status", "observedInputs")]
            delivered = [last_delivery(text(one, "spec", "syncName"), one["status"]) for one in complete]
            settings = {sync.metadata.name: sync.spec.drift_settings() for sync in syncs}
            default = DriftSettings()
            part = await _compare_records(
                workload, cluster, SYNC_RECORD, delivered, lambda sync: settings.get(sync, default)
            )
            parts.append(await _judged(workload, part, SYNC_RECORD) if health else part)
    drifted = [found for part in parts for found in part.drifted]
    return Compared(
        {identity: name for part in parts for identity, name in part.objects.items()},
        sorted(drifted, key=lambda found: found.object.id),
        [why for part in parts for why in part.lost],
        corrections(addon, bindings),
        [one for part in parts for one in part.unhealthy],
    )


async def _judged(workload: Client, part: Compared, kind: str) -> Compared:
    """Add the objects that are not healthy. A worker evaluates the expressions of authors, as in the operator."""
    from datetime import UTC, datetime

    from clusterstacks.deliver.apply.health import read_health
    from clusterstacks.deliver.apply.health_expressions import HealthExpressions
    from clusterstacks.deliver.apply.health_rules import has_state
    from clusterstacks.deliver.render.renderer import Renderer

    renderer = Renderer(workers=1)
    stateful = {one: name for one, name in part.objects.items() if has_state(one.group, one.kind)}
    try:
        report = await read_health(workload, stateful, datetime.now(UTC), HealthExpressions(renderer), kind)
    finally:
        await renderer.close()
    return part._replace(unhealthy=report.unhealthy)


async def _compare_records(
    workload: Client,
    cluster: ObjectKey,
    kind: str,
    delivered: Sequence[Manifest],
    settings: Callable[[str], DriftSettings],
) -> Compared:
    """Compare the objects in the records of one kind.

    Args:
        workload: The workload cluster.
        cluster: Its Cluster.
        kind: The kind of the records.
        delivered: The addons or syncs that are delivered, as ``lost_records`` expects them.
        settings: Returns the settings of an addon or sync.
    """
    from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE, Delivery, RecordOwner
    from clusterstacks.deliver.apply.health import members_selector
    from clusterstacks.deliver.apply.live_members import read_live_members
    from clusterstacks.deliver.apply.record_store import SYNC_RECORD, RecordStore
    from clusterstacks.deliver.apply.sweep import Sweep, SweepMemory, lost_records

    recorded_by: dict[ObjectId, str] = {}
    delivery = Delivery(
        workload,
        RecordOwner(cluster),
        ignored=lambda identity: settings(recorded_by.get(identity, "")).ignored_fields(identity),
        store=RecordStore(workload, RECORD_NAMESPACE, str(cluster), kind=kind),
    )
    records = await delivery.records()
    recorded_by |= {known.id: name for name, record in records.items() for known in record.objects}
    memory = SweepMemory(recorded_by)
    members = await read_live_members(workload, memory.objects, labels=members_selector(records, kind))
    sweep = Sweep(client=workload, delivery=delivery, memory=memory, live=members.live, everything=True)
    drifts = await sweep.find(memory.suspects(members))
    by_settings: dict[DriftSettings, list[str]] = defaultdict(list)
    for name in records:
        by_settings[settings(name)].append(name)
    for setting, names in by_settings.items():
        manifests = [await delivery.manifests(name) for name in names if setting.ignored]
        own = [identity for identity, name in recorded_by.items() if name in names]
        output.warn_all(unused_exceptions(setting, own, manifests))
    return Compared(
        recorded_by,
        [Found(drift.object, drift.object.addon if kind == SYNC_RECORD else "") for drift in drifts],
        lost_records(delivered, {}, records, delivery.unreadable, kind),
        [],
    )


def corrections(addon: Manifest, bindings: Iterable[Manifest]) -> list[Manifest]:
    """Return the entries of ``status.drift`` about restored objects, with the sync of those that one delivered."""
    entries = mappings(addon, "status", "drift")
    entries += [
        {**entry, "addon": "", "sync": text(binding, "spec", "syncName")}
        for binding in bindings
        for entry in mappings(binding, "status", "drift")
    ]
    corrected = [entry for entry in entries if text(entry, "correctedAt")]
    return sorted(corrected, key=lambda entry: text(entry, "correctedAt"), reverse=True)


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


async def _view(client: Client, cluster: ObjectKey) -> ClusterView | None:
    from clusterstacks.model.kinds.clusterapi import cluster_view

    clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    manifest = await client.find(clusters, cluster.name, cluster.namespace)
    return cluster_view(manifest) if manifest is not None else None


async def _syncs(client: Client, cluster: ObjectKey) -> tuple[list[Manifest], list[ClusterResourceSync]]:
    """Read the bindings of a Cluster, and the syncs of its namespace if it has any."""
    from clusterstacks.model.kinds.clusterresourcesync import ClusterResourceSync

    of_cluster = replace(BINDINGS, namespace=cluster.namespace, labels=f"{CLUSTER_NAME_LABEL}={cluster.name}")
    (bindings,) = await read_all(client, [replace(of_cluster, consequence="objects of syncs are not compared")])
    if not bindings:
        return [], []
    kind, unknown = Kind.CLUSTER_RESOURCE_SYNC, "ignoreDifferences of the syncs are not known"
    (syncs,) = await read_all(client, [ObjectQuery(SYNC_GROUP, kind, cluster.namespace, consequence=unknown)])
    return bindings, [ClusterResourceSync.parse(sync) for sync in syncs or ()]


async def _settings(
    client: Client, cluster: ObjectKey, view: ClusterView | None, *, has_syncs: bool
) -> DriftSettings | None:
    """Read the settings of the Cluster's ClusterStack; the defaults if this user may not read it.

    The result is None for a Cluster of no cluster stack that has syncs.
    """
    from clusterstacks.model.drift_settings import DriftSettings
    from clusterstacks.model.errors import SpecError
    from clusterstacks.operator.controllers.class_usage import release_of
    from clusterstacks.operator.controllers.clusteraddon.sweep_settings import read_sweep_settings
    from clusterstacks.plan.clusters.permissions import or_else
    from clusterstacks.runtime.cache import ObjectCache

    key = release_of(view) if view is not None else None
    if view is None or (key is None and not has_syncs):
        raise SpecError(
            "ClusterNotFound",
            f"Cluster {cluster} does not exist, or has neither a class of a cluster stack nor a sync: "
            f"'csctl status -n {cluster.namespace}' lists the Clusters",
        )
    if key is None:
        return None
    notices: list[str] = []
    resource = await client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
    consequence = "ignoreDifferences of the ClusterStack are not known"
    release = await or_else(client.find(resource, key.name, key.namespace), None, consequence, notices)
    release = release or {"metadata": {"namespace": key.namespace}}
    reading = read_sweep_settings(view, release, client=client, stacks=ObjectCache(), default=None)
    settings = await or_else(reading, DriftSettings(), consequence, notices)
    output.warn_all(notices)
    return settings


def _document(found: Found) -> dict[str, Any]:
    drifted, identity = found.object, found.object.id
    return {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "addon": "" if found.sync else drifted.addon,
        "sync": found.sync,
        "change": drifted.change,
        "fields": [{"path": field.path, "managers": list(field.managers)} for field in drifted.fields],
        "error": drifted.error or None,
    }
