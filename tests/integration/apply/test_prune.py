from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.deliver.apply.policy import HELM_POLICY_ANNOTATION, PRUNE_ANNOTATION
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, PruneResult
from clusterstacks.deliver.apply.results import Deadlines
from clusterstacks.deliver.apply.waiting import pauses
from clusterstacks.net.kube.errors import Conflict, Invalid, KindNotServed
from clusterstacks.operator.controllers.resource_list import describe_remaining
from tests.support.builders.manifests import addon, config_map, crd, deployment, named, with_annotation
from tests.support.observing.client_requests import Killed, Recorder
from tests.support.observing.prune_check import needs_pruning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from clusterstacks.deliver.apply.results import PruneReport
    from clusterstacks.net.kube.resources import Resource
    from tests.integration.apply.conftest import Cluster

AT_ONCE = Deadlines(gone=timedelta(milliseconds=50))


def fates(report: PruneReport) -> dict[str, PruneOutcome]:
    return {f"{one.id.kind} {one.id.name}": one.result.outcome for one in report.removals}


async def serves(cluster: Cluster, group: str, kind: str, version: str) -> bool:
    """Return whether a kind is served in this version first; with an empty one, whether it is not served."""
    cluster.user.forget_discovery()
    try:
        return (await cluster.user.resource(group, kind)).version == version
    except KindNotServed:
        return not version


async def eventually(happens: Callable[[], Awaitable[bool]]) -> None:
    for pause in pauses(timedelta(seconds=120)):
        if await happens():
            return
        await asyncio.sleep(pause)
    pytest.fail("it did not happen")


@pytest.mark.regression("D1", "D15", "D16")
async def test_every_upgrade_prunes_exactly_the_objects_of_the_previous_release(cluster: Cluster, unique: str) -> None:
    for number in range(3):
        delivery = Delivery(cluster.client)
        manifests = [config_map(f"{unique}-same"), config_map(f"{unique}-{number}")]
        await delivery.install(unique, Revision.of(manifests, str(number)))
        report = await delivery.prune({unique})

        expected = {f"ConfigMap {unique}-{number - 1}": PruneOutcome.GONE} if number else {}
        assert fates(report) == expected
        assert report.complete
        assert not await cluster.live("ConfigMap", f"{unique}-{number - 1}", "kube-system")
        record = (await delivery.records())[unique]
        assert record.state is DeliveryState.PRUNED
        assert [known.id.name for known in record.members] == [f"{unique}-same", f"{unique}-{number}"]


async def test_prune_without_candidates_sends_no_request(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([config_map(unique)], "inputs"))
    cluster.requests.calls.clear()

    await delivery.prune({unique})

    assert cluster.requests.calls == []
    assert not needs_pruning(await delivery.records(), {unique})


async def test_removed_addon_is_deleted_with_its_record(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of(addon(unique, unique), "inputs"))
    await delivery.install(f"{unique}-b", Revision.of([config_map(f"{unique}-b")], "inputs"))
    assert needs_pruning(await delivery.records(), {f"{unique}-b"})

    report = await delivery.prune({f"{unique}-b"})

    assert report.complete, report
    assert set(fates(report).values()) == {PruneOutcome.GONE}
    assert set(await delivery.records()) == {f"{unique}-b"}
    assert await cluster.live("ConfigMap", f"{unique}-b", "kube-system")
    assert not await cluster.live("Deployment", unique, unique, "apps")
    assert not await cluster.live("Namespace", unique)


