"""A change of state is one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


async def told(world: World, manifest: Manifest) -> list[tuple[str, str]]:
    return sorted((event["type"], event["reason"]) for event in await world.events(manifest))


async def test_failure_and_recovery_are_one_event_each_despite_repeated_reconciles(world: World) -> None:
    name = world.stack.release("v1")
    good = world.stack.files("v1", {"cni": templates(config_map(world.namespace))})
    world.publish(name, good | {"metadata.yaml": b"[]"})
    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "ClusterStackReleaseDownloaded")
    async with world.operator():
        world.publish(name, good)
        release = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)
        await world.cluster("one", name.class_name)
        addon = await world.addons_ready("one", name.class_name)
    async with world.operator():
        await world.nudge(release)
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)

    assert await told(world, release) == [("Normal", "Ready"), ("Warning", "IssueWithReleaseAssets")]
    assert await told(world, addon) == [("Normal", "Ready")]
    assert ("Normal", "ClusterStackReleaseCreated") in await told(world, stack)
