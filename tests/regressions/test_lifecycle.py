"""Creation and deletion of Clusters and ClusterAddons, and Clusters that are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import ADDON_FINALIZER, API_VERSION, CLUSTER_API_GROUP, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.stacks import KUBERNETES, config_map, templates
from tests.support.running.world import condition_of, finished_status, foreign_crds, install, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

READS_THE_CLASS = "values: |\n  used: {{ .Cluster.spec.topology.class }}\n"
INITIALIZED = [
    {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for kind in ("ControlPlaneInitialized", "TopologyReconciled")
]


def without_topology(world: World, name: str) -> Manifest:
    return {
        "apiVersion": f"{CLUSTER_API_GROUP}/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"controlPlaneEndpoint": {"host": "example.org", "port": 6443}},
    }


@pytest.mark.regression("D13")
async def test_cluster_without_topology_is_ignored_without_an_error(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    await world.create(without_topology(world, "foreign"))
    inherited = await world.create(
        {
            "apiVersion": API_VERSION,
            "kind": Kind.CLUSTER_ADDON,
            "metadata": {"name": addon_name("other"), "namespace": world.namespace},
            "spec": {"clusterRef": {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "other"}},
        }
    )
    await world.create(without_topology(world, "other"))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        assert await world.find(Kind.CLUSTER_ADDON, addon_name("foreign")) is None
        left = await world.get(Kind.CLUSTER_ADDON, addon_name("other"))
        assert left["metadata"]["resourceVersion"] == inherited["metadata"]["resourceVersion"], "not ours to write"


@pytest.mark.regression("D21")
async def test_deleted_cluster_addon_is_removed_and_created_again(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        first = await world.addons_ready("one", name.class_name)
        assert first["metadata"]["finalizers"] == [ADDON_FINALIZER]
        await world.delete(first)

        async def again() -> bool:
            addon = await world.addon("one")
            return addon["metadata"]["uid"] != first["metadata"]["uid"] and is_ready(addon)

        await eventually(again, about="another ClusterAddon")
        assert await world.delivered(world.namespace) is not None


@pytest.mark.regression("D75")
async def test_lifecycle_works_with_v1beta2_only(world: World) -> None:
    resource = await world.client.resource("apiextensions.k8s.io", "CustomResourceDefinition")
    clusters = await world.client.get(resource, f"clusters.{CLUSTER_API_GROUP}")
    assert [one["name"] for one in clusters["spec"]["versions"] if one["served"]] == ["v1beta2"]

    await delivered_and_mirrored(world)


@pytest.mark.regression("D75")
async def test_lifecycle_works_with_v1beta1_only(world: World) -> None:
    older = [one for one in foreign_crds("v1beta2", "v1beta1") if one["spec"]["group"] == CLUSTER_API_GROUP]
    for kind in older:
        kind["spec"]["versions"][0]["served"] = False
    try:
        await install(world.client, older)
        async with Pool() as pool:
            await eventually(lambda: prefers(world, pool, "v1beta1"), about="discovery of v1beta1")
        world.client.forget_discovery()
        await delivered_and_mirrored(world, "v1beta1")
    finally:
        await install(world.client, foreign_crds())
        async with Pool() as pool:
            await eventually(lambda: prefers(world, pool, "v1beta2"), about="discovery of v1beta2")
        world.client.forget_discovery()


async def prefers(world: World, pool: Pool, version: str) -> bool:
    client = Client(load_kubeconfig([world.management_kubeconfig]), pool)
    kinds = ("Cluster", "ClusterClass")
    return {(await client.resource(CLUSTER_API_GROUP, kind)).version for kind in kinds} == {version}


async def delivered_and_mirrored(world: World, version: str = "v1beta2") -> None:
    name = world.stack.release("v1")
    api_version = f"{CLUSTER_API_GROUP}/{version}"
    cluster_class = {**world.stack.cluster_class("v1"), "apiVersion": api_version}
    chart = templates(config_map(world.namespace, used="{{ .Values.used }}"), **{"overwrite.yaml": READS_THE_CLASS})
    objects = [cluster_class, world.stack.object("v1")]
    world.publish(name, world.stack.files("v1", {"cni": chart}, class_objects=objects))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        topology: dict[str, Manifest] = {
            "v1beta2": {"classRef": {"name": name.class_name}},
            "v1beta1": {"class": name.class_name},
        }
        status = {"v1beta2": finished_status(), "v1beta1": {"infrastructureReady": True, "conditions": INITIALIZED}}
        cluster = await world.create(
            {
                "apiVersion": api_version,
                "kind": "Cluster",
                "metadata": {"name": "one", "namespace": world.namespace},
                "spec": {"topology": {**topology[version], "version": KUBERNETES}},
            }
        )
        await world.connect("one")
        await world.patch(cluster, {"status": status[version]}, "status")
        await world.addons_ready("one", name.class_name)
        await world.until(
            "Cluster", "one", lambda one: condition_of(one, "ClusterStackAddonsReady").get("status") == "True"
        )
        delivered = await world.delivered(world.namespace)
        assert delivered is not None
        assert delivered["data"] == {"used": name.class_name}
