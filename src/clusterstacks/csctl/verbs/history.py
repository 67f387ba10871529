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
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.names import GROUP, Kind, addon_name
from clusterstacks.plan.clusters.cluster_tree import delivery_state
from clusterstacks.plan.clusters.deliveries import PastDelivery, past_deliveries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client

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

    'clusterctl move' moves no status. Then the delivery records in the cluster say what an operator of another
    management cluster delivered.
    """
    addon, recorded = asyncio.run(_read(management, cluster))
    if form != TEXT:
        output.print_document(mappings(addon, "status", "history") or recorded, form)
        return
    deliveries = past_deliveries(addon)
    if recorded:
        output.note(f"The addons of Cluster {cluster} were delivered before its history here begins:")
        output.print_table(("ADDON", "RELEASE", "OBJECTS", "INPUTS"), [[*entry.values()] for entry in recorded])
    elif not deliveries:
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


async def _read(management: ManagementCluster, key: ObjectKey) -> tuple[Manifest, list[Manifest]]:
    """Return the ClusterAddon, which is empty for a Cluster that has none, and the records if it has no history."""
    async with management.connected() as client:
        addon = await client.find(await served(client, GROUP, Kind.CLUSTER_ADDON), addon_name(key.name), key.namespace)
        if addon is None:
            await get_cluster(client, key)
        releases = {text(one, "name"): text(one, "release") for one in mappings(addon or {}, "spec", "addons")}
        if not releases or past_deliveries(addon):
            return addon or {}, []
        return addon or {}, await _recorded(client, key, releases)


async def _recorded(client: Client, key: ObjectKey, releases: Mapping[str, str]) -> list[Manifest]:
    """Return an entry for each delivered addon, with what its delivery record says; ``releases`` are theirs."""
    from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
    from clusterstacks.operator.controllers.workload_clients import Workloads

    records: Mapping[str, DeliveryRecord] = {}
    try:
        async with Workloads(client) as workloads:
            records = await Delivery(await workloads.connect(key), RecordOwner(key)).records()
    except ClusterStacksError as error:
        output.warn_all([f"the delivery records cannot be read: {error.message}"])
    entries = []
    for addon, release in sorted(releases.items()):
        record = records.get(addon)
        known = (len(record.objects), record.inputs) if record is not None else ("", "")
        entries.append({"addon": addon, "release": release, "objects": known[0], "inputs": known[1]})
    return entries
