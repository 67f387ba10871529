"""The operator keeps nothing of ClusterAddons that are gone."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import idle

if TYPE_CHECKING:
    from tests.support.running.world import World

WARM_UP = 5
CYCLES = 25
SPREAD = 10
"""Instances of one type that may come and go between two counts; what is kept of each cycle would be twice as many."""

BOUNDED = "clusterstacks.model.objects.ObjectKey"
"""Not compared: log records hold keys, and a queue may hold 64 outdated entries."""


@pytest.mark.timeout(600)
async def test_nothing_is_kept_of_clusteraddons_that_were_deleted(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"one": templates(config_map("one", word="one"))}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("c", name.class_name)
        await world.addons_ready("c", name.class_name)
        for _ in range(WARM_UP):
            await renew(world, name.class_name)
        await idle(operator)
        before = instances()
        for _ in range(CYCLES):
            await renew(world, name.class_name)
        await idle(operator)
        grown = instances() - before

    assert not {kind: number for kind, number in grown.items() if number > SPREAD and kind != BOUNDED}


async def renew(world: World, class_name: str) -> None:
    """Delete the ClusterAddon, and wait until another one is ready."""
    addon = await world.addon("c")
    await world.delete(addon)
    await world.gone(Kind.CLUSTER_ADDON, addon_name("c"), uid=addon["metadata"]["uid"])
    await world.addons_ready("c", class_name)


def instances() -> Counter[str]:
    """Count the live instances of the types of the operator, the tasks and futures, and the TLS contexts.

    Each workload client has its own context, which its connections keep alive.
    """
    gc.collect()
    types = (type(one) for one in gc.get_objects())
    names = (f"{one.__module__}.{one.__qualname__}" for one in types)
    return Counter(name for name in names if name.startswith(("clusterstacks.", "_asyncio.", "ssl.SSLContext")))
