"""The health of the addons as users see it: on the ClusterAddon, on the Cluster, and in the order of stages."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.deliver.apply import health_rules
from clusterstacks.deliver.apply.record_store import record_name
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, RECONCILE_ANNOTATION, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers import addon_sweep
from clusterstacks.operator.controllers.clusteraddon import rollback, stage_run
from tests.support.builders.manifests import config_map, crd, deployment, named
from tests.support.builders.stacks import stage, templates
from tests.support.running.doc_pages import Block, Page, environ_of_reader
from tests.support.running.world import SECONDS, attempts, condition_of, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

ADDON = addon_name("one")
OFTEN = timedelta(seconds=0.2)
READS = 5

HEALTHY: dict[str, Any] = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "conditions": [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ],
}
CRASHING: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "app",
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 7,
            "state": {
                "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
            },
            "lastState": {"terminated": {"exitCode": 137}},
        }
    ],
}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the health at once; the intervals of the product are those of a cluster at work."""
    monkeypatch.setattr(addon_sweep, "INTERVAL", OFTEN)
    monkeypatch.setattr(addon_sweep, "SOON_INTERVAL", OFTEN)
    monkeypatch.setattr(stage_run, "RETRY", OFTEN)
    monkeypatch.setattr(stage_run, "LATE_RETRY", OFTEN)
    monkeypatch.setattr(rollback, "RESYNC", OFTEN)


async def set_status(world: World, status: dict[str, Any], name: str = "") -> None:
    """Play the Deployment controller."""
    resource = await world.workload.resource("apps", "Deployment")
    await world.workload.merge_patch(
        resource, name or world.namespace, {"status": status}, "default", subresource="status"
    )


async def crash(world: World) -> None:
    """Play the kubelet of a Pod of the Deployment."""
    pods = await world.workload.resource("", "Pod")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": world.namespace, "namespace": "default", "labels": {"app": world.namespace}},
        "spec": {"containers": [{"name": "app", "image": "example.org/app:1"}]},
    }
    await world.workload.create(pods, pod, "default")
    await world.workload.merge_patch(pods, world.namespace, {"status": CRASHING}, "default", subresource="status")


async def reads(operator: Operator) -> None:
    """Wait for some reads of the health."""
    before = attempts(operator, "clusteraddonhealth")

    async def more() -> bool:
        return attempts(operator, "clusteraddonhealth") >= before + READS

    await eventually(more, about="reads of the health")


async def healthy(world: World) -> Manifest:
    return await world.until(
        Kind.CLUSTER_ADDON, ADDON, lambda one: condition_of(one, "Healthy").get("status") == "True"
    )


def publish(
    world: World, version: str, *objects: Manifest, health: Sequence[dict[str, str]] = (), **stage_fields: Any
) -> str:
    """Publish a release whose first addon has the objects, and whose second has a ConfigMap."""
    charts = {"app": templates(*objects), "last": templates(config_map(f"{world.namespace}-last", version=version))}
    hooks = {"AfterControlPlaneInitialized": [{**stage("app"), **stage_fields}, stage("last")]}
    name = world.stack.release(version)
    world.publish(name, world.stack.files(version, charts, hooks=hooks, health=health))
    return name.class_name


async def test_end_of_an_upgrade_reports_the_health_of_the_changed_objects(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addon_sweep, "INTERVAL", timedelta(hours=1))
    monkeypatch.setattr(addon_sweep, "SOON_INTERVAL", timedelta(hours=1))
    first = publish(world, "v1", deployment(world.namespace, "default"))
    second = publish(world, "v2", deployment(world.namespace, "default", image="example.org/app:2"))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
        cluster = await world.cluster("one", first)
        await world.addons_ready("one", first)
        await set_status(world, HEALTHY)
        await world.patch(cluster, {"metadata": {"annotations": {RECONCILE_ANNOTATION: "now"}}})
        await healthy(world)

        await world.set_class("one", second)
        await world.finish(await world.get(CLUSTER_KIND, "one"))
        addon = await world.addons_ready("one", second)

        assert condition_of(addon, "Healthy")["status"] == "False"
        assert condition_of(addon, "Healthy")["reason"] == "ObjectsInProgress"


