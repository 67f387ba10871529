"""A stack begun with ``csctl init`` runs, as its README promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.scaffold import NewStack, write_new_files
from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, stack
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.local_environment import Local

HOME = "new-stack"


async def test_a_new_stack_of_the_local_provider_becomes_a_cluster_with_its_addon(local: Local, tmp_path: Path) -> None:
    write_new_files(NewStack.parse("local/begun/1-35").files(), tmp_path)
    release = build_release(tmp_path, local.releases, cluster_stack="v1", cluster_addon="v1", node_image="v1")
    kubectl = Kubectl(local.state.kubeconfig, HOME)
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(HOME))
        with local.operator(HOME):
            await create(client, stack(HOME, name="begun", channel="stable", autoSubscribe=True))
            kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
            await create(client, cluster(HOME, "first", release.class_name, "v1.35.0"))
            kubectl("wait", "--for=condition=ClusterStackAddonsReady", "--timeout=300s", "cluster/first")
            await eventually(lambda: delivered(client, HOME, "first", release.class_name))
            workload = local.workload(HOME, "first", pool)
            info = await workload.get(await workload.resource("", "ConfigMap"), "cluster-info", "kube-system")

            assert info["data"]["clusterName"] == "first"
            assert info["data"]["podNetworks"] == "10.244.0.0/16"
            assert info["data"]["endpoint"].startswith("127.0.0.1:")

            kubectl("delete", "cluster", "first", "--timeout=300s")
            kubectl("delete", "clusterstack", "--all", "--timeout=300s")
