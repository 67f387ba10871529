"""Cluster API waits with an upgrade of Kubernetes while the Cluster has the annotation of the hold."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.kinds.names import (
    ADDONS_READY_CONDITION,
    CLUSTER_KIND,
    HOLD_UPGRADES_ANNOTATION,
    PENDING_HOOKS_ANNOTATION,
    UPGRADE_HOLD_ANNOTATION,
    Kind,
)
from clusterstacks.operator.controllers import held_reports
from clusterstacks.operator.controllers.clusteraddon import stage_run
from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import condition_of, finished_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.outcomes import Outcome
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
VERSIONS = ("v1.35.4", "v1.35.5", "v1.35.6")
"""The first one is that of new Clusters."""


def is_held(cluster: Manifest) -> bool:
    return UPGRADE_HOLD_ANNOTATION in mapping(cluster, "metadata", "annotations")


def is_free(cluster: Manifest) -> bool:
    return not is_held(cluster)


def noted(state: str) -> Callable[[Manifest], bool]:
    return lambda addon: text(addon, "status", "upgradeHold", "state") == state


def publish(world: World, version: str) -> ReleaseName:
    """Publish a release whose stage before an upgrade waits until a ConfigMap names the release."""
    watched = {"key": "gate", "apiVersion": "v1", "kind": "ConfigMap", "name": f"{world.namespace}-gate"}
    condition = {"objects": [{**watched, "namespace": "kube-system"}], "conditions": f'gate.data.open == "{version}"'}
    hooks = {
        "AfterControlPlaneInitialized": [stage("cni")],
        "BeforeClusterUpgrade": [stage("cni", waitForPostCondition=condition)],
    }
    name = world.stack.release(version)
    chart = templates(config_map(world.namespace, release=version, kubernetes="{{ .Capabilities.KubeVersion }}"))
    world.publish(name, world.stack.files(version, {"cni": chart}, hooks=hooks))
    return name


async def open_gate(world: World, version: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{world.namespace}-gate", "namespace": "kube-system"},
        "data": {"open": version},
    }
    await world.workload.apply(await world.workload.resource("", "ConfigMap"), manifest, manager="tests", force=True)


async def cluster_with(world: World, *versions: str, **stack: Any) -> list[ReleaseName]:
    """Offer releases, and install the first one in a cluster that is held."""
    names = [publish(world, version) for version in versions]
    manifest = world.stack.manifest(world.namespace, *versions)
    manifest["spec"] |= stack
    await world.create(manifest)
    for name in names:
        await world.release_ready(name)
    await world.cluster("one", names[0].class_name)
    await world.addons_ready("one", names[0].class_name)
    return names


async def begin(world: World, version: str) -> None:
    """Begin the upgrade as Cluster API does, and wait until it is held again."""
    cluster = await world.until(CLUSTER_KIND, "one", is_free)
    await world.patch(cluster, {"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: "AfterClusterUpgrade"}}})
    await world.until(CLUSTER_KIND, "one", is_held)
    await world.patch(cluster, {"status": finished_status(version)}, "status")
    await world.patch(cluster, {"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: None}}})


async def annotate(world: World, **annotations: str | None) -> None:
    cluster = await world.get(CLUSTER_KIND, "one")
    names = {"hold": UPGRADE_HOLD_ANNOTATION, "wanted": HOLD_UPGRADES_ANNOTATION}
    await world.patch(cluster, {"metadata": {"annotations": {names[key]: one for key, one in annotations.items()}}})


async def test_each_upgrade_waits_for_its_stages_also_a_second_and_third_one(world: World) -> None:
    """D23, D25: with another class, with a Kubernetes version alone, and with a class alone."""
    async with world.operator():
        first, second, third = await cluster_with(world, "v1", "v2", "v3")
        await world.until(CLUSTER_KIND, "one", is_held)

        await world.set_class("one", second.class_name, version=VERSIONS[1])
        said = await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=["holds the upgrade to v1.35.5"])
        assert (
            f"kubectl annotate clusters.cluster.x-k8s.io one -n {world.namespace} {UPGRADE_HOLD_ANNOTATION}-"
            in (said["message"])
        )
        held = await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        assert held["status"]["upgradeHold"]["since"] in said["message"]
        assert is_held(await world.get(CLUSTER_KIND, "one"))
        await open_gate(world, "v2")
        await begin(world, VERSIONS[1])
        addon = await world.addons_ready("one", second.class_name)
        assert "upgradeHold" not in addon["status"]

        await open_gate(world, "none")
        await world.set_class("one", second.class_name, version=VERSIONS[2])
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=["holds the upgrade to v1.35.6"])
        await open_gate(world, "v2")
        await begin(world, VERSIONS[2])
        await world.until(
            Kind.CLUSTER_ADDON,
            ADDON,
            lambda one: one["status"]["ready"] and one["status"]["deliveredKubernetesVersion"] == VERSIONS[2],
        )

        await world.set_class("one", third.class_name)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ConditionNotMet")
        await open_gate(world, "v3")
        addon = await world.addons_ready("one", third.class_name)
        assert is_held(await world.get(CLUSTER_KIND, "one"))
        reasons = [one["reason"] for one in await world.events(await world.get(CLUSTER_KIND, "one"))]
        assert {"UpgradeHeld", "UpgradeReleased"} <= set(reasons)
        assert first.class_name != addon["spec"]["clusterStack"]


async def test_a_cluster_is_held_before_its_control_plane_is_initialized_and_again_when_the_hold_is_lost(
    world: World,
) -> None:
    """When Cluster API removes its only annotation, it removes all others that it does not know yet."""
    async with world.operator():
        name = publish(world, "v1")
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        created = await world.cluster("one", name.class_name, ready=False)
        reference = {"apiGroup": "none.example.com", "kind": "ControlPlane", "name": "one"}
        await world.patch(created, {"spec": {"controlPlaneRef": reference}})
        await world.until(CLUSTER_KIND, "one", is_held)
        await world.finish(created)
        await world.addons_ready("one", name.class_name)
        await world.patch(created, {"metadata": {"annotations": None}})
        await world.until(CLUSTER_KIND, "one", is_held)


async def test_a_faulty_class_is_left_for_another_one_while_the_upgrade_is_held(world: World) -> None:
    """Each class is held for its own stages (cluster-stack-operator#212), and the operator may end at any time."""
    async with world.operator():
        _, second, third = await cluster_with(world, "v1", "v2", "v3")
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
    await open_gate(world, "v2")
    await world.set_class("one", third.class_name)
    async with world.operator():
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ConditionNotMet", words=['== "v3"'])
        assert is_held(await world.get(CLUSTER_KIND, "one"))
        await open_gate(world, "v3")
        await begin(world, VERSIONS[1])
        await world.addons_ready("one", third.class_name)


async def test_an_upgrade_that_follows_a_change_of_the_class_at_once_is_noted_before_its_stages_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ClusterAddon is not ready any longer then, because of the change of the class."""
    deliver, may_deliver = AddonInstaller.install_addon, asyncio.Event()

    async def wait_and_deliver(delivery: AddonInstaller, addon: str) -> Outcome | None:
        await may_deliver.wait()
        return await deliver(delivery, addon)

    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        cluster = await world.until(CLUSTER_KIND, "one", is_held)
        conditions = cluster["status"]["conditions"]
        unsettled = [one | {"status": "False"} if one["type"] == "TopologyReconciled" else one for one in conditions]
        await world.patch(cluster, {"status": {"conditions": unsettled}}, "status")
        monkeypatch.setattr(held_reports, "HOLD", timedelta(hours=1))
        monkeypatch.setattr(AddonInstaller, "install_addon", wait_and_deliver)
        await world.set_class("one", second.class_name)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RollingOut")

        await world.set_class("one", second.class_name, version=VERSIONS[1])

        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, "RollingOut")
        may_deliver.set()
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ConditionNotMet")


async def test_an_upgrade_that_is_awaited_without_a_hold_is_held(world: World) -> None:
    """The hold is lost and the upgrade requested while no operator runs, and Cluster API has not begun it yet."""
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await world.until(CLUSTER_KIND, "one", is_held)
    await annotate(world, hold=None)
    await world.set_class("one", second.class_name, version=VERSIONS[1])
    async with world.operator():
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await world.until(CLUSTER_KIND, "one", is_held)
        await open_gate(world, "v2")
        await begin(world, VERSIONS[1])
        await world.addons_ready("one", second.class_name)


async def test_a_hold_removed_by_hand_stays_removed_until_the_upgrade_has_begun(world: World) -> None:
    async with world.operator() as operator:
        _, second = await cluster_with(world, "v1", "v2")
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await annotate(world, hold=None)
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Absent"))
        await world.look_again(operator, "clusteraddon", await world.get(CLUSTER_KIND, "one"))
        await begin(world, VERSIONS[1])
        await open_gate(world, "v2")
        await world.addons_ready("one", second.class_name)
        assert is_held(await world.get(CLUSTER_KIND, "one"))


async def test_a_cluster_that_opts_out_is_not_held(world: World) -> None:
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await world.until(CLUSTER_KIND, "one", is_held)
        await annotate(world, wanted="false")
        await world.until(CLUSTER_KIND, "one", is_free)
        await annotate(world, wanted=None)
        await world.until(CLUSTER_KIND, "one", is_held)
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await annotate(world, wanted="false")
        await world.until(CLUSTER_KIND, "one", is_free)
        said = condition_of(await world.until(Kind.CLUSTER_ADDON, ADDON, noted("")), "Ready")
        assert said["reason"] == "ConditionNotMet"


async def test_a_cluster_stack_that_opts_out_holds_no_cluster(world: World) -> None:
    async with world.operator():
        await cluster_with(world, "v1", holdUpgrades=False)
        cluster = await world.get(CLUSTER_KIND, "one")
        assert is_free(cluster)
        await annotate(world, wanted="true")
        await world.until(CLUSTER_KIND, "one", is_held)


async def test_a_cluster_that_leaves_its_cluster_stack_is_released(world: World) -> None:
    async with world.operator():
        await cluster_with(world, "v1")
        await world.until(CLUSTER_KIND, "one", is_held)
        await world.set_class("one", "own-class")
        await world.until(CLUSTER_KIND, "one", is_free)


async def test_an_upgrade_that_begins_while_it_is_held_is_reported(world: World) -> None:
    async with world.operator() as operator:
        _, second = await cluster_with(world, "v1", "v2")
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        cluster = await world.until(CLUSTER_KIND, "one", is_held)
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await world.patch(cluster, {"status": finished_status(VERSIONS[1])}, "status")
        said = await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, "HoldNotHonoured")
        assert "feature gate RuntimeSDK" in said["message"]
        metrics = operator._metrics.expose().decode()
        assert "clusterstacks_upgrade_holds_not_honoured_total 1.0" in metrics
        await open_gate(world, "v2")
        await world.addons_ready("one", second.class_name)


async def test_a_paused_addon_explains_the_upgrade_that_it_holds(world: World) -> None:
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await world.until(CLUSTER_KIND, "one", is_held)
        addon = await world.get(Kind.CLUSTER_ADDON, ADDON)
        await world.patch(addon, {"spec": {"paused": True}})
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        said = await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, "Paused", words=["holds the upgrade"])
        assert f"spec.paused of ClusterAddon {ADDON} is true" in said["message"]
        await world.patch(addon, {"spec": {"paused": False}})
        await open_gate(world, "v2")
        await begin(world, VERSIONS[1])
        await world.addons_ready("one", second.class_name)


@pytest.mark.regression("LIVE-LV-10")
async def test_live_lv_10_a_paused_addon_withdraws_the_text_about_a_hold_that_was_removed_by_hand(
    world: World,
) -> None:
    async with world.operator():
        _, second = await cluster_with(world, "v1", "v2")
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        addon = await world.get(Kind.CLUSTER_ADDON, ADDON)
        await world.patch(addon, {"spec": {"paused": True}})
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, "Paused", words=["holds the upgrade"])

        await annotate(world, hold=None)
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Absent"))
        said = condition_of(await world.get(CLUSTER_KIND, "one"), ADDONS_READY_CONDITION)
        assert said["reason"] == "Paused"
        assert "holds the upgrade" not in said["message"]
        events = await world.events(await world.get(CLUSTER_KIND, "one"))
        assert [one["message"] for one in events if "removed by hand" in one["message"]]


async def test_an_event_of_an_awaited_object_releases_the_upgrade(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one that did not exist; no stage is looked at a second time without an event."""
    monkeypatch.setattr(stage_run, "RETRY", timedelta(hours=1))
    async with world.operator():
        names = await cluster_with(world, "v1", "v2", "v3")
        for name, release, version in zip(names[1:], ("v2", "v3"), VERSIONS[1:], strict=True):
            await world.set_class("one", name.class_name, version=version)
            await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
            await open_gate(world, release)
            await begin(world, version)
            await world.addons_ready("one", name.class_name)


async def test_a_held_upgrade_to_a_missing_release_is_taken_back(world: World) -> None:
    """The hold stays for the next upgrade, and the old class gets its addons back."""
    async with world.operator():
        first, second = await cluster_with(world, "v1", "v2")
        await world.until(CLUSTER_KIND, "one", is_held)
        missing = world.stack.release("v9").class_name
        await world.set_class("one", missing, version=VERSIONS[1])
        said = await world.says(
            CLUSTER_KIND, "one", ADDONS_READY_CONDITION, "ClassNotOffered", words=["holds the upgrade to v1.35.5"]
        )
        assert world.stack.release("v9").release in said["message"]

        await world.set_class("one", second.class_name)
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await world.shows(world.namespace, {"release": "v2", "kubernetes": VERSIONS[0]})
        await world.set_class("one", first.class_name, version=VERSIONS[0])
        await world.addons_ready("one", first.class_name)
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted(""))
        await world.shows(world.namespace, {"release": "v1", "kubernetes": VERSIONS[0]})
        assert is_held(await world.get(CLUSTER_KIND, "one"))


async def test_the_hold_of_a_paused_cluster_stays_and_does_not_delay_a_deletion(world: World) -> None:
    async with world.operator() as operator:
        _, second, third = await cluster_with(world, "v1", "v2", "v3")
        cluster = await world.until(CLUSTER_KIND, "one", is_held)
        await world.patch(cluster, {"spec": {"paused": True}})
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        await open_gate(world, "v2")
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert is_held(await world.get(CLUSTER_KIND, "one"))
        assert noted("")(await world.addon("one"))
        await world.patch(cluster, {"spec": {"paused": None}})
        await begin(world, VERSIONS[1])
        await world.addons_ready("one", second.class_name)

        await world.set_class("one", third.class_name, version=VERSIONS[2])
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
        await world.patch(cluster, {"metadata": {"finalizers": ["example.org/hold"]}})
        await world.delete(cluster)
        await open_gate(world, "v3")
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert is_held(await world.get(CLUSTER_KIND, "one"))
        await world.patch(cluster, {"metadata": {"finalizers": None}})
        await world.gone(CLUSTER_KIND, "one")
