"""Notices about successful deliveries."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from tests.support.running.world import World


async def test_other_field_manager_is_named_when_a_field_is_corrected(world: World) -> None:
    name = f"{world.namespace}-shared"
    for number in (1, 2):
        files = world.stack.files(f"v{number}", {"cni": templates(config_map(name, a=str(number)))})
        world.publish(world.stack.release(f"v{number}"), files)
    async with world.operator(drift_interval=None):  # a sweep would correct the field before the upgrade
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        await world.release_ready(world.stack.release("v2"))
        await world.cluster("one", world.stack.release("v1").class_name)
        await world.addons_ready("one", world.stack.release("v1").class_name)
        theirs = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "kube-system"},
            "data": {"a": "theirs"},
        }
        config_maps = await world.workload.resource("", "ConfigMap")
        await world.workload.apply(config_maps, theirs, manager="somebody", force=True)

        await world.set_class("one", world.stack.release("v2").class_name)
        addon = await world.addons_ready("one", world.stack.release("v2").class_name)

        live = await world.workload.get(config_maps, name, "kube-system")
        assert live["data"] == {"a": "2"}
        (event,) = [one for one in await world.events(addon) if one["reason"] == "FieldsTakenBack"]
        assert f'ConfigMap kube-system/{name}: .data.a is managed by "somebody"' in event["message"]


async def test_revision_too_large_for_its_record_is_reported_and_delivered(world: World) -> None:
    dice = random.Random(1)  # what cannot be compressed
    large = [config_map(f"{world.namespace}-{part}", text=dice.randbytes(400_000).hex()) for part in "abc"]
    hooks = {"AfterControlPlaneInitialized": [{**stage("cni"), "waitFor": "Healthy", "rollback": "OnFailure"}]}
    world.publish(world.stack.release("v1"), world.stack.files("v1", {"cni": templates(*large)}, hooks=hooks))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", world.stack.release("v1").class_name)
        addon = await world.addons_ready("one", world.stack.release("v1").class_name)

    condition = condition_of(addon, "HelmChartApplied")
    assert (condition["status"], condition["reason"]) == ("True", "RecordTruncated")
    assert "the manifests of cni do not fit into a Secret" in condition["message"]
    assert "so cni cannot be rolled back to this release" in condition["message"]
