"""A delivery record that is deleted, replaced or damaged: what is delivered is proved by the cluster, not by memory."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.record_store import SECRETS, record_name
from clusterstacks.model.documents import mapping
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import GROUP, Kind
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.csctl import call_csctl
from tests.support.running.world import condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ADDON = addon_name("one")
OFTEN = timedelta(seconds=0.3)
MISSING = "RecordMissing"


async def cluster_with(world: World, *versions: str) -> list[ReleaseName]:
    """Deliver the first of these releases, with the addons ``app`` and ``net``."""
    names = []
    for version in versions:
        charts = {name: templates(config_map(f"{world.namespace}-{name}", release=version)) for name in ("app", "net")}
        names.append(world.stack.release(version))
        hooks = {"AfterControlPlaneInitialized": [stage("app")], "AfterClusterUpgrade": [stage("net")]}
        world.publish(names[-1], world.stack.files(version, charts, hooks=hooks))
    await world.create(world.stack.manifest(world.namespace, *versions))
    for name in names:
        await world.release_ready(name)
    await world.cluster("one", names[0].class_name)
    await world.addons_ready("one", names[0].class_name)
    return names


async def upgraded(world: World) -> None:
    """Deliver v1, then v2, which adds the addon ``net``."""
    _, second = await cluster_with(world, "v1", "v2")
    await world.set_class("one", second.class_name)
    await world.addons_ready("one", second.class_name)


async def record(world: World, addon: str = "app") -> Manifest:
    return await world.workload.get(SECRETS, record_name(addon), "kube-system")


async def lose(world: World, addon: str) -> None:
    """Delete an addon's record and its object."""
    await world.workload.delete(SECRETS, record_name(addon), "kube-system")
    resource = await world.workload.resource("", "ConfigMap")
    await world.workload.delete(resource, f"{world.namespace}-{addon}", "kube-system")


async def delivered_again(world: World, addon: str, release: str) -> None:
    async def look() -> bool:
        found = await world.delivered(f"{world.namespace}-{addon}")
        assert found is not None
        assert mapping(found, "data") == {"release": release}
        assert await world.workload.find(SECRETS, record_name(addon), "kube-system") is not None
        one = await world.addon("one")
        assert condition_of(one, "InSync").get("status") == "True"
        assert condition_of(one, "Ready").get("status") == "True"
        return MISSING in {event["reason"] for event in await world.events(one)}

    await eventually(look, about=f"addon {addon} delivered again")


@pytest.mark.regression("LIVE-LV-3")
@pytest.mark.parametrize("addon", ["app", "net"])
async def test_addon_without_its_record_is_delivered_again(world: World, addon: str) -> None:
    """Also one that only the stages of an upgrade name."""
    async with world.operator(drift_interval=OFTEN):
        await upgraded(world)
        await lose(world, addon)
        await delivered_again(world, addon, "v2")


@pytest.mark.regression("LIVE-LV-3")
async def test_addon_whose_record_was_lost_while_no_operator_ran_is_delivered_again(world: World) -> None:
    async with world.operator(drift_interval=OFTEN):
        await upgraded(world)
    await lose(world, "app")
    await lose(world, "net")
    async with world.operator(drift_interval=OFTEN):
        await delivered_again(world, "app", "v2")
        await delivered_again(world, "net", "v2")


@pytest.mark.regression("LIVE-LV-3")
async def test_addon_is_not_set_back_by_the_older_record_of_a_restored_backup(world: World) -> None:
    async with world.operator(drift_interval=OFTEN):
        first, second = await cluster_with(world, "v1", "v2")
        backup = await record(world)
        await world.set_class("one", second.class_name)
        await world.addons_ready("one", second.class_name)

        resource = await world.workload.resource("", "ConfigMap")
        old = {"data": {"release": "v1"}}
        await world.workload.merge_patch(SECRETS, record_name("app"), {"data": backup["data"]}, "kube-system")
        await world.workload.merge_patch(resource, f"{world.namespace}-app", old, "kube-system")

        await delivered_again(world, "app", "v2")
        assert (await record(world))["data"] != backup["data"]
        assert first != second


@pytest.mark.regression("LIVE-LV-3")
@pytest.mark.parametrize("addon", ["app", "net"])
async def test_older_record_that_was_restored_while_no_operator_ran_is_noticed(
    world: World, addon: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has as many objects as that of the last delivery."""
    command = ("drift", f"{world.namespace}/one", "--kubeconfig", world.management_kubeconfig, "--exit-code")
    async with world.operator(drift_interval=OFTEN):
        await upgraded(world)
        backup = await record(world, addon)
        third = world.stack.release("v3")
        charts = {name: templates(config_map(f"{world.namespace}-{name}", release="v3")) for name in ("app", "net")}
        hooks = {"AfterControlPlaneInitialized": [stage("app")], "AfterClusterUpgrade": [stage("net")]}
        world.publish(third, world.stack.files("v3", charts, hooks=hooks))
        stacks = await world.client.resource(GROUP, Kind.CLUSTER_STACK)
        (clusterstack,) = (await world.client.list(stacks, world.namespace)).items
        await world.patch(clusterstack, {"spec": {"versions": ["v1", "v2", "v3"]}})
        await world.release_ready(third)
        await world.set_class("one", third.class_name)
        await world.addons_ready("one", third.class_name)
    resource = await world.workload.resource("", "ConfigMap")
    old = {"data": {"release": "v2"}}
    await world.workload.merge_patch(SECRETS, record_name(addon), {"data": backup["data"]}, "kube-system")
    await world.workload.merge_patch(resource, f"{world.namespace}-{addon}", old, "kube-system")

    capsys.readouterr()
    assert await asyncio.to_thread(call_csctl, *command) != 0
    assert f"the delivery record of addon {addon}" in "".join(capsys.readouterr())
    async with world.operator(drift_interval=OFTEN):
        await delivered_again(world, addon, "v3")


@pytest.mark.regression("LIVE-LV-3", "LIVE-LV-12")
async def test_unreadable_record_is_reported_until_it_is_deleted(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("drift", f"{world.namespace}/one", "--kubeconfig", world.management_kubeconfig, "--exit-code")
    async with world.operator(drift_interval=OFTEN):
        await cluster_with(world, "v1")
        await world.workload.merge_patch(
            SECRETS, record_name("app"), {"data": {"record": "AAAA", "revision": None}}, "kube-system"
        )
        words = [record_name("app"), "unreadable", "delete it"]
        await world.says(Kind.CLUSTER_ADDON, ADDON, "InSync", MISSING, words=words)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", words=words)
        capsys.readouterr()
        assert await asyncio.to_thread(call_csctl, *command) != 0
        shown = capsys.readouterr()
        assert "as they were delivered" not in shown.out
        assert record_name("app") in shown.out + shown.err

        await world.workload.delete(SECRETS, record_name("app"), "kube-system")
        await world.nudge(await world.addon("one"))
        await delivered_again(world, "app", "v1")
