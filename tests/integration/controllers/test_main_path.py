"""From a ClusterStack to delivered addons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from tests.support.running.world import World


async def test_cluster_gets_the_addons_of_its_class(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace, a="1"))}))

    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        delivered = await world.delivered(world.namespace)
        assert delivered is not None
        assert delivered["data"] == {"a": "1"}
        cluster = await world.until("Cluster", "one", lambda one: condition_of(one, "ClusterStackAddonsReady"))
        assert condition_of(cluster, "ClusterStackAddonsReady")["status"] == "True"
