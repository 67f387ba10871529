"""A Cluster gets a class only while a ClusterStack offers it; what a user names creates nothing for the provider.

The tenant may write Clusters and ClusterAddons of his own namespace, and nothing else.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.deliver.apply.ownership import OWNED_LABEL, OWNED_VALUE
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import (
    API_VERSION,
    CLUSTER_CLASS_KIND,
    CLUSTER_KIND,
    GROUP,
    PAUSED_ANNOTATION,
    Kind,
)
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import guarded, refusal
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import LOOKING_OFTEN, cluster_manifest, condition_of, idle, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

READY = "ClusterStackAddonsReady"
SAME = {"from": "Same"}
FOLLOWING = {"autoSubscribe": True, "channel": "stable"}
RBAC = "rbac.authorization.k8s.io"


@asynccontextmanager
async def tenant(world: World) -> AsyncIterator[tuple[World, str]]:
    """The world as a user sees it who may write Clusters and ClusterAddons of one namespace, and that namespace."""
    namespace = await world.other_namespace()
    rules = [
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["*"]},
        {"apiGroups": [GROUP], "resources": ["clusteraddons"], "verbs": ["*"]},
    ]
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "tenant", "namespace": namespace}}
    await world.create({**common, "kind": "Role", "rules": rules})
    subject = {"apiGroup": RBAC, "kind": "User", "name": namespace}
    role = {"apiGroup": RBAC, "kind": "Role", "name": "tenant"}
    await world.create({**common, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})
    config = yaml.safe_load(world.management_kubeconfig.read_text())
    config["users"][0]["user"]["as"] = namespace
    async with Pool() as pool:
        user = replace(world, client=Client(parse_kubeconfig(config, base=None), pool))

        async def may_write() -> bool:
            probe = cluster_manifest(namespace, "probe", "quick-start")
            clusters = await user.client.resource("cluster.x-k8s.io", CLUSTER_KIND)
            return await refusal(user.client.apply(clusters, probe, manager="tests", dry_run=True)) == ""

        await eventually(may_write, about="the role of the tenant")
        assert "403" in await refusal(user.get(Kind.CLUSTER_STACK_RELEASE, world.stack.release("v1").release))
        yield user, namespace


def published(world: World, *versions: str) -> list[ReleaseName]:
    names = [world.stack.release(version) for version in versions]
    for name in names:
        addons = {"cni": templates(config_map(world.stack.word, release=name.release))}
        world.publish(name, world.stack.files(name.version.dot, addons))
    return names


async def offering(world: World, *versions: str, **spec: Any) -> Manifest:
    stack = await world.create(world.stack.manifest(world.namespace, *versions, **spec))
    for version in versions:
        await world.release_ready(world.stack.release(version))
    return stack


def using(world: World, namespace: str, name: str, release: ReleaseName) -> Manifest:
    """A Cluster of a class in the namespace of the provider."""
    reference = {"name": release.class_name, "namespace": world.namespace}
    return cluster_manifest(namespace, name, release.class_name, classRef=reference)


def moved_to(release: ReleaseName) -> Manifest:
    return {"spec": {"topology": {"classRef": {"name": release.class_name}}}}


async def running(world: World, namespace: str, release: ReleaseName, name: str = "one") -> Manifest:
    """A Cluster of the tenant that has its addons."""
    cluster = await world.create(using(world, namespace, name, release))
    await world.connect(name, namespace=namespace)
    await world.finish(cluster)
    await world.addons_ready(name, release.class_name, namespace)
    return cluster


async def installed(world: World) -> set[str]:
    """Return the releases and classes in the namespace of the provider."""
    found = set()
    for group, kind in ((GROUP, str(Kind.CLUSTER_STACK_RELEASE)), ("cluster.x-k8s.io", CLUSTER_CLASS_KIND)):
        resource = await world.client.resource(group, kind)
        items = (await world.client.list_metadata(resource, world.namespace)).items
        found |= {f"{kind} {one['metadata']['name']}" for one in items}
    return found


def only(*releases: ReleaseName) -> set[str]:
    return {
        text for one in releases for text in (f"ClusterStackRelease {one.release}", f"ClusterClass {one.class_name}")
    }


async def not_offered(world: World, namespace: str, name: str = "one", *, words: tuple[str, ...] = ()) -> Manifest:
    return await world.says(CLUSTER_KIND, name, READY, "ClassNotOffered", namespace=namespace, words=words)


async def test_sec_28b_withdrawn_class_is_refused_with_the_offered_ones(world: World) -> None:
    old, new = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace), guarded(world, namespace=""):
        await offering(world, "v2")

        told = await refusal(user.create(using(world, namespace, "one", old)))

        assert f"class {world.namespace}/{old.class_name} is not offered to namespace {namespace}" in told
        assert f"ClusterStack {world.namespace}/{world.stack.word} (provider local) offers {new.class_name}; " in told
        assert f"ask the administrators of namespace {world.namespace} to add v1 to its spec.versions" in told
        cluster = await user.create(using(world, namespace, "one", new))
        assert "is not offered" in await refusal(user.patch(cluster, moved_to(old)))
        annotated = {"metadata": {"annotations": {"clusterstack.x-k8s.io/addon-release": old.release}}}
        assert f"{old}, which an annotation names, is not offered" in await refusal(user.patch(cluster, annotated))
        assert await installed(world) == only(new)


async def test_sec_28b_nothing_is_created_for_a_withdrawn_class_that_no_webhook_saw(world: World) -> None:
    old, new = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace), world.operator(namespace="") as operator:
        stack = await offering(world, "v2")
        cluster = await running(world, namespace, new, "two")
        await user.create(using(world, namespace, "one", old))
        await user.patch(cluster, moved_to(old))

        words = (f"class {world.namespace}/{old.class_name} is not offered", new.class_name, "spec.versions")
        for name in ("one", "two"):
            await not_offered(world, namespace, name, words=words)
        await world.says(Kind.CLUSTER_ADDON, addon_name("two"), "Ready", "ClassNotOffered", namespace=namespace)
        await idle(operator)
        assert await installed(world) == only(new)
        assert await world.find(Kind.CLUSTER_ADDON, addon_name("one"), namespace) is None

        await world.patch(stack, {"spec": {"versions": ["v1", "v2"]}})
        await world.addons_ready("two", old.class_name, namespace)
        await world.until(
            CLUSTER_KIND,
            "one",
            lambda one: condition_of(one, READY).get("reason") != "ClassNotOffered",
            namespace=namespace,
        )


@pytest.mark.regression("SEC-28")
async def test_release_names_in_clusters_and_clusteraddons_create_nothing(world: World) -> None:
    """Every field of both kinds that can contain the name of a release, one Cluster each."""
    new, *named = published(world, "v1", "v2", "v3", "v4", "v5")
    prefix = "clusterstack.x-k8s.io"
    async with tenant(world) as (user, namespace), world.operator(namespace="") as operator:
        await offering(world, "v1")
        of_class, of_all, of_one, recorded = named
        await user.create(using(world, namespace, "a", of_class))
        for name, key, release in (("b", "addon-release", of_all), ("c", "addon.cni", of_one)):
            cluster = using(world, namespace, name, new)
            cluster["metadata"]["annotations"] = {f"{prefix}/{key}": release.release}
            await user.create(cluster)
        await user.create(using(world, namespace, "d", new))

        async def created() -> Manifest | None:
            return await world.find(Kind.CLUSTER_ADDON, addon_name("d"), namespace)

        addon = await eventually(created, about="the ClusterAddon")
        spec = {"clusterStack": recorded.class_name, "addons": [{"name": "cni", "release": recorded.release}]}
        await user.patch(addon, {"spec": spec})

        await not_offered(world, namespace, "a")
        for name in ("b", "c"):
            await not_offered(world, namespace, name, words=("which an annotation names, is not offered",))
        await idle(operator)
        stack = await world.get(Kind.CLUSTER_STACK, world.stack.word)
        await world.look_again(operator, "clusterstack", stack)
        assert await installed(world) == only(new)


@pytest.mark.regression("SEC-28")
async def test_release_that_is_not_published_yet_is_refused(world: World) -> None:
    first, second = (world.stack.release(version) for version in ("v1", "v2"))
    published(world, "v1")
    async with tenant(world) as (user, namespace), guarded(world, namespace="", source=LOOKING_OFTEN):
        stack = await offering(world, **FOLLOWING)
        await world.release_ready(first)

        told = await refusal(user.create(using(world, namespace, "one", second)))
        assert f"{second.class_name} is not offered to namespace {namespace}" in told
        assert f"offers {first.class_name}; " in told

        await world.patch(stack, {"spec": {"clusterNamespaces": SAME}})

        async def excluded() -> bool:
            answer = await refusal(user.create(using(world, namespace, "one", second)))
            return "spec.clusterNamespaces of its ClusterStack does not include it" in answer

        await eventually(excluded, about="the refusal of an excluded namespace")
        assert await installed(world) == only(first)


@pytest.mark.regression("SEC-28")
async def test_release_to_come_and_older_release_are_not_created_for_an_excluded_namespace(
    world: World,
) -> None:
    old, first, second = [*published(world, "v1", "v2"), world.stack.release("v3")]
    async with tenant(world) as (user, namespace), world.operator(namespace="", source=LOOKING_OFTEN) as operator:
        await offering(world, clusterNamespaces=SAME, **FOLLOWING)
        await world.release_ready(first)
        await running(world, world.namespace, first, "own")
        await user.create(using(world, namespace, "older", old))
        await user.create(using(world, namespace, "later", second))
        for name in ("older", "later"):
            await not_offered(world, namespace, name, words=("spec.clusterNamespaces",))

        published(world, "v3")
        await world.release_ready(second)
        await not_offered(world, namespace, "later", words=("spec.clusterNamespaces",))
        await idle(operator)
        assert await installed(world) == only(first, second)
        assert await world.find(Kind.CLUSTER_ADDON, addon_name("later"), namespace) is None


async def test_listed_release_is_created_for_an_admitted_namespace(world: World) -> None:
    old, latest = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace), guarded(world, namespace=""):
        await offering(world, **FOLLOWING)
        await world.release_ready(latest)
        assert await installed(world) == only(latest)

        assert await refusal(user.create(using(world, namespace, "one", old))) == ""
        await world.release_ready(old)


@pytest.mark.regression("SEC-28")
async def test_cluster_keeps_its_class_after_the_offer_ended(world: World) -> None:
    old, new = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace), guarded(world, namespace=""):
        stack = await offering(world, "v1", "v2")
        cluster = await running(world, namespace, old)
        await world.patch(stack, {"spec": {"versions": ["v2"], "clusterNamespaces": SAME}})

        async def withdrawn() -> bool:
            return "is not offered" in await refusal(user.create(using(world, namespace, "two", old)))

        await eventually(withdrawn, about="the end of the offer")
        pool = {"workers": {"machineDeployments": [{"name": "pool", "class": "pool", "replicas": 3}]}}
        variables = {"variables": [{"name": "size", "value": 2}]}
        for change in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"topology": {**pool, **variables}}}):
            assert await refusal(user.patch(cluster, change)) == ""
        assert "is not offered" in await refusal(user.patch(cluster, moved_to(new)))

        # It counts as a user: nothing is deleted under it, and what was deleted by force comes back.
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, old.release)
        for owned in (stack, release):
            assert "in use by 1 Cluster of other namespaces" in await refusal(world.delete(owned))
        releases = await world.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
        # With the annotation, the operator does not add its finalizer again.
        moving = {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}, "finalizers": None}
        await world.patch(release, {"metadata": moving})
        await world.client.delete(releases, old.release, world.namespace)

        async def again() -> bool:
            found = await world.find(Kind.CLUSTER_STACK_RELEASE, old.release) or release
            assert found["metadata"]["uid"] != release["metadata"]["uid"]
            assert is_ready(found), found["status"]
            return True

        await eventually(again, about="the release of the running cluster")


@pytest.mark.regression("SEC-28")
async def test_another_cluster_of_the_same_name_does_not_have_the_class(world: World) -> None:
    """A tenant keeps the ClusterAddon of a deleted Cluster, whose status says that its class was admitted."""
    old, new = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace), world.operator(namespace="") as operator:
        stack = await offering(world, "v1", "v2")
        cluster = await running(world, namespace, old)
        await user.delete(cluster)
        await world.gone(CLUSTER_KIND, "one", namespace)
        await world.patch(stack, {"spec": {"versions": ["v2"]}})
        await world.gone(Kind.CLUSTER_STACK_RELEASE, old.release)
        assert (await world.addon("one", namespace))["status"]["admitted"]["class"] == old.class_name

        await user.create(using(world, namespace, "one", old))

        await not_offered(world, namespace)
        await idle(operator)
        assert await installed(world) == only(new)


@pytest.mark.regression("SEC-28")
async def test_cluster_and_stack_of_one_file_converge_in_any_order(world: World) -> None:
    (name,) = published(world, "v1")
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    async with guarded(world):
        cluster = cluster_manifest(world.namespace, "one", name.class_name)
        items = {"apiVersion": "v1", "kind": "List", "items": [cluster, world.stack.manifest(world.namespace, "v1")]}

        told = await asyncio.to_thread(kubectl.tried, "apply", "-f-", manifest=items)

        assert told.returncode == 0
        assert f"no ClusterStack of namespace {world.namespace} offers class" in told.stderr
        await world.release_ready(name)
        await world.connect("one")
        await world.finish(await world.get(CLUSTER_KIND, "one"))
        await world.addons_ready("one", name.class_name)
        await world.until(CLUSTER_KIND, "one", lambda one: condition_of(one, READY).get("status") == "True")


@pytest.mark.regression("SEC-28")
async def test_cluster_waits_with_a_condition_for_the_first_stack(world: World) -> None:
    (name,) = published(world, "v1")
    async with guarded(world):
        cluster = await world.cluster("one", name.class_name)

        found = await not_offered(world, world.namespace, words=("no ClusterStack of namespace",))
        assert f"nothing is created for Cluster {world.namespace}/one" in found["message"]
        assert f"Kubernetes {name.kubernetes}" in found["message"]
        assert await installed(world) == set()
        # Neither is an edit of the waiting Cluster refused, nor a class of no cluster stack.
        assert await refusal(world.patch(cluster, {"metadata": {"labels": {"a": "b"}}})) == ""
        assert await refusal(world.create(cluster_manifest(world.namespace, "two", "quick-start"))) == ""

        # The first stack decides.
        stack = await offering(world, versions=["v2"])
        await not_offered(world, world.namespace, words=("is not offered",))
        await world.patch(stack, {"spec": {"versions": ["v1"]}})
        await world.addons_ready("one", name.class_name)


async def test_sec_28b_moved_cluster_keeps_a_class_that_is_only_in_use(world: World) -> None:
    """The order of ``clusterctl move``: classes, stacks and Clusters before the releases; nothing has a status."""
    old, new = published(world, "v1", "v2")
    async with guarded(world) as operator:
        stack = await offering(world, "v2")
        paused = {"annotations": {PAUSED_ANNOTATION: "true"}}
        moved = world.stack.cluster_class("v1")
        moved["metadata"] |= {"namespace": world.namespace, "labels": {OWNED_LABEL: OWNED_VALUE}, **paused}
        moved = await world.create(moved)
        cluster = cluster_manifest(world.namespace, "one", old.class_name)
        cluster["spec"]["paused"] = True
        cluster = await world.create(cluster)
        owner = {"apiVersion": API_VERSION, "kind": "ClusterStack", "name": world.stack.word}
        owner["uid"] = stack["metadata"]["uid"]
        metadata = {"name": old.release, "namespace": world.namespace, "ownerReferences": [owner]}
        release = await world.create(
            {"apiVersion": API_VERSION, "kind": "ClusterStackRelease", "metadata": metadata, "spec": {}}
        )
        reference = {"apiVersion": cluster["apiVersion"], "kind": CLUSTER_KIND, "name": "one"}
        metadata = {"name": addon_name("one"), "namespace": world.namespace}
        spec = {"clusterRef": {**reference, "namespace": world.namespace}, "clusterStack": old.class_name}
        await world.create({"apiVersion": API_VERSION, "kind": "ClusterAddon", "metadata": metadata, "spec": spec})
        await world.connect("one")
        await world.patch(moved, {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}})
        await world.patch(cluster, {"spec": {"paused": False}})
        await world.finish(cluster)

        await world.addons_ready("one", old.class_name)
        await idle(operator)
        kept = await world.get(Kind.CLUSTER_STACK_RELEASE, old.release)
        assert kept["metadata"]["uid"] == release["metadata"]["uid"]
        assert await installed(world) == only(old, new)


@pytest.mark.regression("SEC-34")
async def test_cluster_that_was_never_offered_its_class_blocks_no_deletion(world: World) -> None:
    (name,) = published(world, "v1")
    async with tenant(world) as (user, namespace):
        for squatter, named in (("one", name), ("two", world.stack.release("v99"))):
            await user.create(using(world, namespace, squatter, named))  # no webhook saw it
        async with guarded(world, namespace=""):
            stack = await offering(world, "v1", clusterNamespaces=SAME)
            await not_offered(world, namespace, "two")
            release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)

            assert await refusal(world.delete(release)) == ""
            await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release, uid=release["metadata"]["uid"])
            await world.release_ready(name)
            await running(world, world.namespace, name, "own")
            told = await refusal(world.delete(stack))
            assert f"in use by Cluster {world.namespace}/own (release {name})" in told
            await world.delete(await world.get(CLUSTER_KIND, "own"))
            await world.gone(CLUSTER_KIND, "own")
            assert await refusal(world.delete(stack)) == ""


@pytest.mark.regression("SEC-34")
async def test_release_that_an_annotation_or_a_clusteraddon_names_is_no_use_of_it(world: World) -> None:
    (name,) = published(world, "v1")
    async with tenant(world) as (user, namespace):
        annotated = using(world, namespace, "one", world.stack.release("v99"))
        annotated["metadata"]["annotations"] = {"clusterstack.x-k8s.io/addon-release": name.release}
        await user.create(annotated)
        foreign = await user.create(cluster_manifest(namespace, "two", "quick-start"))
        reference = {"apiVersion": foreign["apiVersion"], "kind": CLUSTER_KIND, "name": "two", "namespace": namespace}
        addon = {"metadata": {"name": addon_name("two"), "namespace": namespace}, "kind": str(Kind.CLUSTER_ADDON)}
        delivered = {"clusterStack": name.class_name, "addons": [{"name": "cni", "release": name.release}]}
        await user.create({**addon, "apiVersion": API_VERSION, "spec": {"clusterRef": reference, **delivered}})
        async with guarded(world, namespace=""):
            stack = await offering(world, "v1", clusterNamespaces=SAME)
            await not_offered(world, namespace)
            release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)

            assert await refusal(world.delete(release)) == ""
            await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release, uid=release["metadata"]["uid"])
            await world.release_ready(name)
            assert await refusal(world.delete(stack)) == ""


@pytest.mark.regression("SEC-28")
async def test_restored_cluster_gets_its_class_while_the_release_exists(world: World) -> None:
    """A backup restores a Cluster with another uid; its class is no longer in ``spec.versions``."""
    old, _ = published(world, "v1", "v2")
    async with tenant(world) as (user, namespace), guarded(world, namespace=""):
        stack = await offering(world, "v1", "v2")
        await user.create(using(world, namespace, "another", old))
        cluster = await running(world, namespace, old)
        await world.patch(stack, {"spec": {"versions": ["v2"]}})
        await user.delete(cluster)
        await world.gone(CLUSTER_KIND, "one", namespace)

        restored = await user.create(using(world, namespace, "one", old))
        await world.finish(restored)
        admitted = {"clusterUid": restored["metadata"]["uid"], "class": old.class_name}
        await world.until(
            Kind.CLUSTER_ADDON,
            addon_name("one"),
            lambda addon: admitted.items() <= addon.get("status", {}).get("admitted", {}).items(),
            namespace=namespace,
        )
