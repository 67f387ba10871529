from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.deliver.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.deliver.apply.record_store import (
    ID_LABEL,
    KINDS_ANNOTATION,
    NAMESPACES_ANNOTATION,
    SECRETS,
    TOOLING_ANNOTATION,
)
from tests.support.builders.manifests import addon, config_map, crd, deployment, named

if TYPE_CHECKING:
    from tests.integration.apply.conftest import Cluster


async def test_objects_of_many_kinds_are_delivered_in_a_valid_order(cluster: Cluster, unique: str) -> None:
    report = await Delivery(cluster.client).install(unique, Revision.of(addon(unique, unique), "inputs"))

    assert [result.error for result in report.objects if not result.synced] == []
    assert report.state is DeliveryState.PRUNED
    assert await cluster.live("Widget", "first", unique, f"{unique}.example.org")


async def test_objects_without_namespace_get_the_default_and_others_keep_theirs(cluster: Cluster, unique: str) -> None:
    await Delivery(cluster.client).install(unique, Revision.of(addon(unique, unique), "inputs"))

    assert await cluster.live("ConfigMap", unique, unique)
    assert await cluster.live("ConfigMap", f"{unique}-unplaced", "kube-system")


async def test_objects_and_pod_templates_are_labelled_and_only_objects_are_in_the_applyset(
    cluster: Cluster, unique: str
) -> None:
    await Delivery(cluster.client).install(unique, Revision.of(addon(unique, unique), "inputs"))

    live = await cluster.live("Deployment", unique, unique, "apps")
    assert live is not None
    record = await cluster.user.get(SECRETS, f"cluster-stack-addon-{unique}", "kube-system")
    assert live["metadata"]["labels"][PART_OF_LABEL] == record["metadata"]["labels"][ID_LABEL]
    assert live["spec"]["template"]["metadata"]["labels"] == {"app": unique, OWNED_LABEL: "owned"}


async def test_record_is_the_parent_of_a_standard_applyset(cluster: Cluster, unique: str) -> None:
    await Delivery(cluster.client).install(unique, Revision.of(addon(unique, unique), "inputs"))

    record = await cluster.user.get(SECRETS, f"cluster-stack-addon-{unique}", "kube-system")
    annotations = record["metadata"]["annotations"]
    assert annotations[TOOLING_ANNOTATION] == "cluster-stack-operator/v1"
    assert annotations[NAMESPACES_ANNOTATION] == unique
    assert annotations[KINDS_ANNOTATION] == (
        "ClusterRole.rbac.authorization.k8s.io,ClusterRoleBinding.rbac.authorization.k8s.io,ConfigMap,CronJob.batch,"
        "CustomResourceDefinition.apiextensions.k8s.io,Deployment.apps,Namespace,Secret,Service,ServiceAccount,"
        f"Widget.{unique}.example.org"
    )


async def test_install_costs_one_request_per_object_and_six_more(cluster: Cluster, unique: str) -> None:
    manifests = addon(unique, unique) + [config_map(f"{unique}-{number}", unique) for number in range(188)]

    await Delivery(cluster.client).install(unique, Revision.of(manifests, "inputs"))

    others = [call for call in cluster.requests.calls if not call.startswith("apply ")]
    assert len(cluster.requests.calls) - len(others) == len(manifests) == 200
    assert sorted(call.split()[0] for call in others) == ["create", *["get"] * 2, "list", "patch", "watch"], others


async def test_unchanged_revision_costs_one_list_of_records_and_no_write(cluster: Cluster, unique: str) -> None:
    revision = Revision.of(addon(unique, unique), "inputs")
    await Delivery(cluster.client).install(unique, revision)
    cluster.requests.calls.clear()

    report = await Delivery(cluster.client).install(unique, revision)

    assert report.synced
    assert [result.changed for result in report.objects] == [False] * 12
    assert cluster.requests.calls == ["list Secret in kube-system"]


async def test_upgrade_writes_only_changed_objects(cluster: Cluster, unique: str) -> None:
    old = [config_map(f"{unique}-{number}", key="old") for number in range(20)]
    await Delivery(cluster.client).install(unique, Revision.of(old, "old"))
    cluster.requests.calls.clear()
    new = [*old[:15], *(config_map(f"{unique}-{number}", key="new") for number in range(15, 20))]

    report = await Delivery(cluster.client).install(unique, Revision.of(new, "new"))

    assert report.synced
    assert sorted(cluster.requests.writes) == [
        *(f"apply ConfigMap kube-system/{unique}-{number}" for number in range(15, 20)),
        *[f"patch Secret kube-system/cluster-stack-addon-{unique}"] * 2,
    ]
    for number, value in ((0, "old"), (19, "new")):
        live = await cluster.live("ConfigMap", f"{unique}-{number}", "kube-system")
        assert live is not None
        assert live["data"] == {"key": value}


