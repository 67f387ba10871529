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
from tests.support.running.world import condition_of, is_ready
from tests.support.servers.chart_repository import chart_repository, packaged

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
