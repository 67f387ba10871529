"""Render errors are reported, and renders are independent of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import bugs, is_unready

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"


async def cluster_of(world: World, files: dict[str, bytes]) -> None:
    """Publish version 1 and create stack and cluster."""
    name = world.stack.release("v1")
    world.publish(name, files)
    await world.create(world.stack.manifest(world.namespace, "v1"))
    await world.release_ready(name)
    await world.cluster("one", name.class_name)


@pytest.mark.regression("D4", "D33", "D82")
@pytest.mark.parametrize(
    ("template", "words"),
    [
        ('{{ fail "no network" }}', ("templates/broken.yaml:1", "no network")),
        ("{{ .Values.a.b.c }}", ("templates/broken.yaml:1", "nil pointer")),
        ("kind: [", ("templates/broken.yaml",)),
        ("a: b\n  c: d\n", ("templates/broken.yaml",)),
        ("\x01", ("templates/broken.yaml",)),
    ],
    ids=["fails", "misses a value", "ends too early", "is indented wrongly", "holds a control character"],
)
async def test_addon_with_a_render_error_is_not_ready(world: World, template: str, words: tuple[str, ...]) -> None:
    chart = templates(config_map(world.namespace), **{"templates/broken.yaml": template})
    async with world.operator():
        await cluster_of(world, world.stack.files("v1", {"cni": chart}))
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "HelmChartTemplated", "TemplateNewClusterStackFailed")

        for word in ("addon cni", world.stack.release("v1").release, *words):
            assert word in found["message"]
        assert is_unready(await world.addon("one"))
        assert await world.delivered(world.namespace) is None


@pytest.mark.regression("D4")
async def test_release_whose_stages_name_a_missing_chart_is_not_ready(world: World) -> None:
    name = world.stack.release("v1")
    hooks = {"AfterControlPlaneInitialized": [stage("cni"), stage("missing")]}
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}, hooks=hooks))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "ClusterStackReleaseDownloaded")

        assert "missing" in found["message"]
        assert name.release in found["message"]


@pytest.mark.regression("D17")
async def test_values_of_one_addon_are_not_used_for_another(world: World) -> None:
    word = world.namespace
    shown = '{{ .Values.text | default "plain" }}'
    charts = {
        addon: templates(config_map(f"{word}-{addon}", text="SHOWN"), **extra)
        for addon, extra in {"cni": {"overwrite.yaml": "values: |\n  text: special\n"}, "csi": {}, "dns": {}}.items()
    }
    for chart in charts.values():
        chart["templates/all.yaml"] = chart["templates/all.yaml"].replace("SHOWN", shown.replace('"', "`"))
    async with world.operator():
        await cluster_of(world, world.stack.files("v1", charts))
        await world.addons_ready("one", world.stack.release("v1").class_name)

        found = {addon: await world.delivered(f"{word}-{addon}") for addon in charts}
        assert {addon: (one or {}).get("data") for addon, one in found.items()} == {
            "cni": {"text": "special"},
            "csi": {"text": "plain"},
            "dns": {"text": "plain"},
        }


@pytest.mark.regression("D18")
async def test_objects_without_namespace_are_in_kube_system(world: World) -> None:
    word = world.namespace
    placed = config_map(f"{word}-placed")
    placed["metadata"]["namespace"] = "default"
    async with world.operator():
        await cluster_of(world, world.stack.files("v1", {"cni": templates(placed, config_map(f"{word}-unplaced"))}))
        await world.addons_ready("one", world.stack.release("v1").class_name)

        assert await world.delivered(f"{word}-placed", "default") is not None
        assert await world.delivered(f"{word}-placed", "kube-system") is None
        assert await world.delivered(f"{word}-unplaced", "kube-system") is not None


@pytest.mark.regression("D34")
@pytest.mark.parametrize("text", ["", "# nothing\n", "values:\n", "{{ if false }}values: x{{ end }}"])
async def test_an_empty_overwrite_means_no_values(world: World, text: str) -> None:
    async with world.operator():
        chart = templates(config_map(world.namespace), **{"overwrite.yaml": text})
        await cluster_of(world, world.stack.files("v1", {"cni": chart}))
        await world.addons_ready("one", world.stack.release("v1").class_name)

        assert await world.delivered(world.namespace) is not None


@pytest.mark.regression("D34")
async def test_an_overwrite_that_is_a_list_is_named(world: World) -> None:
    async with world.operator():
        chart = templates(config_map(world.namespace), **{"overwrite.yaml": "- a\n- b\n"})
        await cluster_of(world, world.stack.files("v1", {"cni": chart}))
        reason = "TemplateNewClusterStackOverwriteFailed"
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "HelmChartTemplated", reason)

        assert "overwrite.yaml" in found["message"]
        assert "addon cni" in found["message"]


async def test_addon_without_objects_is_delivered_at_the_first_attempt(world: World) -> None:
    """Every template may be switched off by a value."""
    name = world.stack.release("v1")
    chart = {"templates/all.yaml": "{{ if .Values.enabled }}a: 1{{ end }}", "values.yaml": "enabled: false\n"}
    world.publish(name, world.stack.files("v1", {"csi": chart}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        addon = await world.addons_ready("one", name.class_name)

        assert [(one["name"], one["release"], one["objects"]) for one in addon["status"]["addons"]] == [
            ("csi", name.release, 0)
        ]
        assert not bugs(operator)
