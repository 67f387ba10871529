from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.class_object_rules import GroupKind
from clusterstacks.deliver.apply.delivery_plan import RecordedObject
from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.deliver.apply.prune_plan import PruneOutcome
from clusterstacks.deliver.apply.results import Deadlines
from clusterstacks.deliver.apply.wave_applier import WaveApplier
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectId
from clusterstacks.net.kube.errors import AlreadyExists
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import class_targets
from clusterstacks.operator.controllers.clusterstackrelease.deletion import delete_class_objects
from tests.support.builders.manifests import crd, named
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.integration.apply.conftest import Cluster

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
CLASSES = "cluster.x-k8s.io"


@pytest.fixture
async def management(cluster: Cluster) -> Cluster:
    """Play a management cluster: kinds as Cluster API and a provider have them."""
    definitions = [
        crd("ClusterClass", CLASSES, plural="clusterclasses", versions=("v1beta2",)),
        crd("DemoClusterTemplate", INFRASTRUCTURE, versions=("v1beta2",)),
        crd("DemoMachineTemplate", INFRASTRUCTURE, versions=("v1beta2",)),
    ]
    for definition in definitions:
        for manifest in definition["spec"]["versions"]:
            manifest["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
        try:
            await cluster.user.create(
                await cluster.user.resource("apiextensions.k8s.io", definition["kind"]), definition
            )
        except AlreadyExists:
            continue

    async def served() -> bool:
        cluster.user.forget_discovery()
        return all(one.synced for one in await apply_class(cluster.user, chart("ready")))

    await eventually(served, about="the kinds of Cluster API")
    return cluster


async def apply_class(
    client: Client, manifests: list[Manifest], known: dict[ObjectId, RecordedObject] | None = None
) -> list[ObjectResult]:
    targets = await class_targets(client, manifests, "default")
    return await WaveApplier(client).apply_objects([ObjectStep(one, (known or {}).get(one.id)) for one in targets])


def chart(name: str, *, size: int = 1) -> list[Manifest]:
    return [
        named(f"{CLASSES}/v1beta2", "ClusterClass", name, spec={"size": size}),
        named(f"{INFRASTRUCTURE}/v1beta2", "DemoClusterTemplate", name, spec={"size": size}),
        named(f"{INFRASTRUCTURE}/v1beta2", "DemoMachineTemplate", name, spec={"size": size}),
    ]


def remembered(results: list[ObjectResult]) -> dict[ObjectId, RecordedObject]:
    return {one.id: RecordedObject(one.id, one.version, one.uid, one.digest, one.mark) for one in results}


async def test_templates_are_applied_before_the_class_into_the_release_namespace(
    management: Cluster, unique: str
) -> None:
    management.requests.calls.clear()

    results = await apply_class(management.client, chart(unique))

    assert all(one.synced for one in results)
    assert [one.id.kind for one in results] == ["ClusterClass", "DemoClusterTemplate", "DemoMachineTemplate"]
    assert management.requests.writes[-1] == f"apply ClusterClass.{CLASSES} default/{unique}"
    live = await management.live("ClusterClass", unique, "default", CLASSES)
    assert live is not None
    assert live["metadata"]["labels"][OWNED_LABEL] == "owned"
    assert PART_OF_LABEL not in live["metadata"]["labels"]


async def test_changed_class_object_is_corrected_and_the_other_manager_named(management: Cluster, unique: str) -> None:
    results = await apply_class(management.client, chart(unique))
    resource = await management.user.resource(CLASSES, "ClusterClass")
    await management.user.apply(resource, chart(unique, size=5)[0], manager="somebody", namespace="default", force=True)

    again = await apply_class(management.client, chart(unique), remembered(results))

    assert [one.manager for one in again[0].conflicts] == ["somebody"]
    live = await management.live("ClusterClass", unique, "default", CLASSES)
    assert live is not None
    assert live["spec"] == {"size": 1}


@pytest.mark.regression("D3")
async def test_class_and_then_all_other_applied_objects_are_deleted(management: Cluster, unique: str) -> None:
    results = await apply_class(management.client, chart(unique))
    management.requests.calls.clear()

    deleted = await delete_class_objects(management.client, list(remembered(results).values()), "default")

    assert {one.outcome for one in deleted.values()} == {PruneOutcome.GONE}
    deletes = [call for call in management.requests.calls if call.startswith("delete")]
    assert deletes[0].startswith("delete ClusterClass")
    assert len(deletes) == 3
    for one in results:
        assert not await management.live(one.id.kind, unique, "default", one.id.group)


@pytest.mark.regression("D3")
async def test_objects_of_the_go_operator_without_uid_are_deleted(management: Cluster, unique: str) -> None:
    manifest = chart(unique)[0]
    manifest["metadata"] |= {"namespace": "default", "labels": {OWNED_LABEL: "owned"}}
    resource = await management.user.resource(CLASSES, "ClusterClass")
    await management.user.apply(resource, manifest, manager="kubectl", force=True)
    identity = ObjectId(CLASSES, "ClusterClass", "default", unique)

    deleted = await delete_class_objects(management.client, [RecordedObject(identity, "v1beta2")], "default")

    assert deleted[identity].outcome is PruneOutcome.GONE
    assert not await management.live("ClusterClass", unique, "default", CLASSES)


async def test_foreign_objects_are_kept(management: Cluster, unique: str) -> None:
    results = await apply_class(management.client, chart(unique))
    resource = await management.user.resource(CLASSES, "ClusterClass")
    theirs = named(f"{CLASSES}/v1beta2", "ClusterClass", f"{unique}-theirs", "default")
    await management.user.create(resource, theirs)
    foreign = ObjectId(CLASSES, "ClusterClass", "default", f"{unique}-theirs")

    objects = [*remembered(results).values(), RecordedObject(foreign, "v1beta2")]
    deleted = await delete_class_objects(management.client, objects, "default")

    assert deleted[foreign].outcome is PruneOutcome.KEPT
    assert await management.live("ClusterClass", foreign.name, "default", CLASSES)


async def test_templates_are_kept_while_their_class_exists(management: Cluster, unique: str) -> None:
    manifests = chart(unique)
    manifests[0]["metadata"]["finalizers"] = ["example.org/in-use"]
    results = await apply_class(management.client, manifests)

    deleted = await delete_class_objects(
        management.client,
        list(remembered(results).values()),
        "default",
        deadlines=Deadlines(gone=timedelta(milliseconds=30)),
    )

    assert {one.outcome for one in deleted.values()} == {PruneOutcome.PENDING}
    assert "example.org/in-use" in deleted[results[0].id].reason
    assert await management.live("DemoClusterTemplate", unique, "default", INFRASTRUCTURE)


async def test_class_chart_with_other_kinds_is_rejected_before_anything_is_applied(
    management: Cluster, unique: str
) -> None:
    role = named("rbac.authorization.k8s.io/v1", "ClusterRole", unique, rules=[])
    extra = GroupKind("rbac.authorization.k8s.io", "ClusterRole")

    with pytest.raises(SpecError, match=r"--class-kinds ClusterRole\.rbac\.authorization\.k8s\.io"):
        await class_targets(management.client, [*chart(unique), role], "default")
    with pytest.raises(SpecError, match="cluster-scoped"):
        await class_targets(management.client, [*chart(unique), role], "default", [extra])

    assert not await management.live("ClusterClass", unique, "default", CLASSES)
