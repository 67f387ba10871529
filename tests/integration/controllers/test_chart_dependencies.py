"""Releases whose chart dependencies are not part of the release."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CHARTS_ANNOTATION, Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from tests.support.builders.stacks import config_map, templates
from tests.support.observing.write_counter import writes
from tests.support.running.world import attempts, condition_of, is_ready
from tests.support.servers.chart_repository import chart_repository, packaged
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ALLOWED = AllowedHosts.parse("127.0.0.1:*")
CONDITION = "ChartDependenciesResolved"


def depending(world: World, url: str) -> dict[str, bytes]:
    """A release whose addon needs the chart ``part`` of a repository."""
    chart = "apiVersion: v2\nname: cni\nversion: 1.0.0\n"
    needs = f"dependencies: [{{name: part, version: '^1.0.0', repository: '{url}'}}]\n"
    addon = templates(config_map(world.namespace, text="hello"), **{"Chart.yaml": chart + needs})
    alone = templates(config_map(f"{world.namespace}-alone", text="hello"))
    return world.stack.files("v1", {"alone": alone, "cni": addon})


def resolved(manifest: Manifest) -> bool:
    return condition_of(manifest, CONDITION).get("status") == "True"


async def test_charts_are_resolved_once_and_pinned_across_disk_loss_and_move(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts:
        charts.add("part", "1.0.0", "1.1.0")
        world.publish(name, depending(world, charts.url))
        async with world.operator(chart_repositories=ALLOWED):
            await world.create(world.stack.manifest(world.namespace, "v1"))
            release = await world.release_ready(name)
            assert resolved(release)
            (pin,) = json.loads(release["metadata"]["annotations"][CHARTS_ANNOTATION])
            assert (pin["chart"], pin["name"], pin["version"]) == ("cluster-addon/cni", "part", "1.1.0")

        shutil.rmtree(world.cache)  # and status is lost, as clusterctl move loses it
        await world.patch(release, {"status": None}, "status")
        charts.add("part", "1.2.0")
        async with world.operator(chart_repositories=ALLOWED):
            release = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)
            assert json.loads(release["metadata"]["annotations"][CHARTS_ANNOTATION]) == [pin]
            asked = len(charts.asked)
            await world.cluster("one", name.class_name)
            await world.addons_ready("one", name.class_name)
            assert await world.delivered("part", "default") or await world.delivered("part")
            assert len(charts.asked) == asked


@pytest.mark.regression("DROP-H4")
async def test_only_the_addon_with_disallowed_chart_dependencies_fails(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts:
        charts.add("part", "1.0.0")
        world.publish(name, depending(world, charts.url))
        words = ["part", charts.url.removeprefix("http://"), "--chart-repositories"]
        missing = "ChartDependenciesMissing"
        async with world.operator():
            await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(name)
            await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, CONDITION, missing, words=words)

            await world.cluster("one", name.class_name)
            await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "HelmChartFound", words=words)
            assert await world.delivered(f"{world.namespace}-alone")
            assert charts.asked == []

        async with world.operator(chart_repositories=ALLOWED):
            assert is_ready(await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, resolved))
            await world.addons_ready("one", name.class_name)


async def test_failing_chart_repository_is_reported_until_it_recovers(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        world.publish(name, depending(world, charts.url))
        await world.create(world.stack.manifest(world.namespace, "v1"))

        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, CONDITION, words=["part"])
        charts.publish(packaged("part", "1.0.0"), "part", "1.0.0")
        assert is_ready(await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, resolved, nudging=True))


async def test_release_with_vendored_charts_has_no_dependency_condition(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    async with world.operator(chart_repositories=ALLOWED):
        await world.create(world.stack.manifest(world.namespace, "v1"))

        release = await world.release_ready(name)
        assert not condition_of(release, CONDITION)
        assert CHARTS_ANNOTATION not in release["metadata"]["annotations"]


@pytest.mark.regression("DROP-H6")
async def test_class_is_applied_once_while_charts_of_addons_are_missing(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts:
        charts.add("part", "1.0.0")
        world.publish(name, depending(world, charts.url))
        async with world.operator():
            await world.create(world.stack.manifest(world.namespace, "v1"))
            release = await world.release_ready(name)
        before = await writes(world.client)
        async with world.operator() as operator:

            async def looked() -> bool:
                return attempts(operator, "clusterstackrelease") > 0

            await eventually(looked, about="the first reconcile of the release")
            for _ in range(2):
                await world.look_again(operator, "clusterstackrelease", release)
        after = await writes(world.client)

    assert [key for key in (after - before) if key.startswith("APPLY")] == []
    assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))


@pytest.mark.regression("DROP-H6")
async def test_object_that_is_refused_does_not_cause_the_others_to_be_applied_again(world: World) -> None:
    """A template that its provider refuses is tried again; the class and the other templates are in place."""
    name = world.stack.release("v1")
    refused = world.stack.object("v1")
    refused = {**refused, "metadata": {**refused["metadata"], "name": f"{name.class_name}-large"}}
    refused["spec"] = {"template": {"spec": {"size": 10}}}
    world.publish(name, world.stack.files("v1", {}, class_objects=[*world.stack.class_objects("v1"), refused]))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "HelmChartApplied", words=["1 of 3 objects"])
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        before = await writes(world.client)
        await world.look_again(operator, "clusterstackrelease", release)
        await world.look_again(operator, "clusterstackrelease", release)
        after = await writes(world.client)

    applied = {key: count for key, count in (after - before).items() if key.startswith("APPLY")}
    assert applied.keys() == {"APPLY tinyclustertemplates/"}
    assert applied["APPLY tinyclustertemplates/"] >= 2


@pytest.mark.regression("DROP-H6")
async def test_rollout_stops_before_the_first_stage_whose_addon_lacks_charts(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts:
        charts.add("part", "1.0.0")
        files = {one: templates(config_map(f"{world.namespace}-{one}", text="hello")) for one in ("alone", "last")}
        chart = "apiVersion: v2\nname: cni\nversion: 1.0.0\n"
        needs = f"dependencies: [{{name: part, version: '^1.0.0', repository: '{charts.url}'}}]\n"
        addon = templates(config_map(f"{world.namespace}-cni", text="hello"), **{"Chart.yaml": chart + needs})
        addons = {"alone": files["alone"], "cni": addon, "last": files["last"]}
        world.publish(name, world.stack.files("v1", addons))
        async with world.operator() as operator:
            await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(name)
            await world.cluster("one", name.class_name)
            await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "HelmChartFound", words=["--chart-repositories"])
            await world.look_again(operator, "clusteraddon", await world.addon("one"))

            assert await world.delivered(f"{world.namespace}-alone")
            assert await world.delivered(f"{world.namespace}-cni") is None
            assert await world.delivered(f"{world.namespace}-last") is None
            manifest = await world.addon("one")
            assert not is_ready(manifest)
            assert condition_of(manifest, "Delivered").get("status") != "True"