@pytest.mark.regression("USER-2")
async def test_health_is_reported_on_both_objects_and_does_not_decide_about_ready(world: World) -> None:
    class_name = publish(world, "v1", deployment(world.namespace, "default"))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)

        addon = await world.addons_ready("one", class_name)
        assert condition_of(addon, "Delivered")["status"] == "True"
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "Healthy", "ObjectsInProgress")
        assert found["message"] == (
            f"1 of 1 objects are not healthy: Deployment.apps default/{world.namespace}: 0 of 1 replicas exist "
            "(LessReplicas)"
        )
        await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsHealthy", "ObjectsInProgress")
        assert is_ready(await world.addon("one"))

        await set_status(world, HEALTHY)
        assert is_ready(await healthy(world))
        await world.until(CLUSTER_KIND, "one", lambda one: not condition_of(one, "ClusterStackAddonsHealthy"))

        await crash(world)
        await set_status(world, {"readyReplicas": 0, "availableReplicas": 0})
        await world.says(
            Kind.CLUSTER_ADDON,
            ADDON,
            "Healthy",
            words=["0 of 1 updated", "container app: CrashLoopBackOff (exit code 137)"],
        )
        await reads(operator)
        before = await resource_version(world)
        await reads(operator)
        assert await resource_version(world) == before
        assert is_ready(await world.addon("one"))

        resource = await world.workload.resource("apps", "Deployment")
        await world.workload.delete(resource, world.namespace, "default")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Healthy", words=["it does not exist"])


@pytest.mark.regression("USER-2")
@pytest.mark.parametrize("is_annotated", [False, True], ids=["clusteraddon.yaml", "annotation"])
async def test_the_health_of_an_own_kind_is_judged_by_the_expressions_of_its_author(
    world: World, *, is_annotated: bool
) -> None:
    kind, group = world.namespace.capitalize(), f"{world.namespace}.example.org"
    widget = named(f"{group}/v1", kind, "one", "default", spec={"size": 1})
    current, failed = "self.status.phase == 'Running'", "self.status.phase == 'Broken'"
    rules = [{"kind": f"{kind}.{group}", "current": current, "failed": failed}]
    if is_annotated:
        rules = []
        annotations = {"clusterstack.x-k8s.io/health": current, "clusterstack.x-k8s.io/health-failed": failed}
        widget["metadata"]["annotations"] = annotations
    class_name = publish(world, "v1", crd(kind, group), widget, health=rules, waitFor="Healthy")

    async def becomes(phase: str) -> None:
        resource = await world.workload.resource(group, kind)
        await world.workload.merge_patch(resource, "one", {"status": {"phase": phase}}, "default")

    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        title = f"{kind}.{group} default/one"
        words = [f"{title}: its health, condition", "self has no key 'status'", "(HealthUndecided)"]
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress", words=words)
        assert await world.delivered(f"{world.namespace}-last") is None

        await becomes("Starting")
        words = [f"{title}: it waits until this holds: {current} (HealthNotCurrent)"]
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress", words=words)

        await becomes("Running")
        await world.addons_ready("one", class_name)
        await healthy(world)
        await world.shows(f"{world.namespace}-last", {"version": "v1"})

        await becomes("Broken")
        words = [f"{title}: this holds: {failed} (HealthFailed)"]
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsFailed", words=words)
        await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsHealthy", "ObjectsFailed")

        await becomes("Running")
        await world.addons_ready("one", class_name)
        await healthy(world)
        await rest_of_expressions(world, operator)

    async with world.operator() as operator:  # the expressions come with the objects, not from the release
        await reads(operator)
        assert is_ready(await world.addon("one"))
        await becomes("Broken")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsFailed", words=words)


@pytest.mark.regression("LIVE-LV-4")
async def test_live_lv_4_an_upgrade_that_breaks_an_own_kind_is_rolled_back_although_its_status_was_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The status never counts until somebody writes it, however slow the machine is.
    monkeypatch.setattr(health_rules, "SETTLE_TIME", timedelta(hours=1))
    kind, group = world.namespace.capitalize(), f"{world.namespace}.example.org"
    rules = [{"kind": f"{kind}.{group}", "current": "self.status.phase == 'Running'"}]
    first, second = (
        publish(
            world,
            version,
            crd(kind, group),
            named(f"{group}/v1", kind, "one", "default", spec={"size": size}),
            health=rules,
            waitFor="Healthy",
            rollback="OnFailure",
            timeout=timeout,
        )
        for version, size, timeout in (("v1", 1, "10m"), ("v2", 2, "2s"))
    )

    async def becomes(phase: str) -> None:
        resource = await world.workload.resource(group, kind)
        await world.workload.merge_patch(resource, "one", {"status": {"phase": phase}}, "default")

    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress", words=["HealthUndecided"])
        await becomes("Running")
        await world.addons_ready("one", first)

        # The times of managed fields are whole seconds, and an object that was created in the same one is judged.
        await asyncio.sleep(1.1)
        await world.set_class("one", second)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack", words=["(StatusNotObserved)"])
        resource = await world.workload.resource(group, kind)
        assert (await world.workload.get(resource, "one", "default"))["spec"] == {"size": 1}


