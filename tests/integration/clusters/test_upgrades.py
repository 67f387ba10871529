"""``csctl upgrade``: the steps of a plan, taken one by one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.model import yaml
from clusterstacks.model.kinds.names import CLUSTER_KIND
from tests.integration.clusters.test_plans import NEW, csctl, document, nodes_roll, offered
from tests.support.builders.remote_repositories import repository
from tests.support.running.admission import guarded
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

ADDONS = "clusterstack.x-k8s.io/addon"


async def test_upgrade_that_is_killed_after_each_step_takes_every_step_once(
    world: World, registry: RegistryServer
) -> None:
    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        key = f"{world.namespace}/one"

        code, told, err = await csctl(world, "upgrade", key)
        assert (code, err) == (0, "")
        assert [second.release, NEW] == told.splitlines()[-1].split()[:2]
        plan = (await document(world, "plan", "--to", second.release))["steps"]
        code, told, _ = await csctl(world, "upgrade", key, "--to", second.release, "--dry-run")
        assert code == 0
        assert told.splitlines()[-1].startswith(f"{len(plan)} steps; ")
        assert "kubectl" not in told
        assert told.splitlines()[-1].endswith(", 2 objects change.")
        await impact_is_known(world, plan, second.release)
        code, _, err = await csctl(world, "upgrade", key, "--to", second.release, "--here")
        assert code == 2
        assert f"the upgrade of Cluster {key} is not begun: add --yes" in err

        async with nodes_roll(world, "one"), states(world) as seen:
            runs = 0
            while await killed_after_a_step(world, key, second.release):
                runs += 1
            assert runs == len(plan)
            code, told, _ = await csctl(world, "upgrade", key, "--to", second.release, "--yes", "--here")
            assert code == 0
            assert told.endswith(f"Cluster {key} has the target versions, and its addons are ready.\n")
        assert len(seen) == len(plan) + 1, seen
        assert is_ready(await world.addon("one"))
        code, told, _ = await csctl(world, "upgrade", key, "--to", "v1.35.4", "--yes")
        assert code == 3
        assert "There is no plan:" in told


async def test_upgrade_object_for_git_is_applied_followed_and_shown(world: World, registry: RegistryServer) -> None:
    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        cluster = await world.cluster("one", first.class_name)
        await world.patch(cluster, {"metadata": {"labels": {"ring": "canary"}}})
        await world.addons_ready("one", first.class_name)
        some = ("-n", world.namespace, "--to", second.release, "--window", closed(), "--max", "5")

        code, written, err = await csctl(world, "upgrade", "-lring=canary", *some, "-o", "yaml")
        assert (code, err) == (0, "")
        kubectl = Kubectl(world.management_kubeconfig, world.namespace)
        applied = await asyncio.to_thread(kubectl.tried, "apply", "-f-", manifest=yaml.load(written.encode(), name="-"))
        assert applied.returncode == 0, applied.stderr
        name = f"ring-canary-{second.release}"
        assert (await world.get("ClusterUpgrade", name))["spec"]["maxConcurrent"] == 5

        code, told, err = await csctl(world, "upgrade", "-lring=canary", *some, "--wait", "1s")
        assert code == 4, err
        assert f"ClusterUpgrade {world.namespace}/{name} has not ended within 1s." in told
        assert f"kubectl patch clusterupgrade -n {world.namespace} {name}" in err
        assert f"kubectl delete clusterupgrade -n {world.namespace} {name}" in err
        code, _, err = await csctl(world, "upgrade", "-lring=none", *some)
        assert code == 2
        assert "its Clusters are one" in err
        code, told, _ = await csctl(world, "status", f"-n{world.namespace}")
        assert f"ClusterUpgrade {world.namespace}/{name} to {second.release}" in told
        await world.delete(await world.get("ClusterUpgrade", name))

        code, told, err = await csctl(world, "upgrade", "-lring=canary", *some)
        assert code == 2
        assert "add --yes" in err
        assert told.splitlines()[-1].split()[:2] == ["one", "v1.35.4"]


async def test_upgrade_is_carried_out_by_the_operator_and_followed_again_after_ctrl_c(
    world: World, registry: RegistryServer
) -> None:
    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        key, name = f"{world.namespace}/one", f"one-{second.release}"

        code, err = await interrupted(world, key, "--to", second.release, "--window", closed(), "--yes")
        assert code == 130, err
        assert f"ClusterUpgrade {world.namespace}/{name} goes on; the same command follows it again." in err
        code, told, err = await csctl(world, "upgrade", key, "--to", NEW, "--yes", "--wait", "2s")
        assert code == 4, err
        assert f"the older ClusterUpgrade {name} has this Cluster" in told
        await world.delete(await world.get("ClusterUpgrade", f"one-{NEW}"))
        code, told, _ = await csctl(world, "status", key)
        assert f"upgrade  {name}: Waiting, waits for the window, which opens on" in told
        await world.delete(await world.get("ClusterUpgrade", name))

        async with nodes_roll(world, "one"):
            code, told, err = await csctl(world, "upgrade", key, "--to", second.release, "--yes")
        assert code == 0, told + err
        assert f"ClusterUpgrade {world.namespace}/{name} is done: 1/1 have {second.release}." in told
        code, told, _ = await csctl(world, "upgrade", key, "--to", second.release)
        assert (code, told) == (0, f"Nothing to do: Cluster {key} already has the target versions.\n")


async def interrupted(world: World, *arguments: str) -> tuple[int | None, str]:
    """Run the verb until it follows the upgrade, and press Ctrl-C; return the exit code and the messages."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("csctl"),
        *("upgrade", *arguments, f"--kubeconfig={world.management_kubeconfig}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "XDG_DATA_HOME": str(world.cache)},
    )
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            if b"waits for the window" in line:
                break
        process.send_signal(signal.SIGINT)
        _, told = await process.communicate()
        return process.returncode, told.decode()
    finally:
        if process.returncode is None:
            process.kill()


