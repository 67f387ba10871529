"""The real Cluster API waits with an upgrade until the stages before it are complete, or until a user releases it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev.demo.scenario import build_first, stacks
from clusterstacks.dev.provider import kinds
from clusterstacks.model.documents import at, mapping, text
from clusterstacks.model.kinds.names import (
    ADDONS_READY_CONDITION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    UPGRADE_HOLD_ANNOTATION,
)
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import (
    addon_of,
    cluster,
    cluster_condition,
    create,
    delivered,
    namespace,
    set_topology,
    stack,
)
from tests.support.running.doc_pages import Block, Page, environ_of_reader
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.running.local_environment import Local

HOME = "hold"
OLD, NEW, NEWER = "v1.35.4", "v1.36.3", "v1.36.4"
GATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate", "namespace": "kube-system"}}
STAGES = """apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1
clusterAddonVersion: clusteraddons.clusterstack.x-k8s.io/v1alpha1
addonStages:
  AfterControlPlaneInitialized: [{name: network, action: apply}, {name: metrics, action: apply}]
  BeforeClusterUpgrade:
    - name: network
      action: apply
      waitForPostCondition:
        objects: [{key: gate, apiVersion: v1, kind: ConfigMap, name: gate, namespace: kube-system}]
        conditions: gate.metadata.name == "gate"
  AfterClusterUpgrade: [{name: metrics, action: apply}]
"""


def build_gated(local: Local) -> ReleaseName:
    """Build a release whose stage before an upgrade waits for a ConfigMap of the workload cluster."""
    changes = local.scratch / "gated"
    changes.mkdir()
    (changes / "clusteraddon.yaml").write_text(STAGES)
    return build_release(
        stacks() / "demo/1-36",
        local.releases,
        cluster_stack="v36",
        cluster_addon="v36",
        node_image="v1",
        changes=changes,
    )


async def control_plane_version(client: Client) -> str:
    resource = await client.resource(kinds.GROUP, kinds.CONTROL_PLANE)
    (found,) = (await client.list(resource, HOME)).items
    return text(found, "spec", "version")


async def held(client: Client, version: str) -> Manifest:
    """Return the condition of the Cluster that explains the hold; Cluster API has to report it as well."""
    addon = await addon_of(client, HOME, "one") or {}
    assert text(addon, "status", "upgradeHold", "state") == "Held", addon.get("status")
    topology = await cluster_condition(client, HOME, "one", "TopologyReconciled")
    assert UPGRADE_HOLD_ANNOTATION in topology.get("message", ""), topology
    said = await cluster_condition(client, HOME, "one", ADDONS_READY_CONDITION)
    assert f"the operator holds the upgrade to {version} since" in said.get("message", ""), said
    return said


async def put_gate(local: Local, pool: Pool) -> bool:
    workload = local.workload(HOME, "one", pool)
    await workload.apply(await workload.resource("", "ConfigMap"), GATE, manager="tests", force=True)
    return True


async def upgraded(client: Client, class_name: str, version: str) -> bool:
    addon = await delivered(client, HOME, "one", class_name)
    assert at(addon, "status", "deliveredKubernetesVersion") == version, (addon or {}).get("status")
    found = await client.get(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND), "one", HOME)
    assert UPGRADE_HOLD_ANNOTATION in mapping(found, "metadata", "annotations"), "the hold is set again"
    return True


def page_about_holds() -> Page:
    """Return the page for users, about the Cluster of this test."""
    example, own = (
        ("prod -n team", "namespace team prod", "team/prod v1.36.1"),
        (f"one -n {HOME}", f"namespace {HOME} one", f"{HOME}/one {NEWER}"),
    )
    return Page.read("how-to/release-a-held-upgrade.md", dict(zip(example, own, strict=True)))


def release_as_described(local: Local, message: str) -> None:
    """Look at the hold and release it as the page says, which is also what the condition of the Cluster says."""
    see, release, *_ = page_about_holds().blocks
    page = Page((Block(see.commands), release), {})  # the page shows the condition of another Cluster

    seen, _ = page.run(local.scratch, environ_of_reader(local.state.kubeconfig))

    assert "Held: Cluster API waits since" in seen
    assert f"run '{release.commands.strip()}'" in seen
    assert f"run '{release.commands.strip()}'" in message


def disable_as_described(local: Local) -> None:
    """Disable the hold of the Cluster, and release all Clusters."""
    page = page_about_holds()
    page.part(page.blocks[2:]).run(local.scratch, environ_of_reader(local.state.kubeconfig))


async def is_not_held(client: Client) -> bool:
    found = await client.get(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND), "one", HOME)
    assert UPGRADE_HOLD_ANNOTATION not in mapping(found, "metadata", "annotations")
    return True


async def test_the_control_plane_waits_for_the_stages_before_the_upgrade_or_for_a_user(local: Local) -> None:
    first, gated = build_first(local.releases), build_gated(local)
    kubectl = Kubectl(local.state.kubeconfig, HOME)
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(HOME))
        operator = local.mortal_operator(HOME, 10_000)
        try:
            await create(client, stack(HOME, versions=["v1"], autoSubscribe=False))
            await create(client, stack(HOME, "1.36", versions=["v36"], autoSubscribe=False))
            kubectl("wait", "--for=condition=Ready", "--timeout=120s", "clusterstack", "--all")
            await create(client, cluster(HOME, "one", first.class_name))
            await eventually(lambda: delivered(client, HOME, "one", first.class_name))
            await set_topology(client, HOME, "one", gated.class_name, NEW)
            await eventually(lambda: held(client, NEW))
            assert await control_plane_version(client) == OLD
        finally:
            operator.kill()  # while it holds: Cluster API waits on, and the next operator takes over
            operator.wait()
        await put_gate(local, pool)
        assert await control_plane_version(client) == OLD, "no operator, no upgrade"

        with local.operator(HOME):
            await eventually(lambda: upgraded(client, gated.class_name, NEW))
            assert await control_plane_version(client) == NEW

            kubectl_workload = Kubectl(local.state.cluster_kubeconfig(HOME, "one"), "kube-system")
            kubectl_workload("delete", "configmap", "gate")
            await set_topology(client, HOME, "one", gated.class_name, NEWER)
            said = await eventually(lambda: held(client, NEWER))
            assert await control_plane_version(client) == NEW
            await asyncio.to_thread(release_as_described, local, said["message"])

            async def rolls() -> bool:
                assert await control_plane_version(client) == NEWER
                return True

            await eventually(rolls, about="the control plane rolls before the stages are complete")

            async def opened() -> bool:
                try:
                    return await put_gate(local, pool)
                except Unreachable as error:
                    raise AssertionError(error.message) from None  # the upgrade restarts the API server

            await eventually(opened)
            await eventually(lambda: upgraded(client, gated.class_name, NEWER))
            await asyncio.to_thread(disable_as_described, local)
            await eventually(lambda: is_not_held(client))
