"""Sources of a ClusterResourceSync whose values are templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.controllers.test_resource_syncs import BINDING, CLASS, ONE, is_synced, source, sync, written
from tests.support.builders.manifests import config_map

if TYPE_CHECKING:
    from tests.support.running.world import World


@pytest.mark.regression("CAPV-1384")
async def test_template_is_rendered_for_each_cluster_and_a_fault_deletes_nothing(world: World) -> None:
    word = world.namespace
    # The name of the object depends on the Cluster as well as its content.
    text = written(
        config_map(f"{word}-{{{{ .Cluster.metadata.name }}}}", zone='{{ get .Cluster.metadata.labels "zone" }}')
    )
    await source(world, a=text)
    await source(world, "plain", a=written(config_map(f"{word}-plain", key="{{ .Cluster.metadata.name }}")))
    one = await world.cluster("one", CLASS)
    await world.patch(one, {"metadata": {"labels": {"zone": "first"}}})
    async with world.operator():
        await sync(
            world,
            resources=[
                {"kind": "ConfigMap", "name": "objects", "template": True},
                {"kind": "ConfigMap", "name": "plain"},
            ],
        )
        await world.until(BINDING, ONE, is_synced)
        await world.shows(f"{word}-one", {"zone": "first"})
        await world.shows(f"{word}-plain", {"key": "{{ .Cluster.metadata.name }}"})

        await world.patch(one, {"metadata": {"labels": {"zone": "second"}}})
        await world.shows(f"{word}-one", {"zone": "second"})

        await source(world, a="{{ .Cluster.metadata.name | nothing }}")
        told = await world.says(BINDING, ONE, "SourcesRead", "SourceIncomplete", words=['"nothing" not defined'])
        assert f"ConfigMap {word}/objects, key a.yaml: " in told["message"]
        await world.shows(f"{word}-one", {"zone": "second"})