def closed() -> str:
    """A window that is closed for hours."""
    return f"{datetime.now(UTC) + timedelta(hours=12):%H:%M}+1m UTC"


async def impact_is_known(world: World, plan: list[dict[str, Any]], target: str) -> None:
    """The plan has the nodes that roll and the objects that change; without access it says why it does not."""
    impact = (await document(world, "upgrade", "--to", target))["impact"]
    names = impact["objects"].pop("names")
    assert impact["objects"] == {"created": 0, "changed": 2, "removed": 0, "refused": []}, impact
    assert [len(names[change]) for change in ("created", "changed", "removed")] == [0, 2, 0]
    assert bool(impact["nodes"]) is any(step["kind"] != "addon" for step in plan)
    await world.delete({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-kubeconfig", **where(world)}})
    impact = (await document(world, "upgrade", "--to", target))["impact"]
    assert impact["objects"] is None
    assert "kubeconfig" in impact["unknown"]
    await world.connect("one")


def where(world: World) -> dict[str, str]:
    return {"namespace": world.namespace}


@asynccontextmanager
async def states(world: World) -> AsyncIterator[list[Any]]:
    """Collect what the Cluster asks for, each time it changes."""
    seen: list[Any] = []

    async def look() -> None:
        while True:
            cluster = await world.get(CLUSTER_KIND, "one")
            if not seen or seen[-1] != asks(cluster):
                seen.append(asks(cluster))
            await asyncio.sleep(0.05)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def killed_after_a_step(world: World, key: str, target: str) -> bool:
    """Run the verb until it prints a step and the step is written, and kill it; False if it ends by itself."""
    before = await world.get(CLUSTER_KIND, "one")
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("csctl"),
        *("upgrade", key, "--to", target, "--yes", "--here", f"--kubeconfig={world.management_kubeconfig}"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "XDG_DATA_HOME": str(world.cache)},
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if line.startswith(b"Step"):
                await world.until(CLUSTER_KIND, "one", lambda cluster: asks(cluster) != asks(before))
                return True
        return False
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def asks(cluster: dict[str, Any]) -> Any:
    """Return what a Cluster asks for."""
    annotations = cluster["metadata"].get("annotations", {})
    return cluster["spec"]["topology"], {key: value for key, value in annotations.items() if ADDONS in key}
