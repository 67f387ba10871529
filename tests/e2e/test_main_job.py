"""From a release to running addons, through upgrades of class and Kubernetes, with the real Cluster API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev.demo.await_state import read_back
from clusterstacks.dev.demo.scenario import build_first, build_second, examples
from clusterstacks.model.documents import mappings, text
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import (
    addon_of,
    cluster,
    create,
    delivered,
    namespace,
    set_topology,
    stack,
)
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.running.local_environment import Local

HOME = "main-job"


async def test_a_cluster_gets_its_addons_and_keeps_them_through_upgrades(local: Local) -> None:
    first, second = build_first(local.releases), build_second(local.releases)
    newer = build_release(
        examples() / "stacks/local/demo/1-36", local.releases, cluster_stack="v1", cluster_addon="v1", node_image="v1"
    )
    kubectl = Kubectl(local.state.kubeconfig, HOME)
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(HOME))
        with local.operator(HOME):
            await create(client, stack(HOME, versions=["v1"]))
            await create(client, stack(HOME, "1.36"))
            kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
            await create(client, cluster(HOME, "one", first.class_name))
            kubectl("wait", "--for=condition=ClusterStackAddonsReady", "--timeout=300s", "cluster/one")
            addon = await eventually(lambda: delivered(client, HOME, "one", first.class_name))
            workload = local.workload(HOME, "one", pool)
            before = await read_back(workload, addon)
            assert len(before) == 29
            assert all(before.values())

            await set_topology(client, HOME, "one", second.class_name)
            addon = await eventually(lambda: delivered(client, HOME, "one", second.class_name))
            after = await read_back(workload, addon)
            assert all(after.values())
            assert {one.name for one in before.keys() - after.keys()} == {"demo-network-agent-health"}
            metrics = [one for one in after if one.name.startswith("demo-metrics")]
            assert [after[one] for one in metrics] == [before[one] for one in metrics], "metrics did not change"

            await set_topology(client, HOME, "one", newer.class_name, "v1.36.3")
            addon = await eventually(lambda: delivered(client, HOME, "one", newer.class_name))
            assert {text(one, "release") for one in mappings(addon, "status", "addons")} == {newer.release}
            assert (await workload.version()).minor.minor == 36
            kubectl("wait", "--for=condition=ClusterStackAddonsReady", "--timeout=300s", "cluster/one")

            kubectl("delete", "clusteraddon", "cluster-addon-one", "--timeout=300s")
            again = await eventually(lambda: delivered(client, HOME, "one", newer.class_name))
            assert all((await read_back(workload, again)).values()), "deleting a ClusterAddon deletes nothing"

            kubectl("delete", "cluster", "one", "--timeout=300s")
            assert await eventually(lambda: gone(client)), "the ClusterAddon goes with its Cluster"
            kubectl("delete", "clusterstack", "--all", "--timeout=300s")
            kubectl("wait", "--for=delete", "clusterclass", "--all", "--timeout=300s")


async def gone(client: object) -> bool:
    return await addon_of(client, HOME, "one") is None  # type: ignore[arg-type]  # any client will do
