"""A ClusterAddon may be deleted at any time: what the cluster has decides which stages run, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRETS
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, CLUSTER_KIND, Kind
from tests.integration.controllers.test_upgrade_holds import VERSIONS, begin, is_held
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
OLD, NEW, _ = VERSIONS
ADDONS = ("backup", "ccm", "agent", "after", "net")
"""In the order of an upgrade. An installation delivers ``net`` only."""


def publish(world: World, version: str) -> ReleaseName:
    """Publish a release whose first and fourth stage of an upgrade wait for a ConfigMap that names them."""
    hooks = {
        "AfterControlPlaneInitialized": [stage("net")],
        "BeforeClusterUpgrade": [stage("backup", waitForPostCondition=opened(world, "backup"))],
        "AfterControlPlaneUpgrade": [stage("ccm")],
        "AfterWorkersUpgrade": [stage("agent")],
        "AfterClusterUpgrade": [stage("after", waitForPreCondition=opened(world, "after"))],
    }
    charts = {name: templates(config_map(f"{world.namespace}-{name}", release=version)) for name in ADDONS}
    name = world.stack.release(version)
    world.publish(name, world.stack.files(version, charts, hooks=hooks))
    return name


def opened(world: World, name: str) -> Manifest:
    gate = {"key": "gate", "apiVersion": "v1", "kind": "ConfigMap", "name": f"{world.namespace}-gate"}
    return {"objects": [{**gate, "namespace": "kube-system"}], "conditions": f'"{name}" in gate.data'}


async def open_gates(world: World, *names: str) -> None:
    """Let the stages with these names continue, and no others."""
    metadata = {"name": f"{world.namespace}-gate", "namespace": "kube-system"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict.fromkeys(names, "open")}
    await world.workload.apply(await world.workload.resource("", "ConfigMap"), manifest, manager="tests", force=True)


async def cluster_with(world: World, *versions: str) -> list[ReleaseName]:
    """Offer releases, and install the first one."""
    names = [publish(world, version) for version in versions]
    await world.create(world.stack.manifest(world.namespace, *versions))
    for name in names:
        await world.release_ready(name)
    await world.cluster("one", names[0].class_name)
    await world.addons_ready("one", names[0].class_name)
    return names


async def upgrade_until_held(world: World, name: ReleaseName) -> None:
    await world.until(CLUSTER_KIND, "one", is_held)
    await world.set_class("one", name.class_name, version=NEW)
    await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("backup"))


async def lose(world: World) -> None:
    """Delete the ClusterAddon, and wait until the operator has made another one and looked at the cluster."""
    lost = await world.get(Kind.CLUSTER_ADDON, ADDON)
    await world.delete(lost)
    await world.until(
        Kind.CLUSTER_ADDON,
        ADDON,
        lambda one: one["metadata"]["uid"] != lost["metadata"]["uid"] and "ready" in mapping(one, "status"),
    )


def waits_with(name: str) -> Callable[[Manifest], bool]:
    def holds(addon: Manifest) -> bool:
        stages = mappings(addon, "status", "stages")
        first = next((one["name"] for one in stages if one["phase"] != "done"), "")
        return first == name and condition_of(addon, "Ready").get("reason") == "ConditionNotMet"

    return holds


def stages_of(addon: Manifest) -> list[str]:
    return [one["name"] for one in mappings(addon, "status", "stages")]


async def delivered(world: World) -> dict[str, str]:
    """Return the release of each addon that the cluster has."""
    found = {name: await world.delivered(f"{world.namespace}-{name}") for name in ADDONS}
    return {name: text(one, "data", "release") for name, one in found.items() if one is not None}


async def written(world: World) -> dict[str, str]:
    """Return the resourceVersions of objects and records."""
    secrets = await world.workload.list(SECRETS, "kube-system", labels=RECORD_LABEL)
    found = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in secrets.items}
    for name in ADDONS:
        one = await world.delivered(f"{world.namespace}-{name}")
        found |= {name: one["metadata"]["resourceVersion"]} if one is not None else {}
    return found


@pytest.mark.regression("LIVE-LV-9")
@pytest.mark.parametrize("way", ["deleted", "deleted without its finalizer", "moved"])
async def test_a_held_upgrade_goes_on_in_its_order_after_its_cluster_addon_was_lost(world: World, way: str) -> None:
    """Its spec and status are lost, and with ``clusterctl move`` only its status."""
    async with world.operator():
        first, second = await cluster_with(world, "v1", "v2")
        await upgrade_until_held(world, second)
        if way == "deleted":
            await lose(world)
    if way != "deleted":
        lost = await world.get(Kind.CLUSTER_ADDON, ADDON)
        await world.patch(lost, {"metadata": {"finalizers": None}})
        await world.delete(lost)
        if way == "moved":
            kept = {key: lost["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
            await world.create({key: lost[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": kept})
    async with world.operator():
        addon = await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("backup"))
        assert stages_of(addon) == list(ADDONS)
        assert await delivered(world) == {"net": "v1", "backup": "v2"}
        said = await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=[f"holds the upgrade to {NEW}"])
        assert "stage backup" in said["message"]
        assert is_held(await world.get(CLUSTER_KIND, "one"))

        await open_gates(world, "backup", "after")
        await begin(world, NEW)
        addon = await world.addons_ready("one", second.class_name)
        assert addon["status"]["deliveredKubernetesVersion"] == NEW
        assert await delivered(world) == dict.fromkeys(ADDONS, "v2")
        newest = addon["status"]["history"][0]
        assert (newest["occasion"], newest["fromKubernetesVersion"]) == ("Upgrade", OLD)
        assert newest.get("fromRelease") == (first.release if way == "moved" else None)


@pytest.mark.regression("LIVE-LV-9")
async def test_the_stages_after_an_upgrade_run_in_order_after_their_progress_was_lost(world: World) -> None:
    """Stages that are done run again in order, which changes neither objects nor records."""
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await upgrade_until_held(world, second)
        await open_gates(world, "backup")
        await begin(world, NEW)
        await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("after"))
        before = await written(world)

        await lose(world)
        addon = await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("after"))
        assert stages_of(addon) == list(ADDONS)
        assert await written(world) == before
        assert await delivered(world) == {"net": "v1", "backup": "v2", "ccm": "v2", "agent": "v2"}

        await open_gates(world, "backup", "after")
        await world.addons_ready("one", second.class_name)
        assert await delivered(world) == dict.fromkeys(ADDONS, "v2")


@pytest.mark.regression("LIVE-LV-9")
async def test_a_cluster_addon_lost_at_rest_runs_no_stage_of_an_upgrade_and_writes_nothing(
    world: World,
) -> None:
    """A stage before an upgrade would wait here, because its condition holds no longer."""
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await upgrade_until_held(world, second)
        await open_gates(world, "backup", "after")
        await begin(world, NEW)
        await world.addons_ready("one", second.class_name)
        await world.at_rest()
        await open_gates(world)
        before = await written(world)

        await lose(world)
        addon = await world.addons_ready("one", second.class_name)
        await world.at_rest()
        assert await written(world) == before
        assert len(addon["status"]["addons"]) == len(ADDONS)


@pytest.mark.regression("LIVE-LV-9")
async def test_an_installation_goes_on_after_its_cluster_addon_was_lost(world: World) -> None:
    """The record of its first stage does not make it an upgrade: stages of an upgrade do not run."""
    name = world.stack.release("v1")
    hooks = {
        "AfterControlPlaneInitialized": [stage("net"), stage("ccm", waitForPreCondition=opened(world, "after"))],
        "BeforeClusterUpgrade": [stage("backup")],
    }
    charts = {one: templates(config_map(f"{world.namespace}-{one}", release="v1")) for one in ("net", "ccm", "backup")}
    world.publish(name, world.stack.files("v1", charts, hooks=hooks))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("ccm"))
        await lose(world)
        addon = await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("ccm"))
        assert stages_of(addon) == ["net", "ccm"]

        await open_gates(world, "after")
        addon = await world.addons_ready("one", name.class_name)
        assert addon["status"]["history"][0]["occasion"] == "Install"
        assert await delivered(world) == {"net": "v1", "ccm": "v1"}


@pytest.mark.regression("LIVE-LV-9")
async def test_a_held_upgrade_goes_on_in_its_order_after_its_unreadable_record_was_deleted(
    world: World,
) -> None:
    """The message advises to delete it."""
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await upgrade_until_held(world, second)
        await change_record(world, "AAAA")
        await lose(world)
        addon = await world.until(Kind.CLUSTER_ADDON, ADDON, waits_with("backup"))
        assert stages_of(addon) == list(ADDONS)
        assert await delivered(world) == {"net": "v1", "backup": "v2"}

        await world.workload.delete(SECRETS, "cluster-stack-addon-net", "kube-system")
        await open_gates(world, "backup", "after")
        await begin(world, NEW)
        await world.addons_ready("one", second.class_name)
        assert await delivered(world) == dict.fromkeys(ADDONS, "v2")


@pytest.mark.regression("LIVE-LV-9")
async def test_nothing_is_delivered_while_a_record_is_unreadable_and_no_upgrade_is_running(
    world: World,
) -> None:
    async with world.operator():
        await cluster_with(world, "v1")
        before = await written(world)
        record = await world.workload.get(SECRETS, "cluster-stack-addon-net", "kube-system")
        await change_record(world, "AAAA")
        await lose(world)
        said = await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", words=["nothing is delivered"])
        assert "delivery record Secret kube-system/cluster-stack-addon-net is unreadable" in said["message"]
        assert (await written(world))["net"] == before["net"]

        await change_record(world, text(record, "data", "record"))
        await world.until(Kind.CLUSTER_ADDON, ADDON, is_ready, nudging=True)
        assert (await written(world))["net"] == before["net"]


async def change_record(world: World, content: str) -> None:
    patch = {"data": {"record": content}}
    await world.workload.merge_patch(SECRETS, "cluster-stack-addon-net", patch, "kube-system", manager="tests")
