"""Waiting until CRDs are established: one watch for all of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from clusterstacks.apply.ownership import OWNED_LABEL, OWNED_VALUE
from clusterstacks.kube.errors import Expired
from clusterstacks.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

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
    states = {name: _state(crd) for name, crd in crds.items()}
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
                if event.type in {"ADDED", "MODIFIED"} and name in states and _same(crd, crds[name]):
                    states[name] = _state(crd)
                if not _is_open(states):
                    return
    except Expired:
        return


def _is_open(states: Mapping[str, str | None]) -> bool:
    return any(state is None for state in states.values())


def is_established(crd: Manifest) -> bool:
    """Tell whether a CRD is served."""
    return _state(crd) == ""


def _state(crd: Manifest) -> str | None:
    """Empty once established, a reason when it will not be, None while that is open."""
    conditions = {one.get("type"): one for one in (crd.get("status") or {}).get("conditions") or []}
    if _is(conditions, "Established", "True"):
        return ""
    if _is(conditions, "NamesAccepted", "False"):
        return f"its names are not accepted: {conditions['NamesAccepted'].get('message', '')}"
    return None


def _is(conditions: Mapping[Any, Mapping[str, Any]], condition: str, status: str) -> bool:
    return conditions.get(condition, {}).get("status") == status


def _same(one: Manifest, other: Manifest) -> bool:
    return bool(one["metadata"].get("uid") == other["metadata"].get("uid"))
