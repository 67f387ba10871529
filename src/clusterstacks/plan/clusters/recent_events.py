"""Reads and describes the events of a Cluster, its ClusterAddon and its release, for csctl status and csctl ui."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.kinds.clusterapi import class_of
from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind, addon_name
from clusterstacks.model.names import InvalidName, parse_class
from clusterstacks.model.objects import drop_managed_fields
from clusterstacks.plan.clusters.permissions import or_else

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource

MAX_PAGES: Final = 10
"""Requests for the events of one object. Arbitrary: 2,000 events, while the API server keeps them for an hour."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event of either API."""

    manifest: Manifest

    @property
    def last_seen(self) -> str:
        """Time of the last occurrence (RFC 3339)."""
        event = self.manifest
        times = (text(event, "series", "lastObservedTime"), text(event, "lastTimestamp"), text(event, "eventTime"))
        return next(filter(None, times), text(event, "metadata", "creationTimestamp"))

    @property
    def type(self) -> str:
        """``Normal`` or ``Warning``."""
        return text(self.manifest, "type")

    @property
    def reason(self) -> str:
        """The reason, as the reporter writes it: ``UpgradeHeld``."""
        return text(self.manifest, "reason")

    @property
    def subject(self) -> str:
        """Kind and name of the object: ``Cluster/my-cluster``."""
        about = mapping(self.manifest, "involvedObject")
        return f"{text(about, 'kind')}/{text(about, 'name')}"

    @property
    def message(self) -> str:
        """The message in one line."""
        return " ".join(text(self.manifest, "message").split())

    def document(self) -> Manifest:
        """Return the event as JSON."""
        return {
            "lastSeen": self.last_seen,
            "type": self.type,
            "reason": self.reason,
            "subject": self.subject,
            "message": self.message,
        }


async def read_events(client: Client, cluster: Manifest) -> tuple[list[ClusterEvent], list[str]]:
    """Read the events of a Cluster, its ClusterAddon, and the ClusterStackRelease of its class, the newest first.

    There is one list for each of these objects, of at most ``MAX_PAGES`` pages. Return notices about missing events
    as well.

    Raises:
        DependencyError: The user may not read the events in the namespace of the Cluster, or there are too many.
    """
    name, namespace = text(cluster, "metadata", "name"), text(cluster, "metadata", "namespace")
    class_name, class_namespace = class_of(cluster)
    notices: list[str] = []
    resource = await client.resource("", "Event", "v1")
    reads = [
        _read(client, resource, namespace, CLUSTER_KIND, name),
        _read(client, resource, namespace, Kind.CLUSTER_ADDON, addon_name(name)),
    ]
    try:
        release = parse_class(class_name).release
    except InvalidName:
        belongs = f"class {class_name or '(none)'} does not belong to a cluster stack"
        notices.append(f"{belongs}: events of a release are not shown")
    else:
        of_release = _read(client, resource, class_namespace, Kind.CLUSTER_STACK_RELEASE, release)
        reads.append(or_else(of_release, [], "events of the release are not shown", notices))
    events = [ClusterEvent(event) for listed in await asyncio.gather(*reads) for event in listed]
    return sorted(events, key=lambda event: event.last_seen, reverse=True), notices


async def _read(client: Client, resource: Resource, namespace: str, kind: str, name: str) -> list[Manifest]:
    fields = f"involvedObject.kind={kind},involvedObject.name={name}"
    listed = await client.list(resource, namespace, fields=fields, pages=MAX_PAGES)
    return [drop_managed_fields(event) for event in listed.items]