async def test_one_addon_can_be_pruned_alone(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(f"{unique}-a", Revision.of([config_map(f"{unique}-a"), config_map(unique)], "inputs"))
    await delivery.install(f"{unique}-b", Revision.of([config_map(f"{unique}-b"), config_map(f"{unique}-x")], "old"))
    await delivery.install(f"{unique}-b", Revision.of([config_map(f"{unique}-b"), config_map(unique)], "new"))

    report = await delivery.remove(f"{unique}-a")
    again = await delivery.remove(f"{unique}-a")

    assert fates(report) == {
        f"ConfigMap {unique}-a": PruneOutcome.GONE,
        f"ConfigMap {unique}": PruneOutcome.HANDED_OVER,
    }
    assert again.removals == ()
    assert await cluster.live("ConfigMap", f"{unique}-x", "kube-system")
    assert set(await delivery.records()) == {f"{unique}-b"}


async def test_object_moved_to_another_addon_is_handed_over(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    moving, staying = config_map(f"{unique}-moving"), config_map(f"{unique}-staying")
    await delivery.install(f"{unique}-a", Revision.of([moving, staying], "old"))
    before = await cluster.live("ConfigMap", f"{unique}-moving", "kube-system")
    await delivery.install(f"{unique}-a", Revision.of([staying], "new"))
    await delivery.install(f"{unique}-b", Revision.of([moving], "new"))

    report = await delivery.prune({f"{unique}-a", f"{unique}-b"})

    assert fates(report) == {f"ConfigMap {unique}-moving": PruneOutcome.HANDED_OVER}
    after = await cluster.live("ConfigMap", f"{unique}-moving", "kube-system")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not needs_pruning(await delivery.records(), {f"{unique}-a", f"{unique}-b"})


async def test_objects_rendered_by_two_addons_are_reported(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    for name in ("a", "b"):
        await delivery.install(f"{unique}-{name}", Revision.of([config_map(unique)], "inputs"))

    report = await delivery.prune({f"{unique}-a", f"{unique}-b"})

    assert list(report.shared.values()) == [(f"{unique}-a", f"{unique}-b")]


async def test_prune_annotation_keeps_an_object_and_the_record_names_the_reason(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    kept = with_annotation(config_map(f"{unique}-kept"), PRUNE_ANNOTATION, "disabled")
    await delivery.install(unique, Revision.of([kept, config_map(unique)], "old"))
    await delivery.install(unique, Revision.of([config_map(unique)], "new"))

    report = await delivery.prune({unique})

    assert fates(report) == {f"ConfigMap {unique}-kept": PruneOutcome.KEPT}
    assert await cluster.live("ConfigMap", f"{unique}-kept", "kube-system")
    records = await delivery.records()
    assert records[unique].state is DeliveryState.PRUNED
    assert records[unique].stale[0].kept
    assert not needs_pruning(records, {unique})
    cluster.requests.calls.clear()
    await delivery.prune({unique})
    assert cluster.requests.writes == []


@pytest.mark.regression("CASE-03")
async def test_object_whose_delivered_manifest_says_keep_is_kept_without_the_live_annotation(
    cluster: Cluster, unique: str
) -> None:
    """Also the Namespace with the object, and as long as the record exists."""
    delivery = Delivery(cluster.client)
    kept = with_annotation(config_map("kept", unique), HELM_POLICY_ANNOTATION, "keep")
    await delivery.install(unique, Revision.of([named("v1", "Namespace", unique), kept, config_map(unique)], "old"))
    resource = await cluster.user.resource("", "ConfigMap")
    await cluster.user.merge_patch(resource, "kept", {"metadata": {"annotations": None}}, unique)
    await delivery.install(unique, Revision.of([config_map(unique)], "new"))

    expected = {f"Namespace {unique}": PruneOutcome.KEPT, "ConfigMap kept": PruneOutcome.KEPT}
    for keep in ({unique}, ()):
        report = await Delivery(cluster.client).prune(keep)
        assert {name: fate for name, fate in fates(report).items() if name in expected} == expected
    live = await cluster.live("ConfigMap", "kept", unique)
    assert live
    assert "deletionTimestamp" not in live["metadata"]


async def test_object_whose_later_manifest_does_not_say_keep_is_deleted(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    kept, released = (config_map(f"{unique}-{name}") for name in ("kept", "released"))
    first = [with_annotation(one, HELM_POLICY_ANNOTATION, "keep") for one in (kept, released)]
    await delivery.install(unique, Revision.of([*first, config_map(unique)], "1"))
    await delivery.install(unique, Revision.of([first[0], released, config_map(unique)], "2"))
    await delivery.install(unique, Revision.of([config_map(unique)], "3"))

    report = await delivery.prune({unique})

    assert fates(report) == {
        f"ConfigMap {unique}-kept": PruneOutcome.KEPT,
        f"ConfigMap {unique}-released": PruneOutcome.GONE,
    }


@pytest.mark.parametrize("kind", ["Namespace", "CustomResourceDefinition"])
async def test_namespace_or_crd_of_objects_that_are_still_delivered_is_kept(
    cluster: Cluster, unique: str, kind: str
) -> None:
    group = f"{unique}.example.org"
    content = [config_map(unique, unique), named(f"{group}/v1", "Widget", unique, "default")]
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([named("v1", "Namespace", unique), crd("Widget", group), *content], "1"))
    await delivery.install(unique, Revision.of(content, "2"))

    report = await delivery.prune({unique})

    name, of_group = (unique, "") if kind == "Namespace" else (f"widgets.{group}", "apiextensions.k8s.io")
    assert fates(report)[f"{kind} {name}"] is PruneOutcome.KEPT
    live = await cluster.live(kind, name, group=of_group)
    assert live
    assert "deletionTimestamp" not in live["metadata"]


async def test_reinstalled_addon_with_kept_objects_is_complete(cluster: Cluster, unique: str) -> None:
    kept = with_annotation(config_map(f"{unique}-kept"), PRUNE_ANNOTATION, "disabled")
    revision = Revision.of([kept, config_map(unique)], "inputs")
    delivery = Delivery(cluster.client)
    await delivery.install(unique, revision)
    await delivery.prune(())
    assert not await cluster.live("ConfigMap", unique, "kube-system")

    report = await delivery.install(unique, revision)

    assert [one.id.name for one in report.objects if one.changed] == [unique]
    assert await cluster.live("ConfigMap", unique, "kube-system")


async def test_interrupted_prune_does_not_leave_an_addon_recorded_as_delivered(cluster: Cluster, unique: str) -> None:
    revision = Revision.of([config_map(unique)], "inputs")
    delivery = Delivery(cluster.client)
    await delivery.install(unique, revision)
    client = cluster.new_client()
    await client.resource("", "ConfigMap")
    requests = Recorder.on(client, kill_at=4, kill_after=True)
    with pytest.raises(Killed):
        await Delivery(client).prune(())
    assert requests.calls[-1] == f"delete ConfigMap kube-system/{unique}", requests.calls
    assert not await cluster.live("ConfigMap", unique, "kube-system")

    await Delivery(cluster.client).install(unique, revision)

    assert await cluster.live("ConfigMap", unique, "kube-system")


async def test_cancelled_upgrade_that_moved_objects_is_reverted(cluster: Cluster, unique: str) -> None:
    """A release with one chart, then one with stages, then the first again before anything was pruned."""
    old = Revision.of([config_map(unique, version="old"), config_map(f"{unique}-same")], "old")
    await Delivery(cluster.client).install(unique, old)
    await Delivery(cluster.client).install(f"{unique}-b", Revision.of([config_map(unique, version="new")], "new"))

    delivery = Delivery(cluster.client)
    report = await delivery.install(unique, old)
    pruned = await delivery.prune({unique})

    assert [one.id.name for one in report.objects if one.changed] == [unique]
    assert set(fates(pruned).values()) == {PruneOutcome.HANDED_OVER}
    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live
    assert live["data"] == {"version": "old"}
    cluster.requests.calls.clear()
    await delivery.install(unique, old)
    assert cluster.requests.calls == []


@pytest.mark.parametrize("name", ["default", "kube-node-lease", "kube-public", "kube-system"])
async def test_system_namespace_is_kept(cluster: Cluster, unique: str, name: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([named("v1", "Namespace", name), config_map(unique)], "inputs"))

    report = await delivery.prune(())

    assert fates(report) == {f"Namespace {name}": PruneOutcome.KEPT, f"ConfigMap {unique}": PruneOutcome.GONE}
    assert report.complete
    namespace = await cluster.live("Namespace", name)
    assert namespace
    assert "deletionTimestamp" not in namespace["metadata"]


async def test_object_recreated_by_a_user_is_kept(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([config_map(f"{unique}-theirs"), config_map(unique)], "old"))
    resource = await cluster.user.resource("", "ConfigMap")
    await cluster.user.delete(resource, f"{unique}-theirs", "kube-system")
    await cluster.user.create(resource, config_map(f"{unique}-theirs", "kube-system"))
    await delivery.install(unique, Revision.of([config_map(unique)], "new"))

    report = await delivery.prune({unique})

    assert report.complete
    assert await cluster.live("ConfigMap", f"{unique}-theirs", "kube-system")


async def test_object_whose_deletion_conflicts_stays_in_the_record(
    cluster: Cluster, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = Delivery(cluster.client)
    await delivery.install(unique, Revision.of([config_map(f"{unique}-old"), config_map(unique)], "old"))
    await delivery.install(unique, Revision.of([config_map(unique)], "new"))

    async def conflicts(*_: object, **__: object) -> None:
        raise Conflict("delete: 409 Conflict: the object has been modified", status=409, reason="Conflict")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.client, "delete", conflicts)
        report = await delivery.prune({unique})
    assert (fates(report), report.complete) == ({f"ConfigMap {unique}-old": PruneOutcome.PENDING}, False)

    assert (await delivery.prune({unique})).complete
    assert await cluster.live("ConfigMap", f"{unique}-old", "kube-system") is None


async def test_object_replaced_while_it_is_deleted_is_gone(
    cluster: Cluster, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = Delivery(cluster.client)
    old = config_map(f"{unique}-old", "kube-system")
    await delivery.install(unique, Revision.of([old, config_map(unique)], "old"))
    await delivery.install(unique, Revision.of([config_map(unique)], "new"))
    delete = cluster.client.delete

    async def late(resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        await cluster.user.delete(resource, name, namespace)
        await cluster.user.create(resource, old)
        await delete(resource, name, namespace, uid=uid)

    monkeypatch.setattr(cluster.client, "delete", late)
    report = await delivery.prune({unique})

    (found,) = report.removals
    assert found.result == PruneResult(PruneOutcome.GONE, "another object with its name exists now")
    assert await cluster.live("ConfigMap", f"{unique}-old", "kube-system")


async def test_crd_with_foreign_resources_is_kept(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    delivery = Delivery(cluster.client)
    ours = named(f"{group}/v1", "Widget", "ours")
    await delivery.install(unique, Revision.of([crd("Widget", group), ours, config_map(unique)], "old"))
    await cluster.user.create(
        await cluster.user.resource(group, "Widget"), named(f"{group}/v1", "Widget", "theirs", "default")
    )
    await delivery.install(unique, Revision.of([config_map(unique)], "new"))

    report = await delivery.prune({unique})

    assert fates(report) == {
        "Widget ours": PruneOutcome.GONE,
        f"CustomResourceDefinition widgets.{group}": PruneOutcome.KEPT,
    }
    (kept,) = [one for one in report.removals if one.result.outcome is PruneOutcome.KEPT]
    assert "Widget default/theirs" in kept.result.reason
    assert await cluster.live("Widget", "theirs", "default", group)


async def test_namespace_with_foreign_content_is_kept(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    delivery = Delivery(cluster.client)
    manifests = [named("v1", "Namespace", unique), named("v1", "Namespace", f"{unique}-empty"), crd("Widget", group)]
    await delivery.install(unique, Revision.of([*manifests, config_map(unique, unique)], "old"))
    await cluster.user.create(
        await cluster.user.resource(group, "Widget"), named(f"{group}/v1", "Widget", "theirs", unique)
    )

    report = await delivery.prune(set())

    assert fates(report)[f"Namespace {unique}"] is PruneOutcome.KEPT
    assert fates(report)[f"Namespace {unique}-empty"] is PruneOutcome.GONE
    # What is kept is remembered by a record that wants nothing else.
    record = (await delivery.records())[unique]
    assert record.objects == ()
    assert not needs_pruning({unique: record}, set())


async def test_object_with_prune_disabled_keeps_its_namespace_and_crd(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    delivery = Delivery(cluster.client)
    widget = with_annotation(named(f"{group}/v1", "Widget", "first", unique), PRUNE_ANNOTATION, "disabled")
    manifests = [named("v1", "Namespace", unique), crd("Widget", group), widget]
    await delivery.install(unique, Revision.of(manifests, "inputs"))

    report = await delivery.prune(())

    assert set(fates(report).values()) == {PruneOutcome.KEPT}
    assert report.complete


async def test_pending_finalizer_delays_the_pruning_of_later_waves(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    held = named(f"{group}/v1", "Widget", "held")
    held["metadata"]["finalizers"] = ["example.org/clean-up"]
    delivery = Delivery(cluster.client, deadlines=AT_ONCE)
    await delivery.install(unique, Revision.of([crd("Widget", group), held, config_map(unique)], "inputs"))

    report = await delivery.prune(set())

    assert not report.complete
    assert set(fates(report).values()) == {PruneOutcome.PENDING}
    assert await cluster.live("ConfigMap", unique, "kube-system")
    resource = await cluster.user.resource(group, "Widget")
    await cluster.user.merge_patch(resource, "held", {"metadata": {"finalizers": None}}, "kube-system")
    await eventually(lambda: pruned(cluster))
    assert not await delivery.records()


async def test_finalizer_of_an_object_without_a_controller_of_the_addon_delays_no_later_wave(
    cluster: Cluster, unique: str
) -> None:
    held = config_map(unique, "kube-system")
    held["metadata"]["finalizers"] = ["example.org/clean-up"]
    role = named("rbac.authorization.k8s.io/v1", "ClusterRole", unique, rules=[])
    delivery = Delivery(cluster.client, deadlines=AT_ONCE)
    await delivery.install(unique, Revision.of([held, role], "inputs"))

    report = await delivery.prune(set())

    assert fates(report) == {f"ConfigMap {unique}": PruneOutcome.PENDING, f"ClusterRole {unique}": PruneOutcome.GONE}
    assert await cluster.live("ClusterRole", unique, group="rbac.authorization.k8s.io") is None
    resource = await cluster.user.resource("", "ConfigMap")
    await cluster.user.merge_patch(resource, unique, {"metadata": {"finalizers": None}}, "kube-system")


@pytest.mark.regression("D14")
async def test_prune_uses_a_served_version_and_ignores_removed_kinds(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    old = crd("Widget", group, versions=("v1", "v2"))
    definition = await cluster.user.create(await cluster.user.resource("apiextensions.k8s.io", old["kind"]), old)
    gone = crd("Gadget", group)
    await cluster.user.create(await cluster.user.resource("apiextensions.k8s.io", gone["kind"]), gone)
    delivery = Delivery(cluster.client)
    manifests = [named(f"{group}/v1", "Widget", "first"), named(f"{group}/v1", "Gadget", "first"), config_map(unique)]
    await eventually(lambda: serves(cluster, group, "Gadget", "v1"))
    await delivery.install(unique, Revision.of(manifests, "old"))
    versions = [
        {**one, "served": one["name"] == "v2", "storage": one["name"] == "v2"} for one in old["spec"]["versions"]
    ]
    crds = await cluster.user.resource("apiextensions.k8s.io", old["kind"])
    await cluster.user.merge_patch(crds, definition["metadata"]["name"], {"spec": {"versions": versions}})
    await cluster.user.delete(crds, gone["metadata"]["name"])
    await eventually(lambda: serves(cluster, group, "Widget", "v2"))
    await eventually(lambda: serves(cluster, group, "Gadget", ""))
    cluster.client.forget_discovery()

    again = Delivery(cluster.client)
    await again.install(unique, Revision.of([config_map(unique)], "new"))
    pruned = await again.prune({unique})

    assert fates(pruned) == {"Widget first": PruneOutcome.GONE, "Gadget first": PruneOutcome.GONE}
    cluster.user.forget_discovery()
    assert not await cluster.live("Widget", "first", "kube-system", group)


def finalized(manifest: dict[str, Any], *finalizers: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "finalizers": list(finalizers)}}


async def let_go(cluster: Cluster, kind: str, name: str) -> None:
    resource = await cluster.user.resource("", kind)
    await cluster.user.merge_patch(resource, name, {"metadata": {"finalizers": None}}, "kube-system")


def service(name: str) -> dict[str, Any]:
    return named("v1", "Service", name, spec={"type": "LoadBalancer", "ports": [{"port": 80}]})


def claim(name: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    return named("v1", "PersistentVolumeClaim", name, spec={"accessModes": ["ReadWriteOnce"], "resources": resources})


@pytest.mark.regression("CASE-14")
@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "ServiceAccount"])
async def test_object_that_waits_for_a_finalizer_stays_in_the_record_and_is_named(
    cluster: Cluster, unique: str, kind: str
) -> None:
    held = service(unique) if kind == "Service" else named("v1", kind, unique)
    delivery = Delivery(cluster.client, deadlines=AT_ONCE)
    await delivery.install(unique, Revision.of([finalized(held, "example.org/clean-up")], "inputs"))
    await delivery.install(f"{unique}-b", Revision.of([config_map(f"{unique}-b")], "inputs"))

    for _ in range(2):
        report = await Delivery(cluster.client, deadlines=AT_ONCE).prune(set())
        assert not report.complete
        (removal,) = [one for one in report.removals if one.addon == unique]
        assert removal.result.outcome is PruneOutcome.PENDING
        assert "is being deleted since 2" in removal.result.reason
        assert "waits for example.org/clean-up" in removal.result.reason
        assert set(await delivery.records()) == {unique}, "the other addon is gone"

    await let_go(cluster, kind, unique)
    report = await Delivery(cluster.client, deadlines=AT_ONCE).prune(set())
    assert report.complete
    assert not await delivery.records()


async def pruned(cluster: Cluster) -> bool:
    return (await Delivery(cluster.client, deadlines=AT_ONCE).prune(set())).complete


async def hangs(cluster: Cluster, identity: str, *words: str) -> None:
    """Prune until an object hangs with these words, and check that its record stays."""

    async def is_told() -> bool:
        report = await Delivery(cluster.client, deadlines=AT_ONCE).prune(set())
        assert not report.complete
        message = describe_remaining(report)
        assert message.isprintable()
        assert f"{identity} is being deleted since 2" in message
        return all(word in message for word in words)

    await eventually(is_told)
    assert await Delivery(cluster.client).records()


@pytest.mark.regression("CASE-14", "LIVE-LV-6")
async def test_namespace_with_content_that_hangs_stays_in_the_record_and_says_what_is_left(
    cluster: Cluster, unique: str
) -> None:
    home = named("v1", "Namespace", unique, "")
    held = named("v1", "ConfigMap", "held", unique)
    await Delivery(cluster.client).install(
        unique, Revision.of([home, finalized(held, "example.org/clean-up")], "inputs")
    )

    await hangs(cluster, f"Namespace {unique}", "configmaps. has 1 resource", "example.org/clean-up in 1 resource")

    maps = await cluster.user.resource("", "ConfigMap")
    await cluster.user.merge_patch(maps, "held", {"metadata": {"finalizers": None}}, unique)
    await eventually(lambda: pruned(cluster))
    assert not await cluster.live("Namespace", unique)
    assert not await Delivery(cluster.client).records()


@pytest.mark.regression("CASE-14", "LIVE-LV-6")
async def test_namespace_that_waits_for_an_aggregated_api_names_it(cluster: Cluster, unique: str) -> None:
    services = await cluster.user.resource("apiregistration.k8s.io", "APIService")
    name, group = f"v1.{unique}.example.org", f"{unique}.example.org"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    target = {"service": {"name": "missing", "namespace": "default"}, "insecureSkipTLSVerify": True}
    await cluster.user.create(services, named(services.api_version, "APIService", name, "", spec=spec | target))
    try:
        await Delivery(cluster.client).install(unique, Revision.of([named("v1", "Namespace", unique, "")], "inputs"))

        await hangs(cluster, f"Namespace {unique}", "Discovery failed for some groups", group)
    finally:
        await cluster.user.delete(services, name)
    await eventually(lambda: pruned(cluster))
    assert not await cluster.live("Namespace", unique)


@pytest.mark.regression("CASE-14")
async def test_definition_with_a_custom_resource_that_hangs_stays_in_the_record(cluster: Cluster, unique: str) -> None:
    group = f"{unique}.example.org"
    definition = crd("Gizmo", group)
    ours = named(f"{group}/v1", "Gizmo", "ours")
    await Delivery(cluster.client).install(unique, Revision.of([definition, ours], "inputs"))
    gizmos = await cluster.user.resource(group, "Gizmo")
    gizmo = named(gizmos.api_version, "Gizmo", "of-a-user", "default")
    await cluster.user.create(gizmos, finalized(gizmo, "example.org/clean-up"))
    await cluster.user.delete(gizmos, "of-a-user", "default")

    await hangs(cluster, f"CustomResourceDefinition.apiextensions.k8s.io {definition['metadata']['name']}", "clean")

    await cluster.user.merge_patch(gizmos, "of-a-user", {"metadata": {"finalizers": None}}, "default")
    await eventually(lambda: pruned(cluster))
    assert not await cluster.live(definition["kind"], definition["metadata"]["name"], "", "apiextensions.k8s.io")


@pytest.fixture
async def protection(cluster: Cluster, unique: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Refuse to delete objects whose names begin with ``UNIQUE-protected``, until the yielded function is called."""
    group, names = "admissionregistration.k8s.io", ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["*"]}]
    specs: dict[str, dict[str, Any]] = {
        "ValidatingAdmissionPolicyBinding": {"policyName": unique, "validationActions": ["Deny"]},
        "ValidatingAdmissionPolicy": {
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [{"name": "mine", "expression": f"request.name.startsWith('{unique}-protected')"}],
            "validations": [{"expression": "false", "message": "keep it, says the team"}],
        },
    }
    for kind, spec in specs.items():
        resource = await cluster.user.resource(group, kind)
        await cluster.user.create(resource, named(resource.api_version, kind, unique, "", spec=spec))
    maps, probe = await cluster.user.resource("", "ConfigMap"), f"{unique}-protected-probe"

    async def in_force() -> bool:
        await cluster.user.apply(maps, config_map(probe), manager="tests", namespace="kube-system")
        try:
            await cluster.user.delete(maps, probe, "kube-system")
        except Invalid:
            return True
        return False

    async def end() -> None:
        for kind in names:
            resource = await cluster.user.resource(group, kind)
            if await cluster.user.find(resource, unique) is not None:
                await cluster.user.delete(resource, unique)

    await eventually(in_force)
    yield end
    await end()


@pytest.mark.regression("CASE-33")
@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "Secret"])
async def test_refused_delete_quotes_the_policy_and_says_what_to_do(
    cluster: Cluster, unique: str, kind: str, protection: Callable[[], Awaitable[None]]
) -> None:
    name = f"{unique}-protected"
    kept = service(name) if kind == "Service" else named("v1", kind, name)
    delivery = Delivery(cluster.client, deadlines=AT_ONCE)
    await delivery.install(unique, Revision.of([kept], "inputs"))

    report = await delivery.prune(set())

    assert not report.complete
    message = describe_remaining(report)
    assert f"{kind} kube-system/{name}: 422 Invalid: " in message
    assert ("denied request: keep it, says the team; " in message) == (kind != "Secret")
    assert "let the policy or webhook allow it, or keep the object by its annotation" in message
    assert message.isprintable()

    await protection()

    await eventually(lambda: pruned(cluster))
    assert await cluster.live(kind, name, "kube-system") is None


@pytest.mark.regression("CASE-14")
@pytest.mark.parametrize("kind", ["Service", "PersistentVolumeClaim"])
async def test_workloads_of_all_addons_go_after_what_they_clean_up(cluster: Cluster, unique: str, kind: str) -> None:
    controller, role = deployment(f"{unique}-controller"), config_map(f"{unique}-settings")
    held = service(unique) if kind == "Service" else claim(unique)
    delivery = Delivery(cluster.client, deadlines=AT_ONCE)
    await delivery.install(f"{unique}-ccm", Revision.of([controller, role], "inputs"))
    await delivery.install(f"{unique}-web", Revision.of([finalized(held, "example.org/clean-up")], "inputs"))

    report = await delivery.prune(set())

    assert not report.complete
    assert set(fates(report).values()) == {PruneOutcome.PENDING}
    for one in (controller, role):
        group = "apps" if one is controller else ""
        live = await cluster.live(one["kind"], one["metadata"]["name"], "kube-system", group)
        assert live is not None
        assert "deletionTimestamp" not in live["metadata"]
    reasons = {one.id.kind: one.result.reason for one in report.removals}
    assert f"waits until {kind} kube-system/{unique} is gone" in reasons["Deployment"]

    await let_go(cluster, kind, unique)
    report = await Delivery(cluster.client, deadlines=AT_ONCE).prune(set())
    assert report.complete
    assert await cluster.live("Deployment", f"{unique}-controller", "kube-system", "apps") is None


@pytest.mark.regression("CASE-14")
async def test_claim_in_use_does_not_delay_the_workloads_of_its_own_addon(cluster: Cluster, unique: str) -> None:
    delivery = Delivery(cluster.client, deadlines=AT_ONCE)
    held = finalized(claim(unique), "kubernetes.io/pvc-protection")
    await delivery.install(unique, Revision.of([held, deployment(unique)], "inputs"))

    report = await delivery.prune(set())

    assert fates(report)[f"Deployment {unique}"] is PruneOutcome.GONE
    assert fates(report)[f"PersistentVolumeClaim {unique}"] is PruneOutcome.PENDING
    await let_go(cluster, "PersistentVolumeClaim", unique)
