"""An upgrade of class and Kubernetes: what comes before it, what waits for it, what goes last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.names import Kind
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import condition_of, finished_status

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
NEWER = "v1.35.5"
HOOKS = {
    "AfterControlPlaneInitialized": [stage("cni"), stage("csi"), stage("dns")],
    "BeforeClusterUpgrade": [stage("cni")],
    "AfterClusterUpgrade": [stage("csi")],
}


async def test_stages_wait_for_the_upgrade_they_come_after(world: World) -> None:
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


async def test_changed_values_reach_the_cluster_without_an_upgrade(world: World) -> None:
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
