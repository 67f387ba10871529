"""The commands of "keep resources in place": a sync is created, looked at, and a cluster is given up."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import binding_name
from clusterstacks.model.kinds.names import Kind
from tests.support.builders.manifests import config_map, crd, named
from tests.support.running.doc_pages import Page, environ_of_reader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World


async def test_every_command_of_the_page_does_what_it_says(world: World, tmp_path: Path) -> None:
    group = f"{world.namespace}.example.org"
    page = Page.read(
        "how-to/keep-resources-in-place.md",
        {"kubectl ": f"kubectl --namespace {world.namespace} ", " default/": f" {world.namespace}/"},
    )
    contents = {
        "operator": crd("Widget", group),
        "instance": named(f"{group}/v1", "Widget", "one", "default"),
        "clouds": config_map(world.namespace, key="clouds"),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.dump(content))
    (sync,) = page.others["yaml"]
    (tmp_path / "extra.yaml").write_text(sync)
    run = partial(asyncio.to_thread, directory=tmp_path, environ=environ_of_reader(world.management_kubeconfig))
    await world.cluster("prod", "plain")

    async with world.operator():
        await run(page.part(page.blocks[:-1]).run)
        await world.shows(world.namespace, {"key": "clouds"})
        widgets = await world.workload.resource(group, "Widget")
        assert await world.workload.find(widgets, "one", "default")

        await world.connect("prod", {"clusters": []})  # as unusable as a cluster that does not answer
        await world.delete(await world.get(Kind.CLUSTER_RESOURCE_SYNC, "extra"))
        binding = binding_name("extra", "prod")
        await world.until(
            Kind.CLUSTER_RESOURCE_SYNC_BINDING, binding, lambda one: one["metadata"].get("deletionTimestamp")
        )
        await run(page.part(page.blocks[-1:]).run)
        await world.gone(Kind.CLUSTER_RESOURCE_SYNC, "extra")
