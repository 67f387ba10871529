"""Waiting for what the server does in its own time: custom resources being served, objects being gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from clusterstacks.domain.objects import ObjectId
    from clusterstacks.kube.client import Client
    from clusterstacks.kube.resources import Resource

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
