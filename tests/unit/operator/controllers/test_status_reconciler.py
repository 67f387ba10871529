"""Status, conditions and events around every reconciler."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.names import API_VERSION, GROUP, Kind
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.resources import ObjectList, Resource
from clusterstacks.operator.controllers.held_reports import HeldReports
from clusterstacks.operator.controllers.status_reconciler import (
    ConditionEvent,
    StatusPatch,
    StatusReconciler,
    condition_events,
)
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.objects import Manifest

ADDONS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_ADDON.value, "clusteraddons", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
KEY = ObjectKey("team", "cluster-addon-one")
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "team", "uid": "1"}}


def addon(*conditions: Manifest) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_ADDON.value,
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}},
        **({"status": {"conditions": list(conditions)}} if conditions else {}),
    }


def condition(kind: str, status: str) -> Manifest:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-11-01T00:00:00Z"}


def frame(api: FakeApi, work: Callable[[StatusPatch], Awaitable[Outcome | None]]) -> StatusReconciler:
    events = EventRecorder(api, "test")
    return StatusReconciler(
        group=GROUP, kind=Kind.CLUSTER_ADDON, client=api, clock=SystemClock(), events=events, work=work
    )


async def reconciled(
    manifest: Manifest, work: Callable[[StatusPatch], Awaitable[Outcome | None]]
) -> tuple[FakeApi, Manifest]:
    api = FakeApi(ADDONS)
    await api.create(ADDONS, manifest)
    await frame(api, work).reconcile(KEY)
    return api, api.objects(ADDONS)[KEY]


async def test_ignored_object_gets_no_status() -> None:
    async def leave(_: StatusPatch) -> None:
        return None

    api, left = await reconciled(addon(), leave)

    assert "status" not in left
    assert api.count("merge_patch") == 0


async def test_event_about_another_object_is_recorded_after_the_status_write() -> None:
    async def announce(patch: StatusPatch) -> Outcome:
        patch.announce(OTHER, "Warning", "Broken", "it does not work")
        raise SpecError("Broken", "it does not work")

    api = FakeApi(ADDONS, EVENTS)
    await api.create(ADDONS, addon(condition("Ready", "False")))
    await frame(api, announce).reconcile(KEY)

    assert [verb for verb, _ in api.calls if verb in {"merge_patch", "create"}][1:] == ["merge_patch", "create"]
    [event] = api.objects(EVENTS).values()
    assert (event["involvedObject"]["name"], event["reason"]) == ("other", "Broken")


async def test_resolved_failure_is_removed_from_the_conditions() -> None:
    async def settle(patch: StatusPatch) -> Outcome:
        patch.reconsider(["HelmChartFound", "HelmChartApplied"])
        return Settled()

    _, settled = await reconciled(
        addon(condition("HelmChartApplied", "True"), condition("HelmChartFound", "False")), settle
    )

    conditions = {one["type"]: one["status"] for one in settled["status"]["conditions"]}
    assert conditions == {"Ready": "True", "HelmChartApplied": "True"}


async def test_persistent_failure_keeps_its_transition_time() -> None:
    async def fail_again(patch: StatusPatch) -> Outcome:
        patch.reconsider(["HelmChartFound"])
        patch.false("HelmChartFound", "HelmChartMissing", "it is still missing")
        return Settled()

    _, failed = await reconciled(addon(condition("HelmChartFound", "False")), fail_again)

    found = next(one for one in failed["status"]["conditions"] if one["type"] == "HelmChartFound")
    assert found["lastTransitionTime"] == "2026-11-01T00:00:00Z"


async def test_status_is_written_despite_a_concurrent_spec_change() -> None:
    api = FakeApi(ADDONS)
    await api.create(ADDONS, addon())

    async def edited_meanwhile(_: StatusPatch) -> Outcome:
        await api.merge_patch(ADDONS, KEY.name, {"spec": {"paused": True}}, KEY.namespace)
        return Settled()

    await frame(api, edited_meanwhile).reconcile(KEY)

    stored = api.objects(ADDONS)[KEY]
    assert stored["spec"]["paused"] is True
    assert stored["status"]["conditions"][0]["status"] == "True"


async def test_recreated_object_does_not_get_the_status_of_the_first() -> None:
    api = FakeApi(ADDONS)
    await api.create(ADDONS, addon())

    async def replaced_meanwhile(_: StatusPatch) -> Outcome:
        await api.delete(ADDONS, KEY.name, KEY.namespace)
        await api.create(ADDONS, addon())
        return Settled()

    await frame(api, replaced_meanwhile).reconcile(KEY)

    assert "status" not in api.objects(ADDONS)[KEY]


@pytest.mark.regression("SEC-5")
async def test_status_patch_pruned_by_the_server_is_sent_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The CRDs of the Go operator prune the fields they do not have."""
    api, looks = FakeApi(ADDONS), 0
    await api.create(ADDONS, addon())
    real = api.merge_patch

    async def pruning(resource: Resource, name: str, patch: Manifest, namespace: str = "", **how: str) -> Manifest:
        kept = {
            key: value for key, value in patch["status"].items() if key not in {"admitted", "observedClusterGeneration"}
        }
        return await real(resource, name, {**patch, "status": kept}, namespace, subresource=how["subresource"])

    async def admit(patch: StatusPatch) -> Outcome:
        nonlocal looks
        looks += 1
        patch.status["admitted"] = {"class": "x" if looks < 5 else "y"}
        patch.status["observedClusterGeneration"] = 1 if looks < 5 else 2
        return Settled()

    api.merge_patch = pruning  # type: ignore[method-assign, assignment]
    frame_ = frame(api, admit)

    writes = []
    for _ in range(6):
        before = api.count("merge_patch")
        await frame_.reconcile(KEY)
        writes.append(api.count("merge_patch") - before)

    # The first one writes the condition Ready and finds that the rest is not kept; the fifth has other news.
    assert writes == [1, 0, 0, 0, 1, 0]
    assert api.objects(ADDONS)[KEY]["status"].keys() == {"conditions"}
    reports = [record.message for record in caplog.records if "csctl crds" in record.message]
    assert len(reports) == 1
    assert "CustomResourceDefinition of ClusterAddon does not have all fields of status." in reports[0]
    await api.delete(ADDONS, KEY.name, KEY.namespace)
    await frame_.reconcile(KEY)
    assert not frame_._pruned


