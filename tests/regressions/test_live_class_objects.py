"""Manually changed or deleted class objects are restored; an unusable class has a condition."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_CLASS_KIND, Kind
from tests.support.builders.stacks import INFRASTRUCTURE
from tests.support.observing.write_counter import writes
from tests.support.running.world import condition_of, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.running.world import World

GROUP = INFRASTRUCTURE.partition("/")[0]
TEMPLATE = "TinyClusterTemplate"


def cluster_class(world: World) -> Manifest:
    manifest = world.stack.cluster_class("v1")
    reference = {**manifest["spec"]["infrastructure"]["templateRef"], "apiVersion": INFRASTRUCTURE}
    variables = [{"name": "environment", "required": False}]
    return {**manifest, "spec": {"infrastructure": {"templateRef": reference}, "variables": variables}}


class Rival:
    """Another writer that changes a template again and again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._written = 0

    async def run(self, name: str, namespace: str) -> None:
        resource = await self._client.resource(GROUP, TEMPLATE)
        while True:
            patch = {"spec": {"template": {"spec": {"size": 2 + self._written % 8}}}}
            await self._client.merge_patch(resource, name, patch, namespace, manager="rival")
            self._written += 1
            await asyncio.sleep(0.05)

    async def writes_more(self, number: int) -> None:
        wanted = self._written + number

        async def written() -> bool:
            return self._written >= wanted

        await eventually(written, about="changes of the rival")


async def ready_release(world: World) -> ReleaseName:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}, class_objects=[cluster_class(world), world.stack.object("v1")]))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    await world.release_ready(name)
    return name


async def restored(world: World, name: ReleaseName, uid: str) -> Manifest:
    """Wait for another template of the name."""

    async def look() -> Manifest:
        found = await world.find(TEMPLATE, name.class_name, group=GROUP)
        assert found is not None
        assert found["metadata"]["uid"] != uid
        return found

    return await eventually(look, about=f"{TEMPLATE} {name.class_name} restored")


@pytest.mark.regression("LIVE-H3")
async def test_deleted_template_is_restored(world: World) -> None:
    async with world.operator():
        name = await ready_release(world)
        template = await world.find(TEMPLATE, name.class_name, group=GROUP)
        assert template is not None
        await world.delete(template)
        await restored(world, name, template["metadata"]["uid"])
        release = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)
        assert "ClassObjectsRestored" in [event["reason"] for event in await world.events(release)]


@pytest.mark.regression("LIVE-H3")
async def test_changed_template_is_restored(world: World) -> None:
    async with world.operator():
        name = await ready_release(world)
        template = await world.find(TEMPLATE, name.class_name, group=GROUP)
        assert template is not None
        spec = template["spec"]
        changed = await world.patch(template, {"spec": {"template": {"spec": {"size": 3}}}})
        assert changed["spec"] != spec

        async def look() -> bool:
            found = await world.find(TEMPLATE, name.class_name, group=GROUP)
            assert found is not None
            assert found["spec"] == spec
            return True

        await eventually(look, about="the template as it was")


@pytest.mark.regression("LIVE-H3")
async def test_competing_writer_of_a_template_is_named_and_repairs_back_off(
    world: World,
) -> None:
    async with world.operator() as operator:
        name = await ready_release(world)
        began, before = time.monotonic(), await writes(world.client)
        rival = Rival(world.client)
        fight = asyncio.create_task(rival.run(name.class_name, world.namespace))
        words = [f"{TEMPLATE}.{GROUP} {world.namespace}/{name.class_name} was changed", "field manager 'rival'"]
        words.append("another writer changes objects of this class")
        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "Ready", "ClassObjectsChanged", words=words)
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        await rival.writes_more(20)
        await world.look_again(operator, "clusterstackrelease", release)
        after, events = await writes(world.client), await world.events(release)
        took = time.monotonic() - began
        fight.cancel()
        await asyncio.gather(fight, return_exceptions=True)

    # Two repairs at once, then after 10 s, 20 s, 40 s and so on; the first request of each shows who has the field.
    repairs = (after - before)["APPLY tinyclustertemplates/"] / 2
    assert 1 <= repairs <= 2 + math.log2(took / 10 + 1)
    assert (after - before)["PATCH clusterstackreleases/status"] <= 4 * repairs + 2
    assert "stop it" in found["message"]
    assert "field manager 'rival'" in " ".join(one["message"] for one in events)


@pytest.mark.regression("LIVE-H3")
async def test_variable_removed_from_the_class_is_restored(world: World) -> None:
    async with world.operator():
        name = await ready_release(world)
        manifest = await world.get(CLUSTER_CLASS_KIND, name.class_name)
        await world.patch(manifest, {"spec": {"variables": None}})

        async def look() -> bool:
            found = await world.get(CLUSTER_CLASS_KIND, name.class_name)
            assert found["spec"].get("variables") == manifest["spec"]["variables"]
            return True

        await eventually(look, about="the variables as they were")


@pytest.mark.regression("LIVE-H3")
async def test_objects_deleted_during_downtime_are_restored_at_startup(world: World) -> None:
    async with world.operator():
        name = await ready_release(world)
    template = await world.find(TEMPLATE, name.class_name, group=GROUP)
    assert template is not None
    await world.delete(template)
    async with world.operator():
        await restored(world, name, template["metadata"]["uid"])
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)


@pytest.mark.regression("LIVE-H3")
async def test_restart_writes_nothing_and_a_settled_release_reads_no_templates(
    world: World,
) -> None:
    async with world.operator() as operator:
        name = await ready_release(world)
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        await world.look_again(operator, "clusterstackrelease", release)
        await world.at_rest()
    before = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
    template = await world.find(TEMPLATE, name.class_name, group=GROUP)
    async with world.operator() as operator:
        await world.look_again(operator, "clusterstackrelease", before)
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        await world.look_again(operator, "clusterstackrelease", release)
        after = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        asked = {(request.verb, request.resource) for request in world.requests if request.group == GROUP}
    assert after["status"] == before["status"]
    assert await world.find(TEMPLATE, name.class_name, group=GROUP) == template
    assert asked == {("list", "tinyclustertemplates"), ("watch", "tinyclustertemplates")}


@pytest.mark.regression("LIVE-H3")
async def test_class_with_a_missing_template_has_a_condition(world: World) -> None:
    name = world.stack.release("v1")
    objects = [cluster_class(world)]  # its chart forgets the template
    world.publish(name, world.stack.files("v1", {}, class_objects=objects))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)  # the Cluster API of these tests accepts every class
        manifest = await world.get(CLUSTER_CLASS_KIND, name.class_name)
        condition = {"type": "VariablesReady", "status": "False", "reason": "InternalError", "message": "see the log"}
        await world.patch(manifest, {"status": {"conditions": [condition]}}, "status")
        words = [f"refers to {TEMPLATE} {name.class_name}, which does not exist"]
        found = await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "ClusterClassAccepted", "ClusterClassNotAccepted", words=words
        )
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert condition_of(release, "Ready")["message"] == found["message"]
