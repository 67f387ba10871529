"""Errors of the Go operator's webhooks, decided by a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from tests.support.builders.stacks import KUBERNETES
from tests.support.running.admission import guarded, refusal
from tests.support.running.world import cluster_manifest

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


async def bundle(world: World, version: str) -> tuple[Manifest, ReleaseName]:
    """A ClusterStack with one release, which is ready."""
    name = world.stack.release(version)
    world.publish(name, world.stack.files(version, {}))
    stack = await world.create(world.stack.manifest(world.namespace, version))
    await world.release_ready(name)
    return stack, name


async def foreign(world: World, name: str = "foreign") -> None:
    await world.create(cluster_manifest(world.namespace, name, "quick-start"))


@pytest.mark.regression("D10")
async def test_deletion_of_a_stack_is_denied_while_a_release_of_any_channel_is_used(world: World) -> None:
    async with guarded(world):
        stack, name = await bundle(world, "v0-sha.abc1234")
        cluster = await world.cluster("one", name.class_name)

        told = await refusal(world.delete(stack))

        assert f"is in use by Cluster {world.namespace}/one" in told
        await world.delete(cluster)
        await world.gone(CLUSTER_KIND, "one")
        assert await refusal(world.delete(stack)) == ""


@pytest.mark.regression("D11")
async def test_cluster_with_a_foreign_class_does_not_disable_the_in_use_check(world: World) -> None:
    async with guarded(world):
        _, name = await bundle(world, "v1")
        await foreign(world)
        await world.cluster("one", name.class_name)

        told = await refusal(world.delete(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)))

        assert f"ClusterStackRelease {world.namespace}/{name} is in use by Cluster {world.namespace}/one" in told


@pytest.mark.regression("D12")
async def test_cluster_without_topology_is_allowed_and_validated_once_it_has_one(world: World) -> None:
    async with guarded(world):
        _, name = await bundle(world, "v1")
        manifest = cluster_manifest(world.namespace, "one", name.class_name)
        topology = manifest["spec"].pop("topology")
        cluster = await world.create(manifest)

        told = await refusal(world.patch(cluster, {"spec": {"topology": {**topology, "version": "v1.34.0"}}}))

        assert f"is for Kubernetes {KUBERNETES} exactly" in told
        assert await refusal(world.patch(cluster, {"spec": {"topology": topology}})) == ""


@pytest.mark.regression("D28")
async def test_class_of_another_namespace_is_validated_and_protected(world: World) -> None:
    users = await world.other_namespace()
    async with guarded(world, namespace=""):
        stack, name = await bundle(world, "v1")
        manifest = cluster_manifest(users, "one", name.class_name)
        manifest["spec"]["topology"]["classRef"]["namespace"] = world.namespace
        wrong = {**manifest["spec"]["topology"], "version": "v1.34.0"}

        assert "exactly" in await refusal(world.create({**manifest, "spec": {"topology": wrong}}))
        assert await refusal(world.create(manifest)) == ""
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        for one in (stack, release):
            told = await refusal(world.delete(one))
            assert "in use by 1 Cluster of other namespaces" in told
            assert f"{users}/" not in told


async def test_incumbent_1_5_bundles_behave_as_before(world: World) -> None:
    async with guarded(world):
        _, name = await bundle(world, "v1")
        unknown = world.stack.release("v77")

        assert "exactly" in await refusal(
            world.create(cluster_manifest(world.namespace, "a", name.class_name, "v1.35.5"))
        )
        cluster = await world.create(cluster_manifest(world.namespace, "one", name.class_name))
        # Unlike in the Go operator: a class that the ClusterStack does not offer would never be created.
        two = cluster_manifest(world.namespace, "two", unknown.class_name, "v1.30.0")
        assert f"offers {name.class_name}; use another class" in await refusal(world.create(two))
        annotation = {"clusterstack.x-k8s.io/addon-release": name.release}
        assert "cannot be used here" in await refusal(world.patch(cluster, {"metadata": {"annotations": annotation}}))
        other = {"classRef": {"name": name.class_name.replace("local-", "docker-")}}
        assert "stays with its provider and stack" in await refusal(world.patch(cluster, {"spec": {"topology": other}}))
