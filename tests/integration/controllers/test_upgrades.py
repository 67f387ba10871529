"""Stages before and after the upgrade of class and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from tests.support.builders.stacks import KUBERNETES, config_map, stage, templates
from tests.support.running.world import condition_of, finished_status, is_ready

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
NEWER = "v1.35.5"
HOOKS = {
    "AfterControlPlaneInitialized": [stage("cni"), stage("csi"), stage("dns")],
    "BeforeClusterUpgrade": [stage("cni")],
    "AfterClusterUpgrade": [stage("csi")],
}


async def test_stages_wait_for_the_cluster_upgrade(world: World) -> None:
    word = world.namespace
    for version in ("v1", "v2"):
        addons = {addon: templates(config_map(f"{word}-{addon}", release=version)) for addon in ("cni", "csi", "dns")}
        if version == "v1":
            addons["cni"] = templates(config_map(f"{word}-cni", release="v1"), config_map(f"{word}-old"))
        world.publish(world.stack.release(version), world.stack.files(version, addons, hooks=HOOKS))
    first, second = world.stack.release("v1"), world.stack.release("v2")

    async def delivered() -> dict[str, str]:
        found = {addon: await world.delivered(f"{word}-{addon}") for addon in ("cni", "csi", "dns")}
        return {addon: one["data"]["release"] for addon, one in found.items() if one}

    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        await world.release_ready(first)
        await world.release_ready(second)
        cluster = await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await world.set_class("one", second.class_name, version=NEWER)
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "WaitingForUpgrade")
        assert f"waiting for the control plane to report {NEWER}; it reports v1.35.4" in found["message"]
        assert await delivered() == {"cni": "v2", "csi": "v1", "dns": "v1"}

        await world.patch(cluster, {"status": finished_status(NEWER, reconciled="False")}, "status")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", words=["TopologyReconciled"])
        assert await delivered() == {"cni": "v2", "csi": "v1", "dns": "v1"}
        assert await world.delivered(f"{word}-old") is not None, "the prune comes last"

        await world.patch(cluster, {"status": finished_status(NEWER)}, "status")
        addon = await world.addons_ready("one", second.class_name)
        assert await delivered() == {"cni": "v2", "csi": "v2", "dns": "v2"}
        assert await world.delivered(f"{word}-old") is None
        assert condition_of(addon, "Ready")["status"] == "True"
        assert addon["spec"]["version"] == "v2"
        assert addon["status"]["observedInputs"], "what was delivered before the upgrade is not delivered again"


EVERY_HOOK = {
    "AfterControlPlaneInitialized": [stage(addon) for addon in ("cni", "ccm", "proxy", "agent", "csi")],
    "BeforeClusterUpgrade": [stage("cni")],
    "AfterControlPlaneUpgrade": [stage("ccm"), stage("proxy")],
    "AfterWorkersUpgrade": [stage("agent")],
    "AfterClusterUpgrade": [stage("csi")],
}
"""The stages of the installation are those of all hooks, in the same order."""


def upgrading(control_plane: str, workers: str, reason: str = "ClusterUpgrading") -> dict[str, Any]:
    """Return the status that Cluster API 1.14 writes during an upgrade."""
    status = finished_status(control_plane, reconciled="False")
    status["conditions"][0]["reason"] = reason
    return {**status, "workers": {"versions": [{"version": version} for version in workers.split()]}}


@pytest.mark.regression("D26")
async def test_stages_of_each_hook_wait_for_control_plane_workers_and_the_end_of_the_upgrade(world: World) -> None:
    word, old, hooks = world.namespace, KUBERNETES, [one["name"] for one in EVERY_HOOK["AfterControlPlaneInitialized"]]
    for version in ("v1", "v2"):
        addons = {addon: templates(config_map(f"{word}-{addon}", release=version)) for addon in hooks}
        world.publish(world.stack.release(version), world.stack.files(version, addons, hooks=EVERY_HOOK))
    first, second = world.stack.release("v1"), world.stack.release("v2")

    async def upgraded() -> list[str]:
        found = {addon: await world.delivered(f"{word}-{addon}") for addon in hooks}
        return [addon for addon, one in found.items() if one and one["data"]["release"] == "v2"]

    async def waits(*words: str) -> None:
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "WaitingForUpgrade", words=words)

    async with world.operator() as operator:
        await world.create(world.stack.manifest(word, "v1", "v2"))
        await world.release_ready(first)
        await world.release_ready(second)
        cluster = await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)

        # The user changes their mind before the control plane moves: the old class gets its addons back.
        await world.set_class("one", second.class_name, version=NEWER)
        await waits(f"the control plane to report {NEWER}; it reports {old}")
        assert await upgraded() == ["cni"]
        await world.set_class("one", first.class_name, version=old)
        await world.until(
            Kind.CLUSTER_ADDON, ADDON, lambda addon: is_ready(addon) and not addon["status"].get("target")
        )
        assert await upgraded() == []

        # The control plane rolls, then the workers; one pool is deferred for long, and is then upgraded by hand.
        await world.set_class("one", second.class_name, version=NEWER)
        await waits(f"the control plane to report {NEWER}")
        await world.patch(cluster, {"status": upgrading(NEWER, f"{old} {NEWER}")}, "status")
        await waits(f"the workers to report {NEWER}; some report {old}")
        assert await upgraded() == ["cni", "ccm", "proxy"]
        deferred = "MachineDeploymentsUpgradeDeferred"
        await world.patch(cluster, {"status": upgrading(NEWER, f"{old} {NEWER}", deferred)}, "status")
        await waits("Cluster API defers the upgrade of a pool because of an annotation")
        assert await upgraded() == ["cni", "ccm", "proxy"]

        # While the Cluster is paused nothing is delivered, whatever it has reached.
        await world.patch(cluster, {"spec": {"paused": True}})
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "Paused")
        await world.patch(cluster, {"status": upgrading(NEWER, NEWER)}, "status")
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert await upgraded() == ["cni", "ccm", "proxy"]
        await world.patch(cluster, {"spec": {"paused": None}})
        await waits("TopologyReconciled")
        assert await upgraded() == ["cni", "ccm", "proxy", "agent"]

        await world.patch(cluster, {"status": finished_status(NEWER)}, "status")
        await world.addons_ready("one", second.class_name)
        assert await upgraded() == hooks

        # A Cluster that is deleted in the middle of an upgrade waits for no stage.
        await world.set_class("one", first.class_name, version="v1.35.6")
        await waits("the control plane to report v1.35.6")
        assert await upgraded() == hooks[1:]
        cluster = await world.patch(cluster, {"metadata": {"finalizers": ["example.org/hold"]}})
        await world.delete(cluster)
        await world.patch(cluster, {"status": finished_status("v1.35.6")}, "status")
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert await upgraded() == hooks[1:]
        await world.patch(cluster, {"metadata": {"finalizers": None}})
        await world.gone(CLUSTER_KIND, "one")


async def test_values_that_change_during_an_upgrade_reach_the_addon_that_was_delivered_before_it(world: World) -> None:
    values = 'values: |\n  text: {{ .Cluster.spec.size | default "small" }}\n'
    for version in ("v1", "v2"):
        manifest = config_map(world.namespace, text="{{ .Values.text }}", release=version)
        addons = {"cni": templates(manifest, **{"overwrite.yaml": values}), "csi": templates(), "dns": templates()}
        world.publish(world.stack.release(version), world.stack.files(version, addons, hooks=HOOKS))
    first, second = world.stack.release("v1"), world.stack.release("v2")
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        await world.release_ready(first)
        await world.release_ready(second)
        cluster = await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await world.set_class("one", second.class_name, version=NEWER)
        await world.shows(world.namespace, {"text": "small", "release": "v2"})
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "WaitingForUpgrade")

        await world.patch(cluster, {"spec": {"size": "large"}})
        await world.patch(cluster, {"status": finished_status(NEWER)}, "status")

        await world.addons_ready("one", second.class_name)
        await world.shows(world.namespace, {"text": "large", "release": "v2"})


async def test_changed_values_are_delivered_without_an_upgrade(world: World) -> None:
    name = world.stack.release("v1")
    values = 'values: |\n  text: {{ .Cluster.spec.size | default "small" }}\n'
    chart = templates(config_map(world.namespace, text="{{ .Values.text }}"), **{"overwrite.yaml": values})
    world.publish(name, world.stack.files("v1", {"cni": chart}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        cluster = await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await world.patch(cluster, {"spec": {"size": "large"}})

        await world.shows(world.namespace, {"text": "large"})
