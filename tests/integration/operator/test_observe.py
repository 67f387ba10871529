"""``--observe``: another operator beside the running one writes nothing, and reports what it would write."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import yaml

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator import observation
from clusterstacks.operator.app import Operator
from clusterstacks.operator.controllers.clusteraddon import addon_inputs
from tests.support.builders.manifests import named
from tests.support.builders.stacks import config_map, templates
from tests.support.observing.write_counter import writes
from tests.support.running.operator_process import OPERATOR, process
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from clusterstacks.operator.observation import Observed
    from tests.support.running.world import World

LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


@asynccontextmanager
async def delivered(world: World) -> AsyncIterator[None]:
    """Deliver an addon and a sync to a cluster, with an upgrade that is done; the operator keeps running."""
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"app": templates(config_map(world.namespace, key="ours"))}))
    content = {"objects.yaml": yaml.safe_dump(config_map(f"{world.namespace}-sync", a="b"))}
    await world.create(named("v1", "ConfigMap", "objects", world.namespace, data=content))
    spec = {
        "clusterSelector": {"matchLabels": {"sync": world.namespace}},
        "resources": [{"kind": "ConfigMap", "name": "objects"}],
    }
    cluster_stacks = world.stack.manifest(world.namespace, "v1")["apiVersion"]
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.create(named(SYNC_API_VERSION, Kind.CLUSTER_RESOURCE_SYNC, "extra", world.namespace, spec=spec))
        cluster = await world.cluster("one", name.class_name)
        await world.patch(cluster, {"metadata": {"labels": {"sync": world.namespace}}})
        await world.addons_ready("one", name.class_name)
        await world.until(Kind.CLUSTER_RESOURCE_SYNC_BINDING, binding_name("extra", "one"), is_ready)
        upgrade = {"clusters": {"names": ["one"]}, "to": name.release}
        await world.create(named(cluster_stacks, Kind.CLUSTER_UPGRADE, "done", world.namespace, spec=upgrade))
        await world.until(Kind.CLUSTER_UPGRADE, "done", lambda one: one.get("status", {}).get("phase") == "Done")
        await world.at_rest()
        yield


async def observed(world: World, cache: Path) -> Observed:
    """Run another operator in this process until it has compared everything."""
    operator = Operator(world.settings(observe=True, cache_dir=cache), {})
    tasks = [asyncio.create_task(_serve(run), name=name) for name, run in operator.services().items()]
    try:
        assert operator.observation is not None
        return await asyncio.wait_for(operator.observation.completed(), 120)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await operator.close()


async def _serve(run: object) -> None:
    await run()  # type: ignore[operator]


async def test_the_first_write_of_a_changed_renderer_is_named_and_the_same_build_writes_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "QUIET_SECONDS", 2.0)
    async with delivered(world):
        before = await writes(world.client), await writes(world.workload)
        same = await observed(world, tmp_path / "same")
    monkeypatch.setattr(addon_inputs, "RENDERING", "changed")  # the running operator would use it, too
    other = await observed(world, tmp_path / "other")
    after = await writes(world.client), await writes(world.workload)

    assert (same.message, same.exit_code) == ("would write 0 objects in 1 cluster", 0)
    record = "patch Secret kube-system/cluster-stack-addon-app"
    assert other.writes == {f"clusteraddon {world.namespace}/cluster-addon-one": record}
    assert (other.exit_code, other.clusters, other.uncompared) == (3, 1, {})
    assert after == before


async def test_a_process_that_observes_takes_no_lease_and_names_a_cluster_that_does_not_respond(
    world: World, tmp_path: Path
) -> None:
    async with delivered(world):
        before = await world.client.list(LEASES, world.namespace)
        closed = {**world.workload_kubeconfig["clusters"][0]["cluster"], "server": f"https://127.0.0.1:{free_port()}"}
        broken = {**world.workload_kubeconfig, "clusters": [{"name": "envtest", "cluster": closed}]}
        broken["clusters"][0]["name"] = world.workload_kubeconfig["clusters"][0]["name"]
        await world.connect("one", broken)
        flags = {"cache_dir": tmp_path / "cache", "observe": "", "once": ""}
        async with process(world, OPERATOR, **flags) as running:
            assert await asyncio.wait_for(running.wait(), 240) == 3
        log = (world.cache.parent / "operator.log").read_text()
        after = await world.client.list(LEASES, world.namespace)

    assert " in 0 clusters; 1 cluster could not be compared" in log
    assert f"Cluster {world.namespace}/one is not compared: the API server of Cluster" in log
    assert [one["spec"] for one in after.items] == [one["spec"] for one in before.items]
