from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from clusterstacks.model.objects import ObjectId, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusteraddon.awaited_objects import (
    EVENT_SPACING_SECONDS,
    SHORTEST_STREAM_SECONDS,
    WATCHED_OBJECTS,
    AwaitedObjects,
)
from tests.support.fakes.api_server import FakeApi, unreachable
from tests.support.virtual_time import in_virtual_time

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
ADDON = ObjectKey("team", "cluster-addon-one")


def widget(name: str) -> ObjectId:
    return ObjectId("example.com", "Widget", "ns", name)


@dataclass
class World:
    """A workload cluster, and the times at which its ClusterAddon was enqueued."""

    api: FakeApi = field(default_factory=lambda: FakeApi(WIDGETS))
    times: list[float] = field(default_factory=list)
    watched: AwaitedObjects = field(init=False)

    def __post_init__(self) -> None:
        self.watched = AwaitedObjects(self._enqueue)

    def _enqueue(self, addon: ObjectKey) -> None:
        assert addon == ADDON
        self.times.append(asyncio.get_running_loop().time())

    async def create(self, *names: str) -> None:
        for name in names:
            manifest = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "ns"}}
            await self.api.create(WIDGETS, manifest, "ns")

    async def change(self, name: str) -> None:
        await self.api.merge_patch(WIDGETS, name, {"status": {"seen": len(self.times)}}, "ns")

    async def enqueued(self) -> int:
        """Count what was enqueued since the last call, a second later."""
        await asyncio.sleep(1)
        count = len(self.times)
        self.times.clear()
        return count

    def follow(self, *names: str) -> None:
        self.watched.follow(ADDON, self.api, [widget(name) for name in names])


@in_virtual_time
async def test_an_event_of_an_awaited_object_enqueues_also_of_one_that_did_not_exist() -> None:
    world = World()
    await world.create("a", "other")
    world.follow("a", "b")
    assert await world.enqueued() == 1, "a stream begins with the state of its object"
    await world.change("a")
    assert await world.enqueued() == 1
    await world.create("b")
    assert await world.enqueued() == 1
    await world.change("other")
    assert await world.enqueued() == 0


@in_virtual_time
async def test_the_first_objects_are_watched_and_those_that_are_no_longer_awaited_are_not() -> None:
    world, names = World(), [f"w{number}" for number in range(WATCHED_OBJECTS + 1)]
    await world.create(*names)
    world.follow(*names)
    assert await world.enqueued() == WATCHED_OBJECTS, "not the last one"
    world.follow(*names[1:])
    assert await world.enqueued() == 1, "the others are not watched anew"
    await world.change(names[0])
    assert await world.enqueued() == 0
    world.follow()
    await world.change(names[1])
    assert await world.enqueued() == 0
    world.follow(*names)
    await world.enqueued()
    world.watched.forget(ADDON)
    await world.change(names[1])
    assert await world.enqueued() == 0


@in_virtual_time
async def test_many_events_of_an_object_enqueue_at_intervals() -> None:
    world = World()
    await world.create("a")
    world.follow("a")
    for _ in range(20):
        await world.change("a")
        await asyncio.sleep(0)
    await asyncio.sleep(60)
    assert len(world.times) > 1
    assert all(later - time >= EVENT_SPACING_SECONDS for time, later in zip(world.times, world.times[1:], strict=False))


@in_virtual_time
async def test_a_stream_is_opened_again_at_once_only_after_a_while() -> None:
    world = World()
    await world.create("a")
    world.api.instant_ends = 1
    world.follow("a")
    await asyncio.sleep(60)
    assert world.api.count("watch") == 1, "a server that ends streams at once is left alone"
    world.follow("a")
    await asyncio.sleep(2 * SHORTEST_STREAM_SECONDS)
    world.api.end_watches()
    await asyncio.sleep(1)
    assert world.api.count("watch") == 3
    world.api.end_watches(unreachable())
    await asyncio.sleep(60)
    assert world.api.count("watch") == 3, "the connections of the cluster are closed"
    world.watched.forget(ADDON)


@in_virtual_time
async def test_a_kind_that_is_not_served_is_not_watched() -> None:
    world = World()
    world.api.unserve(WIDGETS)
    world.follow("a")
    await asyncio.sleep(60)
    assert world.api.count("watch") == 0
