"""``csctl events``: list the events of a Cluster, its addons and its release."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.cli.shared.options import form_option
from clusterstacks.domain.documents import mapping, text
from clusterstacks.domain.objects import age, drop_managed_fields

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest, ObjectKey


@click.command(short_help="List the events of a Cluster and its addons.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@cluster_options
@form_option("table", "json", "yaml")
def events(cluster: ObjectKey, management: ManagementCluster, form: str) -> None:
    """List the events of a Cluster, its ClusterAddon, and the ClusterStackRelease of its class, the oldest first.

    An API server keeps events for one hour by default.
    """
    found = asyncio.run(_read(management, cluster))
    if form != "table":
        output.print_document({"apiVersion": "v1", "kind": "List", "items": found}, form)
    elif not found:
        output.note(f"No events of Cluster {cluster}.")
    else:
        header = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
        output.print_table(header, [event_row(one, datetime.now(UTC)) for one in found])


def event_row(event: Manifest, now: datetime) -> tuple[str, ...]:
    """Return the cells of an event."""
    about = mapping(event, "involvedObject")
    subject = f"{text(about, 'kind')}/{text(about, 'name')}"
    message = " ".join(text(event, "message").split())
    return age(last_seen(event), now), text(event, "type"), text(event, "reason"), subject, message


def last_seen(event: Manifest) -> str:
    """Return the time of the last occurrence of an event, of either API (RFC 3339)."""
    times = (text(event, "series", "lastObservedTime"), text(event, "lastTimestamp"), text(event, "eventTime"))
    return next(filter(None, times), text(event, "metadata", "creationTimestamp"))


async def _read(management: ManagementCluster, key: ObjectKey) -> list[Manifest]:
    from clusterstacks.api.clusterapi import class_of
    from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, Kind, addon_name
    from clusterstacks.cli.shared.management_objects import served
    from clusterstacks.domain.errors import SpecError
    from clusterstacks.domain.names import parse_class

    async with management.connected() as client:
        cluster = await client.get(await served(client, CLUSTER_API_GROUP, CLUSTER_KIND), key.name, key.namespace)
        subjects = [(key.namespace, CLUSTER_KIND, key.name), (key.namespace, Kind.CLUSTER_ADDON, addon_name(key.name))]
        class_name, namespace = class_of(cluster)
        try:
            subjects.append((namespace, Kind.CLUSTER_STACK_RELEASE, parse_class(class_name).release))
        except SpecError:
            output.note(f"Class {class_name or '(none)'} of Cluster {key} does not belong to a cluster stack.")
        resource = await client.resource("", "Event", "v1")
        lists = await asyncio.gather(
            *(
                client.list(resource, place, fields=f"involvedObject.kind={kind},involvedObject.name={name}")
                for place, kind, name in subjects
            )
        )
    found = [drop_managed_fields(one) for listed in lists for one in listed.items]
    return sorted(found, key=last_seen)
