from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.deliver.apply.policy import RECREATE_ANNOTATION
from tests.support.builders.manifests import config_map, crd, cron_job, deployment, named, pod_template, with_annotation

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest
    from tests.integration.apply.conftest import Cluster


async def apply_as(cluster: Cluster, manager: str, manifest: Manifest, *, labels: dict[str, str] | None = None) -> Any:
    metadata = {**manifest["metadata"], "namespace": manifest["metadata"].get("namespace", "kube-system")}
    if labels:
        metadata["labels"] = labels
    group, _, _ = manifest["apiVersion"].rpartition("/")
    resource = await cluster.user.resource(group, manifest["kind"])
    return await cluster.user.apply(resource, {**manifest, "metadata": metadata}, manager=manager, force=True)


async def apply_as_go_operator(cluster: Cluster, manifest: Manifest) -> Any:
    return await apply_as(cluster, "kubectl", manifest, labels={OWNED_LABEL: "owned"})


def managers(live: Manifest | None) -> set[tuple[str, str]]:
    assert live is not None
    return {(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]}


@pytest.mark.regression("D66")
async def test_differing_foreign_object_is_not_changed_and_its_managers_are_named(
    cluster: Cluster, unique: str
) -> None:
    await apply_as(cluster, "somebody", config_map(unique, key="theirs"))

    report = await Delivery(cluster.client).install(unique, Revision.of([config_map(unique, key="ours")], "inputs"))

    (result,) = report.objects
    assert (result.synced, result.code) == (False, "FieldConflict")
    assert '.data.key is managed by "somebody"' in result.error
    assert "applyset.kubernetes.io/part-of=applyset-" in result.error
    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "theirs"}


@pytest.mark.regression("CASE-04")
async def test_key_removed_from_string_data_of_a_secret_of_the_go_operator_is_removed(
    cluster: Cluster, unique: str
) -> None:
    await apply_as_go_operator(cluster, named("v1", "Secret", unique, stringData={"user": "x", "token": "y"}))
    secret = named("v1", "Secret", unique, stringData={"user": "x"})

    report = await Delivery(cluster.client).install(unique, Revision.of([secret], "inputs"))

    assert report.synced, report
    live = await cluster.live("Secret", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"user": "eA=="}
    assert managers(live) == {("cluster-stack-operator", "Apply")}


@pytest.mark.regression("CASE-04")
async def test_secret_has_the_keys_of_each_revision_that_is_delivered(cluster: Cluster, unique: str) -> None:
    """Also of an older one in a rollback, and of one with values that the API server rejects."""
    first, second = ({"user": "x", "a": "1"}, {"user": "x", "b": "2"})
    for number, texts in enumerate((first, second, first, {}, second)):
        secret = named("v1", "Secret", unique, stringData=texts)
        report = await Delivery(cluster.client).install(unique, Revision.of([secret], str(number)))
        assert report.synced, report
        live = await cluster.live("Secret", unique, "kube-system")
        assert live is not None
        assert live.get("data", {}).keys() == texts.keys()

    wrong = named("v1", "Secret", unique, stringData={"user": 5})
    report = await Delivery(cluster.client).install(unique, Revision.of([wrong], "wrong"))

    assert "500 Invalid: the server's message is withheld" in report.objects[0].error


async def test_resumed_delivery_does_not_force_planned_objects(cluster: Cluster, unique: str) -> None:
    await apply_as(cluster, "somebody", config_map(unique, key="theirs"))
    revision = Revision.of([config_map(unique, key="ours")], "inputs")

    await Delivery(cluster.client).install(unique, revision)
    report = await Delivery(cluster.client).install(unique, revision)

    assert report.objects[0].code == "FieldConflict"


async def test_remedy_of_a_conflict_message_works(cluster: Cluster, unique: str) -> None:
    await apply_as(cluster, "somebody", config_map(unique, key="theirs"))
    revision = Revision.of([config_map(unique, key="ours")], "inputs")
    report = await Delivery(cluster.client).install(unique, revision)
    label = report.objects[0].error.partition(f"{PART_OF_LABEL}=")[2].partition(",")[0]
    resource = await cluster.user.resource("", "ConfigMap")
    patch = {"metadata": {"labels": {PART_OF_LABEL: label}}}
    await cluster.user.merge_patch(resource, unique, patch, "kube-system", manager="somebody")

    report = await Delivery(cluster.client).install(unique, revision)

    assert report.synced
    assert {one.manager for one in report.objects[0].conflicts} == {"somebody"}


async def test_identical_foreign_object_is_shared(cluster: Cluster, unique: str) -> None:
    await apply_as(cluster, "somebody", config_map(unique, key="same"))

    report = await Delivery(cluster.client).install(unique, Revision.of([config_map(unique, key="same")], "inputs"))

    assert report.synced
    assert {("somebody", "Apply"), ("cluster-stack-operator", "Apply")} <= managers(
        await cluster.live("ConfigMap", unique, "kube-system")
    )


