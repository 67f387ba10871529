"""The commands of "make a ClusterResourceSet continuous": it is switched on, set, and switched off."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tests.integration.controllers.test_resource_sets import INTERVAL, annotate, resource_set, selected_cluster
from tests.integration.controllers.test_resource_syncs import source, written
from tests.support.builders.manifests import config_map
from tests.support.running.doc_pages import Page, environ_of_reader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World


async def test_every_command_of_the_page_does_what_it_says(world: World, tmp_path: Path) -> None:
    word = world.namespace
    page = Page.read(
        "how-to/make-a-clusterresourceset-continuous.md", {"kubectl ": f"kubectl --namespace {word} ", ".prod": ".one"}
    )
    run = partial(asyncio.to_thread, directory=tmp_path, environ=environ_of_reader(world.management_kubeconfig))
    await source(world, a=written(config_map(word, key="one")))
    await selected_cluster(world)
    await annotate(world, await resource_set(world), {INTERVAL: None})
    *switch_on, switch_off = page.blocks
    async with world.operator():
        await run(page.part(switch_on).run)
        await world.shows(word, {"key": "one"})
        await run(page.part([switch_off]).run)
        await world.shows(word, {"key": "one"})
