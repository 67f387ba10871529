"""Upgrades of addons update every object to the new release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.manifests import crd
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import condition_of, install, is_ready, is_unready

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from tests.support.running.world import World


async def settled(world: World, version: str, cluster: str = "one") -> ReleaseName:
    """Create stack and cluster, and wait for the addons of a published release."""
    name = world.stack.release(version)
    await world.create(world.stack.manifest(world.namespace, version))
    await world.release_ready(name)
    await world.cluster(cluster, name.class_name)
    await world.addons_ready(cluster, name.class_name)
    return name


async def upgraded(world: World, version: str, cluster: str = "one") -> ReleaseName:
    """Want another version and move the cluster to its class."""
    name = world.stack.release(version)
    stack = await world.get(Kind.CLUSTER_STACK, world.namespace)
    await world.patch(stack, {"spec": {"versions": [*stack["spec"]["versions"], version]}})
    await world.release_ready(name)
    await world.set_class(cluster, name.class_name)
    return name


async def inventory(world: World, cluster: str = "one") -> set[str]:
    addon = await world.addon(cluster)
    return {one["name"] for one in addon["status"]["resources"]}


@pytest.mark.regression("D1")
async def test_upgrade_updates_every_object_to_the_new_release(world: World) -> None:
    word = world.namespace
    first = templates(config_map(f"{word}-stays", a="1"), config_map(f"{word}-goes"))
    world.publish(world.stack.release("v1"), world.stack.single_files("v1", first))
    world.publish(
        world.stack.release("v2"), world.stack.single_files("v2", templates(config_map(f"{word}-stays", a="2")))
    )
    async with world.operator():
        await settled(world, "v1")
        assert {one["status"] for one in (await world.addon("one"))["status"]["resources"]} == {"synced"}
        second = await upgraded(world, "v2")
        await world.addons_ready("one", second.class_name)

        stays = await world.delivered(f"{word}-stays")
        assert stays is not None
        assert stays["data"] == {"a": "2"}
        assert await world.delivered(f"{word}-goes") is None


@pytest.mark.regression("D15", "D16", "D59")
async def test_three_upgrades_prune_objects_of_the_previous_release(world: World) -> None:
    word = world.namespace
    for number in (1, 2, 3, 4):
        addon = templates(config_map(f"{word}-all"), config_map(f"{word}-only-{number}"))
        hooks = {hook: [stage("cni")] for hook in ("AfterControlPlaneInitialized", "BeforeClusterUpgrade")}
        world.publish(world.stack.release(f"v{number}"), world.stack.files(f"v{number}", {"cni": addon}, hooks=hooks))
    async with world.operator():
        await settled(world, "v1")
        for number in (2, 3, 4):
            name = await upgraded(world, f"v{number}")
            await world.addons_ready("one", name.class_name)

            assert await world.delivered(f"{word}-only-{number - 1}") is None
            assert await world.delivered(f"{word}-only-{number}") is not None
            assert await inventory(world) == {f"{word}-all", f"{word}-only-{number}"}


@pytest.mark.regression("D7")
async def test_upgrade_works_without_the_previous_release(world: World) -> None:
    word = world.namespace
    directory = world.publish(
        world.stack.release("v1"), world.stack.files("v1", {"cni": templates(config_map(f"{word}-old"))})
    )
    world.publish(world.stack.release("v2"), world.stack.files("v2", {"cni": templates(config_map(f"{word}-new"))}))
    async with world.operator():
        await settled(world, "v1")
    _remove(directory)
    _remove(world.cache)
    async with world.operator():
        second = await upgraded(world, "v2")
        await world.addons_ready("one", second.class_name)

        assert await world.delivered(f"{word}-old") is None
        assert await world.delivered(f"{word}-new") is not None


@pytest.mark.regression("D7")
async def test_addon_without_a_recorded_release_gets_the_one_of_its_class(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await settled(world, "v1")
        addon = await world.addon("one")
        await world.patch(addon, {"spec": {"clusterStack": None, "hook": "BeforeClusterUpgrade"}})
        await world.addons_ready("one", name.class_name)


@pytest.mark.regression("D14")
async def test_object_with_a_changed_api_version_is_kept(world: World) -> None:
    word = world.namespace
    group = f"{word}.example.org"
    await install(world.workload, [crd("Widget", group, versions=("v1", "v2"))])
    for version in ("v1", "v2"):
        widget = {"apiVersion": f"{group}/{version}", "kind": "Widget", "metadata": {"name": word}}
        world.publish(world.stack.release(version), world.stack.files(version, {"cni": templates(widget)}))
    async with world.operator():
        await settled(world, "v1")
        widgets = await world.workload.resource(group, "Widget")
        before = await world.workload.get(widgets, word, "kube-system")
        second = await upgraded(world, "v2")
        await world.addons_ready("one", second.class_name)

        after = await world.workload.get(widgets, word, "kube-system")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.regression("D80")
async def test_partially_failed_upgrade_is_completed(world: World) -> None:
    word = world.namespace
    gizmo = {"apiVersion": f"{word}.example.org/v1", "kind": "Gizmo", "metadata": {"name": word}}
    world.publish(world.stack.release("v1"), world.stack.files("v1", {"cni": templates(config_map(f"{word}-goes"))}))
    addon = templates(config_map(f"{word}-comes"), gizmo)
    world.publish(world.stack.release("v2"), world.stack.files("v2", {"cni": addon}))
    async with world.operator() as operator:
        first = await settled(world, "v1")
        second = await upgraded(world, "v2")
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartApplied")
        for _ in range(3):
            await world.look_again(operator, "clusteraddon", await world.addon("one"))
            addon_now = await world.addon("one")
            assert is_unready(addon_now)
            assert addon_now["spec"]["clusterStack"] == first.class_name, "recorded before it was there"
        assert await world.delivered(f"{word}-goes") is not None, "pruned before the new release was complete"

        await install(world.workload, [crd("Gizmo", f"{word}.example.org")])
        await world.until(
            Kind.CLUSTER_ADDON,
            "cluster-addon-one",
            lambda one: is_ready(one) and one["spec"]["clusterStack"] == second.class_name,
            nudging=True,
        )
        assert await world.delivered(f"{word}-goes") is None
        assert await inventory(world) == {f"{word}-comes", word}


@pytest.mark.regression("D81")
async def test_no_stage_runs_without_a_change(world: World) -> None:
    word = world.namespace
    addons = {"cni": templates(config_map(f"{word}-cni")), "check": templates(config_map(f"{word}-check"))}
    hooks = {"AfterControlPlaneInitialized": [stage("cni")], "BeforeClusterUpgrade": [stage("check")]}
    for version in ("v1", "v2"):
        world.publish(world.stack.release(version), world.stack.files(version, addons, hooks=hooks))
    async with world.operator():
        await settled(world, "v1")
    async with world.operator() as operator:
        addon = await world.addon("one")
        for _ in range(3):
            await world.look_again(operator, "clusteraddon", addon)
        assert await world.delivered(f"{word}-check") is None
        second = await upgraded(world, "v2")
        await world.addons_ready("one", second.class_name)
        assert await world.delivered(f"{word}-check") is not None, "the upgrade asked for it"


@pytest.mark.regression("D2", "D5", "D82")
async def test_only_the_rejected_object_is_reported(world: World) -> None:
    word = world.namespace
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": word}, "spec": {"replicas": -1}}
    files = world.stack.files("v1", {"cni": templates(config_map(word), deployment)})
    name = world.stack.release("v1")
    world.publish(name, files)
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        found = await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartApplied", "ObjectsApplyingOngoing")
        assert f"kube-system/{word}" in found["message"]
        assert "Deployment" in found["message"]
        assert "spec.replicas" in found["message"]
        assert "ConfigMap" not in found["message"]
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        addon = await world.addon("one")
        assert is_unready(addon)

        resources = {one["kind"]: one for one in addon["status"]["resources"]}
        assert resources["ConfigMap"]["status"] == "synced"
        assert resources["Deployment"]["status"] == "not-synced"
        assert "spec.replicas" in resources["Deployment"]["error"]
        assert condition_of(addon, "Ready")["status"] == "False"


def _remove(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()
