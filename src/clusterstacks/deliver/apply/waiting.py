"""Waits for the server: until CRDs are established, and until deleted objects are gone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.apply.live_fields import one_line
from clusterstacks.deliver.apply.ownership import OWNED_LABEL, OWNED_VALUE
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.errors import Expired
from clusterstacks.net.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import timedelta

    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client

FIRST_PAUSE_SECONDS = 0.02
"""A healthy server on one machine takes 11 to 17 ms (measured) for most of these changes."""

LONGEST_PAUSE_SECONDS = 1.0


class StillThere(DependencyError):
    """A deleted object still exists."""


def pauses(limit: timedelta) -> Iterator[float]:
    """Yield pauses in seconds between two checks: they double up to one second and add up to ``limit``."""
    left = limit.total_seconds()
    pause = FIRST_PAUSE_SECONDS
    while left > 0:
        yield min(pause, left)
        left -= pause
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def until_gone(client: Client, resource: Resource, identity: ObjectId, uid: str, limit: timedelta) -> None:
    """Wait until the object with this uid is gone.

    Raises:
        StillThere: It still exists after ``limit``; the message says what it waits for.
    """
    hanging = ""
    for pause in pauses(limit):
        live = await client.find(resource, identity.name, identity.namespace)
        if live is None or live["metadata"].get("uid") != uid:
            return
        hanging = describe_deletion(live)
        await asyncio.sleep(pause)
    raise StillThere("DeletionPending", f"{identity} {hanging}")


_ABOUT_DELETION: Final = ("Terminating", "NamespaceContent", "NamespaceDeletion", "NamespaceFinalizers")
"""Beginnings of the conditions of CRDs and Namespaces about their deletion."""


def describe_deletion(live: Manifest) -> str:
    """Return since when an object is being deleted, its finalizers, and what the server says about its content."""
    waits_for = [str(one) for one in live["metadata"].get("finalizers") or ()]
    conditions = [one for one in mappings(live, "status", "conditions") if one.get("status") == "True"]
    about = [text(one, "message") for one in conditions if text(one, "type").startswith(_ABOUT_DELETION)]
    if about:
        waits_for.append(f"its content: {'; '.join(map(one_line, about))}")
    since = f" since {when}" if (when := text(live, "metadata", "deletionTimestamp")) else ""
    return f"is being deleted{since} and waits for {', '.join(waits_for) or 'its content'}"


PAUSE_SECONDS = 1.0
"""Pause between two watches. It only slows down a server that ends watches at once; a healthy one takes a minute."""

CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


async def await_established(client: Client, crds: Mapping[str, Manifest], limit: timedelta) -> dict[str, str]:
    """Wait until CRDs are established, with one watch for all of them.

    Args:
        client: The cluster.
        crds: The CRDs by name, as the server returned them after the apply.
        limit: Time limit for all of them.

    Returns:
        The names of CRDs that are not established, with the reasons.
    """
    states = {name: _established_state(crd) for name, crd in crds.items()}
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while _is_open(states):
                await _follow(client, crds, states)
                if _is_open(states):
                    await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        pass
    return {
        name: f"it is not established after {limit.total_seconds():g} s" if state is None else state
        for name, state in states.items()
        if state != ""
    }


async def _follow(client: Client, crds: Mapping[str, Manifest], states: dict[str, str | None]) -> None:
    """Read one watch, which begins with the current state of every CRD, until all are decided or it ends."""
    labels = f"{OWNED_LABEL}={OWNED_VALUE}"
    try:
        async with aclosing(client.watch(CRDS, resource_version="0", labels=labels)) as events:
            async for event in events:
                crd = event.object
                name = crd["metadata"].get("name", "")
                # The server's cache may still contain an earlier CRD of this name.
                if event.type in {"ADDED", "MODIFIED"} and name in states and _same_object(crd, crds[name]):
                    states[name] = _established_state(crd)
                if not _is_open(states):
                    return
    except Expired:
        return


def _is_open(states: Mapping[str, str | None]) -> bool:
    return any(state is None for state in states.values())


def is_established(crd: Manifest) -> bool:
    """Return whether a CRD is established."""
    return _established_state(crd) == ""


def _established_state(crd: Manifest) -> str | None:
    """Return an empty text once established, the reason when that cannot happen, None while it is open."""
    conditions = {one.get("type"): one for one in (crd.get("status") or {}).get("conditions") or []}
    if _has_status(conditions, "Established", "True"):
        return ""
    if _has_status(conditions, "NamesAccepted", "False"):
        return f"its names are not accepted: {conditions['NamesAccepted'].get('message', '')}"
    return None


def _has_status(conditions: Mapping[Any, Mapping[str, Any]], condition: str, status: str) -> bool:
    return conditions.get(condition, {}).get("status") == status


def _same_object(one: Manifest, other: Manifest) -> bool:
    return bool(one["metadata"].get("uid") == other["metadata"].get("uid"))
