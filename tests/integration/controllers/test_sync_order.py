"""The order in which a ClusterResourceSync delivers its sources, and what later sources wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.integration.controllers.test_health import HEALTHY, set_status
from tests.integration.controllers.test_resource_syncs import BINDING, CLASS, ONE, is_synced, source, sync, written
from tests.support.builders.manifests import config_map, crd, deployment, named
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from tests.support.running.world import World


def entry(name: str, wait_for: str = "") -> dict[str, str]:
    return {"kind": "ConfigMap", "name": name, **({"waitFor": wait_for} if wait_for else {})}


@pytest.mark.regression("CSO-35")
async def test_later_sources_wait_until_the_objects_of_a_source_are_healthy(world: World) -> None:
    word = world.namespace
    await source(world, "operator", a=written(deployment(word, "default")))
    await source(world, "instance", a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, resources=[entry("operator", "Healthy"), entry("instance")])
        told = await world.says(BINDING, ONE, "ObjectsApplied", "ObjectsInProgress", words=[f"default/{word}"])
        assert f"waiting for the objects of ConfigMap {word}/operator since " in told["message"]
        assert await world.delivered(word) is None

        await set_status(world, HEALTHY)
        await world.until(BINDING, ONE, is_synced)
        await world.shows(word, {"key": "one"})

        # An unhealthy operator holds changes of later sources back, but what they have delivered stays.
        await set_status(world, {**HEALTHY, "observedGeneration": 2, "readyReplicas": 0, "availableReplicas": 0})
        await source(world, "operator", a=written(deployment(word, "default", replicas=2)))
        await source(world, "instance", a=written(config_map(word, key="two"), config_map(f"{word}-2", key="two")))
        await world.says(BINDING, ONE, "Ready", "ObjectsInProgress", words=[f"default/{word}"])
        await world.shows(word, {"key": "one"})
        maps = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(maps, word, "kube-system")
        await world.shows(word, {"key": "one"})
        assert await world.delivered(f"{word}-2") is None

        ready = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
        await set_status(world, {**HEALTHY, **ready, "observedGeneration": 2})
        await world.shows(f"{word}-2", {"key": "two"})
        await world.shows(word, {"key": "two"})


async def test_custom_resource_does_not_wait_for_a_definition_in_a_later_source(world: World) -> None:
    word, group = world.namespace, f"{world.namespace}.example.org"
    await source(world, "instance", a=written(named(f"{group}/v1", "Widget", word, "default")))
    await source(world, "operator", a=written(crd("Widget", group)))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, resources=[entry("instance", "Healthy"), entry("operator")])
        await world.until(BINDING, ONE, is_synced)
        widgets = await world.workload.resource(group, "Widget")
        assert await world.workload.find(widgets, word, "default")


async def test_failure_holds_later_sources_back_only_where_they_wait(world: World) -> None:
    word = world.namespace
    refused = config_map(word, key="one") | {"metadata": {"name": word, "namespace": f"{word}-none"}}
    await source(world, "refused", a=written(refused))
    await source(world, "instance", a=written(config_map(f"{word}-2", key="two")))
    await world.cluster("one", CLASS)
    async with world.operator() as operator:
        made = await sync(world, resources=[entry("refused", "Delivered"), entry("instance")])
        told = await world.says(BINDING, ONE, "ObjectsApplied", words=[f"ConfigMap {word}-none/{word}"])
        assert f"waiting for the objects of ConfigMap {word}/refused since " in told["message"]
        assert await world.delivered(f"{word}-2") is None
        await asyncio.sleep(1.1)  # times are whole seconds
        await world.look_again(operator, "clusterresourcesyncbinding", await world.get(BINDING, ONE))
        again = condition_of(await world.get(BINDING, ONE), "ObjectsApplied")
        assert again["lastTransitionTime"] == told["lastTransitionTime"]
        assert again["message"].endswith(f"since {told['lastTransitionTime']}: {again['message'].split(': ', 1)[1]}")

        await world.patch(made, {"spec": {"resources": [entry("missing", "Delivered"), entry("instance")]}})
        await world.says(BINDING, ONE, "ObjectsApplied", "SourceIncomplete", words=["missing does not exist"])
        assert await world.delivered(f"{word}-2") is None

        await world.patch(made, {"spec": {"resources": [entry("refused"), entry("instance")]}})
        await world.shows(f"{word}-2", {"key": "two"})
        failing = await world.until(BINDING, ONE, lambda one: condition_of(one, "SourcesRead").get("status") == "True")
        assert condition_of(failing, "Ready")["status"] == "False"
