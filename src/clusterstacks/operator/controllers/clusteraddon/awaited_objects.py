"""Watches the objects of workload clusters that held upgrades wait for.

A waiting stage is checked every few seconds. While its wait holds an upgrade back, an event of an object that it
waits for enqueues the ClusterAddon at once, so that the upgrade is released as soon as the stage is complete.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import ClusterStacksError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.model.objects import ObjectId, ObjectKey
    from clusterstacks.net.kube.client import Client

WATCHED_OBJECTS: Final = 3
"""Objects of a stage that are watched, each over its own connection. An event of one that is healthy makes room for the
next one, so the last one is always watched. Arbitrary."""

EVENT_SPACING_SECONDS: Final = 0.2
"""Interval between two events of an object that enqueue the ClusterAddon: the owner of a workload cluster must not keep
the operator busy. Arbitrary, well below the half second in which an upgrade is to be released."""

SHORTEST_STREAM_SECONDS: Final = 5.0
"""Age of a stream from which it is opened again at its end; after a shorter one the next check of the stage opens it,
so that a server that ends all streams costs little. Arbitrary."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AwaitedObjects:
    """The watched objects by ClusterAddon, which ``changed`` enqueues."""

    changed: Callable[[ObjectKey], None]
    _watches: dict[ObjectKey, dict[ObjectId, asyncio.Task[None]]] = field(default_factory=dict, init=False)

    def follow(self, addon: ObjectKey, client: Client, objects: Sequence[ObjectId]) -> None:
        """Watch the first of these objects of a workload cluster for a ClusterAddon, and stop its other watches."""
        wanted = dict.fromkeys(objects[:WATCHED_OBJECTS])
        known = {identity: task for identity, task in self._watches.pop(addon, {}).items() if not task.done()}
        for identity in known.keys() - wanted.keys():
            known.pop(identity).cancel()
        for identity in wanted.keys() - known.keys():
            known[identity] = asyncio.create_task(self._watch(addon, client, identity), name=f"watch {identity}")
        if known:
            self._watches[addon] = known

    def forget(self, addon: ObjectKey) -> None:
        """Stop the watches of a ClusterAddon that is deleted, or for which nothing is delivered now."""
        for task in self._watches.pop(addon, {}).values():
            task.cancel()

    async def _watch(self, addon: ObjectKey, client: Client, awaited: ObjectId) -> None:
        """Watch one object until the stream fails, as it does when the connections of the cluster are closed.

        A stream begins with the current state of the object, so no change is lost between two streams.
        """
        clock = asyncio.get_running_loop().time
        try:
            resource = await client.resource(awaited.group, awaited.kind)
            ended_early = False
            while not ended_early:
                began = clock()
                stream = client.watch(
                    resource,
                    awaited.namespace if resource.namespaced else "",
                    resource_version="",
                    fields=f"metadata.name={awaited.name}",
                    metadata_only=True,
                )
                async with aclosing(stream) as events:
                    async for event in events:
                        if event.type != "BOOKMARK":
                            self.changed(addon)
                            await asyncio.sleep(EVENT_SPACING_SECONDS)
                ended_early = clock() - began < SHORTEST_STREAM_SECONDS
        except ClusterStacksError as error:
            log.debug("cannot watch %s: %s", awaited, error)
