"""Upgrades without a hook server: what the Go operator's one lost, repeated, or waited for forever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, CLUSTER_KIND, Kind
from clusterstacks.operator.controllers.clusteraddon.snapshot import upgrade_state
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import awaits_upgrade
from tests.integration.controllers.test_upgrade_holds import (
    ADDON,
    VERSIONS,
    begin,
    cluster_with,
    is_free,
    is_held,
    noted,
    open_gate,
)
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import finished_status

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


@pytest.mark.regression("D6")
@pytest.mark.parametrize("first_change", ["class", "version"])
async def test_an_upgrade_goes_on_whether_class_or_version_changes_first(world: World, first_change: str) -> None:
    async with world.operator():
        first, second = await cluster_with(world, "v1", "v2")
        await world.until(CLUSTER_KIND, "one", is_held)
        await open_gate(world, "none")
        if first_change == "class":
            await world.set_class("one", second.class_name)
            await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ConditionNotMet")
            await world.set_class("one", second.class_name, version=VERSIONS[1])
        else:
            await world.set_class("one", first.class_name, version=VERSIONS[1])
            await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=['== "v1"', "holds the upgrade"])
            await world.set_class("one", second.class_name)
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=['== "v2"', "holds the upgrade"])
        await open_gate(world, "v2")
        await begin(world, VERSIONS[1])
        await world.addons_ready("one", second.class_name)


@pytest.mark.regression("D23", "D60")
async def test_another_replica_continues_the_stages_and_a_second_upgrade_to_a_class_runs_them_again(
    world: World,
) -> None:
    async with world.operator():
        first, second = await cluster_with(world, "v1", "v2")
        await world.set_class("one", second.class_name, version=VERSIONS[1])
        await world.until(Kind.CLUSTER_ADDON, ADDON, noted("Held"))
    applied = await world.delivered(world.namespace)
    await open_gate(world, "v2")
    async with world.operator(cache_dir=world.cache / "other"):
        await world.until(CLUSTER_KIND, "one", is_free)
        assert await world.delivered(world.namespace) == applied, "no stage is repeated"
        await begin(world, VERSIONS[1])
        await world.addons_ready("one", second.class_name)

        await world.set_class("one", first.class_name)
        await open_gate(world, "v1")
        await world.addons_ready("one", first.class_name)
        await world.set_class("one", second.class_name, version=VERSIONS[2])
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=['== "v2"', "holds the upgrade"])
        await open_gate(world, "v2")
        await begin(world, VERSIONS[2])
        await world.addons_ready("one", second.class_name)


@pytest.mark.regression("D25")
@pytest.mark.parametrize(
    ("version", "topology"),
    [("v1beta1", {"class": "local-demo-1-36-v1"}), ("v1beta2", {"classRef": {"name": "local-demo-1-36-v1"}})],
)
def test_a_cluster_of_each_version_of_cluster_api_has_its_class_and_awaits_its_upgrade(
    version: str, topology: Manifest
) -> None:
    cluster = {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team"},
        "spec": {"topology": {**topology, "version": "v1.36.1"}},
    }
    control_plane = {"spec": {"version": "v1.35.4"}, "status": {"version": "v1.35.4"}}
    view = cluster_view(cluster)

    assert view.class_name == "local-demo-1-36-v1"
    assert awaits_upgrade(view, control_plane, upgrade_state(view, control_plane))


@pytest.mark.regression("D27")
async def test_each_stage_renders_with_the_kubernetes_version_that_the_cluster_has_then(world: World) -> None:
    word, addons = world.namespace, ("cni", "csi")
    hooks = {
        "AfterControlPlaneInitialized": [stage(addon) for addon in addons],
        "BeforeClusterUpgrade": [stage("cni")],
        "AfterClusterUpgrade": [stage("csi")],
    }
    for release in ("v1", "v2"):
        content = {"release": release, "minor": "{{ .Capabilities.KubeVersion.Minor }}"}
        charts = {addon: templates(config_map(f"{word}-{addon}", **content)) for addon in addons}
        world.publish(world.stack.release(release), world.stack.files(release, charts, hooks=hooks))
    first, second = world.stack.release("v1"), world.stack.release("v2")

    async def shows(cni: tuple[str, str], csi: tuple[str, str]) -> None:
        for addon, (release, minor) in (("cni", cni), ("csi", csi)):
            await world.shows(f"{word}-{addon}", {"release": release, "minor": minor})

    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        await asyncio.gather(world.release_ready(first), world.release_ready(second))
        cluster = await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await shows(("v1", "35"), ("v1", "35"))
        await world.set_class("one", second.class_name, version="v1.36.1")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "WaitingForUpgrade")
        await shows(("v2", "35"), ("v1", "35"))
        await world.patch(cluster, {"status": finished_status("v1.36.1")}, "status")
        await world.addons_ready("one", second.class_name)
        await shows(("v2", "36"), ("v2", "36"))