def release(*conditions: Manifest) -> Manifest:
    return {"kind": "ClusterStackRelease", "status": {"conditions": list(conditions)}}


def full_condition(kind: str, status: str, reason: str = "", message: str = "", severity: str = "Warning") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "severity": severity}


BROKEN = full_condition("ClusterStackReleaseDownloaded", "False", "IssueWithReleaseAssets", "no metadata.yaml", "Error")
TOLD = ConditionEvent("Warning", "IssueWithReleaseAssets", "no metadata.yaml")


@pytest.mark.parametrize(
    "before",
    [
        release(),
        {"kind": "ClusterStackRelease"},
        release(full_condition("ClusterStackReleaseDownloaded", "True")),
        release(full_condition("ClusterStackReleaseDownloaded", "False", "ReleaseAssetsNotDownloadedYet")),
    ],
    ids=["no condition", "no status", "True before", "another reason before"],
)
def test_condition_that_becomes_false_is_an_event(before: Manifest) -> None:
    assert condition_events(before, release(BROKEN)) == [TOLD]


def test_changed_message_alone_is_no_event() -> None:
    assert condition_events(release({**BROKEN, "message": "attempt 1"}), release(BROKEN)) == []


def test_readiness_is_one_event() -> None:
    waiting, ready = release(full_condition("Ready", "False", "Waiting")), release(full_condition("Ready", "True"))

    assert condition_events(waiting, ready) == [ConditionEvent("Normal", "Ready", "ClusterStackRelease is ready")]
    assert condition_events(ready, ready) == []
    assert condition_events(ready, waiting) == [], "the failed condition is the event"


@pytest.mark.parametrize(
    "usual",
    [
        full_condition("ProviderClusterStackReleaseReady", "False", "ProcessOngoing"),
        full_condition("ClusterReady", "False", "ControlPlaneNotReady"),
        full_condition("ClusterStackReleaseAvailable", "False", "NoReleaseReady", severity="Info"),
        full_condition("HelmChartApplied", "Unknown"),
        full_condition("HelmChartApplied", "True"),
    ],
    ids=lambda one: f"{one['reason'] or one['status']}",
)
def test_usual_transitional_conditions_are_no_events(usual: Manifest) -> None:
    assert condition_events(release(), release(usual)) == []


def test_event_reason_of_the_go_operator_is_used() -> None:
    failed = full_condition("ClusterStackReleasesSynced", "False", "FailedToCreateOrUpdate", "forbidden")

    assert condition_events(release(), release(failed)) == [
        ConditionEvent("Warning", "ErrorCreatingClusterStackRelease", "forbidden")
    ]


def cached(api: FakeApi, manifest: Manifest, work: Callable[[StatusPatch], Awaitable[Outcome | None]]) -> Any:
    """Return a reconciler whose informer's cache has this version of the object."""
    informer = Informer(api, GROUP, Kind.CLUSTER_ADDON)
    informer._replace(ObjectList([manifest], manifest["metadata"]["resourceVersion"]))
    return replace(frame(api, work), informer=informer)


@pytest.mark.regression("D81")
async def test_settled_object_is_decided_from_the_cache_without_a_request() -> None:
    async def settled(_: StatusPatch) -> None:
        return None

    api = FakeApi(ADDONS)
    reconciler = cached(api, await api.create(ADDONS, addon()), settled)
    api.calls.clear()

    await reconciler.reconcile(KEY)
    await reconciler.reconcile(ObjectKey("team", "missing"))

    assert not api.calls


