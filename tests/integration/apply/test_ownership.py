from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.apply.delivery import Delivery, Revision
from clusterstacks.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.apply.policy import RECREATE_ANNOTATION
from tests.support.builders.manifests import config_map, cron_job, deployment, named, with_annotation

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest
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


async def test_d66_a_foreign_object_that_differs_is_left_alone_and_its_managers_are_named(
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


async def test_a_resumed_delivery_does_not_force_its_way_into_what_is_only_planned(
    cluster: Cluster, unique: str
) -> None:
    await apply_as(cluster, "somebody", config_map(unique, key="theirs"))
    revision = Revision.of([config_map(unique, key="ours")], "inputs")

    await Delivery(cluster.client).install(unique, revision)
    report = await Delivery(cluster.client).install(unique, revision)

    assert report.objects[0].code == "FieldConflict"


async def test_the_way_out_of_a_conflict_works(cluster: Cluster, unique: str) -> None:
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


async def test_a_foreign_object_that_agrees_is_shared(cluster: Cluster, unique: str) -> None:
    await apply_as(cluster, "somebody", config_map(unique, key="same"))

    report = await Delivery(cluster.client).install(unique, Revision.of([config_map(unique, key="same")], "inputs"))

    assert report.synced
    assert {("somebody", "Apply"), ("cluster-stack-operator", "Apply")} <= managers(
        await cluster.live("ConfigMap", unique, "kube-system")
    )


async def test_our_object_is_corrected_by_force_and_the_other_manager_named(cluster: Cluster, unique: str) -> None:
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


async def test_d66_takes_over_what_the_go_operator_applied_without_a_rollout(cluster: Cluster, unique: str) -> None:
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


async def test_takes_over_by_force_where_values_differ(cluster: Cluster, unique: str) -> None:
    await apply_as_go_operator(cluster, config_map(unique, key="old", gone="old"))

    report = await Delivery(cluster.client).install(unique, Revision.of([config_map(unique, key="new")], "inputs"))

    assert report.synced
    assert report.objects[0].conflicts == ()
    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "new"}
    assert managers(live) == {("cluster-stack-operator", "Apply")}


async def test_takes_over_once_and_leaves_later_users_of_kubectl_their_fields(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([config_map(unique, key="old")], "old"))
    await apply_as_go_operator(cluster, config_map(unique, own="theirs"))

    await delivery.install(unique, Revision.of([config_map(unique, key="new")], "new"))

    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "new", "own": "theirs"}


async def test_a_field_that_cannot_change_is_named_with_the_way_out(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([deployment(unique)], "old"))
    other = deployment(unique)
    other["spec"]["selector"]["matchLabels"] = {"app": unique, OWNED_LABEL: "owned"}

    report = await delivery.install(unique, Revision.of([other], "new"))

    (result,) = report.objects
    assert not result.synced
    assert result.error.startswith(f"spec.selector: field is immutable; delete Deployment.apps kube-system/{unique}")
    assert f'{RECREATE_ANNOTATION}: "enabled"' in result.error


async def test_an_object_that_opts_in_is_created_anew(cluster: Cluster, unique: str) -> None:
    """The kinds whose immutable fields charts change most."""
    account = {"kind": "ServiceAccount", "name": unique, "namespace": "kube-system"}

    def role(name: str) -> dict[str, str]:
        return {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}

    def revision(version: str) -> list[Manifest]:
        workload = deployment(unique)
        if version == "new":
            workload["spec"]["selector"]["matchLabels"] = {"app": unique, OWNED_LABEL: "owned"}
        bindings = named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", unique, roleRef=role(version))
        job = {"template": {**deployment(unique)["spec"]["template"]}}
        job["template"]["spec"] = {**job["template"]["spec"], "restartPolicy": "Never"}
        job["template"]["spec"]["containers"] = [{"name": "app", "image": f"example.org/{version}"}]
        manifests = [
            workload,
            {**bindings, "subjects": [account]},
            named("storage.k8s.io/v1", "StorageClass", unique, provisioner=f"{version}.example.org"),
            named("batch/v1", "Job", unique, spec=job),
            named("scheduling.k8s.io/v1", "PriorityClass", unique, value=1 if version == "old" else 2),
            named("v1", "Secret", unique, immutable=True, stringData={"key": version}),
        ]
        return [with_annotation(manifest, RECREATE_ANNOTATION, "enabled") for manifest in manifests]

    delivery = Delivery(cluster.client)
    before = await delivery.install(unique, Revision.of(revision("old"), "old"))

    after = await delivery.install(unique, Revision.of(revision("new"), "new"))

    assert [one.error for one in after.objects] == [""] * 6
    assert {one.uid for one in before.objects}.isdisjoint(one.uid for one in after.objects)


async def test_a_job_that_is_a_hook_runs_anew_when_it_changes(cluster: Cluster, unique: str) -> None:
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


async def test_an_object_that_is_being_deleted_is_not_called_synced(cluster: Cluster, unique: str) -> None:
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
