"""Completes names of live objects in a shell: read-only, without messages, and within two seconds."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from click.shell_completion import CompletionItem

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.net.kube.client import Client

READ_SECONDS = 1.5
"""Time for requests and credential plugins (arbitrary); a plugin that still runs is killed then."""

MAX_OBJECTS: Final = 1000
"""Objects whose names are read at most (arbitrary); a namespace before the cursor has its own."""


def matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the text before the cursor.

    The scripts of the shells insert a completion as it is, so a name that a shell would not read as one word, or as an
    option, is left out. Names of Kubernetes have no such characters, but a server or a kubeconfig may send anything.
    """
    from click.shell_completion import CompletionItem

    begun = (name for name in names if name.startswith(incomplete) and not name.startswith("-"))
    return [CompletionItem(name) for name in begun if shlex.quote(name) == name]


def complete(
    incomplete: str,
    connected: AbstractAsyncContextManager[Client],
    read: Callable[[Client], Awaitable[Iterable[str]]],
) -> list[CompletionItem]:
    """Return the names that ``read`` finds; none if the management cluster does not answer in time, or refuses."""
    try:
        return matching(asyncio.run(_read(connected, read)), incomplete)
    except (ClusterStacksError, OSError):
        return []


async def _read(
    connected: AbstractAsyncContextManager[Client], read: Callable[[Client], Awaitable[Iterable[str]]]
) -> Iterable[str]:
    async with asyncio.timeout(READ_SECONDS), connected as client:
        return await read(client)


async def namespaces(client: Client) -> list[str]:
    """Return the names of all namespaces."""
    return await _names(client, "", "Namespace")


async def clusters(client: Client, incomplete: str, default_namespace: str) -> list[str]:
    """Return the Clusters as ``NAMESPACE/NAME``: of the namespace before the cursor, otherwise of all.

    Those of the default namespace are also returned as ``NAME``. Users who may not list those of all namespaces get
    only these.
    """
    from clusterstacks.net.kube.errors import Forbidden

    namespace, slash, _ = incomplete.partition("/")
    wanted = [namespace] if slash else ["", default_namespace]
    for place in wanted:
        try:
            found = await _keys(client, CLUSTER_API_GROUP, CLUSTER_KIND, place)
            return [*(key.name for key in found if key.namespace == default_namespace), *map(str, found)]
        except Forbidden:
            continue
    return []


async def releases(client: Client, cluster: ObjectKey) -> list[str]:
    """Return the releases of the stack of a Cluster, which are beside its class; the newest first."""
    from clusterstacks.model.kinds.clusterapi import class_of
    from clusterstacks.model.names import parse_class, parse_release

    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    class_name, namespace = class_of(await client.get(resource, cluster.name, cluster.namespace))
    own, same_stack = parse_class(class_name), []
    for name in await _names(client, GROUP, Kind.CLUSTER_STACK_RELEASE, namespace):
        try:
            release = parse_release(name)
        except SpecError:
            continue
        if release.same_stack(own):
            same_stack.append(release)
    return [str(release) for release in sorted(same_stack, reverse=True)]


async def _names(client: Client, group: str, kind: str, namespace: str = "") -> list[str]:
    return [key.name for key in await _keys(client, group, kind, namespace)]


async def _keys(client: Client, group: str, kind: str, namespace: str) -> Sequence[ObjectKey]:
    return await client.list_keys(await client.resource(group, kind), namespace, limit=MAX_OBJECTS)
