"""``csctl reconcile``, ``suspend`` and ``resume``: request work on addons and syncs, or pause it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.management_objects import BINDINGS, MANAGER, get_cluster, read_all, served
from clusterstacks.csctl.shared.options import Seconds
from clusterstacks.csctl.verbs.cluster_drift import corrections, print_restored
from clusterstacks.model.conditions import from_documents
from clusterstacks.model.documents import at, counted, duration_text, text
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    CLUSTER_NAME_LABEL,
    GROUP,
    RECONCILE_ANNOTATION,
    SYNC_GROUP,
    AddonCondition,
    Kind,
)
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client

POLL_SECONDS: Final = 0.5
"""Interval at which ClusterAddon and bindings are read while csctl waits (arbitrary)."""

_SYNC = click.option("--sync", "is_sync", is_flag=True, help="The name is that of a ClusterResourceSync.")


@dataclass(slots=True)
class _ReconcileRequest:
    """A request to compare objects, for which the operator reports the end in several objects.

    Args:
        clusters: The names of the Clusters that are annotated.
        addon: The ClusterAddon; None for that of a sync, or without one.
        bindings: The bindings of the syncs.
        known: What the operator had restored before.
    """

    clusters: list[str]
    addon: Manifest | None
    bindings: list[Manifest]
    known: list[Manifest] = field(init=False)

    def __post_init__(self) -> None:
        self.known = corrections(self.addon or {}, self.bindings)

    def __str__(self) -> str:
        """What is compared: ``addon objects and objects of 2 syncs``."""
        syncs = len({text(binding, "spec", "syncName") for binding in self.bindings})
        parts = ["addon objects"] if self.addon is not None else []
        parts += [f"objects of {counted(syncs, 'sync')}"] if syncs else []
        return " and ".join(parts)

    @property
    def reports(self) -> list[Manifest]:
        """The objects that report the end."""
        return [*([self.addon] if self.addon is not None else []), *self.bindings]

    def restored(self) -> list[Manifest]:
        """Return the entries about objects that the operator has restored since the request."""
        return [entry for entry in corrections(self.addon or {}, self.bindings) if entry not in self.known]

    def pending(self, requested: str) -> list[Manifest]:
        """Return the objects that do not report yet that the request was handled."""
        return [one for one in self.reports if text(one, "status", "lastHandledReconcileAt") != requested]


@click.command(short_help="Compare and restore the objects of a Cluster or a sync now.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@_SYNC
@cluster_options
@click.option("--no-wait", is_flag=True, help="Do not wait until the operator has handled the request.")
@click.option("--timeout", type=Seconds(), default="2m", show_default=True, help="Maximum time to wait.")
def reconcile(
    cluster: ObjectKey, management: ManagementCluster, timeout: float, *, is_sync: bool, no_wait: bool
) -> None:
    """Make the operator compare all delivered objects of a Cluster at once, and restore those that differ.

    csctl annotates the Cluster, and waits until the ClusterAddon and the bindings of its syncs report that the request
    was handled. The sources of syncs are read again. Objects in which nothing differs are not written. With
    spec.drift.mode Warn of the ClusterStack or sync, differences are only reported.

    With --sync, csctl annotates all Clusters of a ClusterResourceSync, and waits for its objects in each of them.
    """
    request = asyncio.run(_reconcile(management, cluster, None if no_wait else timeout, is_sync=is_sync))
    number = len(request.clusters)
    place = f"sync {cluster} in {counted(number, 'Cluster')}" if is_sync else f"Cluster {cluster}"
    if no_wait:
        output.say(f"Requested for {place}.")
        return
    output.say(f"All {'objects' if is_sync else request} of {place} were compared.")
    print_restored(request.restored())
    for report in request.reports:
        in_sync = {one.type: one for one in from_documents(at(report, "status", "conditions"))}.get(
            AddonCondition.IN_SYNC
        )
        if in_sync is not None and in_sync.status != "True":
            sync = text(report, "spec", "syncName")
            where = f"sync {sync} in Cluster {text(report, 'spec', 'clusterName')}: " if sync else ""
            output.warn(f"{where}{in_sync.message or in_sync.reason}")


@click.command(short_help="Pause the delivery to a Cluster, or of a sync.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@_SYNC
@cluster_options
def suspend(cluster: ObjectKey, management: ManagementCluster, *, is_sync: bool) -> None:
    """Pause the delivery and the drift correction of the addons of a Cluster, until 'csctl resume'.

    csctl sets spec.paused of the ClusterAddon. Cluster API continues to reconcile the Cluster. With --sync, csctl sets
    spec.suspend of a ClusterResourceSync instead, which pauses it in all of its Clusters.
    """
    if is_sync:
        asyncio.run(_set_suspended(management, cluster, suspended=True))
        output.say(f"Sync {cluster} is suspended; 'csctl resume --sync {cluster}' continues.")
        return
    asyncio.run(_set_paused(management, cluster, paused=True))
    output.say(f"The addons of Cluster {cluster} are suspended; 'csctl resume {cluster}' continues.")


@click.command(short_help="Continue the delivery to a Cluster, or of a sync.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@_SYNC
@cluster_options
def resume(cluster: ObjectKey, management: ManagementCluster, *, is_sync: bool) -> None:
    """Continue the delivery of the addons of a Cluster, or with --sync of a sync, after 'csctl suspend'."""
    if is_sync:
        asyncio.run(_set_suspended(management, cluster, suspended=False))
        output.say(f"Sync {cluster} is reconciled again.")
        return
    manifest = asyncio.run(_set_paused(management, cluster, paused=False))
    from clusterstacks.model.kinds.clusterapi import is_paused, unpause_hint

    if is_paused(manifest):
        output.warn(f"the addons are not reconciled, because {unpause_hint(cluster)}")
    else:
        output.say(f"The addons of Cluster {cluster} are reconciled again.")


async def _reconcile(
    management: ManagementCluster,
    key: ObjectKey,
    timeout: float | None,  # noqa: ASYNC109 - an option of the user
    *,
    is_sync: bool,
) -> _ReconcileRequest:
    """Annotate a Cluster, or those of a sync; return the reports when the request was handled, or without waiting."""
    requested = datetime.now(UTC).isoformat(timespec="microseconds")
    async with management.connected() as client:
        read = _request_of_sync if is_sync else _request_of_cluster
        request = await read(client, key, waits=timeout is not None)
        clusters = await served(client, CLUSTER_API_GROUP, CLUSTER_KIND)
        patch = {"metadata": {"annotations": {RECONCILE_ANNOTATION: requested}}}

        async def annotate(name: str) -> None:
            await client.merge_patch(clusters, name, patch, key.namespace, manager=MANAGER)

        await gather(annotate, request.clusters)
        if timeout is None:
            return request
        try:
            async with asyncio.timeout(timeout):
                while request.pending(requested):
                    await asyncio.sleep(POLL_SECONDS)
                    await _read_again(client, request)
        except TimeoutError:
            kind = "sync" if is_sync else "Cluster"
            problem = f"the operator has not handled the request for {kind} {key} within {duration_text(timeout)}"
            place = f"{key.namespace}/{request.clusters[0]}"
            if is_sync:
                place = f"{key.namespace}/{text(request.pending(requested)[0], 'spec', 'clusterName')}"
            raise DependencyError("NotHandled", f"{problem}: 'csctl status {place}' shows what it waits for") from None
    return request


async def _request_of_cluster(client: Client, key: ObjectKey, *, waits: bool) -> _ReconcileRequest:
    of_cluster = replace(BINDINGS, namespace=key.namespace, labels=f"{CLUSTER_NAME_LABEL}={key.name}")
    (bindings,) = await read_all(client, [replace(of_cluster, consequence="syncs are not waited for")])
    cluster = await get_cluster(client, key)
    addon = await _find_addon(client, key)
    if addon is None and not bindings:
        raise _no_addon(key, cluster)
    if waits:
        _require_running(key, cluster, addon or {})
    return _ReconcileRequest([key.name], addon, _running(bindings or []) if waits else bindings or [])


async def _request_of_sync(client: Client, key: ObjectKey, *, waits: bool) -> _ReconcileRequest:
    (listed,) = await read_all(client, [replace(BINDINGS, namespace=key.namespace)])
    bindings = [binding for binding in listed or () if text(binding, "spec", "syncName") == key.name]
    if not bindings:
        known = "'csctl status --syncs' lists the syncs"
        raise SpecError("NoClusters", f"sync {key} does not exist, or selects no Cluster: {known}")
    running = _running(bindings) if waits else bindings
    if not running:
        remedy = f"'csctl resume --sync {key}' continues a suspended sync; or use --no-wait"
        raise SpecError("Paused", f"sync {key} is paused in all of its Clusters, so nothing is compared: {remedy}")
    return _ReconcileRequest([text(binding, "spec", "clusterName") for binding in running], None, running)


def _running(bindings: Sequence[Manifest]) -> list[Manifest]:
    """Return the bindings that are not paused, which would not handle a request; warn about the others."""
    from clusterstacks.plan.clusters.sync_summary import sync_state

    running = []
    for binding in bindings:
        state = sync_state(binding)
        if state.concern.type == AddonCondition.PAUSED:
            place = f"sync {state.name} in Cluster {text(binding, 'spec', 'clusterName')}"
            output.warn(f"{place} is not compared: {state.concern.message}")
        else:
            running.append(binding)
    return running


async def _read_again(client: Client, request: _ReconcileRequest) -> None:
    if request.addon is not None:
        addons = await served(client, GROUP, Kind.CLUSTER_ADDON)
        namespace, name = (text(request.addon, "metadata", part) for part in ("namespace", "name"))
        request.addon = await client.get(addons, name, namespace)
    if request.bindings:
        resource = await served(client, SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING)
        listed = await client.list(resource, text(request.bindings[0], "metadata", "namespace"))
        # One that was deleted in the meantime is not waited for.
        awaited = {text(binding, "metadata", "uid") for binding in request.bindings}
        request.bindings = [one for one in listed.items if text(one, "metadata", "uid") in awaited]


def _require_running(key: ObjectKey, cluster: Manifest, addon: Manifest) -> None:
    """Refuse to wait for a paused Cluster."""
    from clusterstacks.model.kinds.clusterapi import is_paused

    if is_paused(cluster) or is_paused(addon):
        remedy = f"run 'csctl resume {key}' first, or use --no-wait"
        raise SpecError("Paused", f"the addons of Cluster {key} are paused, so nothing is compared: {remedy}")


async def _set_suspended(management: ManagementCluster, key: ObjectKey, *, suspended: bool) -> None:
    """Set spec.suspend of a sync, if it differs."""
    async with management.connected() as client:
        syncs = await served(client, SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC)
        sync = await client.find(syncs, key.name, key.namespace)
        if sync is None:
            raise SpecError("SyncNotFound", f"sync {key} does not exist: 'csctl status --syncs' lists the syncs")
        if (at(sync, "spec", "suspend") is True) is not suspended:
            await client.merge_patch(syncs, key.name, {"spec": {"suspend": suspended}}, key.namespace, manager=MANAGER)


async def _set_paused(management: ManagementCluster, key: ObjectKey, *, paused: bool) -> Manifest:
    """Set spec.paused of the ClusterAddon, if it differs; return the Cluster."""
    async with management.connected() as client:
        addons = await served(client, GROUP, Kind.CLUSTER_ADDON)
        cluster, addon = await _read(client, key)
        if (at(addon, "spec", "paused") is True) is not paused:
            name = text(addon, "metadata", "name")
            await client.merge_patch(addons, name, {"spec": {"paused": paused}}, key.namespace, manager=MANAGER)
    return cluster


async def _read(client: Client, key: ObjectKey) -> tuple[Manifest, Manifest]:
    """Read a Cluster and its ClusterAddon, which must both exist."""
    cluster = await get_cluster(client, key)
    addon = await _find_addon(client, key)
    if addon is None:
        raise _no_addon(key, cluster)
    return cluster, addon


async def _find_addon(client: Client, key: ObjectKey) -> Manifest | None:
    from clusterstacks.model.kinds.names import addon_name

    return await client.find(await served(client, GROUP, Kind.CLUSTER_ADDON), addon_name(key.name), key.namespace)


def _no_addon(key: ObjectKey, cluster: Manifest) -> SpecError:
    from clusterstacks.model.kinds.clusterapi import is_paused, unpause_hint

    if is_paused(cluster):
        return SpecError("Paused", f"Cluster {key} has no ClusterAddon yet, because {unpause_hint(key)}")
    problem = f"Cluster {key} has no ClusterAddon: its class is not one of a cluster stack, or the operator has not"
    return SpecError("NoClusterAddon", f"{problem} seen the Cluster yet; syncs have the option --sync")
