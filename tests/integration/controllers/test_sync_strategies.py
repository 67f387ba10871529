"""The strategies of a ClusterResourceSync, and the change from one to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.drift_settings import SyncStrategy
from clusterstacks.model.kinds.names import RECONCILE_ANNOTATION
from tests.integration.controllers.test_resource_syncs import (
    BINDING,
    CLASS,
    ONE,
    SYNC,
    is_synced,
    source,
    sync,
    until_gone,
    written,
)
from tests.support.builders.manifests import config_map, crd, named
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


async def edit(world: World, name: str, **data: Any) -> None:
    """Change an object in the workload cluster by hand."""
    maps = await world.workload.resource("", "ConfigMap")
    await world.workload.merge_patch(maps, name, {"data": data}, "kube-system")


async def remove(world: World, name: str) -> None:
    maps = await world.workload.resource("", "ConfigMap")
    await world.workload.delete(maps, name, "kube-system")


async def request(world: World, cluster: Manifest, value: str) -> Manifest:
    """Request a comparison of all objects; return the binding after it."""
    await world.patch(cluster, {"metadata": {"annotations": {RECONCILE_ANNOTATION: value}}})
    return await world.until(BINDING, ONE, lambda one: one["status"].get("lastHandledReconcileAt") == value)


async def set_strategy(world: World, strategy: SyncStrategy) -> None:
    """Change the strategy, and wait until it is used."""
    before = (await world.get(BINDING, ONE))["status"]["observedInputs"]
    await world.patch(await world.get(SYNC, "extra"), {"spec": {"strategy": strategy}})
    await world.until(BINDING, ONE, lambda one: is_synced(one) and one["status"]["observedInputs"] != before)


async def test_apply_once_creates_what_is_missing_and_never_writes_or_deletes_it_again(world: World) -> None:
    word = world.namespace
    maps = await world.workload.resource("", "ConfigMap")
    await world.workload.create(maps, config_map(f"{word}-old", key="mine"), namespace="kube-system")
    texts = {name: config_map(f"{word}-{name}", key="one") for name in ("old", "edited", "deleted", "left")}
    await source(world, a=written(*texts.values()))
    cluster = await world.cluster("one", CLASS)
    async with world.operator():
        made = await sync(world, strategy="ApplyOnce")
        binding = await world.until(BINDING, ONE, is_synced)
        assert len(binding["status"]["resources"]) == 3, "an object that existed is not one of the sync"
        await world.shows(f"{word}-old", {"key": "mine"})

        await edit(world, f"{word}-edited", key="by hand")
        await remove(world, f"{word}-deleted")
        changed = [config_map(f"{word}-{name}", key="two") for name in ("old", "edited", "deleted", "new")]
        await source(world, a=written(*changed))
        await world.shows(f"{word}-new", {"key": "two"})
        binding = await request(world, cluster, "first")
        assert condition_of(binding, "InSync")["status"] == "False"
        assert "strategy of the ClusterResourceSync is ApplyOnce" in condition_of(binding, "InSync")["message"]

        await world.shows(f"{word}-old", {"key": "mine"})
        await world.shows(f"{word}-edited", {"key": "by hand"})
        await world.shows(f"{word}-left", {"key": "one"})
        assert await world.delivered(f"{word}-deleted") is None

        await world.delete(made)
        await world.gone(SYNC, "extra")
        assert await world.delivered(f"{word}-edited") is None
        await world.shows(f"{word}-old", {"key": "mine"})
        await world.shows(f"{word}-left", {"key": "one"})


async def test_reconcile_writes_an_object_when_its_definition_changes_and_not_its_neighbours(world: World) -> None:
    word = world.namespace
    texts = {name: config_map(f"{word}-{name}", key="one") for name in ("edited", "deleted", "changed", "left")}
    await source(world, a=written(*texts.values()))
    cluster = await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, strategy="Reconcile")
        await world.until(BINDING, ONE, is_synced)
        for name in ("edited", "changed"):
            await edit(world, f"{word}-{name}", key="by hand")
        await remove(world, f"{word}-deleted")

        changed = config_map(f"{word}-changed", key="two")
        await source(world, a=written(texts["edited"], texts["deleted"], changed))
        await world.shows(f"{word}-changed", {"key": "two"})
        await until_gone(world, f"{word}-left")
        binding = await request(world, cluster, "first")
        assert {entry["name"] for entry in binding["status"]["drift"]} == {f"{word}-edited", f"{word}-deleted"}
        await world.shows(f"{word}-edited", {"key": "by hand"})
        assert await world.delivered(f"{word}-deleted") is None

        await set_strategy(world, SyncStrategy.CONTINUOUS)
        await world.shows(f"{word}-edited", {"key": "one"})
        await world.shows(f"{word}-deleted", {"key": "one"})


async def test_strategies_change_in_place_in_both_directions(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    cluster = await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)
        await set_strategy(world, SyncStrategy.APPLY_ONCE)
        await edit(world, word, key="by hand")
        await source(world, a=written(config_map(word, key="two"), config_map(f"{word}-2", key="two")))
        await world.shows(f"{word}-2", {"key": "two"})
        await world.shows(word, {"key": "by hand"})

        await set_strategy(world, SyncStrategy.RECONCILE)
        await world.shows(word, {"key": "two"})
        await edit(world, word, key="again")
        await request(world, cluster, "first")
        await world.shows(word, {"key": "again"})

        await set_strategy(world, SyncStrategy.CONTINUOUS)
        await world.shows(word, {"key": "two"})
        await edit(world, word, key="by hand")
        await request(world, cluster, "second")
        await world.shows(word, {"key": "two"})


@pytest.mark.parametrize("released", [{"strategy": "ApplyOnce"}, {"prune": False}], ids=["ApplyOnce", "prune false"])
async def test_object_that_left_while_nothing_was_deleted_is_not_deleted_later(
    world: World, released: Manifest
) -> None:
    """Otherwise a CRD that left would go unseen, with its custom resources, when the sync begins to delete again."""
    word, group = world.namespace, f"{world.namespace}.example.org"
    await source(world, a=written(crd("Widget", group), config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        made = await sync(world, **released)
        await world.until(BINDING, ONE, is_synced)
        widgets = await world.workload.resource(group, "Widget")
        await world.workload.create(widgets, named(f"{group}/v1", "Widget", "mine"), namespace="default")
        await source(world, a=written(config_map(f"{word}-2", key="two")))
        await world.shows(f"{word}-2", {"key": "two"})

        await world.patch(made, {"spec": {"strategy": "Continuous", "prune": True}})
        await source(world, a=written(config_map(f"{word}-3", key="three")))
        await until_gone(world, f"{word}-2")
        await world.shows(word, {"key": "one"})
        assert await world.workload.find(widgets, "mine", "default")


@pytest.mark.parametrize("strategy", ["ApplyOnce", "Reconcile"])
async def test_spec_of_a_cluster_resource_set_is_accepted_as_it_is(world: World, strategy: str) -> None:
    spec: dict[str, Any] = {
        "clusterSelector": {"matchExpressions": [{"key": "cni", "operator": "In", "values": ["calico"]}]},
        "resources": [{"name": "objects", "kind": "ConfigMap"}, {"name": "more", "kind": "Secret"}],
        "strategy": strategy,
    }
    made = await sync(world, interval="", **spec)

    for resource in made["spec"]["resources"]:
        assert resource.pop("template") is False, "the default of a field of ours"
    assert {key: made["spec"][key] for key in spec} == spec
