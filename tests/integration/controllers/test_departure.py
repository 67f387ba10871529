"""A Cluster that takes a class of no cluster stack keeps its addons, or loses them if the policy says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.policy import PRUNE_ANNOTATION
from clusterstacks.deliver.apply.record_store import record_name
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, DELETION_POLICY_ANNOTATION, Kind
from tests.support.builders.manifests import config_map, named, with_annotation
from tests.support.builders.stacks import stage, templates
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ADDON = addon_name("one")
FOREIGN = "plain"
"""A class of no cluster stack."""


def publish(world: World) -> str:
    """Publish a release with two addons; return its class."""
    word = world.namespace
    mine = with_annotation(config_map(f"{word}-kept", "default"), PRUNE_ANNOTATION, "disabled")
    charts = {
        "app": templates(named("v1", "Namespace", f"{word}-space"), config_map(f"{word}-a", f"{word}-space"), mine),
        "last": templates(config_map(f"{word}-b", "default")),
    }
    hooks = {"AfterControlPlaneInitialized": [stage("app"), stage("last")]}
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", charts, hooks=hooks))
    return name.class_name


async def annotate(world: World, policy: str | None) -> None:
    cluster = await world.get(CLUSTER_KIND, "one")
    await world.patch(cluster, {"metadata": {"annotations": {DELETION_POLICY_ANNOTATION: policy}}})


def is_well(addon: Manifest) -> bool:
    return all(condition_of(addon, kind).get("status") == "True" for kind in ("Ready", "Healthy", "InSync"))


def is_left(cluster: Manifest) -> bool:
    return not condition_of(cluster, "ClusterStackAddonsReady")


@pytest.mark.regression("LIVE-LV-6")
async def test_addons_are_deleted_when_the_cluster_leaves_a_stack_with_the_policy_delete(world: World) -> None:
    class_name, word = publish(world), world.namespace
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", deletionPolicy="Delete"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.addons_ready("one", class_name)

        await world.set_class("one", FOREIGN)
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "AddonsDeleted")
        assert "its addons were deleted, as its deletion policy says" in found["message"]
        await world.until(CLUSTER_KIND, "one", is_left)
        assert await world.delivered(f"{word}-b", "default") is None
        assert await world.delivered(f"{word}-a", f"{word}-space") is None
        assert await world.delivered(f"{word}-kept", "default") is not None
        secrets = await world.workload.resource("", "Secret")
        assert await world.workload.find(secrets, record_name("last"), "kube-system") is None
        addon = await world.addon("one")
        assert addon["spec"]["clusterStack"] == ""
        assert not addon["status"].get("addons")
        told = {one["reason"]: one["message"] for one in await world.events(addon)}
        assert "ObjectsKept" in told
        assert told["AddonsDeleted"].startswith("3 objects of the addons were deleted: ")
        entry, installation = addon["status"]["history"]
        assert (entry["occasion"], entry["result"], entry["removed"]) == ("Delete", "Deleted", 3)
        assert entry["release"] == installation["release"]
        assert {one["name"]: one["removed"] for one in entry["addons"]} == {"app": 2, "last": 1}

        # A class of the stack is installed as the first one.
        await annotate(world, "Orphan")
        await world.set_class("one", class_name)
        await world.addons_ready("one", class_name)


async def test_addons_stay_by_default_and_the_annotation_wins(world: World) -> None:
    class_name, word = publish(world), world.namespace
    async with world.operator() as operator:
        await world.create(world.stack.manifest(word, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.addons_ready("one", class_name)

        await world.set_class("one", FOREIGN)
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert await world.delivered(f"{word}-b", "default") is not None
        assert (await world.addon("one"))["spec"]["clusterStack"] == class_name

        await annotate(world, "Delete")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "AddonsDeleted")
        assert await world.delivered(f"{word}-b", "default") is None


@pytest.mark.regression("LIVE-LV-6")
async def test_history_tells_why_objects_are_left_until_they_are_gone(world: World) -> None:
    class_name, word = publish(world), world.namespace
    held = {"metadata": {"finalizers": ["example.org/clean-up"]}}
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", deletionPolicy="Delete"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.addons_ready("one", class_name)
        maps = await world.workload.resource("", "ConfigMap")
        await world.workload.merge_patch(maps, f"{word}-b", held, "default")

        await world.set_class("one", FOREIGN)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "FailedToDeleteObjects", words=["example.org/clean-up"])
        entry, _ = (await world.addon("one"))["status"]["history"]
        assert (entry["occasion"], entry["result"], entry["removed"]) == ("Delete", "Failed", 2)
        assert f"ConfigMap default/{word}-b is being deleted since" in entry["message"]
        assert "ended" not in entry

        await world.workload.merge_patch(maps, f"{word}-b", {"metadata": {"finalizers": None}}, "default")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "AddonsDeleted")
        entry, _ = (await world.addon("one"))["status"]["history"]
        assert (entry["result"], entry["removed"]) == ("Deleted", 3)
        assert entry["ended"]
        assert "message" not in entry


@pytest.mark.regression("LIVE-LV-11")
async def test_live_lv_11_no_condition_says_that_orphaned_addons_are_well(world: World) -> None:
    class_name, word = publish(world), world.namespace
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", drift={"interval": "1h"}))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.until(Kind.CLUSTER_ADDON, ADDON, is_well)

        await world.set_class("one", FOREIGN)
        await world.says(
            Kind.CLUSTER_ADDON, ADDON, "Ready", "AddonsOrphaned", words=["its addons stay, and are not managed"]
        )
        addon = await world.until(Kind.CLUSTER_ADDON, ADDON, lambda one: not is_well(one))
        for kind in ("Healthy", "InSync"):
            found = condition_of(addon, kind)
            assert found["status"] == "Unknown"
            assert found["message"].startswith(f"not compared since {found['lastTransitionTime']}: Cluster {word}/one")
        cluster = await world.until(CLUSTER_KIND, "one", is_left)
        assert not [one for one in cluster["status"]["conditions"] if one["type"].startswith("ClusterStack")]

        await world.set_class("one", class_name)
        await world.until(Kind.CLUSTER_ADDON, ADDON, lambda one: condition_of(one, "Ready").get("status") == "True")
        await world.until(CLUSTER_KIND, "one", lambda one: not is_left(one))


async def test_a_cluster_that_cannot_be_reached_holds_back_no_deletion(world: World) -> None:
    class_name = publish(world)
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1", deletionPolicy="Delete"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.addons_ready("one", class_name)
        secrets = await world.client.resource("", "Secret")
        await world.client.delete(secrets, "one-kubeconfig", world.namespace)

        await world.set_class("one", FOREIGN)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "HelmChartDeleted", words=["one-kubeconfig"])
        await world.delete(await world.addon("one"))
        await world.gone(Kind.CLUSTER_ADDON, ADDON)
        assert await world.delivered(f"{world.namespace}-b", "default") is not None