async def test_own_object_is_corrected_by_force_and_the_other_manager_named(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([deployment(unique, replicas=2)], "old"))
    await apply_as(cluster, "somebody", named("apps/v1", "Deployment", unique, spec={"replicas": 7}))

    report = await delivery.install(unique, Revision.of([deployment(unique, replicas=3)], "new"))

    (result,) = report.objects
    assert result.synced
    assert [(one.manager, one.field) for one in result.conflicts] == [("somebody", ".spec.replicas")]
    live = await cluster.live("Deployment", unique, "kube-system", "apps")
    assert live is not None
    assert live["spec"]["replicas"] == 3


@pytest.mark.regression("D66")
async def test_objects_of_the_go_operator_are_adopted_without_a_rollout(cluster: Cluster, unique: str) -> None:
    """Fields the new manifest lacks go, although the Go operator had set them; users' fields stay."""
    theirs = deployment(unique, replicas=2)
    theirs["spec"]["minReadySeconds"] = 9
    theirs["spec"]["template"]["metadata"]["labels"] = {"app": unique, OWNED_LABEL: "owned"}
    before = await apply_as_go_operator(cluster, theirs)
    await apply_as(cluster, "somebody", named("apps/v1", "Deployment", unique, spec={"paused": True}))

    report = await Delivery(cluster.client).install(unique, Revision.of([deployment(unique, replicas=2)], "inputs"))

    assert report.synced
    live = await cluster.live("Deployment", unique, "kube-system", "apps")
    assert live is not None
    assert managers(live) == {("cluster-stack-operator", "Apply"), ("somebody", "Apply")}
    assert "minReadySeconds" not in live["spec"]
    assert live["spec"]["paused"] is True
    assert live["spec"]["template"] == before["spec"]["template"]


async def test_differing_objects_of_the_go_operator_are_adopted_by_force(cluster: Cluster, unique: str) -> None:
    await apply_as_go_operator(cluster, config_map(unique, key="old", gone="old"))

    report = await Delivery(cluster.client).install(unique, Revision.of([config_map(unique, key="new")], "inputs"))

    assert report.synced
    assert report.objects[0].conflicts == ()
    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "new"}
    assert managers(live) == {("cluster-stack-operator", "Apply")}


async def test_adoption_happens_once_and_later_fields_of_kubectl_are_kept(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([config_map(unique, key="old")], "old"))
    await apply_as_go_operator(cluster, config_map(unique, own="theirs"))

    await delivery.install(unique, Revision.of([config_map(unique, key="new")], "new"))

    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "new", "own": "theirs"}


async def test_immutable_field_is_named_with_a_remedy(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([deployment(unique)], "old"))
    other = deployment(unique)
    other["spec"]["selector"]["matchLabels"] = {"app": unique, OWNED_LABEL: "owned"}

    report = await delivery.install(unique, Revision.of([other], "new"))

    (result,) = report.objects
    assert not result.synced
    assert result.error.startswith(f"spec.selector: field is immutable; delete Deployment.apps kube-system/{unique}")
    assert f"{RECREATE_ANNOTATION}: allowed" in result.error


def job_spec(version: str) -> dict[str, Any]:
    template = pod_template("job", f"example.org/{version}")
    return {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}


def workload_spec(version: str) -> dict[str, Any]:
    labels = {"app": "x", "version": version}
    return {"selector": {"matchLabels": labels}, "template": {**pod_template("x"), "metadata": {"labels": labels}}}


def bound_role(version: str) -> dict[str, Any]:
    account = {"kind": "ServiceAccount", "name": "default", "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": version}
    return {"roleRef": role, "subjects": [account]}


