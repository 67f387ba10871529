"""Reads the live members of an ApplySet, with one list per kind and scope; usually of the metadata only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.objects import Manifest, ObjectId
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.kube.paged_list import ListRequest, unchanged_list
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import ObjectList, Resource


Kind = tuple[str, str]
"""Group and kind."""

PIPELINED = 32
"""Lists that are requested together over one connection (arbitrary; an addon has some ten kinds)."""


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """Live members of an ApplySet.

    Args:
        live: The members; only their metadata unless their kind was read whole. Those of unchanged kinds are missing.
        places: The resources of their kinds, in a served version; kinds without an entry are not served.
        unreadable: Members that exceed the limits of what is read; only parts of their metadata are known.
        digests: Digests of the lists of the kinds, where they can be computed.
        unchanged: Kinds whose list has the digest that the caller knows.
    """

    live: Mapping[ObjectId, Manifest]
    places: Mapping[Kind, Resource]
    unreadable: Collection[ObjectId] = frozenset()
    digests: Mapping[Kind, bytes] = field(default_factory=dict)
    unchanged: Collection[Kind] = frozenset()


async def read_live_members(
    client: Client,
    objects: Iterable[ObjectId],
    *,
    labels: str,
    places: Mapping[Kind, Resource] | None = None,
    whole: Collection[ObjectId] = (),
    known: Mapping[Kind, bytes] | None = None,
) -> LiveMembers:
    """Read the objects that have the labels.

    Args:
        client: The cluster.
        objects: The objects to read. A kind with objects in one namespace is listed there, others cluster-wide.
        labels: A label selector.
        places: Resources of kinds that need no discovery.
        whole: Objects whose kinds are read with all fields; they are read if they can be.
        known: Digests of the lists whose objects need not be read again. If it is given, the lists are requested over
            one connection, which costs less than concurrent requests and takes longer.
    """
    scopes: dict[Kind, set[str]] = defaultdict(set)
    for identity in (*objects, *whole):
        scopes[identity.group, identity.kind].add(identity.namespace)
    requests = await _requests(client, scopes, {(one.group, one.kind) for one in whole}, labels, places or {})
    if known is None:
        return _members(requests, await gather(partial(_read, client), requests.values()))
    return _members(requests, await _read_changed(client, requests, known))


async def _read_changed(
    client: Client, requests: Mapping[Kind, ListRequest], known: Mapping[Kind, bytes]
) -> list[ObjectList | None]:
    """Read lists over one connection; decode only those without the known digest."""
    listings: dict[Kind, ObjectList | None] = {}
    pages: dict[Kind, bytes | None] = {}

    async def read(kind: Kind) -> ObjectList | None:
        return await _read(client, requests[kind], pages[kind], known.get(kind, b""))

    for begin in range(0, len(requests), PIPELINED):
        kinds = [*requests][begin : begin + PIPELINED]
        pages = dict(zip(kinds, await client.first_pages([requests[kind] for kind in kinds]), strict=True))
        listings |= {kind: unchanged_list(page, known.get(kind, b"")) for kind, page in pages.items()}
        changed = [kind for kind in kinds if listings[kind] is None]
        listings |= zip(changed, await gather(read, changed), strict=True)
    return list(listings.values())


async def _read(
    client: Client, request: ListRequest, first_page: bytes | None = None, known: bytes | None = None
) -> ObjectList | None:
    """Read a list; return None if its kind is not served."""
    try:
        return await client.read_list(request, first_page=first_page, known=known)
    except KindNotServed:
        return None


async def _requests(
    client: Client,
    scopes: Mapping[Kind, set[str]],
    whole: Collection[Kind],
    labels: str,
    places: Mapping[Kind, Resource],
) -> dict[Kind, ListRequest]:
    """Return the lists of the kinds that are served."""
    requests = {}
    for kind, namespaces in scopes.items():
        try:
            resource = places.get(kind) or await client.resource(*kind)
        except KindNotServed:
            continue
        namespace = next(iter(namespaces)) if len(namespaces) == 1 else ""
        requests[kind] = ListRequest(resource, namespace, labels, metadata_only=kind not in whole)
    return requests


def _members(requests: Mapping[Kind, ListRequest], listings: Iterable[ObjectList | None]) -> LiveMembers:
    live: dict[ObjectId, Manifest] = {}
    places: dict[Kind, Resource] = {}
    digests: dict[Kind, bytes] = {}
    unreadable: set[ObjectId] = set()
    unchanged: set[Kind] = set()
    for (kind, request), listing in zip(requests.items(), listings, strict=True):
        if listing is None:
            continue
        resource = request.resource
        places[kind] = resource
        if listing.unchanged:
            unchanged.add(kind)
        if listing.digest:
            digests[kind] = listing.digest
        broken = [one.object for one in listing.unreadable if one.key.name]
        live.update((_identity(resource, item), item) for item in (*listing.items, *broken))
        unreadable.update(_identity(resource, item) for item in broken)
    return LiveMembers(live, places, unreadable, digests, unchanged)


def _identity(resource: Resource, item: Manifest) -> ObjectId:
    metadata = item["metadata"]
    return ObjectId(resource.group, resource.kind, metadata.get("namespace") or "", metadata["name"])
