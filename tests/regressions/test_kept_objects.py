"""Objects with ``helm.sh/resource-policy: keep`` are never deleted: not by an upgrade, a removal or a rollback."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.policy import HELM_POLICY_ANNOTATION
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import Kind
from clusterstacks.operator.controllers.clusteraddon import stage_run
from tests.support.builders.manifests import config_map, crd, deployment, named, with_annotation
from tests.support.builders.stacks import stage, templates

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("CASE-03")

ADDON = addon_name("one")
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def kept(word: str) -> list[dict[str, Any]]:
    """Return objects whose deletion would delete data, and a password that cannot be made again."""
    found = [
        named("v1", "PersistentVolumeClaim", f"{word}-data", "default", spec=CLAIM),
        named("v1", "Secret", f"{word}-ca", "default", data={"ca.key": "YQ=="}),
        crd("Kept", f"{word}.example.org", plural="kepts"),
    ]
    return [with_annotation(one, HELM_POLICY_ANNOTATION, "keep") for one in found]


async def deliver(world: World, *releases: dict[str, dict[str, str]], stages: Any = stage, **spec: Any) -> None:
    """Publish releases with these addons as v1, v2, ..., and deliver the first one."""
    names = [world.stack.release(f"v{number}") for number in range(1, len(releases) + 1)]
    for name, addons in zip(names, releases, strict=True):
        hooks = {"AfterControlPlaneInitialized": [stages(addon) for addon in addons]}
        world.publish(name, world.stack.files(str(name.version), addons, hooks=hooks))
    await world.create(world.stack.manifest(world.namespace, *(str(name.version) for name in names), **spec))
    for name in names:
        await world.release_ready(name)
    await world.cluster("one", names[0].class_name)
    await world.addons_ready("one", names[0].class_name)


async def are_left(world: World) -> None:
    """Assert that none of the objects is deleted or being deleted, and that an event tells which were kept, and why."""
    for one in kept(world.namespace):
        group = one["apiVersion"].rpartition("/")[0]
        resource = await world.workload.resource(group, one["kind"])
        live = await world.workload.get(resource, one["metadata"]["name"], one["metadata"].get("namespace", ""))
        assert "deletionTimestamp" not in live["metadata"]
    (event,) = [one for one in await world.events(await world.addon("one")) if one["reason"] == "ObjectsKept"]
    for one in kept(world.namespace):
        assert f"{one['metadata']['name']}: its annotation {HELM_POLICY_ANNOTATION} is keep" in event["message"]


@pytest.mark.regression("CASE-03")
async def test_objects_that_a_release_drops_are_kept(world: World) -> None:
    word = world.namespace
    marker = config_map(f"{word}-marker", "default")
    async with world.operator():
        await deliver(world, {word: templates(marker, *kept(word))}, {word: templates(marker)})
        await world.set_class("one", world.stack.release("v2").class_name)
        await world.addons_ready("one", world.stack.release("v2").class_name)

        await are_left(world)


@pytest.mark.regression("CASE-03")
async def test_objects_of_an_addon_that_a_release_drops_are_kept(world: World) -> None:
    word = world.namespace
    left = {"a": templates(config_map(word, "default"))}
    async with world.operator():
        await deliver(world, {**left, "b": templates(config_map(f"{word}-x", "default"), *kept(word))}, left)
        await world.set_class("one", world.stack.release("v2").class_name)
        await world.addons_ready("one", world.stack.release("v2").class_name)

        assert await world.delivered(f"{word}-x", "default") is None
        await are_left(world)


@pytest.mark.regression("CASE-03")
async def test_objects_of_a_stage_that_deletes_an_addon_are_kept(world: World) -> None:
    word = world.namespace
    addons = {"kept": templates(config_map(f"{word}-x", "default"), *kept(word))}
    name = world.stack.release("v2")
    async with world.operator():
        await deliver(world, addons)
        hooks = {"AfterControlPlaneInitialized": [stage("kept", "delete")]}
        world.publish(name, world.stack.files("v2", addons, hooks=hooks))
        await world.patch(world.stack.manifest(word, "v1"), {"spec": {"versions": ["v1", "v2"]}})
        await world.release_ready(name)
        await world.set_class("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        assert await world.delivered(f"{word}-x", "default") is None
        await are_left(world)


@pytest.mark.regression("CASE-03")
async def test_objects_of_a_cluster_that_left_its_stack_are_kept(world: World) -> None:
    word = world.namespace
    async with world.operator():
        addons = {word: templates(config_map(f"{word}-x", "default"), *kept(word))}
        await deliver(world, addons, deletionPolicy="Delete")

        await world.set_class("one", "plain")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "AddonsDeleted")

        assert await world.delivered(f"{word}-x", "default") is None
        await are_left(world)


@pytest.mark.regression("CASE-03")
async def test_objects_of_a_revision_that_was_rolled_back_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_run, "RETRY", timedelta(seconds=0.3))
    word = world.namespace
    first = templates(config_map(f"{word}-marker", "default"))
    second = templates(deployment(word, "default"), config_map(f"{word}-x", "default"), *kept(word))

    def careful(addon: str) -> dict[str, Any]:
        return stage(addon, waitFor="Healthy", timeout="1s", rollback="OnFailure")

    async with world.operator():
        await deliver(world, {word: first}, {word: second}, stages=careful)
        await world.set_class("one", world.stack.release("v2").class_name)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack")

        assert await world.delivered(f"{word}-x", "default") is None
        await are_left(world)
