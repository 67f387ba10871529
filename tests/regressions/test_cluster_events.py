"""USER-8: events on the Cluster report the state of its addons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND
from tests.support.builders.stacks import config_map, templates

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("USER-8")


@pytest.mark.regression("USER-8")
async def test_failed_and_delivered_addons_are_events_of_the_cluster(world: World) -> None:
    first, second = world.stack.release("v1"), world.stack.release("v2")
    good = config_map(world.namespace)
    nameless = {**good, "metadata": {"generateName": "a-"}}
    world.publish(first, world.stack.files("v1", {"cni": templates(good)}))
    world.publish(second, world.stack.files("v2", {"cni": templates(nameless)}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        await world.release_ready(first)
        await world.release_ready(second)
        cluster = await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await world.set_class("one", second.class_name)
        await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsReady", words=["metadata.generateName"])
        await world.nudge(await world.addon("one"))
        await world.set_class("one", first.class_name)
        await world.addons_ready("one", first.class_name)

        told = await world.events(cluster)

    delivered = [one["message"] for one in told if one["reason"] == "AddonsDelivered"]
    assert f"the addons of class {first.class_name} are delivered" in delivered
    trouble = [one["message"] for one in told if one["type"] == "Warning"]
    assert len(trouble) == 1
    assert "metadata.generateName is not supported" in trouble[0]
