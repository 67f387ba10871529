"""The commands of "upgrade a fleet in a window" and of "stop and resume an upgrade"."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import Kind
from tests.support.running.doc_pages import Page, environ_of_reader

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


def has_phase(wanted: str, upgrade: Manifest) -> bool:
    return bool((upgrade.get("status") or {}).get("phase") == wanted)


async def test_every_command_of_both_pages_does_what_it_says(world: World, tmp_path: Path) -> None:
    team = {" team": f" {world.namespace}"}
    closed = f"{datetime.now(UTC) + timedelta(days=3):%a}"
    begin = Page.read("how-to/upgrade-a-fleet.md", {**team, "[Sat, Sun]": f"[{closed}]"})
    stop = Page.read("how-to/stop-an-upgrade.md", team)
    (manifest,) = begin.others["yaml"]
    (tmp_path / "canary.yaml").write_text(manifest)
    run = partial(asyncio.to_thread, directory=tmp_path, environ=environ_of_reader(world.management_kubeconfig))
    until = partial(world.until, Kind.CLUSTER_UPGRADE, "canary")

    async def block(page: Page, number: int) -> str:
        (printed,) = await run(page.part([replace(page.blocks[number], shown="")]).run)  # the numbers are an example
        return str(printed)

    def table(page: Page, number: int, phase: str) -> list[str]:
        """Return the columns that a page shows, and those of the test."""
        head = page.blocks[number].shown.splitlines()[0].split()
        return [*head, "canary", "openstack-scs-1-36-v2", phase, "0/1", "0", "0"]

    async with world.operator():
        name = world.stack.release("v1")
        world.publish(name, world.stack.files("v1", {}))
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        cluster = await world.cluster("prod", name.class_name)
        await world.patch(cluster, {"metadata": {"labels": {"ring": "canary"}}})

        await block(begin, 0)
        await until(partial(has_phase, "Waiting"))
        printed = await block(begin, 0)
        assert printed.splitlines()[0].endswith("unchanged")
        assert printed.split()[2:-1] == table(begin, 0, "Waiting")
        says = await block(begin, 1)
        assert says.startswith(f"prod Waiting  waits for the window, which opens on {closed} ")

        await block(stop, 0)
        await until(partial(has_phase, "Suspended"))
        assert (await block(stop, 0)).split()[-14:-1] == table(stop, 0, "Suspended")
        assert await block(begin, 1) == "prod Waiting  waits, because spec.suspend is true\n"
        await block(stop, 1)
        await until(partial(has_phase, "Waiting"))
        await block(stop, 2)
        found = await until(lambda upgrade: upgrade["spec"].get("stepLimit") == 2)
        assert found["spec"]["suspend"] is False
        described = await block(stop, 3)
        assert "waits for the window" in described
        assert "0/1 clusters have the target" in described
