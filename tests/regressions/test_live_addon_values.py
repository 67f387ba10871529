"""Addon values of a Cluster: null removes a default, and a misspelt name is reported."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import guarded, ranged
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
SETTINGS = "AddonSettingsUsed"


async def cluster_with(world: World, values: dict[str, Any]) -> dict[str, Any]:
    """Publish an addon that shows its values, and create a Cluster with values of its own."""
    word = world.namespace
    name = world.stack.release("v1")
    shown = config_map(word, high="{{ .Values.info.high }}", low="{{ .Values.info.low }}", sub="SUB")
    chart = templates(shown, **{"values.yaml": "info: {high: 1, low: 2, sub: {nested: 3}}\n"})
    chart["templates/all.yaml"] = chart["templates/all.yaml"].replace("SUB", "{{ .Values.info.sub | toString }}")
    world.publish(name, world.stack.files("v1", {word: chart}))
    await world.create(world.stack.manifest(word, "v1"))
    await world.release_ready(name)
    return await world.cluster("one", name.class_name, variables=[{"name": "addonValues", "value": values}])


@pytest.mark.regression("LIVE-M4")
async def test_null_value_removes_a_default_of_the_chart(world: World) -> None:
    async with world.operator():
        await cluster_with(world, {world.namespace: {"info": {"low": 5, "sub": None}}})

        await world.shows(world.namespace, {"high": "1", "low": "5", "sub": "<nil>"})


@pytest.mark.regression("LIVE-M4")
async def test_misspelt_addon_or_annotation_is_reported_and_others_are_delivered(world: World) -> None:
    word = world.namespace
    async with world.operator():
        cluster = await cluster_with(world, {"inof": {"low": 5}})
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, SETTINGS, "UnknownAddonSettings")

        assert "addonValues has values for 'inof', but the addons are" in found["message"]
        assert word in found["message"]
        await world.addons_ready("one", world.stack.release("v1").class_name)

        topology = {"variables": [{"name": "addonValues", "value": {word: {"info": {"low": 5}}}}]}
        key = f"clusterstack.x-k8s.io/addons.{word}"
        await world.patch(cluster, {"metadata": {"annotations": {key: "v1"}}, "spec": {"topology": topology}})
        await world.says(Kind.CLUSTER_ADDON, ADDON, SETTINGS, words=[key, "is not read"])

        await world.patch(cluster, {"metadata": {"annotations": {key: None}}})

        def corrected(addon: dict[str, Any]) -> bool:
            return is_ready(addon) and not condition_of(addon, SETTINGS)

        await world.until(Kind.CLUSTER_ADDON, ADDON, corrected)
        assert (await world.delivered(word) or {})["data"]["low"] == "5"


@pytest.mark.regression("LIVE-M4")
async def test_kubectl_prints_a_warning_about_a_misspelt_annotation(world: World) -> None:
    async with guarded(world):
        name, files = ranged(world.stack, "v1", "v1.35.4", ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
        world.publish(name, files)
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        kubectl = Kubectl(world.management_kubeconfig, world.namespace)
        key = "clusterstack.x-k8s.io/addons.cillium"

        done = await asyncio.to_thread(kubectl.tried, "annotate", "cluster", "one", f"{key}={name}")

        assert done.returncode == 0
        advice = "write clusterstack.x-k8s.io/addon.cilium; the addons are cilium"
        assert f"Warning: annotation {key} is not read: {advice}\n" in done.stderr
