"""``csctl impact``: what a release that is not published would change on live Clusters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clusterstacks.dev.loopback import free_port
from tests.integration.clusters.test_plans import csctl
from tests.support.builders.stacks import config_map, publish, templates
from tests.support.observing.write_counter import writes

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from tests.support.builders.stacks import TinyStack
    from tests.support.running.world import World


def built(root: Path, stack: TinyStack, version: str, kubernetes: str, **values: str) -> tuple[ReleaseName, Path]:
    """Write a release with the ConfigMaps of an addon."""
    charts = {"app": templates(*(config_map(name, key=value) for name, value in values.items()))}
    name = stack.release(version)
    return name, publish(root, name, stack.files(version, charts, kubernetes=kubernetes))


def unreachable(world: World) -> dict[str, Any]:
    (cluster,) = world.workload_kubeconfig["clusters"]
    server = {**cluster["cluster"], "server": f"https://127.0.0.1:{free_port()}"}
    return {**world.workload_kubeconfig, "clusters": [{**cluster, "cluster": server}]}


async def test_objects_of_each_cluster_are_named_and_what_blocks_the_others_and_nothing_is_written(
    world: World, tmp_path: Path
) -> None:
    word = world.namespace
    first, _ = built(world.releases, world.stack, "v1", "v1.35.4", **{f"{word}-a": "1", f"{word}-b": "1"})
    _, second = built(tmp_path, world.stack, "v2", "v1.35.4", **{f"{word}-a": "2", f"{word}-c": "1"})
    _, far = built(tmp_path, replace(world.stack, minor="1.37"), "v1", "v1.37.0", **{f"{word}-a": "2"})
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1"))
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await world.cluster("two", first.class_name, kubeconfig=unreachable(world))
        await world.at_rest()
    before = await writes(world.client)

    code, told, err = await csctl(world, "impact", str(second), "-n", word, "-o", "json")
    assert code == 3, err
    one, two = json.loads(told)
    assert (one["cluster"], one["from"], one["problem"]) == (f"{word}/one", first.class_name, None)
    assert len(one["steps"]) == 1
    assert one["objects"]["names"] == {
        "created": [f"ConfigMap kube-system/{word}-c"],
        "changed": [f"ConfigMap kube-system/{word}-a"],
        "removed": [f"ConfigMap kube-system/{word}-b"],
    }
    assert two["objects"] is None
    assert "does not respond" in two["problem"]

    code, told, err = await csctl(world, "impact", str(far), "-n", word)
    assert code == 3, err
    head, *rows, end = told.splitlines()
    assert head.split()[:2] == ["CLUSTER", "RELEASE"]
    assert [row.split()[0] for row in rows] == [f"{word}/one", f"{word}/two"]
    assert all("no release names a version of 1.36" in row for row in rows), told
    assert end == "2 Clusters, 2 with a problem"
    assert await writes(world.client) == before
    assert ((await world.delivered(f"{word}-a")) or {})["data"] == {"key": "1"}, "dry runs change nothing"
    assert await world.delivered(f"{word}-c") is None

    code, _, err = await csctl(world, "impact", str(tmp_path), "-n", word)
    assert code == 2
    assert "is not a release" in err
