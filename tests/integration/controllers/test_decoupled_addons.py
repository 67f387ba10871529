"""Addons of another release than the class, and values of one cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

PREFIX = "clusterstack.x-k8s.io/addon."
ALL = "clusterstack.x-k8s.io/addon-release"
VALUES = "values: |\n  text: from the release\n  more: {a: 1, b: 2}\n"


def ranged(world: World, version: str, *addons: str, stack: TinyStack | None = None) -> ReleaseName:
    """Publish a release with ranges whose addons deliver a ConfigMap each, which names the release."""
    stack = stack or world.stack
    name = stack.release(version)
    charts = {addon: templates(config_map(f"{world.namespace}-{addon}", release=name.release)) for addon in addons}
    kubernetes = f"v{stack.minor}.4"
    stated = {
        "apiVersion": "compatibility.clusterstack.x-k8s.io/v1alpha1",
        "kubernetes": ">=1.34 <1.38",
        "components": [
            {"name": addon, "addon": addon, "version": f"1.{version.removeprefix('v')}.0"} for addon in addons
        ],
    }
    files = stack.files(version, charts, kubernetes=kubernetes)
    world.publish(name, {**files, "compatibility.yaml": json.dumps(stated).encode()})
    return name


async def offered(world: World, *versions: str, stack: TinyStack | None = None, **spec: object) -> None:
    stack = stack or world.stack
    await world.create(stack.manifest(world.namespace, *versions, **spec))
    for version in versions:
        await world.release_ready(stack.release(version))


async def annotate(world: World, annotations: dict[str, str | None]) -> None:
    cluster = await world.get(CLUSTER_KIND, "one")
    await world.patch(cluster, {"metadata": {"annotations": annotations}})


async def sources(world: World, expected: dict[str, str]) -> Manifest:
    """Wait until the ClusterAddon is ready and says where each addon comes from; its status is written last."""

    def told(addon: Manifest) -> bool:
        stated = (addon["spec"].get("addons", []), addon.get("status", {}).get("addons", []))
        return is_ready(addon) and all({one["name"]: one["release"] for one in found} == expected for found in stated)

    return await world.until(Kind.CLUSTER_ADDON, "cluster-addon-one", told)


async def delivered(world: World, *addons: str) -> dict[str, tuple[str, str]]:
    """The release each addon's ConfigMap names, and the ConfigMap's resourceVersion."""
    found = {addon: await world.delivered(f"{world.namespace}-{addon}") for addon in addons}
    return {
        addon: (one["data"]["release"], one["metadata"]["resourceVersion"])
        for addon, one in found.items()
        if one is not None
    }


async def test_one_addon_moves_to_another_release_and_back_without_other_changes(world: World) -> None:
    first, second = ranged(world, "v1", "cni", "csi"), ranged(world, "v2", "cni", "csi")
    async with world.operator():
        await offered(world, "v1", "v2")
        await world.cluster("one", first.class_name)
        await sources(world, {"cni": first.release, "csi": first.release})
        before = await delivered(world, "cni", "csi")

        await annotate(world, {f"{PREFIX}cni": second.class_name})
        addon = await sources(world, {"cni": second.release, "csi": first.release})
        after = await delivered(world, "cni", "csi")
        assert after["cni"][0] == second.release
        assert after["csi"] == before["csi"], "not even written"
        assert {one["name"]: one["version"] for one in addon["status"]["addons"]} == {"cni": "1.2.0", "csi": "1.1.0"}
        assert addon["spec"]["clusterStack"] == first.class_name

        await annotate(world, {f"{PREFIX}cni": None})
        await sources(world, {"cni": first.release, "csi": first.release})
        assert (await delivered(world, "cni"))["cni"][0] == first.release


async def test_class_changes_without_the_addons(world: World) -> None:
    first, second = ranged(world, "v1", "cni"), ranged(world, "v2", "cni", "dns")
    async with world.operator():
        await offered(world, "v1", "v2")
        await world.cluster("one", first.class_name)
        await sources(world, {"cni": first.release})
        before = await delivered(world, "cni")

        await annotate(world, {f"{PREFIX}cni": first.release, f"{PREFIX}dns": "none"})
        await world.set_class("one", second.class_name)
        addon = await world.addons_ready("one", second.class_name)
        assert [(one["name"], one["release"]) for one in addon["spec"]["addons"]] == [("cni", first.release)]
        assert await delivered(world, "cni", "dns") == before

        await annotate(world, {f"{PREFIX}cni": None, f"{PREFIX}dns": None})
        await sources(world, {"cni": second.release, "dns": second.release})


async def test_all_addons_move_to_another_release_and_missing_ones_are_removed(world: World) -> None:
    first, second = ranged(world, "v1", "cni", "csi"), ranged(world, "v2", "cni", "dns")
    async with world.operator():
        await offered(world, "v1", "v2")
        await world.cluster("one", first.class_name)
        await sources(world, {"cni": first.release, "csi": first.release})
        await annotate(world, {ALL: second.release})
        await sources(world, {"cni": second.release, "dns": second.release})
        assert (await delivered(world, "cni", "csi", "dns")).keys() == {"cni", "dns"}


async def test_release_of_another_minor_is_created_for_its_addons_and_kept_while_used(
    world: World,
) -> None:
    newer = TinyStack(world.stack.word, "1.36")
    first = ranged(world, "v1", "cni")
    old, latest = ranged(world, "v1", "cni", stack=newer), ranged(world, "v2", "cni", stack=newer)
    async with world.operator():
        await offered(world, "v1")
        metadata = {"autoSubscribe": True, "channel": "stable", "kubernetesVersion": "1.36"}
        stack = newer.manifest(world.namespace, **metadata)
        stack["metadata"]["name"] = f"{world.namespace}-next"
        await world.create(stack)
        await world.release_ready(latest)
        assert await world.find(Kind.CLUSTER_STACK_RELEASE, old.release) is None, "nobody needs it yet"
        await world.cluster("one", first.class_name)
        await sources(world, {"cni": first.release})

        await annotate(world, {f"{PREFIX}cni": old.release})
        await sources(world, {"cni": old.release})
        assert (await delivered(world, "cni"))["cni"][0] == old.release

        await annotate(world, {f"{PREFIX}cni": None})
        await sources(world, {"cni": first.release})
        await world.gone(Kind.CLUSTER_STACK_RELEASE, old.release)


async def test_invalid_annotations_are_reported_on_the_clusteraddon(world: World) -> None:
    first, second = ranged(world, "v1", "cni"), ranged(world, "v2", "cni")
    bundle = world.stack.release("v3")
    world.publish(
        bundle, world.stack.files("v3", {"cni": templates(config_map(f"{world.namespace}-cni", release="v3"))})
    )
    async with world.operator():
        await offered(world, "v1", "v2", "v3")
        await world.cluster("one", first.class_name)
        await sources(world, {"cni": first.release})
        for annotation, value, words in (
            ("cni", "latest", ["addon.cni: 'latest' is not a valid release"]),
            ("cni", "other-stack-1-35-v1", ["belongs to another cluster stack"]),
            ("cni", world.stack.release("v9").release, ["v9, which an annotation names, is not offered"]),
            ("dns", second.release, ["has no addon dns, it has cni; correct the annotation"]),
        ):
            await annotate(world, {f"{PREFIX}cni": None, f"{PREFIX}dns": None, f"{PREFIX}{annotation}": value})
            await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "Ready", words=words)
        await annotate(world, {f"{PREFIX}cni": second.release, f"{PREFIX}dns": None})
        await sources(world, {"cni": second.release})

        await world.set_class("one", bundle.class_name)
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "Ready", words=["is a bundle", "remove the annot"])
        await annotate(world, {f"{PREFIX}cni": None})
        await sources(world, {"cni": bundle.release})


@pytest.mark.regression("D79")
async def test_values_of_one_cluster_override_those_of_the_release(world: World) -> None:
    name = world.stack.release("v1")
    shown = config_map(world.namespace, text="{{ .Values.text }}", more="{{ .Values.more.a }} {{ .Values.more.b }}")
    world.publish(name, world.stack.files("v1", {"cni": templates(shown, **{"overwrite.yaml": VALUES})}))
    own = {"cni": {"text": "of this cluster", "more": {"b": 3}}, "other": {"text": "of an addon nobody has"}}

    def variables(value: object) -> Manifest:
        return {"spec": {"topology": {"variables": [{"name": "addonValues", "value": value}]}}}

    async with world.operator():
        await offered(world, "v1")
        cluster = await world.cluster("one", name.class_name, variables=[{"name": "addonValues", "value": own}])
        await world.addons_ready("one", name.class_name)
        await world.shows(world.namespace, {"text": "of this cluster", "more": "1 3"})

        await world.patch(cluster, variables({"cni": ["no", "mapping"]}))
        words = ["variable addonValues.cni", "is a list: write the values"]
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "Ready", words=words)

        await world.patch(cluster, variables({}))
        await world.shows(world.namespace, {"text": "from the release", "more": "1 2"})
