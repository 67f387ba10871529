"""SIGKILL after each write of an upgrade, two minors long: each step is written once, and none is left out."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import UPGRADE_STEP_ANNOTATION, Kind
from tests.integration.clusters.test_plans import nodes_roll
from tests.integration.controllers.test_cluster_upgrade_troubles import FIRST, bundles, offer
from tests.integration.controllers.test_cluster_upgrades import upgrade
from tests.support.builders.fault_schedules import Server
from tests.support.running.operator_process import MORTAL, process
from tests.support.running.world import opened_world

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.running.faulty_world import AuditedServer

SECONDS = 400
"""Time that all lives may take on a busy machine."""


@pytest.mark.timeout(2 * SECONDS)
async def test_each_step_is_written_once_although_every_write_of_the_upgrade_is_the_last_one_of_its_operator(
    servers: Mapping[Server, AuditedServer], tmp_path: Path
) -> None:
    management, workload = (servers[server] for server in (Server.MANAGEMENT, Server.WORKLOAD))
    async with opened_world(management.server, workload.server, tmp_path) as world:
        names = bundles(world)
        async with world.operator():
            await offer(world, names)
            await world.cluster("one", names[0].class_name, version=FIRST)
            await world.addons_ready("one", names[0].class_name)
        management.audit.since_last()
        await world.create(upgrade(world, names[-1].release))
        lives = 0
        async with nodes_roll(world, "one"), asyncio.timeout(SECONDS):
            while text(await world.get(Kind.CLUSTER_UPGRADE, "up"), "status", "phase") != "Done":
                async with process(world, (*MORTAL, "1", "of=clusterupgrade", "quick")) as victim:
                    assert await victim.wait() == -signal.SIGKILL
                lives += 1

        written = [
            one
            for one in management.audit.since_last()
            if one.kind == "clusters" and UPGRADE_STEP_ANNOTATION in str(one.content) and one.code < 300
        ]
        asked = [text(one.content, "spec", "topology", "version") for one in written]
        assert asked == ["v1.35.4", "v1.36.1"]
        assert lives > 2 * len(asked), "each step has a write of the status and one of the Cluster"