async def test_different_inputs_with_the_same_objects_change_only_the_record(cluster: Cluster, unique: str) -> None:
    manifests = [config_map(unique, key="value")]
    await Delivery(cluster.client).install(unique, Revision.of(manifests, "old"))
    cluster.requests.calls.clear()

    await Delivery(cluster.client).install(unique, Revision.of(manifests, "new"))

    assert cluster.requests.writes == [f"patch Secret kube-system/cluster-stack-addon-{unique}"]


async def test_upgrade_restores_changed_and_deleted_objects(cluster: Cluster, unique: str) -> None:
    maps = [config_map(f"{unique}-{name}", key="value") for name in ("same", "changed", "deleted")]
    await Delivery(cluster.client).install(unique, Revision.of(maps, "old"))
    resource = await cluster.user.resource("", "ConfigMap")
    await cluster.user.merge_patch(resource, f"{unique}-changed", {"data": {"key": "other"}}, "kube-system")
    await cluster.user.delete(resource, f"{unique}-deleted", "kube-system")
    cluster.requests.calls.clear()

    report = await Delivery(cluster.client).install(unique, Revision.of([*maps, config_map(f"{unique}-new")], "new"))

    assert report.synced
    assert [result.changed for result in report.objects] == [False, True, True, True]
    changed = await cluster.live("ConfigMap", f"{unique}-changed", "kube-system")
    assert changed is not None
    assert changed["data"] == {"key": "value"}
    assert await cluster.live("ConfigMap", f"{unique}-deleted", "kube-system")


@pytest.mark.regression("D2")
async def test_only_the_failed_object_is_not_synced(cluster: Cluster, unique: str) -> None:
    """Of two objects with equal namespace and name but different kind, one fails."""
    bad = named("v1", "Service", unique, spec={"ports": [{"port": 99999999}]})
    manifests = [config_map(unique), bad, named("v1", "ServiceAccount", unique)]

    report = await Delivery(cluster.client).install(unique, Revision.of(manifests, "inputs"))

    assert [(one.id.kind, one.synced) for one in report.objects] == [
        ("ConfigMap", True),
        ("Service", False),
        ("ServiceAccount", True),
    ]
    assert report.state is DeliveryState.DELIVERING
    assert "spec.ports[0].port" in report.objects[1].error


@pytest.mark.regression("D5", "D80")
async def test_retry_writes_only_the_failed_object(cluster: Cluster, unique: str) -> None:
    fine = [config_map(f"{unique}-{number}") for number in range(5)]
    bad = named("v1", "Service", unique, spec={"ports": [{"port": 99999999}]})
    revision = Revision.of([*fine, bad], "inputs")
    await Delivery(cluster.client).install(unique, revision)
    cluster.requests.calls.clear()

    again = await Delivery(cluster.client).install(unique, revision)

    assert not again.synced
    assert cluster.requests.writes == [f"apply Service kube-system/{unique}"]


async def test_custom_resources_wait_for_a_rejected_crd(cluster: Cluster, unique: str) -> None:
    broken = crd("Widget", f"{unique}.example.org")
    broken["spec"]["names"]["plural"] = "others"
    widget = named(f"{unique}.example.org/v1", "Widget", "first")

    report = await Delivery(cluster.client).install(unique, Revision.of([widget, broken, config_map(unique)], "inputs"))

    assert [one.synced for one in report.objects] == [False, False, True]
    assert report.objects[0].code == "Blocked"
    assert "CustomResourceDefinition" in report.objects[0].error


