"""USER-9: a missing pinned version is reported in the table and in the condition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import Kind
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import LOOKING_OFTEN

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("USER-9")


@pytest.mark.regression("USER-9")
async def test_missing_pinned_version_is_in_the_table_and_in_the_condition(world: World) -> None:
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    world.publish(world.stack.release("v2"), world.stack.files("v2", {}))
    async with world.operator(source=LOOKING_OFTEN):
        pinned = world.stack.manifest(world.namespace, "v9", autoSubscribe=True, channel="stable")
        await world.create(pinned)
        found = await world.says(Kind.CLUSTER_STACK, world.namespace, "Ready", "VersionsMissing")
        await world.release_ready(world.stack.release("v2"))
        await world.until(
            Kind.CLUSTER_STACK, world.namespace, lambda one: (one.get("status") or {}).get("usableVersions") == "v2"
        )
        await world.says(Kind.CLUSTER_STACK, world.namespace, "Ready", "VersionsMissing")
        table = await asyncio.to_thread(kubectl, "get", "clusterstacks", "-o=wide")
        waited = await asyncio.to_thread(
            kubectl.tried, "wait", "--for=condition=Ready", "--timeout=1s", f"clusterstack/{world.namespace}"
        )

    assert f"release {world.stack.release('v9')} is not in " in found["message"]
    header, row = table.splitlines()
    assert row[header.index("REASON") :].startswith("VersionsMissing")
    assert f"{world.stack.release('v9')} is not in" in row
    assert waited.returncode != 0