async def rest_of_expressions(world: World, operator: Operator) -> None:
    """Check that reads of objects that do not change evaluate nothing and write nothing."""
    await reads(operator)  # the last change was evaluated
    before = await world.addon("one")
    evaluated: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Renderer, "holds", lambda _, expression, *__, **___: evaluated.append(expression))
        await reads(operator)
    assert not evaluated
    assert (await world.addon("one"))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_stage_that_waits_for_health_holds_the_next_stage_and_the_prune(world: World) -> None:
    old = config_map(f"{world.namespace}-old", "default")
    first = publish(world, "v1", deployment(world.namespace, "default"), old, waitFor="Healthy")
    second = publish(world, "v2", deployment(world.namespace, "default", replicas=2), waitFor="Healthy", timeout="1s")
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        await world.release_ready(world.stack.release("v1"))
        await world.release_ready(world.stack.release("v2"))
        await world.cluster("one", first)

        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress", words=["LessReplicas"])
        assert "app of" in found["message"]
        addon = await world.addon("one")
        assert addon["status"]["stages"][0]["phase"] == "waitingForHealth"
        assert addon["status"]["stages"][0]["waitingSince"]
        assert condition_of(addon, "Delivered")["status"] == "False"
        assert await world.delivered(f"{world.namespace}-last") is None

        await set_status(world, HEALTHY)
        await world.addons_ready("one", first)
        await healthy(world)
        await world.shows(f"{world.namespace}-last", {"version": "v1"})

        # At rest, Ready follows the health of the addons that the class waits for.
        await set_status(world, {"readyReplicas": 0, "availableReplicas": 0})
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress", words=["waitFor: Healthy"])
        assert condition_of(await world.addon("one"), "Delivered")["status"] == "True"
        await set_status(world, HEALTHY)
        await world.addons_ready("one", first)

        await world.set_class("one", second)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "HealthTimeout", words=["LatestGenerationNotObserved"])
        await reads(operator)
        assert await world.delivered(f"{world.namespace}-old", "default") is not None
        await world.shows(f"{world.namespace}-last", {"version": "v1"})

        two = dict.fromkeys(
            ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2
        )
        await set_status(world, {**HEALTHY, **two})
        await world.addons_ready("one", second)
        await world.shows(f"{world.namespace}-last", {"version": "v2"})
        assert await world.delivered(f"{world.namespace}-old", "default") is None


async def test_a_restarted_operator_keeps_an_unhealthy_cluster_unready(world: World) -> None:
    class_name = publish(world, "v1", deployment(world.namespace, "default"), waitFor="Healthy")
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress")
        await set_status(world, HEALTHY)
        await world.addons_ready("one", class_name)
        await set_status(
            world, {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}
        )
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsFailed")
        await reads(operator)
        await world.at_rest()
        before = await world.addon("one")

    async with world.operator() as operator:
        await reads(operator)
        assert (await world.addon("one"))["status"] == before["status"]
        await set_status(world, HEALTHY)
        await world.addons_ready("one", class_name)


async def test_a_cluster_that_cannot_be_reached_has_unknown_health(world: World) -> None:
    class_name = publish(world, "v1", deployment(world.namespace, "default"))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        await world.addons_ready("one", class_name)
        await set_status(world, HEALTHY)
        await healthy(world)

        secrets = await world.client.resource("", "Secret")
        await world.client.delete(secrets, "one-kubeconfig", world.namespace)
        await operator._workloads.forget(ObjectKey(world.namespace, "one"))
        await world.until(
            Kind.CLUSTER_ADDON, ADDON, lambda one: condition_of(one, "Healthy").get("reason") == "HealthUnknown"
        )
        assert is_ready(await world.addon("one"))

        await world.connect("one")
        await healthy(world)


