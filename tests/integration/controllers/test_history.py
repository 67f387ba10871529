"""The history of deliveries, of an installation, an upgrade and a rollback, after a restart of the operator."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from clusterstacks.operator.controllers import addon_sweep
from clusterstacks.operator.controllers.clusteraddon import rollback, stage_run
from tests.integration.controllers.test_health import HEALTHY, publish, set_status
from tests.support.builders.manifests import config_map, deployment
from tests.support.running.csctl import call_csctl
from tests.support.running.world import SECONDS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ADDON = addon_name("one")
OFTEN = timedelta(seconds=0.2)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (addon_sweep, "INTERVAL"),
        (addon_sweep, "SOON_INTERVAL"),
        (stage_run, "RETRY"),
        (stage_run, "LATE_RETRY"),
        (rollback, "RESYNC"),
    ):
        monkeypatch.setattr(module, name, OFTEN)


def history(addon: Manifest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (addon.get("status") or {}).get("history") or []
    return found


async def until(world: World, *results: str) -> list[dict[str, Any]]:
    """Wait until the history has these results, the newest first, and no reconcile is running."""
    await world.until(Kind.CLUSTER_ADDON, ADDON, lambda one: [entry["result"] for entry in history(one)] == [*results])
    await world.at_rest()
    return history(await world.addon("one"))


async def printed_after_a_move(world: World, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Return addons and counts that the verb prints without the history, which 'clusterctl move' does not move."""
    addon = await world.addon("one")
    await world.patch(addon, {"status": {"history": None}}, "status")
    head, *rows = [line.split() for line in (await printed(world, capsys, "history")).splitlines()]
    await world.patch(addon, {"status": {"history": history(addon)}}, "status")
    assert head == ["ADDON", "RELEASE", "OBJECTS", "INPUTS"]
    assert {row[1] for row in rows} == {world.stack.release("v2").release}
    return [(row[0], row[2]) for row in rows]


async def printed(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    cluster, kubeconfig = f"{world.namespace}/one", f"--kubeconfig={world.management_kubeconfig}"
    code = await asyncio.to_thread(call_csctl, *arguments, cluster, kubeconfig)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", re.sub(r"after \d+m?\d*s", "after TOOK", captured.out))


async def test_each_delivery_is_listed_with_what_it_created_changed_and_removed(
    world: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    word = world.namespace
    old, new = config_map(f"{word}-old", "default"), config_map(f"{word}-new", "default")
    first = publish(world, "v1", deployment(word, "default"), old, waitFor="Healthy", rollback="OnFailure")
    second = publish(world, "v2", deployment(word, "default", replicas=2), new, waitFor="Healthy", rollback="OnFailure")
    third = publish(
        world, "v3", deployment(word, "default", replicas=3), timeout="1s", waitFor="Healthy", rollback="OnFailure"
    )
    async with world.operator(drift_interval=timedelta(seconds=1)):
        await world.create(world.stack.manifest(word, "v1", "v2", "v3"))
        for version in ("v1", "v2", "v3"):
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        (running,) = await until(world, "Running")
        assert (running["occasion"], running["stages"], running["created"]) == ("Install", "0/2", 2)
        assert "ended" not in running
        await set_status(world, HEALTHY)
        await world.addons_ready("one", first)
        (installed,) = await until(world, "Delivered")
        assert installed["began"] == running["began"]

        await world.set_class("one", second)
        await until(world, "Running", "Delivered")
        counts = ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        await set_status(world, {**HEALTHY, **dict.fromkeys(counts, 2)})
        await world.finish(await world.get(CLUSTER_KIND, "one"))
        await world.addons_ready("one", second)
        upgraded, _ = await until(world, "Delivered", "Delivered")

        resource = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(resource, f"{word}-last", "kube-system")

        async def corrected() -> bool:
            return await world.delivered(f"{word}-last") is not None

        await eventually(corrected, seconds=SECONDS, about="the correction of the drift")
        await world.set_class("one", third)
        rolled_back, *_ = await until(world, "RolledBack", "Delivered", "Delivered")
    before = (await world.addon("one"))["status"]["history"]

    async with world.operator():
        await world.set_class("one", second)
        await world.until(Kind.CLUSTER_ADDON, ADDON, lambda one: not (one.get("status") or {}).get("target"))
        await world.at_rest()
        text = await printed(world, capsys, "history")
        document = json.loads(await printed(world, capsys, "history", "-o", "json"))
        tree = await printed(world, capsys, "status")
        assert await printed_after_a_move(world, capsys) == [("app", "2"), ("last", "1")]
    assert (await world.addon("one"))["status"]["history"] == before, "the rollback had brought all of it"
    assert "status.history" not in caplog.text, "the API server keeps all fields of an entry as they are sent"

    app, last = f"Deployment.apps default/{word}", f"ConfigMap kube-system/{word}-last"
    assert installed["unchanged"] == 0
    assert {one["name"]: one["createdObjects"] for one in installed["addons"]} == {
        "app": [f"ConfigMap default/{word}-old", app],
        "last": [last],
    }
    assert (upgraded["fromRelease"], upgraded["release"]) == tuple(
        world.stack.release(version).release for version in ("v1", "v2")
    )
    assert (rolled_back["reason"], rolled_back["changed"], rolled_back["removed"]) == ("RolledBack", 1, 0)
    assert rolled_back["ended"]
    assert [one["result"] for one in document] == ["RolledBack", "Delivered", "Delivered"]
    end = "delivered after TOOK, 2/2 stages (AfterControlPlaneInitialized)"
    assert text.splitlines()[-15:] == [
        f"✓ TIME  upgrade v1 → v2, Kubernetes v1.35.4: {end}",
        "    1 created, 2 changed, 1 removed, 0 unchanged",
        "    app",
        f"      + ConfigMap default/{word}-new",
        f"      ~ {app}",
        f"      - ConfigMap default/{word}-old",
        "    last",
        f"      ~ {last}",
        f"✓ TIME  install v1, Kubernetes v1.35.4: {end}",
        "    3 created, 0 changed, 0 removed, 0 unchanged",
        "    app",
        f"      + ConfigMap default/{word}-old",
        f"      + {app}",
        "    last",
        f"      + {last}",
    ], text
    assert "  ✗ last delivery  upgrade v2 → v3" in tree
