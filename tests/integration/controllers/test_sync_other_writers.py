"""Fields that other writers of a cluster own are left to them by a sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import RECONCILE_ANNOTATION
from tests.integration.controllers.test_resource_syncs import BINDING, CLASS, ONE, is_synced, source, sync, written
from tests.support.builders.manifests import crd, deployment, named, with_annotation
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World


async def test_fields_of_autoscalers_injectors_and_defaults_cause_no_write(world: World) -> None:
    word, group = world.namespace, f"{world.namespace}.example.org"
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": word}
    hpa = named("autoscaling/v2", "HorizontalPodAutoscaler", word, "default", spec={
        "scaleTargetRef": scaled, "minReplicas": 2, "maxReplicas": 9
    })  # fmt: skip
    hook: dict[str, Any] = {
        "name": f"hook.{group}",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["none"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    hooks = named("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", word, webhooks=[hook])
    definition = crd("Widget", group)
    defaulted = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}, "default": {}}
    schema = {"type": "object", "properties": {"spec": defaulted}}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    objects = [
        deployment(word, "default", replicas=2),
        hpa,
        with_annotation(hooks, "cert-manager.io/inject-ca-from", "a/b"),
        named("v1", "Service", word, "default", spec={"selector": {"app": word}, "ports": [{"port": 80}]}),
        definition,
        named(f"{group}/v1", "Widget", word, "default"),
    ]
    await source(world, a=written(*objects))
    cluster = await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)
        deployments = await world.workload.resource("apps", "Deployment")
        configurations = await world.workload.resource("admissionregistration.k8s.io", hooks["kind"])
        await world.workload.merge_patch(deployments, word, {"spec": {"replicas": 5}}, "default", manager="scaler")
        bundle = {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": bundle_of(world)}}
        await world.workload.merge_patch(configurations, word, {"webhooks": [bundle]}, manager="cainjector")

        before = await versions(world, objects)
        for number in range(3):
            value = f"request {number}"
            await world.patch(cluster, {"metadata": {"annotations": {RECONCILE_ANNOTATION: value}}})
            await world.until(
                BINDING, ONE, lambda one, value=value: one["status"].get("lastHandledReconcileAt") == value  # type: ignore[misc]
            )  # fmt: skip
        found = await world.until(BINDING, ONE, lambda one: condition_of(one, "InSync").get("status") == "True")
        assert not found["status"].get("drift")
        assert await versions(world, objects) == before
        assert (await world.workload.get(deployments, word, "default"))["spec"]["replicas"] == 5


def bundle_of(world: World) -> str:
    authority: str = world.workload_kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
    return authority


async def versions(world: World, objects: Iterable[Manifest]) -> list[str]:
    """Return the resource versions of objects in the cluster."""
    found = []
    for one in objects:
        resource = await world.workload.resource(one["apiVersion"].rpartition("/")[0], one["kind"])
        live = await world.workload.get(resource, one["metadata"]["name"], text(one, "metadata", "namespace"))
        found.append(live["metadata"]["resourceVersion"])
    return found
