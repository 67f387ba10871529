"""Conditions that scripts of Go operator users wait for, and the start of addon delivery."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import Kind
from clusterstacks.operator.controllers.clusteraddon import workload_gate
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import cluster_manifest, condition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


@pytest.mark.regression("DROP-M4")
async def test_conditions_of_the_go_operator_are_set(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))

    def says(condition: str) -> Callable[[Manifest], bool]:
        def true(manifest: Manifest) -> bool:
            return condition_of(manifest, condition).get("status") == "True"

        return true

    async with world.operator():
        manifest = world.stack.manifest(world.namespace, "v1")
        manifest["spec"]["autoSubscribe"] = True
        stack = await world.create(manifest)
        await world.until(Kind.CLUSTER_STACK, stack["metadata"]["name"], says("AssetsClientAPIAvailable"))
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, says("AssetsClientAPIAvailable"))
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, says("ClusterStackReleaseDownloaded"))
        await world.cluster("one", name.class_name)
        await world.until(Kind.CLUSTER_ADDON, addon_name("one"), says("ClusterStackReleaseDownloaded"))
        await world.addons_ready("one", name.class_name)


@pytest.mark.regression("DROP-M5")
async def test_cluster_whose_provider_reports_no_version_gets_its_addons(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    async with world.operator():
        cluster = await world.cluster("one", name.class_name, ready=False)
        await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "ClusterReady", words=["the control plane of Cluster"])

        monkeypatch.setattr(workload_gate, "REPORTED_WITHIN", timedelta())
        await world.nudge(cluster)
        await world.addons_ready("one", name.class_name)


@pytest.mark.regression("DROP-M5")
async def test_unreachable_cluster_is_awaited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_gate, "REPORTED_WITHIN", timedelta())
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    async with world.operator():
        await world.create(cluster_manifest(world.namespace, "one", name.class_name))
        words = ["the control plane of Cluster", f"Secret {world.namespace}/one-kubeconfig does not exist yet"]
        await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "ClusterReady", words=words)


@pytest.mark.regression("DROP-L5")
async def test_stack_without_versions_has_a_condition_despite_existing_releases(world: World) -> None:
    world.publish(world.stack.release("v1"), world.stack.files("v1", {}))
    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, autoSubscribe=False))

        words = ["spec.versions is empty and spec.autoSubscribe is false: name a version, or set autoSubscribe"]
        await world.says(Kind.CLUSTER_STACK, stack["metadata"]["name"], "ClusterStackReleaseAvailable", words=words)