def replicas(number: int, generation: int) -> dict[str, Any]:
    """Return the status of a healthy Deployment with some replicas."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), number)
    return {**HEALTHY, **counts, "observedGeneration": generation}


async def wanted_replicas(world: World) -> int:
    resource = await world.workload.resource("apps", "Deployment")
    found: int = (await world.workload.get(resource, world.namespace, "default"))["spec"]["replicas"]
    return found


async def reconciles(operator: Operator) -> None:
    """Wait for some reconciles of the ClusterAddon."""
    done = attempts(operator, "clusteraddon")

    async def more() -> bool:
        return attempts(operator, "clusteraddon") >= done + READS

    await eventually(more, about="reconciles of the ClusterAddon")


async def resource_version(world: World) -> str:
    return str((await world.addon("one"))["metadata"]["resourceVersion"])


async def reconciles_write_nothing(world: World, operator: Operator, version: str) -> None:
    await reconciles(operator)
    assert await resource_version(world) == version


async def run_of_page(world: World, directory: Path, block: int) -> str:
    """Run a block of the page about rollbacks with the names of the test, and return what it prints."""
    own_values = {
        "--namespace team ": f"--namespace {world.namespace} ",
        "cluster-addon-prod": ADDON,
        "cluster-stack-addon-cni": record_name("app"),
    }
    page = Page.read("how-to/roll-back-an-addon.md", own_values)
    (directory / "prod.kubeconfig").write_text(yaml.safe_dump(dict(world.workload_kubeconfig)))
    environ = environ_of_reader(world.management_kubeconfig)
    # The text of the page is an example of another release.
    (printed,) = await asyncio.to_thread(page.part([Block(page.blocks[block].commands)]).run, directory, environ)
    return printed.strip()


async def test_an_addon_that_does_not_become_healthy_returns_to_its_last_healthy_revision(
    world: World, tmp_path: Path
) -> None:
    word = world.namespace
    extra = config_map(f"{word}-extra", "default")
    # The first release does not know the field: its revision is kept when the second one comes.
    first = publish(world, "v1", deployment(word, "default"))
    again: dict[str, Any] = {"waitFor": "Healthy", "timeout": "1s", "rollback": "OnFailure"}
    second = publish(world, "v2", deployment(word, "default", replicas=2), extra, **again)
    third = publish(world, "v3", deployment(word, "default", replicas=3), extra, **again | {"timeout": "10m"})
    async with world.operator() as operator:
        await world.create(world.stack.manifest(word, "v1", "v2", "v3"))
        for version in ("v1", "v2", "v3"):
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        await world.addons_ready("one", first)
        await set_status(world, replicas(1, 1))
        await healthy(world)

        await world.set_class("one", second)
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack")
        assert found["message"] == (
            f"addon app of {world.stack.release('v2').release} was rolled back to its revision of "
            f"{world.stack.release('v1').release}: 1 of 1 objects are not healthy within 0:00:01: Deployment.apps "
            f"default/{word}: its controller has observed generation 1, not 2 (LatestGenerationNotObserved); it stays "
            "there until the Cluster has another class, or other values for this addon"
        )
        assert await wanted_replicas(world) == 1
        assert await world.delivered(f"{word}-extra", "default") is None
        await world.shows(f"{word}-last", {"version": "v1"})
        addon = await world.addon("one")
        assert addon["status"]["stages"][0]["phase"] == "rolledBack"
        assert condition_of(addon, "Delivered")["reason"] == "RolledBack"
        await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsReady", "RolledBack")
        assert await run_of_page(world, tmp_path, 0) == found["message"]
        await set_status(world, replicas(1, 3))
        await healthy(world)
        await reconciles(operator)
        at_rest = await resource_version(world)
        await reconciles_write_nothing(world, operator, at_rest)

    async with world.operator() as operator:
        await reconciles_write_nothing(world, operator, at_rest)
        assert await wanted_replicas(world) == 1

        # Without its record the release is tried again.
        await run_of_page(world, tmp_path, 1)
        resource = await world.workload.resource("apps", "Deployment")

        async def returned_again() -> bool:
            found = await world.workload.get(resource, word, "default")
            return bool(found["metadata"]["generation"] >= 5 and found["spec"]["replicas"] == 1)

        await eventually(returned_again, seconds=SECONDS, about="the second rollback")
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack")

        # The class before it: the same revision, delivered without a rollback. Then the release is tried again.
        await world.set_class("one", first)
        await world.addons_ready("one", first)
        await world.set_class("one", second)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack")
        await set_status(world, replicas(1, 7))
        await healthy(world)

        await world.set_class("one", third)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "ObjectsInProgress", words=["not healthy yet"])
        await set_status(world, replicas(3, 8))
        await world.addons_ready("one", third)
        await world.shows(f"{word}-last", {"version": "v3"})
        assert await world.delivered(f"{word}-extra", "default") is not None


async def test_the_first_revision_of_an_addon_has_nothing_to_return_to(world: World) -> None:
    again: dict[str, Any] = {"waitFor": "Healthy", "timeout": "1s", "rollback": "OnFailure"}
    class_name = publish(world, "v1", deployment(world.namespace, "default"), **again)
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", class_name)
        words = ["it cannot be rolled back: none of its earlier revisions is known to have been healthy"]
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "HealthTimeout", words=words)

        await set_status(world, HEALTHY)
        await world.addons_ready("one", class_name)