WITH_DATA = {"CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim"}
IMMUTABLE: dict[str, tuple[str, Callable[[str], dict[str, Any]], str]] = {
    "Job": ("batch/v1", lambda version: {"spec": job_spec(version)}, "spec.template"),
    "Pod": ("v1", lambda version: {"spec": {**pod_template("x")["spec"], "hostname": version}}, "spec"),
    "Deployment": ("apps/v1", lambda version: {"spec": workload_spec(version)}, "spec.selector"),
    "DaemonSet": ("apps/v1", lambda version: {"spec": workload_spec(version)}, "spec.selector"),
    "StatefulSet": ("apps/v1", lambda version: {"spec": {**workload_spec("x"), "serviceName": version}}, "spec"),
    "Service": (
        "v1",
        lambda version: {"spec": {"ports": [{"port": 80}], **({"clusterIP": "None"} if version == "new" else {})}},
        "spec.clusterIPs[0]",
    ),
    "ConfigMap": ("v1", lambda version: {"immutable": True, "data": {"key": version}}, "data"),
    "Secret": ("v1", lambda version: {"immutable": True, "stringData": {"key": version}}, "data"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", bound_role, "roleRef"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", bound_role, "roleRef"),
    "StorageClass": ("storage.k8s.io/v1", lambda version: {"provisioner": f"{version}.example.org"}, "provisioner"),
    "CSIDriver": ("storage.k8s.io/v1", lambda version: {"spec": {"attachRequired": version == "old"}}, "spec"),
    "PriorityClass": ("scheduling.k8s.io/v1", lambda version: {"value": len(version) + ord(version[0])}, "value"),
    "IngressClass": (
        "networking.k8s.io/v1",
        lambda version: {"spec": {"controller": f"example.org/{version}"}},
        "spec.controller",
    ),
    "RuntimeClass": ("node.k8s.io/v1", lambda version: {"handler": version}, "handler"),
    "PersistentVolumeClaim": (
        "v1",
        lambda version: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": version,
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
        "spec",
    ),
    "PersistentVolume": (
        "v1",
        lambda version: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": f"/srv/{version}"},
            }
        },
        "spec.persistentvolumesource",
    ),
}
"""By kind: its API version, its fields in a version, and the immutable field that the server names."""


async def test_changed_immutable_fields_are_named_and_recreated_where_it_is_allowed(
    cluster: Cluster, unique: str
) -> None:
    """The kinds whose immutable fields charts change; what holds data is never deleted."""

    def revision(version: str, *annotation: str) -> Revision:
        manifests = [named(api, kind, unique, **fields(version)) for kind, (api, fields, _) in IMMUTABLE.items()]
        crds = [crd("Thing", f"{unique}.example.org", scope="Namespaced" if version == "old" else "Cluster")]
        everything = manifests + crds
        return Revision.of(
            [with_annotation(one, RECREATE_ANNOTATION, *annotation) if annotation else one for one in everything],
            f"{version}{annotation}",
        )

    delivery = Delivery(cluster.client)
    before = {one.id.kind: one for one in (await delivery.install(unique, revision("old"))).objects}
    assert [one.error for one in before.values() if not one.synced] == []

    refused = {one.id.kind: one for one in (await delivery.install(unique, revision("new"))).objects}

    for kind, (_, _, field) in IMMUTABLE.items():
        assert refused[kind].error.startswith(f"{field}"), (kind, refused[kind].error)
        remedy = "holds data, so it is not deleted" if kind in WITH_DATA else f"{RECREATE_ANNOTATION}: allowed"
        assert remedy in refused[kind].error
    assert "spec.scope" in refused["CustomResourceDefinition"].error

    after = {one.id.kind: one for one in (await delivery.install(unique, revision("new", "allowed"))).objects}

    left = {kind for kind, one in after.items() if not one.synced}
    assert left == WITH_DATA, {kind: after[kind].error for kind in left ^ WITH_DATA}
    assert all("holds data, so it is not deleted" in after[kind].error for kind in WITH_DATA)
    for kind, one in after.items():
        assert (one.uid == before[kind].uid) is (kind in WITH_DATA), kind
    again = {one.id.kind: one for one in (await delivery.install(unique, revision("new", "allowed"))).objects}
    assert [kind for kind, one in again.items() if one.changed] == []


async def test_changed_hook_job_runs_again(cluster: Cluster, unique: str) -> None:
    """Charts that make their certificates with a Job have one."""

    def revision(image: str) -> Revision:
        spec = cron_job(unique)["spec"]["jobTemplate"]["spec"]
        spec["template"]["spec"]["containers"][0]["image"] = image
        job = named("batch/v1", "Job", unique, spec=spec)
        return Revision.of([with_annotation(job, "helm.sh/hook", "post-install,post-upgrade")], image)

    delivery = Delivery(cluster.client)
    before = await delivery.install(unique, revision("example.org/old"))

    after = await delivery.install(unique, revision("example.org/new"))

    assert [one.error for one in after.objects] == [""]
    assert after.objects[0].uid != before.objects[0].uid


async def test_object_being_deleted_is_not_synced(cluster: Cluster, unique: str) -> None:
    finalized = config_map(unique, key="old")
    finalized["metadata"]["finalizers"] = ["example.org/wait"]
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([finalized], "old"))
    resource = await cluster.user.resource("", "ConfigMap")
    await cluster.user.delete(resource, unique, "kube-system")

    report = await delivery.install(unique, Revision.of([config_map(unique, key="new")], "new"))
    assert report.objects[0].code in {"", "Terminating"}
    report = await Delivery(cluster.client).install(unique, Revision.of([config_map(unique, key="new")], "new"))

    # The new manifest has no finalizer any more, so applying it lets the old object go.
    assert report.synced
