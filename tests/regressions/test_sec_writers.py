"""What a tenant writes into his own namespace changes nothing for the provider: every field of docs/reference/trust.md.

The fields are those of the page, which is complete, so a new one is attacked as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, PROVIDER_GROUP, Kind
from tests.architecture.test_trust import KEY, fields
from tests.regressions.test_sec_class_offers import (
    SAME,
    installed,
    not_offered,
    offering,
    only,
    published,
    running,
    tenant,
    using,
)
from tests.support.running.admission import guarded, refusal
from tests.support.running.world import idle
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("SEC-40")

CHANGING = ("resourceVersion", "managedFields")
"""Metadata that a write of equal content may change."""


@pytest.mark.parametrize("annotation", ["addon-release", "addon.cni"])
async def test_release_that_an_admitted_cluster_only_names_can_be_deleted(world: World, annotation: str) -> None:
    old, new = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace):
        async with world.operator(namespace=""):  # without webhooks, which would refuse the annotation
            stack = await offering(world, "v1", "v2")
            cluster = await running(world, namespace, old)
            await world.patch(stack, {"spec": {"clusterNamespaces": SAME}})
            await user.patch(
                cluster, {"metadata": {"annotations": {f"clusterstack.x-k8s.io/{annotation}": new.release}}}
            )
            await not_offered(world, namespace, words=("which an annotation names, is not offered",))
            addon = await world.addon("one", namespace)
            await user.patch(addon, {"spec": {"addons": [{"name": "cni", "release": new.release}]}})
        async with guarded(world, namespace=""):
            named, used = [await world.get(Kind.CLUSTER_STACK_RELEASE, one.release) for one in (new, old)]

            assert await refusal(world.delete(named)) == ""
            await world.gone(Kind.CLUSTER_STACK_RELEASE, new.release, uid=named["metadata"]["uid"])
            assert f"in use by 1 Cluster of other namespaces (release {old})" in await refusal(world.delete(used))


async def of_provider(world: World) -> dict[str, Manifest]:
    """Return all objects of the provider."""
    kinds = [(kind.group, str(kind)) for kind in Kind if kind is not Kind.COMPATIBILITY_RULE]
    found = {}
    for group, kind in (
        *kinds,
        (CLUSTER_API_GROUP, CLUSTER_KIND),
        (CLUSTER_API_GROUP, CLUSTER_CLASS_KIND),
        ("", "Secret"),
    ):
        for one in (await world.client.list(await world.client.resource(group, kind), world.namespace)).items:
            metadata = {key: value for key, value in one["metadata"].items() if key not in CHANGING}
            found[f"{kind} {metadata['name']}"] = {**one, "metadata": metadata}
    return found


async def with_victim(world: World, operator: Operator, release: ReleaseName) -> dict[str, Manifest]:
    """Let the provider offer a release and have a cluster of it; return all his objects."""
    await offering(world, release.version.dot)
    await running(world, world.namespace, release, "victim")
    await idle(operator)
    return await of_provider(world)


async def test_no_annotation_or_label_of_a_tenant_changes_anything_of_the_provider(world: World) -> None:
    old, new = published(world, "v1", "v2")
    names = sorted(name for row in fields("Cluster") for name in row.names if KEY.fullmatch(name))
    names = [f"{name}cni" if name.endswith(".") else name for name in names]
    assert len(names) > 10
    async with tenant(world) as (user, namespace), world.operator(namespace="") as operator:
        before = await with_victim(world, operator, new)

        values = (f"{world.namespace}/victim", old.release, "Delete", "x" * 10_000, "a\n\x1b[2J")
        for number, value in enumerate(values):
            for at, name in enumerate(names):
                cluster = using(world, namespace, f"c{number}-{at}", new)
                cluster["metadata"]["annotations"] = {name: value}
                if name.endswith("watch-filter"):
                    cluster["metadata"]["labels"] = {name: "another"}
                await user.create(cluster)
        await user.create(using(world, namespace, "last", new))

        async def handled() -> bool:
            return await world.find(Kind.CLUSTER_ADDON, addon_name("last"), namespace) is not None

        await eventually(handled, about="the ClusterAddon of the last Cluster")
        await world.at_rest()  # so many waiting Clusters are looked at again all the time
        assert await of_provider(world) == before
        assert await installed(world) == only(new)
        assert await world.delivered(world.stack.word) is not None


async def test_no_field_of_a_cluster_stack_of_a_tenant_changes_anything_of_the_provider(world: World) -> None:
    """The tenant has the role ``edit``: he writes ClusterStacks of his own namespace, for the stack of the provider."""
    _, new = published(world, "v1", "v2")
    template = {"apiVersion": f"{PROVIDER_GROUP}/v1alpha1", "kind": "TinyClusterStackReleaseTemplate", "name": "any"}
    victims = f"{world.namespace}/victim-kubeconfig"
    key = {"secretName": victims, "key": "value"}
    source = {"directory": {"path": ""}, "credentials": {"secretName": victims}, "ca": key, "interval": "1s"}
    parts: tuple[Manifest, ...] = (
        {"provider": "local", "name": world.stack.word, "kubernetesVersion": "1.35"},
        {"channel": "custom", "versions": ["v1", "v2", "v99"], "autoSubscribe": True},
        {"noProvider": False, "providerRef": {**template, "namespace": world.namespace}},
        {"source": source | {"verification": {"policy": "Warn", "keys": [key]}}},
        {"clusterNamespaces": {"from": "All"}, "compatibility": "Permissive"},
        {"deletionPolicy": "Delete", "holdUpgrades": False, "drift": {"mode": "Warn", "interval": "10s"}},
    )
    everything = {field: value for part in parts for field, value in part.items()}
    listed = {name.split(".")[1].removesuffix("[]") for row in fields("ClusterStack") for name in row.names}
    assert {*everything} == listed
    namespace = await world.other_namespace()
    async with world.operator(namespace="") as operator:
        before = await with_victim(world, operator, new)

        base = world.stack.manifest(namespace, "v2")
        for number, part in enumerate((*parts, everything)):
            metadata = {**base["metadata"], "name": f"s{number}"}
            await world.create({**base, "metadata": metadata, "spec": {**base["spec"], **part}})

        async def reported() -> bool:
            found = [await world.find(Kind.CLUSTER_STACK, f"s{at}", namespace) for at in range(len(parts) + 1)]
            return all("conditions" in ((one or {}).get("status") or {}) for one in found)

        await eventually(reported, about="a condition of each ClusterStack")
        await idle(operator)
        assert await of_provider(world) == before
        assert await installed(world) == only(new)
        assert await world.find(CLUSTER_CLASS_KIND, new.class_name, namespace) is not None
