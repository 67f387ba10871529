"""An object that two addons of a release render."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import is_unready

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"


@pytest.mark.regression("LIVE-M3")
async def test_object_of_two_addons_is_an_error_that_names_both(world: World) -> None:
    word = world.namespace
    one, two = f"{word}-a", f"{word}-b"
    releases = {
        "v1": {one: templates(config_map(word, by="a")), two: templates(config_map(two), config_map(word, by="b"))},
        "v2": {one: templates(config_map(one)), two: templates(config_map(two), config_map(word, by="b"))},
    }
    for version, addons in releases.items():
        world.publish(world.stack.release(version), world.stack.files(version, addons))
    first, second = (world.stack.release(version).class_name for version in releases)
    async with world.operator() as operator:
        await world.create(world.stack.manifest(word, *releases))
        for version in releases:
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        told = await world.says(Kind.CLUSTER_ADDON, ADDON, "HelmChartApplied", "ObjectInTwoAddons")

        for part in (f"addon {one}", f"addon {two}", f"ConfigMap kube-system/{word}"):
            assert part in told["message"]
        before = await world.delivered(word)
        assert before is not None
        assert before["data"] == {"by": "a"}
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert await world.delivered(word) == before
        assert await world.delivered(two) is None
        assert is_unready(await world.addon("one"))

        await world.set_class("one", second)  # the object moves to the other addon
        await world.addons_ready("one", second)
        await world.shows(word, {"by": "b"})
