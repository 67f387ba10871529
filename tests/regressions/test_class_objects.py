"""Objects of a ClusterClass: own namespace, own errors, deleted with the release."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_CLASS_KIND, Kind
from tests.support.builders.stacks import INFRASTRUCTURE
from tests.support.running.world import condition_of, is_unready

if TYPE_CHECKING:
    from tests.support.running.world import World

GROUP = INFRASTRUCTURE.partition("/")[0]


@pytest.mark.regression("D2", "D5", "D82")
async def test_rejected_one_of_two_objects_with_the_same_name_is_reported(world: World) -> None:
    name = world.stack.release("v1")
    refused = {**world.stack.object("v1"), "kind": "TinyControlPlaneTemplate"}
    refused["spec"] = {"template": {"spec": {"size": 10}}}
    objects = [world.stack.cluster_class("v1"), world.stack.object("v1"), refused]
    world.publish(name, world.stack.files("v1", {}, class_objects=objects))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "HelmChartApplied", "ObjectsApplyingOngoing")
        for word in ("TinyControlPlaneTemplate", name.class_name, "spec.template.spec.size"):
            assert word in found["message"]
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        await world.look_again(operator, "clusterstackrelease", release)  # a retry takes nothing for granted either
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert is_unready(release)

        resources = {one["kind"]: one for one in release["status"]["resources"]}
        assert resources["TinyClusterTemplate"]["status"] == "synced"
        assert resources["TinyControlPlaneTemplate"]["status"] == "not-synced"
        assert "spec.template.spec.size" in resources["TinyControlPlaneTemplate"]["error"]
        assert condition_of(release, "Ready")["status"] == "False"


@pytest.mark.regression("D3")
async def test_deleted_release_deletes_everything_it_applied(world: World) -> None:
    name = world.stack.release("v1")
    directory = world.publish(name, world.stack.files("v1", {}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        assert {one["status"] for one in release["status"]["resources"]} == {"synced"}
        shutil.rmtree(directory)  # the Go operator drops its finalizer without any clean-up then
        shutil.rmtree(world.cache)
        await world.patch(await world.get(Kind.CLUSTER_STACK, world.namespace), {"spec": {"versions": []}})
        await world.delete(release)
        await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release)

        assert await world.find(CLUSTER_CLASS_KIND, name.class_name) is None
        assert await world.find("TinyClusterTemplate", name.class_name, group=GROUP) is None


@pytest.mark.regression("D18")
async def test_class_is_in_the_namespace_of_its_release(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)

        assert await world.find("TinyClusterTemplate", name.class_name, group=GROUP) is not None
