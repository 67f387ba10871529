"""SIGKILL after each write of a release with a node image that the operator serves: one Image, with one URL."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.names import Kind
from tests.integration.controllers.test_node_images import report
from tests.integration.controllers.test_served_images import DIGEST, offer
from tests.support.builders.fault_schedules import Server
from tests.support.running.operator_process import MORTAL, process
from tests.support.running.world import is_ready, opened_world

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from tests.support.running.faulty_world import AuditedServer

GROUP, KIND = IMAGE_KIND
SECONDS = 300
"""Time that all lives may take on a busy machine."""


@pytest.mark.timeout(2 * SECONDS)
async def test_image_is_created_and_deleted_once_although_every_write_is_the_last_one_of_its_operator(
    servers: Mapping[Server, AuditedServer], tmp_path: Path
) -> None:
    management, workload = (servers[server] for server in (Server.MANAGEMENT, Server.WORKLOAD))
    async with opened_world(management.server, workload.server, tmp_path) as world:
        name, files = offer(world, world.releases)
        world.publish(name, files)
        port = free_port()
        flags = {
            "node-image-bind-address": f"127.0.0.1:{port}",
            "node-image-url": f"http://127.0.0.1:{port}",
            "operator-namespace": world.namespace,
            "webhook-port": 0,
        }

        async def lives_until(done: Callable[[Manifest | None], bool]) -> int:
            lives = 0
            while not done(await world.find(Kind.CLUSTER_STACK_RELEASE, name.release)):
                async with process(world, (*MORTAL, "1", "quick"), **flags) as victim:
                    assert await victim.wait() == -signal.SIGKILL
                lives += 1
            return lives

        management.audit.since_last()
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
            # As ORC does, once; the status of the same Image stays.
            group.create_task(report(world, "node", "True", "Success"))
            lives = await lives_until(lambda found: found is not None and is_ready(found))
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert (release["status"]["nodeImages"], release["status"]["nodeImageFiles"]) == ("1/1", [DIGEST])

        await world.delete(stack)
        await world.delete(release)  # as the garbage collector does
        async with asyncio.timeout(SECONDS):
            lives += await lives_until(lambda found: found is None)
        assert await world.find(KIND, "node", group=GROUP) is None

        of_images = [one for one in management.audit.since_last() if one.kind == "images" and one.is_write]
        assert [one.verb for one in of_images if one.code == 201] == ["apply"]
        assert [one.verb for one in of_images].count("delete") == 1
        assert lives > 8, "each step of the release is a write"
