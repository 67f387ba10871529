"""Annotated ClusterResourceSets of Cluster API: their objects are kept in place; the test plays Cluster API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.deliver.apply.record_store import SECRETS, SYNC_RECORD, record_name
from clusterstacks.model.kinds.clusterresourcesync import binding_name
from clusterstacks.model.kinds.names import (
    RECONCILE_ANNOTATION,
    RESOURCE_SET_BINDING_KIND,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    STRATEGY_ANNOTATION,
    SYNC_DELETION_POLICY_ANNOTATION,
    Kind,
    sync_name,
)
from tests.integration.controllers.test_resource_syncs import CLASS, is_synced, source, sync, until_gone, written
from tests.support.builders.manifests import config_map, named
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

BINDING = Kind.CLUSTER_RESOURCE_SYNC_BINDING
SYNC = sync_name("cni")
ONE = binding_name(SYNC, "one")
API_VERSION = f"{RESOURCE_SET_GROUP}/v1"
PREFIX = STRATEGY_ANNOTATION.partition("/")[0]
INTERVAL = f"{PREFIX}/interval"
PRUNE = f"{PREFIX}/prune"


async def resource_set(world: World, annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    spec = {
        "clusterSelector": {"matchLabels": {"cni": "yes"}},
        "resources": [{"kind": "ConfigMap", "name": "objects"}],
        **spec,
    }
    manifest = named(API_VERSION, RESOURCE_SET_KIND, "cni", world.namespace, spec=spec)
    manifest["metadata"]["annotations"] = {INTERVAL: "10s", **(annotations or {})}
    return await world.create(manifest)


async def annotate(world: World, manifest: Manifest, annotations: dict[str, str | None]) -> Manifest:
    return await world.patch(manifest, {"metadata": {"annotations": annotations}})


async def selected_cluster(world: World) -> Manifest:
    cluster = await world.cluster("one", CLASS)
    return await world.patch(cluster, {"metadata": {"labels": {"cni": "yes"}}})


async def applied(world: World, *manifests: Manifest) -> None:
    """Create objects in the cluster, and note it, as Cluster API does."""
    maps = await world.workload.resource("", "ConfigMap")
    for manifest in manifests:
        await world.workload.create(
            maps, {**manifest, "metadata": {**manifest["metadata"], "namespace": "kube-system"}}
        )
    entry = {
        "clusterResourceSetName": "cni",
        "resources": [{"kind": "ConfigMap", "name": "objects", "applied": True, "hash": "x"}],
    }
    spec = {"clusterName": "one", "bindings": [entry]}
    await world.create(named(API_VERSION, RESOURCE_SET_BINDING_KIND, "one", world.namespace, spec=spec))


async def edit(world: World, name: str, patch: Manifest, manager: str) -> None:
    maps = await world.workload.resource("", "ConfigMap")
    await world.workload.merge_patch(maps, name, patch, "kube-system", manager=manager)


async def test_set_is_kept_from_the_annotation_on_and_left_as_it_is_without_it(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="new", same="a"), config_map(f"{word}-2", key="two")))
    await applied(world, config_map(word, key="old", same="a", dropped="yes"))
    await edit(world, word, {"data": {"key": "by hand"}}, "kubectl-edit")
    await selected_cluster(world)
    async with world.operator():
        made = await resource_set(world)
        await world.at_rest()
        assert await world.find(BINDING, ONE) is None

        await annotate(world, made, {STRATEGY_ANNOTATION: "Continuous"})
        binding = await world.until(BINDING, ONE, is_synced)
        assert {one["name"] for one in binding["metadata"]["ownerReferences"]} == {"cni", "one"}
        await world.shows(word, {"key": "new", "same": "a"})
        await world.shows(f"{word}-2", {"key": "two"})
        live = await world.delivered(word)
        assert {one["manager"] for one in (live or {})["metadata"]["managedFields"]} == {FIELD_MANAGER}

        await source(world, a=written(config_map(word, key="newer")))
        await world.shows(word, {"key": "newer"})
        maps = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(maps, word, "kube-system")
        await world.shows(word, {"key": "newer"})
        await world.shows(f"{word}-2", {"key": "two"})

        before = await annotate(world, made, {STRATEGY_ANNOTATION: None})
        await world.gone(BINDING, ONE)
        await edit(world, word, {"data": {"key": "by hand"}}, "kubectl-edit")
        await world.at_rest()
        await world.shows(word, {"key": "by hand"})
        assert await world.workload.find(SECRETS, record_name(SYNC, SYNC_RECORD), "kube-system") is None
        after = await world.find(RESOURCE_SET_KIND, "cni", group=RESOURCE_SET_GROUP)
        assert (after or {})["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
async def test_objects_of_a_deleted_set_stay_unless_its_annotation_says_otherwise(world: World, policy: str) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await selected_cluster(world)
    annotations = {STRATEGY_ANNOTATION: "Continuous", SYNC_DELETION_POLICY_ANNOTATION: policy}
    async with world.operator():
        made = await resource_set(world, annotations)
        await world.until(BINDING, ONE, is_synced)
        await world.at_rest()
        await world.delete(made)
        await world.gone(BINDING, ONE)
        if policy == "Delete":
            await until_gone(world, word)
        else:
            await world.shows(word, {"key": "one"})


async def test_objects_stay_without_the_strategy_also_if_deletion_was_chosen(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one"), config_map(f"{word}-2", key="two")))
    cluster = await selected_cluster(world)
    annotations = {STRATEGY_ANNOTATION: "Continuous", SYNC_DELETION_POLICY_ANNOTATION: "Delete", PRUNE: "true"}
    async with world.operator():
        made = await resource_set(world, annotations)
        await world.until(BINDING, ONE, is_synced)
        await source(world, a=written(config_map(word, key="one")))
        await until_gone(world, f"{word}-2")

        await world.patch(cluster, {"metadata": {"labels": {"cni": None}}})
        await world.gone(BINDING, ONE)
        await until_gone(world, word)

        await world.patch(cluster, {"metadata": {"labels": {"cni": "yes"}}})
        await world.until(BINDING, ONE, is_synced)
        await annotate(world, made, {STRATEGY_ANNOTATION: None})
        await world.gone(BINDING, ONE)
        await world.shows(word, {"key": "one"})


async def test_invalid_annotation_changes_nothing_and_an_event_says_what_is_allowed(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await selected_cluster(world)
    async with world.operator() as operator:
        made = await resource_set(world, {STRATEGY_ANNOTATION: "Continuous"})
        await world.until(BINDING, ONE, is_synced)
        made = await annotate(world, made, {STRATEGY_ANNOTATION: "Sometimes"})
        await world.says(BINDING, ONE, "Ready", "InvalidClusterResourceSet", words=["'Sometimes'", "Continuous"])

        async def told() -> bool:
            return [one["reason"] for one in await world.events(made)] == ["InvalidClusterResourceSet"]

        await eventually(told, about="the event of the ClusterResourceSet")
        await world.look_again(operator, "clusterresourceset", made)
        assert await told(), "the event is not repeated"
        await source(world, a=written(config_map(word, key="two")))
        await world.shows(word, {"key": "one"})
        await annotate(world, made, {STRATEGY_ANNOTATION: "Continuous"})
        await world.shows(word, {"key": "two"})


async def test_set_and_sync_of_one_name_are_different_and_claim_an_object_once(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="set")))
    await source(world, "others", a=written(config_map(f"{word}-2", key="sync")))
    await selected_cluster(world)
    async with world.operator():
        await resource_set(world, {STRATEGY_ANNOTATION: "Continuous"})
        await sync(world, "cni", resources=[{"kind": "ConfigMap", "name": "others"}])
        await world.until(BINDING, ONE, is_synced)
        await world.until(BINDING, binding_name("cni", "one"), is_synced)
        await world.shows(word, {"key": "set"})
        await world.shows(f"{word}-2", {"key": "sync"})

        await source(world, "others", a=written(config_map(word, key="sync")))
        await world.says(
            BINDING, binding_name("cni", "one"), "Ready", "ObjectClaimedTwice", words=["sync cni and sync crs.cni"]
        )
        await world.shows(word, {"key": "set"})


async def test_object_that_another_program_applies_is_not_adopted(world: World) -> None:
    """Cluster API notes an object that exists as applied."""
    word = world.namespace
    await source(world, a=written(config_map(word, key="set")))
    maps = await world.workload.resource("", "ConfigMap")
    manifest = config_map(word, "kube-system", key="theirs")
    await world.workload.apply(maps, manifest, manager="kustomize-controller", force=False)
    await applied(world)
    await selected_cluster(world)
    async with world.operator():
        await resource_set(world, {STRATEGY_ANNOTATION: "Continuous"})
        await world.says(BINDING, ONE, "ObjectsApplied", words=["kustomize-controller"])
        await world.shows(word, {"key": "theirs"})


async def test_merge_patch_of_cluster_api_is_corrected_once(world: World) -> None:
    """The strategy Reconcile of Cluster API removes what the source lacks, also our label."""
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await applied(world, config_map(word, key="one"))
    cluster = await selected_cluster(world)
    async with world.operator():
        await resource_set(world, {STRATEGY_ANNOTATION: "Continuous"})
        await world.until(BINDING, ONE, is_synced)
        before = await world.delivered(word)
        await edit(world, word, {"metadata": {"labels": None, "annotations": None}, "data": {"key": "2"}}, "manager")
        await source(world, a=written(config_map(word, key="2")))
        await world.patch(cluster, {"metadata": {"annotations": {RECONCILE_ANNOTATION: "first"}}})

        async def labelled() -> bool:
            live = await world.delivered(word)
            return live is not None and live["metadata"].get("labels") == (before or {})["metadata"]["labels"]

        await eventually(labelled, seconds=60, about="our labels")
        await world.shows(word, {"key": "2"})
        await world.until(BINDING, ONE, is_synced)
