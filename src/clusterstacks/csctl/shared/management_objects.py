"""Reads and follows objects of the management cluster, with the rights of the user."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.shared import output
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, SYNC_GROUP, Kind
from clusterstacks.model.objects import ObjectKey, drop_managed_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.runtime.informer import Informer

MANAGER: Final = "csctl"
"""Field manager of csctl."""

SETTLE_SECONDS = 0.2
"""Delay after a change, so that changes of several objects are shown together (arbitrary)."""

OUTAGE_SECONDS = 2
"""Interval at which outages of the watches are reported (arbitrary)."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Failure of the watches of some kinds, the cause of the first of them, and its time (RFC 3339)."""

    what: str
    why: str
    since: str


@dataclass(frozen=True, slots=True)
class ObjectQuery:
    """Objects of one kind; an empty namespace or name means all."""

    group: str
    kind: str
    namespace: str = ""
    labels: str = ""
    """Label selector in the syntax of kubectl."""
    name: str = ""
    consequence: str = ""
    """Warning if the user may not read them; empty if they are required."""
    fallback: str = ""
    """Namespace to read instead if the user may not read all namespaces; empty for none."""
    is_new: bool = False
    """Whether older installations do not have the kind, which then has no objects."""


BINDINGS: Final = ObjectQuery(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING, is_new=True)

UPGRADES: Final = ObjectQuery(GROUP, Kind.CLUSTER_UPGRADE, consequence="running upgrades are not shown", is_new=True)


async def served(client: Client, group: str, kind: str) -> Resource:
    """Find the resource of a kind.

    Raises:
        KindNotServed: The management cluster does not serve it; the message says what to install.
    """
    from clusterstacks.net.kube.errors import KindNotServed

    try:
        return await client.resource(group, kind)
    except KindNotServed:
        remedy = (
            "install Cluster API with 'clusterctl init'"
            if group == CLUSTER_API_GROUP
            else "install the operator with 'csctl install', or only its definitions with 'csctl crds'"
        )
        raise KindNotServed(f"the management cluster does not serve {kind}: {remedy}") from None


async def get_cluster(client: Client, key: ObjectKey) -> Manifest:
    """Read a Cluster; raises as :func:`served` and :func:`~.live_cluster.find_cluster` of ``plan.clusters``."""
    from clusterstacks.plan.clusters.live_cluster import find_cluster

    await served(client, CLUSTER_API_GROUP, CLUSTER_KIND)
    return await find_cluster(client, key)


async def read_objects(client: Client, query: ObjectQuery) -> list[Manifest]:
    """Read the objects of a query, sorted by namespace and name, without managed fields.

    Raises:
        SpecError: The query names a Cluster that does not exist.
        NotFound: It names another object that does not exist.
        DependencyError: The kind is not served, or the user may not read it.
    """
    resource = await served(client, query.group, query.kind)
    if query.name and query.kind == CLUSTER_KIND:
        return [drop_managed_fields(await get_cluster(client, ObjectKey(query.namespace, query.name)))]
    if query.name:
        return [drop_managed_fields(await client.get(resource, query.name, query.namespace))]
    listed = await client.list(resource, query.namespace, labels=query.labels)
    return [drop_managed_fields(manifest) for manifest in listed.items]


async def read_all(
    client: Client, queries: Sequence[ObjectQuery], warn: Callable[[list[str]], None] = output.warn_all
) -> list[list[Manifest] | None]:
    """Read the objects of several queries; None, with a warning, for optional ones that the user may not read.

    Raises as :func:`read_objects` for a query that is not optional.
    """
    return [objects for _, objects in await _read_each(client, queries, warn)]


async def _read_each(
    client: Client, queries: Sequence[ObjectQuery], warn: Callable[[list[str]], None]
) -> list[tuple[ObjectQuery, list[Manifest] | None]]:
    """Read the objects of several queries; return each with the query that the rights of the user allow."""
    from clusterstacks.net.kube.errors import Forbidden, NotFound
    from clusterstacks.plan.clusters.permissions import or_else

    notices: list[str] = []

    async def read(query: ObjectQuery) -> tuple[ObjectQuery, list[Manifest] | None]:
        if not query.consequence:
            return query, await _read_known(client, query)
        try:
            return query, await or_else(_read_known(client, query), None, query.consequence, notices)
        except NotFound:
            return query, []

    async def read_within_rights(query: ObjectQuery) -> tuple[ObjectQuery, list[Manifest] | None]:
        if query.namespace or not query.fallback:
            return await read(query)
        try:
            return query, await _read_known(client, query)
        except Forbidden:
            if not query.consequence:
                shown = f"only those of namespace {query.fallback} are shown"
                notices.append(f"you may not list the {query.kind}s of all namespaces: {shown}")
            return await read(replace(query, namespace=query.fallback))

    results = await asyncio.gather(*map(read_within_rights, queries))
    warn(notices)
    return results


async def _read_known(client: Client, query: ObjectQuery) -> list[Manifest] | None:
    """Read the objects of a query; None for a new kind that the management cluster does not serve."""
    from clusterstacks.net.kube.errors import KindNotServed

    try:
        return await read_objects(client, query)
    except KindNotServed:
        if query.is_new:
            return None
        raise


async def follow(
    client: Client,
    queries: Sequence[ObjectQuery],
    show: Callable[[Sequence[list[Manifest]]], None],
    *,
    warn: Callable[[list[str]], None] = output.warn_all,
    on_outage: Callable[[Outage | None], None] | None = None,
) -> None:
    """Show the objects of several queries now and after each change, until the task is cancelled.

    ``show`` is called with the objects of each query, ``warn`` with the problems of optional queries that the user may
    not read, and ``on_outage`` at an interval with the kinds that cannot be read at the moment; None if there are none.
    """
    from clusterstacks.runtime.informer import Informer

    # An informer would retry for ever what the user may not read.
    read = await _read_each(client, queries, warn)
    informers = [
        Informer(client, query.group, query.kind, namespace=query.namespace, labels=query.labels) for query, _ in read
    ]
    running = [informer for informer, (_, objects) in zip(informers, read, strict=True) if objects is not None]
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for informer in running:
            informer.subscribe(lambda change: changed.set())  # noqa: ARG005 - any change counts
            tasks.create_task(informer.run())
        for informer in running:
            await informer.synced()
        if on_outage is not None:
            tasks.create_task(_report_outages(running, on_outage))
        while True:
            changed.clear()
            show([_matching(informer.cache.all(), query) for informer, query in zip(informers, queries, strict=True)])
            await changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)


async def _report_outages(informers: Sequence[Informer], on_outage: Callable[[Outage | None], None]) -> None:
    while True:
        on_outage(_outage(informers))
        await asyncio.sleep(OUTAGE_SECONDS)


def _outage(informers: Sequence[Informer]) -> Outage | None:
    failing = [informer for informer in informers if informer.health.is_failing]
    if not failing:
        return None
    first = min(failing, key=lambda informer: informer.health.failing_since).health
    what = "the management cluster" if len(failing) == len(informers) else ", ".join(map(str, failing))
    return Outage(what, first.why, datetime.fromtimestamp(first.failing_since, UTC).isoformat(timespec="seconds"))


def _matching(objects: list[Manifest], query: ObjectQuery) -> list[Manifest]:
    matching = [manifest for manifest in objects if query.name in ("", manifest["metadata"]["name"])]
    return sorted(
        matching, key=lambda manifest: (manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
    )
