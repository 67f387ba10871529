"""A cluster that does not answer delays no other cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.fault_schedules import Server
from tests.support.running.faulty_world import CLUSTER, FaultyWorld

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.running.faulty_world import AuditedServer


async def test_another_cluster_gets_its_addons_while_one_is_a_black_hole(
    servers: Mapping[Server, AuditedServer], tmp_path: Path
) -> None:
    async with FaultyWorld.opened(servers, tmp_path / "world") as faulty:
        world = faulty.world
        first = await faulty.offer()
        async with world.operator():
            await world.release_ready(first)
            faulty.proxies[Server.WORKLOAD].swallow()
            await world.cluster(CLUSTER, first.class_name)
            await world.says(Kind.CLUSTER_ADDON, f"cluster-addon-{CLUSTER}", "ClusterReady", words=["does not respond"])

            await world.another_is_ready()

            await world.says(Kind.CLUSTER_ADDON, f"cluster-addon-{CLUSTER}", "ClusterReady", words=["does not respond"])
            faulty.proxies[Server.WORKLOAD].plan([])
            await world.addons_ready(CLUSTER, first.class_name)
