"""Waiting for what the server does in its own time: custom resources being served, objects being gone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from clusterstacks.apply.ownership import OWNED_LABEL, OWNED_VALUE
from clusterstacks.domain.errors import DependencyError
from clusterstacks.kube.errors import Expired
from clusterstacks.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import timedelta

    from clusterstacks.domain.objects import Manifest, ObjectId
    from clusterstacks.kube.client import Client

FIRST_PAUSE_SECONDS = 0.02
"""As long as a healthy server takes for most of what is waited for (LOCAL-CONTROL-PLANE section 11: 11 to 17 ms)."""

LONGEST_PAUSE_SECONDS = 1.0


class StillThere(DependencyError):
    """A deleted object is not gone yet."""


def pauses(limit: timedelta) -> Iterator[float]:
    """Give pauses in seconds between looks: doubling up to a second, together ``limit``."""
    left = limit.total_seconds()
    pause = FIRST_PAUSE_SECONDS
    while left > 0:
        yield min(pause, left)
        left -= pause
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def until_gone(client: Client, resource: Resource, identity: ObjectId, uid: str, limit: timedelta) -> None:
    """Return when the object with this uid is gone.

    Raises:
        StillThere: It is not, after ``limit``; names the finalizers it waits for.
    """
    waits_for: list[str] = []
    for pause in pauses(limit):
        live = await client.find(resource, identity.name, identity.namespace)
        if live is None or live["metadata"].get("uid") != uid:
            return
        waits_for = live["metadata"].get("finalizers") or []
        await asyncio.sleep(pause)
    reason = ", ".join(waits_for) or "the objects that depend on it"
    raise StillThere("DeletionPending", f"{identity} is being deleted and waits for {reason}")


PAUSE_SECONDS = 1.0
"""Between two watches. A healthy server ends one after a minute, so only one that ends them at once is slowed down."""

CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


async def await_established(client: Client, crds: Mapping[str, Manifest], limit: timedelta) -> dict[str, str]:
    """Wait for CRDs just applied.

    Args:
        client: The cluster.
        crds: By name, as the server answered them.
        limit: How long to wait for all of them.

    Returns:
        Name and reason of each that is not established.
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
    """Read one stream, which begins with the present state of every CRD, until all are settled or it ends."""
    labels = f"{OWNED_LABEL}={OWNED_VALUE}"
    try:
        async with aclosing(client.watch(CRDS, resource_version="0", labels=labels)) as events:
            async for event in events:
                crd = event.object
                name = crd["metadata"].get("name", "")
                # An earlier CRD of that name may be what the server's cache still shows.
                if event.type in {"ADDED", "MODIFIED"} and name in states and _same_object(crd, crds[name]):
                    states[name] = _established_state(crd)
                if not _is_open(states):
                    return
    except Expired:
        return


def _is_open(states: Mapping[str, str | None]) -> bool:
    return any(state is None for state in states.values())


def is_established(crd: Manifest) -> bool:
    """Tell whether a CRD is served."""
    return _established_state(crd) == ""


def _established_state(crd: Manifest) -> str | None:
    """Empty once established, a reason when it will not be, None while that is open."""
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
