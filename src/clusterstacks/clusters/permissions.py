"""Reading what a user may not be allowed to see: the answer then is less complete, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from clusterstacks.kube.errors import Forbidden, KindNotServed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

T = TypeVar("T")


async def or_else(reading: Awaitable[T], otherwise: T, consequence: str, notices: list[str]) -> T:
    """Read what can be done without.

    Args:
        reading: Reads it.
        otherwise: What is taken when this user may not read it, or the cluster does not have the kind.
        consequence: What that means, for a person.
        notices: Gets cause and consequence.

    Raises:
        ClusterStacksError: It cannot be read for another reason.
    """
    try:
        return await reading
    except (Forbidden, KindNotServed) as error:
        notices.append(f"{error.message}: {consequence}")
        return otherwise


async def listed(client: Client, group: str, kind: str, namespace: str = "", *, labels: str = "") -> list[Manifest]:
    """List the objects of a kind; there are none of a kind that is not installed."""
    try:
        resource = await client.resource(group, kind)
    except KindNotServed:
        return []
    return (await client.list(resource, namespace, labels=labels)).items
