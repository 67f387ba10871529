"""Reads objects that a user may not be allowed to read: the result is then less complete, with a notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from clusterstacks.net.kube.errors import Forbidden, KindNotServed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

T = TypeVar("T")


async def or_else(reading: Awaitable[T], otherwise: T, consequence: str, notices: list[str]) -> T:
    """Read something that this user may not be allowed to read, or whose kind the cluster may not serve.

    In both cases return ``otherwise``, and add the cause and the consequence to the notices.
    """
    try:
        return await reading
    except (Forbidden, KindNotServed) as error:
        missing = error.missing if isinstance(error, Forbidden) else None
        notices.append(f"{missing or error.message}: {consequence}")
        return otherwise


async def listed(client: Client, group: str, kind: str, namespace: str = "", *, labels: str = "") -> list[Manifest]:
    """List the objects of a kind; an empty list for a kind that is not installed."""
    try:
        resource = await client.resource(group, kind)
    except KindNotServed:
        return []
    return (await client.list(resource, namespace, labels=labels)).items
