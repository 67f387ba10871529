"""``csctl reconcile``, ``suspend`` and ``resume``: request work on the addons of a Cluster, or pause it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.management_objects import served
from clusterstacks.csctl.shared.options import Seconds
from clusterstacks.model.documents import at, text
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    GROUP,
    RECONCILE_ANNOTATION,
    AddonCondition,
    Kind,
)

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource

MANAGER: Final = "csctl"
"""Field manager of csctl."""

POLL_SECONDS: Final = 0.5
"""Interval at which the ClusterAddon is read while csctl waits (arbitrary)."""


@click.command(short_help="Compare and restore the addon objects of a Cluster now.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
@click.option("--no-wait", is_flag=True, help="Do not wait until the operator has handled the request.")
@click.option("--timeout", type=Seconds(), default=120.0, show_default=True, help="Maximum time to wait.")
def reconcile(cluster: ObjectKey, management: ManagementCluster, timeout: float, *, no_wait: bool) -> None:
    """Make the operator compare all delivered objects of a Cluster at once, and restore those that differ.

    csctl annotates the Cluster, and waits until the ClusterAddon reports that the request was handled. Objects in which
    nothing differs are not written. With spec.drift.mode Warn of the ClusterStack, differences are only reported.
    """
    addon = asyncio.run(_reconcile(management, cluster, None if no_wait else timeout))
    if addon is None:
        output.say(f"Requested for Cluster {cluster}.")
        return
    from clusterstacks.plan.clusters.cluster_summary import summarize

    in_sync = summarize({"metadata": {"name": cluster.name}}, addon).conditions.get(AddonCondition.IN_SYNC)
    output.say(f"All addon objects of Cluster {cluster} were compared.")
    if in_sync is not None and in_sync.status != "True":
        output.warn(in_sync.message or in_sync.reason)


@click.command(short_help="Pause the delivery of the addons of a Cluster.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
def suspend(cluster: ObjectKey, management: ManagementCluster) -> None:
    """Pause the delivery and the drift correction of the addons of a Cluster, until 'csctl resume'.

    csctl sets spec.paused of the ClusterAddon. Cluster API continues to reconcile the Cluster.
    """
    asyncio.run(_set_paused(management, cluster, paused=True))
    output.say(f"The addons of Cluster {cluster} are suspended; 'csctl resume {cluster}' continues.")


@click.command(short_help="Continue the delivery of the addons of a Cluster.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
def resume(cluster: ObjectKey, management: ManagementCluster) -> None:
    """Continue the delivery of the addons of a Cluster after 'csctl suspend'."""
    manifest = asyncio.run(_set_paused(management, cluster, paused=False))
    from clusterstacks.model.kinds.clusterapi import is_paused, unpause_hint

    if is_paused(manifest):
        output.warn(f"the addons are not reconciled, because {unpause_hint(cluster)}")
    else:
        output.say(f"The addons of Cluster {cluster} are reconciled again.")


async def _reconcile(management: ManagementCluster, key: ObjectKey, timeout: float | None) -> Manifest | None:  # noqa: ASYNC109 - an option of the user
    """Annotate a Cluster; return its ClusterAddon when the request was handled, None without waiting."""
    requested = datetime.now(UTC).isoformat(timespec="microseconds")
    async with management.connected() as client:
        addons = await served(client, GROUP, Kind.CLUSTER_ADDON)
        cluster, addon = await _read(client, addons, key)
        if timeout is not None:
            _require_running(key, cluster, addon)
        clusters = await served(client, CLUSTER_API_GROUP, CLUSTER_KIND)
        patch = {"metadata": {"annotations": {RECONCILE_ANNOTATION: requested}}}
        await client.merge_patch(clusters, key.name, patch, key.namespace, manager=MANAGER)
        if timeout is None:
            return None
        try:
            async with asyncio.timeout(timeout):
                while text(addon, "status", "lastHandledReconcileAt") != requested:
                    await asyncio.sleep(POLL_SECONDS)
                    addon = await client.get(addons, text(addon, "metadata", "name"), key.namespace)
        except TimeoutError:
            problem = f"the operator has not handled the request for Cluster {key} within {timeout:g} s"
            raise DependencyError("NotHandled", f"{problem}: 'csctl status {key}' shows what it waits for") from None
    return addon


def _require_running(key: ObjectKey, cluster: Manifest, addon: Manifest) -> None:
    """Refuse to wait for a paused Cluster."""
    from clusterstacks.model.kinds.clusterapi import is_paused

    if is_paused(cluster) or is_paused(addon):
        remedy = f"run 'csctl resume {key}' first, or use --no-wait"
        raise SpecError("Paused", f"the addons of Cluster {key} are paused, so nothing is compared: {remedy}")


async def _set_paused(management: ManagementCluster, key: ObjectKey, *, paused: bool) -> Manifest:
    """Set spec.paused of the ClusterAddon, if it differs; return the Cluster."""
    async with management.connected() as client:
        addons = await served(client, GROUP, Kind.CLUSTER_ADDON)
        cluster, addon = await _read(client, addons, key)
        if (at(addon, "spec", "paused") is True) is not paused:
            name = text(addon, "metadata", "name")
            await client.merge_patch(addons, name, {"spec": {"paused": paused}}, key.namespace, manager=MANAGER)
    return cluster


async def _read(client: Client, addons: Resource, key: ObjectKey) -> tuple[Manifest, Manifest]:
    """Read a Cluster and its ClusterAddon, which must both exist."""
    from clusterstacks.model.kinds.names import addon_name

    cluster = await client.get(await served(client, CLUSTER_API_GROUP, CLUSTER_KIND), key.name, key.namespace)
    addon = await client.find(addons, addon_name(key.name), key.namespace)
    if addon is None:
        from clusterstacks.model.kinds.clusterapi import is_paused, unpause_hint

        if is_paused(cluster):
            raise SpecError("Paused", f"Cluster {key} has no ClusterAddon yet, because {unpause_hint(key)}")
        problem = f"Cluster {key} has no ClusterAddon: its class is not one of a cluster stack, or the operator has not"
        raise SpecError("NoClusterAddon", f"{problem} seen the Cluster yet")
    return cluster, addon