async def test_addon_may_use_kinds_of_the_previous_addon(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    delivery = Delivery(cluster.client)

    await delivery.install(f"{unique}-a", Revision.of([crd("Widget", group)], "inputs"))
    report = await delivery.install(f"{unique}-b", Revision.of([named(f"{group}/v1", "Widget", "first")], "inputs"))

    assert [one.error for one in report.objects] == [""]


async def test_a_survey_is_used_unless_an_addon_defines_kinds_after_it(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    delivery = Delivery(cluster.client)
    resource = Revision.of([named(f"{group}/v1", "Widget", "first")], "inputs")
    old, new = (Revision.of([config_map(unique, key=word)], word) for word in ("old", "new"))
    await delivery.install(f"{unique}-c", old)
    await delivery.survey(f"{unique}-b", resource)

    await delivery.install(f"{unique}-a", Revision.of([crd("Widget", group)], "inputs"))
    report = await delivery.install(f"{unique}-b", resource)
    await delivery.survey(f"{unique}-c", new)
    cluster.requests.calls.clear()
    upgrade = await delivery.install(f"{unique}-c", new)

    assert [one.error for one in (*report.objects, *upgrade.objects)] == ["", ""]
    assert [call.split()[0] for call in cluster.requests.calls] == ["patch", "apply", "patch"], "the list came before"


async def test_a_survey_of_another_revision_or_record_is_not_used(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    revisions = [Revision.of([config_map(unique, key=word)], word) for word in ("one", "two", "three")]
    await delivery.survey(unique, revisions[2])
    await delivery.install(unique, revisions[0])
    await delivery.survey(unique, revisions[2])
    await delivery.install(unique, revisions[1])

    await delivery.install(unique, revisions[2])

    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "three"}


async def test_objects_wait_for_a_rejected_namespace(cluster: Cluster, unique: str) -> None:
    refused = named("v1", "Namespace", f"{unique}-")

    report = await Delivery(cluster.client).install(
        unique, Revision.of([config_map(unique, f"{unique}-"), refused, config_map(unique)], "inputs")
    )

    assert [(one.synced, one.code) for one in report.objects] == [(False, "Blocked"), (False, "Invalid"), (True, "")]


async def test_unknown_kind_fails_without_affecting_other_objects(cluster: Cluster, unique: str) -> None:
    unknown = named(f"{unique}.example.org/v1", "Gadget", "first")

    report = await Delivery(cluster.client).install(unique, Revision.of([unknown, config_map(unique)], "inputs"))

    assert [one.synced for one in report.objects] == [False, True]
    assert f"Gadget.{unique}.example.org" in report.objects[0].error


@pytest.mark.regression("D14")
async def test_unserved_version_is_reported_with_the_served_one(cluster: Cluster, unique: str) -> None:
    old = named("policy/v1beta1", "PodDisruptionBudget", unique, spec={"maxUnavailable": 1})

    report = await Delivery(cluster.client).install(unique, Revision.of([old], "inputs"))

    assert "does not serve policy/v1beta1 (served: v1" in report.objects[0].error


async def test_object_with_a_changed_api_version_is_not_recreated(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    versions = crd("Widget", group, versions=("v1", "v2"))
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([versions, named(f"{group}/v1", "Widget", "first")], "old"))
    before = await cluster.live("Widget", "first", "kube-system", group)

    report = await delivery.install(unique, Revision.of([versions, named(f"{group}/v2", "Widget", "first")], "new"))
    pruned = await delivery.prune({unique})

    assert report.synced
    assert pruned.removals == ()
    after = await cluster.live("Widget", "first", "kube-system", group)
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_record_contains_the_revision_and_marks_of_objects(cluster: Cluster, unique: str) -> None:
    manifests = [deployment(unique), config_map(unique, key="value")]
    await Delivery(cluster.client).install(unique, Revision.of(manifests, "inputs"))

    delivery = Delivery(cluster.client)
    record = (await delivery.records())[unique]

    assert await delivery.manifests(unique) == manifests
    marks = [known.mark for known in record.objects]
    assert [mark is not None and mark.generation for mark in marks] == [1, 0]
    assert [mark is not None and bool(mark.resource_version) for mark in marks] == [False, True]


async def test_revision_too_large_for_a_secret_is_left_out_of_the_record(cluster: Cluster, unique: str) -> None:
    import secrets  # noqa: PLC0415

    manifests = [config_map(f"{unique}-{number}", noise=secrets.token_hex(300_000)) for number in range(5)]
    delivery = Delivery(cluster.client)

    report = await delivery.install(unique, Revision.of(manifests, "inputs"))

    assert report.synced
    assert report.truncated
    assert await delivery.manifests(unique) is None
    again = await Delivery(cluster.client).install(unique, Revision.of(manifests, "inputs"))
    assert again.truncated


@pytest.mark.parametrize("damage", [{"record": "AAAA"}, {"record": None}])
async def test_damaged_record_stops_only_its_addon_and_names_a_remedy(
    cluster: Cluster, unique: str, damage: dict[str, str | None]
) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(f"{unique}-a", Revision.of([config_map(f"{unique}-a")], "inputs"))
    await delivery.install(f"{unique}-b", Revision.of([config_map(f"{unique}-b")], "inputs"))
    await cluster.user.merge_patch(SECRETS, f"cluster-stack-addon-{unique}-a", {"data": damage}, "kube-system")

    again = Delivery(cluster.client)

    with pytest.raises(Exception, match=f"cluster-stack-addon-{unique}-a is unreadable.*delete it"):
        await again.install(f"{unique}-a", Revision.of([config_map(f"{unique}-a")], "inputs"))
    assert (await again.install(f"{unique}-b", Revision.of([config_map(f"{unique}-b")], "inputs"))).synced
    assert (await again.prune({f"{unique}-a", f"{unique}-b"})).unreadable


async def test_concurrent_deliveries_of_two_operators_are_not_mixed(cluster: Cluster, unique: str) -> None:
    one, other = Delivery(cluster.client), Delivery(cluster.client)
    await one.install(unique, Revision.of([config_map(unique, key="old")], "old"))
    await other.records()
    await one.install(unique, Revision.of([config_map(unique, key="new")], "new"))

    with pytest.raises(Exception, match="Conflict"):
        await other.install(unique, Revision.of([config_map(unique, key="other")], "other"))
    await other.install(unique, Revision.of([config_map(unique, key="other")], "other"))

    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "other"}
