"""Objects of the Go operator are adopted without a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.deliver.apply.ownership import OWNED_LABEL, OWNED_VALUE, PREDECESSOR
from clusterstacks.model.kinds.names import ADDON_FINALIZER, API_VERSION, CLUSTER_CLASS_KIND, RELEASE_FINALIZER, Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

SINCE = "2025-09-23T00:00:00Z"


def old_condition(kind: str, status: str, reason: str = "") -> dict[str, str]:
    found = {"type": kind, "status": status, "lastTransitionTime": SINCE}
    return found if status == "True" else {**found, "reason": reason, "severity": "Warning", "message": "as it was"}


def old_resource(manifest: Manifest, namespace: str) -> dict[str, str]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    name = manifest["metadata"]["name"]
    found = {"group": group, "version": version, "kind": manifest["kind"], "namespace": namespace, "name": name}
    return {**found, "status": "synced"}


def owned(manifest: Manifest, namespace: str) -> Manifest:
    metadata = {**manifest["metadata"], "namespace": namespace, "labels": {OWNED_LABEL: OWNED_VALUE}}
    return {**manifest, "metadata": metadata}


async def as_the_go_operator(client: Any, manifest: Manifest, namespace: str) -> Manifest:
    group, _, version = manifest["apiVersion"].rpartition("/")
    resource = await client.resource(group, manifest["kind"], version)
    applied: Manifest = await client.apply(
        resource, owned(manifest, namespace), manager=PREDECESSOR, namespace=namespace, force=True
    )
    return applied


async def release_of_the_go_operator(world: World, stack: Manifest, *, finalizer: bool) -> Manifest:
    """A ready ClusterStackRelease, its class and template."""
    objects = world.stack.class_objects("v1")
    for manifest in objects:
        await as_the_go_operator(world.client, manifest, world.namespace)
    owner = {"apiVersion": API_VERSION, "kind": stack["kind"], "name": world.namespace, "uid": stack["metadata"]["uid"]}
    release = await world.create(
        {
            "apiVersion": API_VERSION,
            "kind": Kind.CLUSTER_STACK_RELEASE,
            "metadata": {
                "name": world.stack.release("v1").release,
                "namespace": world.namespace,
                "ownerReferences": [owner],
                **({"finalizers": [RELEASE_FINALIZER]} if finalizer else {}),
            },
            "spec": {},
        }
    )
    conditions = [
        old_condition(kind, "True") for kind in ("ClusterStackReleaseDownloaded", "HelmChartApplied", "Ready")
    ]
    conditions.append(old_condition("AssetsClientAPIAvailable", "False", "FailedCreateAssetsClient"))
    resources = [old_resource(manifest, world.namespace) for manifest in objects]
    status = {"ready": True, "kubernetesVersion": "v1.35.4", "resources": resources, "conditions": conditions}
    return await world.patch(release, {"status": status}, "status")


async def test_stack_release_and_cluster_of_the_go_operator_are_adopted(world: World) -> None:
    word, name = world.namespace, world.stack.release("v1")
    addon_object = config_map(word, a="1")
    world.publish(name, world.stack.files("v1", {word: templates(addon_object)}))
    stack = await world.create(world.stack.manifest(word, "v1"))
    failed = old_condition("AssetsClientAPIAvailable", "False", "FailedCreateAssetsClient")
    summary = [{"name": "v1", "ready": True, "phase": "done"}]
    await world.patch(stack, {"status": {"summary": summary, "conditions": [failed]}}, "status")
    release = await release_of_the_go_operator(world, stack, finalizer=False)
    cluster_class = await world.get(CLUSTER_CLASS_KIND, name.class_name)
    cluster = await world.cluster("one", name.class_name)
    delivered = await as_the_go_operator(world.workload, addon_object, "kube-system")
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "one", "namespace": word}
    old = await world.create(
        {
            "apiVersion": API_VERSION,
            "kind": Kind.CLUSTER_ADDON,
            "metadata": {
                "name": "cluster-addon-one",
                "namespace": word,
                "annotations": {"ClusterAddonStage": "created"},
                "finalizers": [ADDON_FINALIZER],
                "ownerReferences": [{**reference, "uid": cluster["metadata"]["uid"]}],
            },
            "spec": {"clusterRef": reference, "clusterStack": name.class_name, "version": "v1", "hook": ""},
        }
    )
    del old["metadata"]["managedFields"]
    conditions = [old_condition(kind, "True") for kind in ("ClusterReady", "HelmChartApplied")]
    conditions.append(old_condition("HookServerReady", "False", "HookServerUnresponsive"))
    conditions.append(old_condition("Ready", "False", "HookServerUnresponsive"))
    await world.patch(old, {"status": {"ready": True, "conditions": conditions}}, "status")

    async with world.operator():
        taken = await world.until(
            Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: is_ready(one) and one["metadata"].get("finalizers")
        )
        assert taken["metadata"]["uid"] == release["metadata"]["uid"]
        assert taken["metadata"]["finalizers"] == [RELEASE_FINALIZER]
        assert taken["status"]["kubernetesVersion"] == "v1.35.4"
        addon = await world.addons_ready("one", name.class_name)
        assert addon["metadata"]["uid"] == old["metadata"]["uid"]
        assert addon["metadata"]["finalizers"] == [ADDON_FINALIZER]
        assert {one["name"] for one in addon["status"]["resources"]} == {word}
        assert condition_of(addon, "HookServerReady") == {}
        taken_stack = await world.until(
            Kind.CLUSTER_STACK, word, lambda one: condition_of(one, "Ready").get("status") == "True"
        )
        assert taken_stack["status"]["summary"] == [{"name": "v1", "ready": True, "phase": "done"}]

        same_class = await world.get(CLUSTER_CLASS_KIND, name.class_name)
        same_object = await world.delivered(word)
        assert same_object is not None
        assert same_class["metadata"]["uid"] == cluster_class["metadata"]["uid"]
        assert same_object["metadata"]["uid"] == delivered["metadata"]["uid"]
        assert same_object["metadata"]["labels"][OWNED_LABEL] == OWNED_VALUE


async def test_release_being_deleted_by_the_go_operator_is_deleted_with_its_objects(world: World) -> None:
    name = world.stack.release("v1")
    stack = await world.create(world.stack.manifest(world.namespace))
    release = await release_of_the_go_operator(world, stack, finalizer=True)
    await world.delete(release)
    async with world.operator():
        await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release)
        await world.gone(CLUSTER_CLASS_KIND, name.class_name)
