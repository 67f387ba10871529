"""The daily verbs of csctl for ClusterResourceSyncs of a Cluster without a cluster stack."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import Kind
from tests.integration.controllers.test_resource_syncs import BINDING, CLASS, ONE, is_synced, source, sync, written
from tests.support.builders.manifests import config_map
from tests.support.running.csctl import call_csctl
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    import pytest

    from tests.support.running.world import World


async def test_verbs_show_and_repair_the_objects_of_syncs_on_a_cluster_of_no_stack(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    word, one, extra = world.namespace, f"{world.namespace}/one", f"{world.namespace}/extra"

    async def csctl(*arguments: str, code: int = 0) -> str:
        command = (*arguments, "--kubeconfig", world.management_kubeconfig)
        assert await asyncio.to_thread(call_csctl, *command) == code
        out, err = capsys.readouterr()
        return out + err

    await source(world, a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, interval="24h")
        await world.until(BINDING, ONE, is_synced)
        capsys.readouterr()

        table = [line.split() for line in (await csctl("status", "-n", word)).splitlines()]
        assert ["✓", word, "one", "True", "v1.35.4"] in table
        assert "    ✓ extra  1 object in place" in (await csctl("status", one)).splitlines()
        listed = json.loads(await csctl("status", "--syncs", "-n", word, "-o", "json"))
        assert [(found["name"], found["clusters"], found["synced"]) for found in listed] == [("extra", 1, 1)]
        assert await csctl("drift", one, "--exit-code") == "The only object is as it was delivered.\n"

        maps = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(maps, word, "kube-system")
        named = f"ConfigMap kube-system/{word} (sync extra): was deleted"
        found = await csctl("drift", one, "--exit-code", code=1)
        assert found == f"{named}\n1 of 1 objects differ from what was delivered.\n"
        (entry,) = json.loads(await csctl("drift", one, "-o", "json"))["drift"]
        assert (entry["addon"], entry["sync"]) == ("", "extra")

        compared, *restored = (await csctl("reconcile", one)).splitlines()
        assert compared == f"All objects of 1 sync of Cluster {one} were compared."
        assert restored[0] == "Restored by the operator:"
        assert restored[1].startswith(f"  {named}, restored 2")
        assert await world.delivered(word) is not None
        assert f"Restored by the operator:\n  {named}, restored 2" in await csctl("drift", one)

        await world.workload.merge_patch(maps, word, {"data": {"key": "by hand"}}, "kube-system")
        compared = await csctl("reconcile", "--sync", extra)
        assert compared.startswith(f"All objects of sync {extra} in 1 Cluster were compared.\n")
        await world.shows(word, {"key": "one"})

        await csctl("suspend", "--sync", extra)
        assert (await world.get(Kind.CLUSTER_RESOURCE_SYNC, "extra"))["spec"]["suspend"] is True
        await world.until(BINDING, ONE, lambda binding: condition_of(binding, "Paused").get("status") == "True")
        assert "csctl resume --sync" in await csctl("reconcile", "--sync", extra, code=2)
        assert "csctl resume --sync" not in await csctl("status", one)
        await csctl("resume", "--sync", extra)
        await world.until(BINDING, ONE, lambda binding: not condition_of(binding, "Paused"))
        assert "of which there is no history" in await csctl("history", one)
        assert "does not exist, or selects no Cluster" in await csctl("reconcile", "--sync", one, code=2)
        assert "has no ClusterAddon" in await csctl("suspend", one, code=2)
