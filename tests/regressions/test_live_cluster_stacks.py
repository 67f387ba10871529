"""Missing versions of a ClusterStack, and deletion of one of two equal stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.running.admission import guarded, refusal
from tests.support.running.world import LOOKING_OFTEN, condition_of, is_unready

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


def publish(world: World, *versions: str) -> None:
    for version in versions:
        world.publish(world.stack.release(version), world.stack.files(version, {}))


@pytest.mark.regression("LIVE-M6")
async def test_stack_is_not_ready_while_its_source_lacks_a_version(world: World) -> None:
    publish(world, "v1", "v3")
    async with world.operator(source=LOOKING_OFTEN):
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.until(Kind.CLUSTER_STACK, world.namespace, is_ready_condition)
        await world.patch(stack, {"spec": {"versions": ["v1", "v2"]}})
        name = world.stack.release("v2").release
        found = await world.says(Kind.CLUSTER_STACK, world.namespace, "Ready", "VersionsMissing")
        assert f"release {name} is not in " in found["message"]
        assert "it has v1, v3" in found["message"]
        manifest = await world.get(Kind.CLUSTER_STACK, world.namespace)
        assert condition_of(manifest, "ClusterStackReleaseAvailable")["status"] == "True"
        assert "VersionsMissing" in [event["reason"] for event in await world.events(manifest)]

        publish(world, "v2")
        manifest = await world.until(Kind.CLUSTER_STACK, world.namespace, is_ready_condition, nudging=True)
        assert not condition_of(manifest, "VersionsAvailable")


@pytest.mark.regression("LIVE-M6")
async def test_stack_without_releases_names_the_release_and_the_source(world: World) -> None:
    publish(world, "v1")
    ghost = {**world.stack.manifest(world.namespace, "v1"), "metadata": {"name": "ghost", "namespace": world.namespace}}
    ghost["spec"] = {**ghost["spec"], "name": f"{world.stack.word}x"}
    async with world.operator(source=LOOKING_OFTEN):
        await world.create(ghost)
        found = await world.says(Kind.CLUSTER_STACK, "ghost", "Ready", "VersionsMissing")
        assert f"release local-{world.stack.word}x-1-35-v1 is not in " in found["message"]
        assert f"similar: local-{world.stack.word}-1-35" in found["message"]
        assert is_unready(await world.get(Kind.CLUSTER_STACK_RELEASE, f"local-{world.stack.word}x-1-35-v1"))


def is_ready_condition(stack: Manifest) -> bool:
    return condition_of(stack, "Ready").get("status") == "True"


@pytest.mark.regression("LIVE-M7", "USER-4")
async def test_second_stack_can_be_deleted_while_another_keeps_the_releases(world: World) -> None:
    publish(world, "v1")
    name = world.stack.release("v1")
    plain = world.stack.manifest(world.namespace, "v1")
    second = {**plain, "metadata": {"name": "second", "namespace": world.namespace}}
    async with guarded(world):
        first = await world.create(plain)
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.create(second)
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: len(owners(one)) == 2)
        await world.delete(second)
        await world.gone(Kind.CLUSTER_STACK, "second")
        assert "is in use by Cluster" in await refusal(world.delete(first))
        assert await world.find(Kind.CLUSTER_STACK_RELEASE, name.release)


def owners(release: Manifest) -> list[Manifest]:
    return list(release["metadata"]["ownerReferences"])
