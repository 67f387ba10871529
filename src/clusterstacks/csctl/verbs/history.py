"""``csctl history``: list what each delivery of a Cluster's addons created, changed and removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.live_view import MARKS
from clusterstacks.csctl.shared.management_objects import get_cluster, served
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.documents import mappings
from clusterstacks.model.kinds.names import GROUP, Kind, addon_name
from clusterstacks.plan.clusters.cluster_tree import delivery_state
from clusterstacks.plan.clusters.deliveries import PastDelivery, past_deliveries

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest, ObjectKey

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


@click.command(short_help="List what each delivery to a Cluster changed.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@cluster_options
@form_option()
def history(cluster: ObjectKey, management: ManagementCluster, form: str) -> None:
    """List the last deliveries of the addons of a Cluster, the newest first.

    Below each delivery are the objects of each addon that it created (+), changed (~) and removed (-). The operator
    keeps the last 10 deliveries in status.history of the ClusterAddon, in at most 16 KiB: the oldest are dropped first,
    and long lists of objects are cut and counted. Corrections of drift are not deliveries: 'csctl status' shows them.
    """
    addon = asyncio.run(_read(management, cluster))
    if form != TEXT:
        output.print_document(mappings(addon, "status", "history"), form)
        return
    deliveries = past_deliveries(addon)
    if not deliveries:
        syncs = f"'csctl status {cluster}' shows the syncs, of which there is no history"
        output.note(f"There is no delivery of addons to Cluster {cluster} yet; {syncs}.")
    for delivery in deliveries:
        _print_delivery(delivery)


def _print_delivery(delivery: PastDelivery) -> None:
    state = delivery_state(delivery)
    mark = MARKS[state] if state else ResultMark.OPEN
    output.say_marked(mark.sign, f"{delivery.began}  {delivery.title}: {delivery.outcome}", mark.colour)
    if delivery.failure:
        output.say(f"    {delivery.failure}")
    output.say(f"    {delivery.numbers}")
    for title, sign, name in delivery.changes():
        if title:
            output.say(f"    {title}")
        else:
            output.say_marked(sign, name, _COLOURS[sign], indent=6)


async def _read(management: ManagementCluster, key: ObjectKey) -> Manifest:
    """Return the ClusterAddon; an empty object for a Cluster that has none."""
    async with management.connected() as client:
        addon = await client.find(await served(client, GROUP, Kind.CLUSTER_ADDON), addon_name(key.name), key.namespace)
        if addon is None:
            await get_cluster(client, key)
    return addon or {}
