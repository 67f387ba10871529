"""The operator process: probes, metrics, signals, and rights granted later."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import aiohttp
import yaml

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.operator_process import MORTAL, OPERATOR, process
from tests.support.running.world import is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World


async def answer(port: int, path: str) -> tuple[int, str]:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, await response.text()
    except aiohttp.ClientConnectionError as error:
        raise AssertionError(str(error)) from error


async def test_operator_is_ready_after_its_caches_are_filled_and_stops_cleanly(world: World) -> None:
    probes, metrics = free_port(), free_port()
    flags = {"health_probe_bind_address": f"127.0.0.1:{probes}", "metrics_bind_address": f"127.0.0.1:{metrics}"}
    async with process(world, OPERATOR, **flags) as running:

        async def ready() -> bool:
            status, text = await answer(probes, "/readyz")
            assert status == 200, text
            return True

        await eventually(ready, about="readiness")
        assert (await answer(probes, "/healthz"))[0] == 200
        assert "clusterstacks_reconcile" in (await answer(metrics, "/metrics"))[1]
        running.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.wait(), 250) == 0


async def test_operator_without_rights_reports_them_and_starts_once_granted(world: World, tmp_path: Path) -> None:
    user = f"late-{world.namespace}"
    document = yaml.safe_load(world.management_kubeconfig.read_text())
    document["users"][0]["user"]["as"] = user
    kubeconfig = tmp_path / "late"
    kubeconfig.write_text(yaml.safe_dump(document))
    probes = free_port()
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    flags = {"kubeconfig": kubeconfig, "health_probe_bind_address": f"127.0.0.1:{probes}"}
    async with process(world, OPERATOR, **flags) as running:

        async def unready() -> str:
            status, text = await answer(probes, "/readyz")
            assert status == 503, text
            return text

        assert "ClusterStack.clusterstack.x-k8s.io" in await eventually(unready, about="the probe")
        group = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        await world.create(binding)
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)
        assert running.returncode is None


async def test_repeatedly_killed_operator_converges(world: World) -> None:
    name = world.stack.release("v1")
    objects = [config_map(f"{world.namespace}-{number}") for number in range(5)]
    world.publish(name, world.stack.files("v1", {"cni": templates(*objects)}))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    await world.cluster("one", name.class_name)

    async def done() -> bool:
        addon = await world.find(Kind.CLUSTER_ADDON, "cluster-addon-one")
        return addon is not None and is_ready(addon)

    deaths = 0
    while not await done():
        lives = 4 + 2 * deaths
        async with process(world, (*MORTAL, str(lives))) as running:

            async def dead_or_done(running: asyncio.subprocess.Process = running) -> bool:
                return running.returncode is not None or await done()

            await eventually(dead_or_done, about="death or delivery")
        deaths += 1
        assert deaths < 20

    assert deaths > 1
    resources = (await world.addon("one"))["status"]["resources"]
    assert sorted(one["name"] for one in resources) == sorted(one["metadata"]["name"] for one in objects)
