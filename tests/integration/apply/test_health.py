"""The health of delivered objects of a real API server, and why they are not healthy, in the words that users read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.health import GRACE, read_health, stateful
from clusterstacks.deliver.apply.health_expressions import HealthExpressions
from clusterstacks.deliver.apply.live_fields import MESSAGE_CHARACTERS
from clusterstacks.deliver.render.renderer import Renderer, RenderLimits
from tests.support.builders.manifests import config_map, crd, deployment, named, pod_template
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.health import HealthReport
    from clusterstacks.model.objects import Manifest
    from tests.integration.apply.conftest import Cluster

NOW = datetime.now(UTC)


async def deliver(cluster: Cluster, addon: str, *manifests: Manifest) -> None:
    report = await Delivery(cluster.client).install(addon, Revision.of(manifests, "1"), default_namespace="default")
    assert report.synced, [one.error for one in report.objects]


async def health(cluster: Cluster, addon: str, after: timedelta = GRACE) -> HealthReport:
    record = (await Delivery(cluster.client).records())[addon]
    now = datetime.now(UTC) + after
    return await read_health(cluster.client, stateful(addon, record.objects), now, HealthExpressions(Renderer()))


async def set_status(cluster: Cluster, manifest: Manifest, status: dict[str, Any]) -> None:
    """Play the controller of an object."""
    group, _, _ = manifest["apiVersion"].rpartition("/")
    resource = await cluster.user.resource(group, manifest["kind"])
    name, namespace = manifest["metadata"]["name"], "default" if resource.namespaced else ""
    await cluster.user.merge_patch(resource, name, {"status": status}, namespace, subresource="status")


def workload(kind: str, name: str) -> Manifest:
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": pod_template(name)}
    return named("apps/v1", kind, name, "default", spec=spec | ({"serviceName": name} if kind == "StatefulSet" else {}))


def job(name: str) -> Manifest:
    template = pod_template(name)
    template["spec"]["restartPolicy"] = "Never"
    return named("batch/v1", "Job", name, "default", spec={"template": template, "backoffLimit": 0})


STARTED = "2026-01-02T03:04:05Z"
OBSERVED = {"observedGeneration": 1}
FAILED_JOB = {
    "failed": 1,
    "startTime": STARTED,
    "conditions": [
        {"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed too often",
         "lastTransitionTime": STARTED}
        for kind in ("FailureTarget", "Failed")
    ],
}  # fmt: skip
STALLED = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "x" has timed out progressing.',
}
ABSENT = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "lastTransitionTime": STARTED}

WORDS: list[tuple[str, str, dict[str, Any], str]] = [
    ("Deployment", "Deployment.apps", {}, "0 of 1 replicas exist (LessReplicas)"),
    (
        "Deployment",
        "Deployment.apps",
        {**OBSERVED, "replicas": 1, "updatedReplicas": 1, "conditions": [ABSENT]},
        f"0 of 1 updated replicas are available (LessAvailable) since {STARTED}",
    ),
    (
        "Deployment",
        "Deployment.apps",
        {**OBSERVED, "replicas": 1, "updatedReplicas": 1, "conditions": [STALLED]},
        'ReplicaSet "x" has timed out progressing. (ProgressDeadlineExceeded)',
    ),
    ("StatefulSet", "StatefulSet.apps", {}, "0 of 1 replicas exist (LessReplicas)"),
    ("DaemonSet", "DaemonSet.apps", {}, "0 of 3 Pods are scheduled (LessCurrent)"),
    ("Job", "Job.batch", {}, "the Job has not started (JobNotStarted)"),
    (
        "Job",
        "Job.batch",
        FAILED_JOB,
        f"the Job failed after 1 failed Pods: it failed too often (JobFailed) since {STARTED}",
    ),
]


@pytest.mark.regression("USER-2")
@pytest.mark.parametrize(("kind", "title", "status", "words"), WORDS, ids=lambda value: str(value)[:40])
async def test_an_unhealthy_object_is_described_for_people(
    cluster: Cluster, unique: str, kind: str, title: str, status: dict[str, Any], words: str
) -> None:
    manifest = job(unique) if kind == "Job" else workload(kind, unique)
    await deliver(cluster, unique, manifest, config_map(unique, "default"))
    needed = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 3, "numberReady": 0}
    wanted = {**OBSERVED, **needed} if kind == "DaemonSet" else status
    if wanted:
        await set_status(cluster, manifest, wanted)

    report = await health(cluster, unique)

    assert report.message == f"{title} default/{unique}: {words}"
    assert report.objects == 1  # the ConfigMap has no state


PODS: list[tuple[dict[str, Any], str]] = [
    (
        {
            "phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}],
        },
        "container app: ImagePullBackOff: no such image",
    ),
    (
        {
            "phase": "Running",
            "containerStatuses": [
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    "lastState": {"terminated": {"exitCode": 3}},
                }
            ],
        },
        "container app: CrashLoopBackOff (exit code 3)",
    ),
    (
        {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "OOMKilled"}}}]},
        "container app: OOMKilled",
    ),
    (
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes available"}
            ],
        },
        "Unschedulable: 0/3 nodes available",
    ),
]


@pytest.mark.regression("USER-2")
@pytest.mark.parametrize(("status", "words"), PODS, ids=lambda value: str(value)[:40])
async def test_the_reason_of_a_pod_is_named(cluster: Cluster, unique: str, status: dict[str, Any], words: str) -> None:
    await deliver(cluster, unique, deployment(unique, "default"))
    pods = await cluster.user.resource("", "Pod")
    pod = {"apiVersion": "v1", "kind": "Pod", **pod_template(unique)}
    pod["metadata"] = {**pod["metadata"], "name": unique, "namespace": "default"}
    await cluster.user.create(pods, pod, "default")
    common = {"name": "app", "image": "", "imageID": "", "ready": False, "restartCount": 1}
    statuses = [common | one for one in status.get("containerStatuses", [])]
    await set_status(cluster, pod, {**status, "containerStatuses": statuses})

    report = await health(cluster, unique)

    assert report.message.endswith(f"(LessReplicas): {words}")
    (early,) = (await health(cluster, unique, -timedelta(hours=1))).unhealthy
    assert early.cause == "", "it was created a moment ago"


@pytest.mark.regression("USER-2")
async def test_without_a_pod_the_last_warning_is_named(cluster: Cluster, unique: str) -> None:
    await deliver(cluster, unique, deployment(unique, "default"))
    live = await cluster.live("Deployment", unique, "default", "apps")
    assert live is not None
    events = await cluster.user.resource("", "Event")
    regarding = {"kind": "Deployment", "namespace": "default", "name": unique, "uid": live["metadata"]["uid"]}
    for number, message in enumerate(("first", "quota\nexceeded")):
        event = named("v1", "Event", f"{unique}-{number}", "default", involvedObject=regarding, type="Warning")
        event |= {"reason": "FailedCreate", "message": message, "lastTimestamp": f"2026-01-02T03:04:0{number}Z"}
        await cluster.user.create(events, event, "default")

    assert (await health(cluster, unique)).message.endswith(": FailedCreate: quota exceeded")


@pytest.mark.regression("USER-2")
async def test_a_deleted_object_and_one_of_a_kind_that_is_gone_are_not_healthy(cluster: Cluster, unique: str) -> None:
    kind = unique.capitalize()
    definition = crd(kind, f"{unique}.example.org")
    custom = named(f"{unique}.example.org/v1", kind, unique, "default")
    await deliver(cluster, unique, definition, custom, deployment(unique, "default"))
    assert len((await health(cluster, unique)).unhealthy) == 1

    await cluster.user.delete(await cluster.user.resource("apps", "Deployment"), unique, "default")
    definitions = await cluster.user.resource("apiextensions.k8s.io", "CustomResourceDefinition")
    await cluster.user.delete(definitions, definition["metadata"]["name"])

    async def gone() -> bool:
        cluster.client.forget_discovery()
        return len((await health(cluster, unique)).unhealthy) == 3

    await eventually(gone)
    assert {one.health.state for one in (await health(cluster, unique)).unhealthy} == {"NotFound"}


async def test_a_job_that_was_deleted_after_its_end_is_healthy(cluster: Cluster, unique: str) -> None:
    await deliver(cluster, unique, job(unique))
    await cluster.user.delete(await cluster.user.resource("batch", "Job"), unique, "default")

    async def ended() -> bool:
        return not (await health(cluster, unique)).unhealthy

    assert await eventually(ended)


async def test_an_api_service_without_a_service_is_not_healthy(cluster: Cluster, unique: str) -> None:
    spec = {
        "group": f"{unique}.example.org",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": unique, "namespace": "default"},
    }
    manifest = named("apiregistration.k8s.io/v1", "APIService", f"v1.{unique}.example.org", spec=spec)
    await deliver(cluster, unique, manifest)

    async def judged() -> str:
        message = (await health(cluster, unique)).message
        return message if "ServiceNotFound" in message else ""

    try:
        assert f'service/{unique} in "default" is not present' in await eventually(judged)
    finally:
        resource = await cluster.user.resource("apiregistration.k8s.io", "APIService")
        await cluster.user.delete(resource, manifest["metadata"]["name"])


async def test_sec_a_hostile_status_costs_one_list_and_a_short_message(cluster: Cluster, unique: str) -> None:
    kind = unique.capitalize()
    definition = crd(kind, f"{unique}.example.org")
    hostile: list[object] = [
        "x",
        {"conditions": [{"type": "Ready", "status": "False", "reason": "r" * 9999, "message": "m\n" * 99_999}]},
        {"conditions": [[]], "observedGeneration": "1"},
        {"conditions": [{"type": "Ready", "status": "Unknown"}] * 5000},
    ]
    group = f"{unique}.example.org"
    objects = [named(f"{group}/v1", kind, f"{unique}-{number}", "default") for number in range(len(hostile))]
    await deliver(cluster, unique, definition, *objects)
    resource = await cluster.user.resource(group, kind)
    for manifest, status in zip(objects, hostile, strict=True):
        await cluster.user.merge_patch(resource, manifest["metadata"]["name"], {"status": status}, "default")
    before = len(cluster.requests.calls)

    report = await health(cluster, unique)

    assert len(report.unhealthy) == len(hostile)
    assert len(report.message) < 4 * (MESSAGE_CHARACTERS + 300)
    assert "and 1 more objects" in report.message
    asked = cluster.requests.calls[before:]
    assert sum(call.startswith(f"list {kind}.") for call in asked) == 1
    assert sum("Event" in call for call in asked) == 3, "only for the objects that the message names"


@pytest.mark.regression("CASE-12")
async def test_case_12_a_claim_is_healthy_until_it_has_a_consumer_where_its_class_waits_for_one(
    cluster: Cluster, unique: str
) -> None:
    classes = {"WaitForFirstConsumer": f"{unique}-late", "Immediate": f"{unique}-now", "": f"{unique}-missing"}
    binding = [
        named("storage.k8s.io/v1", "StorageClass", name) | {"provisioner": "example.org", "volumeBindingMode": mode}
        for mode, name in classes.items()
        if mode
    ]
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [
        named("v1", "PersistentVolumeClaim", name, "default", spec={**size, "storageClassName": name})
        for name in classes.values()
    ]
    await deliver(cluster, unique, *binding, *claims)

    report = await health(cluster, unique)

    assert [(one.id.name, one.health.message) for one in report.unhealthy] == [
        (f"{unique}-missing", f"its phase is Pending, not Bound: StorageClass {unique}-missing does not exist"),
        (f"{unique}-now", "its phase is Pending, not Bound"),
    ]

    resource = await cluster.user.resource("", "PersistentVolumeClaim")
    scheduled = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "worker"}}}
    await cluster.user.merge_patch(resource, f"{unique}-late", scheduled, "default")

    assert f"{unique}-late" in [one.id.name for one in (await health(cluster, unique)).unhealthy]


async def test_sec_a_hostile_expression_is_stopped_and_other_objects_are_judged(cluster: Cluster, unique: str) -> None:
    kind, group = unique.capitalize(), f"{unique}.example.org"

    def custom(name: str, expression: str) -> Manifest:
        manifest = named(f"{group}/v1", kind, name, "default", spec={"list": list(range(90)), "text": "x" * 200_000})
        manifest["metadata"]["annotations"] = {"clusterstack.x-k8s.io/health": expression}
        return manifest

    growing = "self.spec.list.map(a, self.spec.list.map(b, self.spec.text + self.spec.text)).size() == 0"
    good, bad = custom("good", "self.spec.text.size() == 200000"), custom("bad", growing)
    await deliver(cluster, unique, crd(kind, group), good, bad)
    renderer = Renderer(limits=RenderLimits(memory_bytes=400 * 1024**2))
    expressions = HealthExpressions(renderer)
    objects = stateful(unique, (await Delivery(cluster.client).records())[unique].objects)

    async def only_one_is_unhealthy() -> HealthReport | None:
        # On a slow machine the hostile expression takes all the time of the first read.
        report = await read_health(cluster.client, objects, NOW, expressions)
        return report if [one.id.name for one in report.unhealthy] == ["bad"] else None

    try:
        report = await eventually(only_one_is_unhealthy, seconds=300, about="the health of the other object")
    finally:
        await renderer.close()

    assert [one.health.reason for one in report.unhealthy] == ["HealthNotEvaluated"]
