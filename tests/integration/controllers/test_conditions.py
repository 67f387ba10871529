"""Conditions as kubectl wait, kstatus, Flux and Argo CD read them, and the tables of kubectl get."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.health_rules import HealthState, health_of
from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


def ready_of(manifest: Manifest) -> Manifest:
    status = manifest["status"]
    assert status["observedGeneration"] == manifest["metadata"]["generation"]
    assert all(one["reason"] for one in status["conditions"])
    assert health_of(manifest, datetime.now(UTC)).state is HealthState.CURRENT, "by the rules of kstatus"
    return next(one for one in status["conditions"] if one["type"] == "Ready")


async def test_conditions_have_reasons_and_the_status_names_the_generation_that_it_is_of(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        await world.cluster("one", name.class_name)
        addon = await world.addons_ready("one", name.class_name)
        await world.at_rest()
        stack = await world.get(Kind.CLUSTER_STACK, stack["metadata"]["name"])
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, release["metadata"]["name"])
        addon = await world.addon("one")

        assert {ready_of(one)["message"] for one in (stack, release, addon)} == {
            "usable: v1",
            f"{len(release['status']['resources'])} objects for Kubernetes {release['status']['kubernetesVersion']}",
            "1 addon, 1 object",
        }

        kubectl = Kubectl(world.management_kubeconfig, world.namespace)
        for kind in ("clusterstacks", "clusterstackreleases", "clusteraddons"):
            header, row = kubectl("get", kind).splitlines()
            assert header.split()[:3] == ["NAME", "READY", "REASON"], kind
            assert row.split()[1:3] == ["True", "Ready"], kind
        assert "1 addon, 1 object" in kubectl("get", "clusteraddons", "--output", "wide")

        await world.patch(addon, {"spec": {"paused": True}})

        async def is_paused() -> bool:
            found = await world.addon("one")
            assert any(one["type"] == "Paused" for one in found["status"]["conditions"])
            assert found["metadata"]["generation"] > addon["metadata"]["generation"]
            assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
            return True

        await eventually(is_paused)
