"""The ClusterAddon of a paused Cluster has a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"


@pytest.mark.regression("LIVE-L3")
async def test_addon_of_a_paused_cluster_has_a_condition_and_keeps_its_readiness(world: World) -> None:
    word = world.namespace
    for version in ("v1", "v2"):
        chart = templates(config_map(word, number=version))
        world.publish(world.stack.release(version), world.stack.files(version, {word: chart}))
    first, second = (world.stack.release(version).class_name for version in ("v1", "v2"))

    def paused(addon: dict[str, Any]) -> bool:
        found = condition_of(addon, "Paused")
        return found.get("status") == "True" and f"Cluster {word}/one is paused" in found["message"]

    def resumed(addon: dict[str, Any]) -> bool:
        return not condition_of(addon, "Paused")

    async with world.operator() as operator:
        await world.create(world.stack.manifest(word, "v1", "v2"))
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
        cluster = await world.cluster("one", first)
        await world.addons_ready("one", first)

        await world.patch(cluster, {"spec": {"paused": True}})
        assert is_ready(await world.until(Kind.CLUSTER_ADDON, ADDON, paused))
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert is_ready(await world.addon("one"))

        await world.patch(cluster, {"spec": {"paused": False}})
        await world.until(Kind.CLUSTER_ADDON, ADDON, resumed)

        unfinished = {"conditions": [{"type": "TopologyReconciled", "status": "False", "reason": "ClusterUpgrading"}]}
        await world.patch(cluster, {"status": unfinished}, "status")
        await world.set_class("one", second)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready")
        await world.patch(cluster, {"spec": {"paused": True}})
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "Paused", words=[f"Cluster {word}/one is paused"])
