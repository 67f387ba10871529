"""``csctl events``: list the events of a Cluster, its addons and its release."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.cli.shared.management_objects import ObjectQuery, read_objects
from clusterstacks.cli.shared.options import form_option
from clusterstacks.domain.objects import age

if TYPE_CHECKING:
    from clusterstacks.clusters.recent_events import ClusterEvent
    from clusterstacks.domain.objects import ObjectKey


@click.command(short_help="List the events of a Cluster and its addons.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
@form_option("table", "json", "yaml")
def events(cluster: ObjectKey, management: ManagementCluster, form: str) -> None:
    """List the events of a Cluster, its ClusterAddon, and the ClusterStackRelease of its class, the oldest first.

    An API server keeps events for one hour by default.
    """
    newest_first, notices = asyncio.run(_read(management, cluster))
    output.warn_all(notices)
    found = newest_first[::-1]
    if form != "table":
        output.print_document({"apiVersion": "v1", "kind": "List", "items": [one.manifest for one in found]}, form)
    elif not found:
        output.note(f"No events of Cluster {cluster}.")
    else:
        now = datetime.now(UTC)
        header = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
        rows = [(age(one.last_seen, now), one.type, one.reason, one.subject, one.message) for one in found]
        output.print_table(header, rows)


async def _read(management: ManagementCluster, key: ObjectKey) -> tuple[list[ClusterEvent], list[str]]:
    from clusterstacks.clusters.recent_events import read_events

    query = ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, key.namespace, name=key.name)
    async with management.connected() as client:
        (cluster,) = await read_objects(client, query)
        return await read_events(client, cluster)
