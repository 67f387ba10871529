"""Clusters that get addons: namespaces, class access, pauses, moves and watch filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import (
    ADOPT_ANNOTATION,
    DELETE_FOR_MOVE_ANNOTATION,
    PAUSED_ANNOTATION,
    WATCH_FILTER_LABEL,
    Kind,
)
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of, is_unready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from tests.support.running.world import World


async def stack_is_ready(world: World, **spec: Any) -> ReleaseName:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {world.namespace: templates(config_map(world.namespace))}))
    await world.create(world.stack.manifest(world.namespace, "v1", **spec))
    await world.release_ready(name)
    return name


async def test_class_of_another_namespace_delivers_its_addons_and_is_protected(world: World) -> None:
    team = await world.other_namespace()
    async with world.operator(namespace=""):
        name = await stack_is_ready(world)
        reference = {"name": name.class_name, "namespace": world.namespace}
        cluster = await world.cluster("one", name.class_name, namespace=team, classRef=reference)
        await world.addons_ready("one", name.class_name, namespace=team)

        await world.patch(await world.get(Kind.CLUSTER_STACK, world.namespace), {"spec": {"versions": []}})
        await world.delete(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))
        found = await world.until(
            Kind.CLUSTER_STACK_RELEASE,
            name.release,
            lambda one: condition_of(one, "Ready").get("reason") == "ClassInUse",
        )
        assert f"Cluster {team}/one" in condition_of(found, "Ready")["message"]
        assert await world.find("ClusterClass", name.class_name) is not None
        await world.delete(cluster)
        await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release)


async def test_cluster_in_a_namespace_without_access_to_the_class_has_a_condition(world: World) -> None:
    friends = await world.other_namespace({"team": world.namespace})
    others = await world.other_namespace()
    selector = {"matchLabels": {"team": world.namespace}}
    async with world.operator(namespace=""):
        name = await stack_is_ready(world, clusterNamespaces={"from": "Selector", "selector": selector})
        reference = {"name": name.class_name, "namespace": world.namespace}
        refused = await world.cluster("two", name.class_name, namespace=others, classRef=reference)
        await world.cluster("one", name.class_name, namespace=friends, classRef=reference)
        await world.addons_ready("one", name.class_name, namespace=friends)

        async def told() -> bool:
            return any(event["reason"] == "ClassNotOffered" for event in await world.events(refused))

        await eventually(told, about="an event of the refused Cluster")
        assert await world.find(Kind.CLUSTER_ADDON, addon_name("two"), others) is None


async def test_paused_and_moved_objects_are_not_changed(world: World) -> None:
    async with world.operator():
        name = await stack_is_ready(world)
        annotations = {"paused": {PAUSED_ANNOTATION: ""}, "moving": {DELETE_FOR_MOVE_ANNOTATION: ""}}
        clusters = {}
        for kind, found in annotations.items():
            manifest = await world.cluster(kind, name.class_name, ready=False)
            clusters[kind] = await world.patch(manifest, {"metadata": {"annotations": found}})
            await world.finish(manifest)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        before = "one"
        for kind, manifest in clusters.items():
            found_addon = await world.find(Kind.CLUSTER_ADDON, addon_name(kind))
            assert found_addon is None or is_unready(found_addon), kind
            # All three are one workload cluster here.
            heir = {ADOPT_ANNOTATION: f"{world.namespace}/{before}"}
            await world.patch(manifest, {"metadata": {"annotations": {**dict.fromkeys(annotations[kind]), **heir}}})
            await world.addons_ready(kind, name.class_name)
            before = kind


async def test_operator_with_a_filter_changes_only_its_own_objects(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {world.namespace: templates(config_map(world.namespace))}))
    stack = world.stack.manifest(world.namespace, "v1")
    async with world.operator(watch_filter="ours") as operator:
        created = await world.create(stack)
        await eventually(lambda: synced(operator), about="informers")
        assert await world.find(Kind.CLUSTER_STACK_RELEASE, name.release) is None
        await world.patch(created, {"metadata": {"labels": {WATCH_FILTER_LABEL: "ours"}}})
        release = await world.release_ready(name)
        assert release["metadata"]["labels"] == {WATCH_FILTER_LABEL: "ours"}


async def synced(operator: Any) -> bool:
    return all(informer.is_synced for informer in operator._informers.values())
