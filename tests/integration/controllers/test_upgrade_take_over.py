"""Clusters are taken over from the Go operator in the middle of an upgrade, and are returned to it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import (
    ADDON_FINALIZER,
    ADDONS_READY_CONDITION,
    API_VERSION,
    CLUSTER_KIND,
    PENDING_HOOKS_ANNOTATION,
    Kind,
)
from tests.integration.controllers.test_adoption import as_the_go_operator, old_condition
from tests.integration.controllers.test_upgrade_holds import is_free, is_held
from tests.support.builders.stacks import KUBERNETES, config_map, stage, templates
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import condition_of, finished_status

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ADDON, NEWER = "cluster-addon-one", "v1.36.1"
ADDONS = ("cni", "ccm", "agent", "csi")
HOOKS = {
    "AfterControlPlaneInitialized": [stage(addon) for addon in ADDONS],
    "BeforeClusterUpgrade": [stage("cni")],
    "AfterControlPlaneUpgrade": [stage("ccm")],
    "AfterWorkersUpgrade": [stage("agent")],
    "AfterClusterUpgrade": [stage("csi")],
}
PAGE = Path(__file__).parents[3] / "docs/how-to/replace-the-go-operator.md"


async def cluster_of_the_go_operator(world: World, class_name: str, version: str, **addon: Any) -> Manifest:
    """Create a Cluster whose upgrade is requested, and its ClusterAddon with what the Go operator writes into it."""
    cluster = await world.cluster("one", class_name, version=version, ready=False)
    await world.patch(cluster, {"status": finished_status(KUBERNETES, reconciled="False")}, "status")
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "one"}
    metadata = {
        "name": ADDON,
        "namespace": world.namespace,
        "annotations": {"ClusterAddonStage": "created"},
        "finalizers": [ADDON_FINALIZER],
        "ownerReferences": [{**reference, "uid": cluster["metadata"]["uid"]}],
    }
    spec = {"clusterRef": {**reference, "namespace": world.namespace}, "version": "v1", **addon["spec"]}
    created = await world.create(
        {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_ADDON, "metadata": metadata, "spec": spec}
    )
    conditions = [old_condition(kind, "True") for kind in ("ClusterReady", "HelmChartFound")]
    await world.patch(created, {"status": {"conditions": conditions, **addon["status"]}}, "status")
    return cluster


@pytest.mark.regression("D23")
@pytest.mark.parametrize("moment", ["its hook blocks", "the control plane rolls"])
async def test_an_upgrade_of_the_go_operator_goes_on_and_skips_no_stage(world: World, moment: str) -> None:
    word, has_begun = world.namespace, moment == "the control plane rolls"
    for version in ("v1", "v2"):
        addons = {
            addon: templates(
                config_map(f"{word}-{addon}", release=version, minor="{{ .Capabilities.KubeVersion.Minor }}")
            )
            for addon in ADDONS
        }
        world.publish(world.stack.release(version), world.stack.files(version, addons, hooks=HOOKS))
    first, second = world.stack.release("v1"), world.stack.release("v2")
    delivered = {addon: "v2" if has_begun and addon == "cni" else "v1" for addon in ADDONS}
    for addon, version in delivered.items():
        await as_the_go_operator(
            world.workload, config_map(f"{word}-{addon}", release=version, minor="35"), "kube-system"
        )
    await world.create(world.stack.manifest(word, "v1", "v2"))
    blocking = {"clusterStack": first.class_name, "hook": "BeforeClusterUpgrade"}
    done = {"clusterStack": second.class_name, "hook": ""}
    stages = [{"name": "cni", "action": "apply", "phase": "waitingForPreCondition"}]
    cluster = await cluster_of_the_go_operator(
        world,
        second.class_name,
        NEWER,
        spec=done if has_begun else blocking,
        status={"ready": True} if has_begun else {"ready": False, "stages": stages},
    )
    if has_begun:
        await world.patch(cluster, {"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: "AfterClusterUpgrade"}}})

    async def content() -> list[str]:
        found = [await world.delivered(f"{word}-{addon}") for addon in ADDONS]
        return [f"{one['data']['release']} 1.{one['data']['minor']}" for one in found if one]

    async def waits(*words: str) -> None:
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "WaitingForUpgrade", words=words)

    old, new = "v1 1.35", "v2 1.36"
    async with world.operator():
        await waits(f"the control plane to report {NEWER}; it reports {KUBERNETES}")
        assert await content() == ["v2 1.35", old, old, old]
        await world.until(CLUSTER_KIND, "one", is_held if has_begun else is_free)
        said = condition_of(await world.get(CLUSTER_KIND, "one"), ADDONS_READY_CONDITION)
        assert said["reason"] == "WaitingForUpgrade"

        await world.patch(cluster, {"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: "AfterClusterUpgrade"}}})
        await world.until(CLUSTER_KIND, "one", is_held)
        rolling = {**finished_status(NEWER, reconciled="False"), "workers": {"versions": [{"version": KUBERNETES}]}}
        await world.patch(cluster, {"status": rolling}, "status")
        await waits("the workers to report")
        assert await content() == ["v2 1.35", new, old, old]
        await world.patch(cluster, {"status": {"workers": {"versions": [{"version": NEWER}]}}}, "status")
        await waits("TopologyReconciled")
        assert await content() == ["v2 1.35", new, new, old]
        await world.patch(cluster, {"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: None}}})
        await world.patch(cluster, {"status": finished_status(NEWER)}, "status")
        taken = await world.until(
            Kind.CLUSTER_ADDON, ADDON, lambda one: one["status"].get("ready") and one["status"].get("observedInputs")
        )
        assert await content() == [new, new, new, new]
        assert taken["status"]["deliveredKubernetesVersion"] == NEWER
        assert "upgradeHold" not in taken["status"]
        assert is_held(await world.get(CLUSTER_KIND, "one"))


async def test_the_documented_command_releases_all_clusters_for_the_go_operator(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await world.until(CLUSTER_KIND, "one", is_held)
    command = re.search(r"^kubectl (annotate clusters.+)$", PAGE.read_text(), re.MULTILINE)
    assert command is not None
    Kubectl(world.management_kubeconfig, "")(*shlex.split(command[1]))
    assert is_free(await world.get(CLUSTER_KIND, "one"))
