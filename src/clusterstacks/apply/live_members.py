"""Reads the live members of an ApplySet, with one metadata-only list per kind and scope."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.objects import Manifest, ObjectId
from clusterstacks.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.kube.client import Client
    from clusterstacks.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """Live members of an ApplySet.

    Args:
        live: The metadata of the members.
        places: The resources of their kinds, in a served version; kinds without an entry are not served.
    """

    live: Mapping[ObjectId, Manifest]
    places: Mapping[tuple[str, str], Resource]


async def read_live_members(
    client: Client,
    objects: Iterable[ObjectId],
    *,
    labels: str,
    places: Mapping[tuple[str, str], Resource] | None = None,
) -> LiveMembers:
    """Read the objects that have the labels.

    Args:
        client: The cluster.
        objects: The objects to read. A kind with objects in one namespace is listed there, others cluster-wide.
        labels: A label selector.
        places: Resources of kinds that need no discovery.
    """
    scopes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for identity in objects:
        scopes[identity.group, identity.kind].add(identity.namespace)
    live: dict[ObjectId, Manifest] = {}
    served: dict[tuple[str, str], Resource] = {}

    async def look(kind: tuple[str, str]) -> None:
        namespaces = scopes[kind]
        try:
            resource = (places or {}).get(kind) or await client.resource(*kind)
            listing = await client.list_metadata(
                resource, next(iter(namespaces)) if len(namespaces) == 1 else "", labels=labels
            )
        except KindNotServed:
            return
        served[kind] = resource
        live.update((_identity(resource, item), item) for item in listing.items)

    await gather(look, scopes)
    return LiveMembers(live, served)


def _identity(resource: Resource, item: Manifest) -> ObjectId:
    metadata = item["metadata"]
    return ObjectId(resource.group, resource.kind, metadata.get("namespace") or "", metadata["name"])