@pytest.mark.regression("D81")
async def test_work_begins_again_with_the_object_of_the_server_before_it_does_anything() -> None:
    seen: list[object] = []

    async def deliver(patch: StatusPatch) -> Outcome:
        patch.announce(OTHER, "Normal", "Found", "in both")
        patch.require_live()
        seen.append(patch.manifest["spec"].get("clusterStack"))
        return Settled()

    api = FakeApi(ADDONS, EVENTS)
    reconciler = cached(api, await api.create(ADDONS, addon()), deliver)
    await api.merge_patch(ADDONS, KEY.name, {"spec": {"clusterStack": "new"}}, KEY.namespace)

    await reconciler.reconcile(KEY)

    assert seen == ["new"]


async def test_a_live_read_with_an_earlier_version_than_the_cache_has_is_repeated_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    async def deliver(patch: StatusPatch) -> Outcome:
        patch.require_live()
        seen.append(patch.manifest["spec"].get("clusterStack"))
        return Settled()

    api = FakeApi(ADDONS, EVENTS)
    old = await api.create(ADDONS, addon())
    new = await api.merge_patch(ADDONS, KEY.name, {"spec": {"clusterStack": "new"}}, KEY.namespace)
    reconciler = cached(api, new, deliver)

    async def stale(*_: object) -> Manifest:
        return old

    with monkeypatch.context() as answers:
        answers.setattr(api, "find", stale)
        with pytest.raises(DependencyError, match="an earlier version"):
            await reconciler.reconcile(KEY)
    assert not seen
    await reconciler.reconcile(KEY)
    assert seen == ["new"]


@pytest.mark.regression("D81")
async def test_a_status_from_an_outdated_cache_is_not_written() -> None:
    async def report(patch: StatusPatch) -> Outcome:
        patch.status["observed"] = patch.manifest["spec"].get("clusterStack", "")
        return Settled()

    api = FakeApi(ADDONS, EVENTS)
    reconciler = cached(api, await api.create(ADDONS, addon()), report)
    await api.merge_patch(ADDONS, KEY.name, {"spec": {"clusterStack": "new"}}, KEY.namespace)

    await reconciler.reconcile(KEY)

    assert api.objects(ADDONS)[KEY]["status"]["observed"] == "new"
    assert reconciler.informer.cache.get(KEY)["status"]["observed"] == "new"


@in_virtual_time
async def test_the_report_of_a_wait_is_held_back_for_a_second_and_no_other() -> None:
    held, waiting = HeldReports(VirtualClock()), Waiting("NotReady", "soon")
    patch = StatusPatch(addon())

    assert held.left(patch, waiting, {"NotReady"}) == timedelta(seconds=1)
    await asyncio.sleep(0.4)
    assert held.left(patch, waiting, {"NotReady"}) == timedelta(seconds=0.6)
    await asyncio.sleep(0.6)
    assert held.left(patch, waiting, {"NotReady"}) is None
    assert held.left(patch, Waiting("Other", "soon"), {"NotReady"}) is None
    assert held.left(patch, Settled(), {"NotReady"}) is None
    assert held.left(StatusPatch(addon(condition("Ready", "True"))), waiting, {"NotReady"}) is None


@in_virtual_time
async def test_a_reconcile_is_delayed_for_a_second_and_again_after_another_report() -> None:
    held = HeldReports(VirtualClock())

    assert held.delay(KEY) == timedelta(seconds=1)
    await asyncio.sleep(0.4)
    assert held.delay(KEY) == timedelta(seconds=0.6)
    await asyncio.sleep(0.6)
    assert held.delay(KEY) is None
    assert held.delay(KEY) == timedelta(seconds=1)
    assert held.left(StatusPatch(addon()), Settled(), {"NotReady"}) is None
    await asyncio.sleep(0.5)
    assert held.delay(KEY) == timedelta(seconds=1)


@in_virtual_time
async def test_a_report_is_held_back_after_a_checkpoint_that_withdrew_ready() -> None:
    held, waiting = HeldReports(VirtualClock()), Waiting("NotReady", "soon")
    patch = StatusPatch(addon(condition("Ready", "True")))
    patch.manifest = addon(condition("Ready", "False"))

    assert held.left(patch, waiting, {"NotReady"}) == timedelta(seconds=1)


@in_virtual_time
async def test_an_object_deleted_while_its_report_is_held_back_is_forgotten() -> None:
    held, waiting = HeldReports(VirtualClock()), Waiting("NotReady", "soon")
    held.left(StatusPatch(addon()), waiting, {"NotReady"})
    await asyncio.sleep(90)
    held.left(StatusPatch({**addon(), "metadata": {"name": "other", "namespace": "team"}}), Settled(), {"NotReady"})

    assert held.left(StatusPatch(addon()), waiting, {"NotReady"}) == timedelta(seconds=1)
