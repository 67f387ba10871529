"""The frame around every reconciler: what it writes, and what it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.names import API_VERSION, GROUP, Kind
from clusterstacks.controllers.status_reconciler import StatusPatch, StatusReconciler
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.outcomes import Outcome, Settled
from clusterstacks.kube.resources import Resource
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.events import EventRecorder
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

ADDONS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_ADDON.value, "clusteraddons", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
KEY = ObjectKey("team", "cluster-addon-one")


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


async def test_an_object_to_be_left_alone_gets_no_status_and_so_never_looks_ready() -> None:
    async def leave(_: StatusPatch) -> None:
        return None

    api, left = await reconciled(addon(), leave)

    assert "status" not in left
    assert api.count("merge_patch") == 0


async def test_an_event_about_another_object_is_recorded_after_the_status_was_written() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "team", "uid": "1"}}

    async def announce(draft: StatusPatch) -> Outcome:
        draft.announce(other, "Warning", "Broken", "it does not work")
        raise SpecError("Broken", "it does not work")

    api = FakeApi(ADDONS, EVENTS)
    await api.create(ADDONS, addon(condition("Ready", "False")))
    await frame(api, announce).reconcile(KEY)

    assert [verb for verb, _ in api.calls if verb in {"merge_patch", "create"}][1:] == ["merge_patch", "create"]
    [event] = api.objects(EVENTS).values()
    assert (event["involvedObject"]["name"], event["reason"]) == ("other", "Broken")


async def test_a_failure_that_was_mended_does_not_stay_in_the_conditions() -> None:
    async def settle(draft: StatusPatch) -> Outcome:
        draft.reconsider(["HelmChartFound", "HelmChartApplied"])
        return Settled()

    _, settled = await reconciled(
        addon(condition("HelmChartApplied", "True"), condition("HelmChartFound", "False")), settle
    )

    conditions = {one["type"]: one["status"] for one in settled["status"]["conditions"]}
    assert conditions == {"Ready": "True", "HelmChartApplied": "True"}


async def test_a_failure_that_lasts_keeps_the_time_it_began() -> None:
    async def fail_again(draft: StatusPatch) -> Outcome:
        draft.reconsider(["HelmChartFound"])
        draft.false("HelmChartFound", "HelmChartMissing", "it is still missing")
        return Settled()

    _, failed = await reconciled(addon(condition("HelmChartFound", "False")), fail_again)

    found = next(one for one in failed["status"]["conditions"] if one["type"] == "HelmChartFound")
    assert found["lastTransitionTime"] == "2026-11-01T00:00:00Z"


async def test_a_change_of_the_spec_meanwhile_does_not_lose_the_status() -> None:
    api = FakeApi(ADDONS)
    await api.create(ADDONS, addon())

    async def edited_meanwhile(_: StatusPatch) -> Outcome:
        await api.merge_patch(ADDONS, KEY.name, {"spec": {"paused": True}}, KEY.namespace)
        return Settled()

    await frame(api, edited_meanwhile).reconcile(KEY)

    stored = api.objects(ADDONS)[KEY]
    assert stored["spec"]["paused"] is True
    assert stored["status"]["conditions"][0]["status"] == "True"


async def test_another_object_of_the_name_gets_nothing_of_the_first_ones_status() -> None:
    api = FakeApi(ADDONS)
    await api.create(ADDONS, addon())

    async def replaced_meanwhile(_: StatusPatch) -> Outcome:
        await api.delete(ADDONS, KEY.name, KEY.namespace)
        await api.create(ADDONS, addon())
        return Settled()

    await frame(api, replaced_meanwhile).reconcile(KEY)

    assert "status" not in api.objects(ADDONS)[KEY]


async def test_sec_5_a_patch_that_a_server_prunes_is_sent_once_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the CRDs of the Go operator do with the fields they do not have."""
    api, looks = FakeApi(ADDONS), 0
    await api.create(ADDONS, addon())
    real = api.merge_patch

    async def pruning(resource: Resource, name: str, patch: Manifest, namespace: str = "", **how: str) -> Manifest:
        kept = {
            key: value for key, value in patch["status"].items() if key not in {"admitted", "observedClusterGeneration"}
        }
        return await real(resource, name, {**patch, "status": kept}, namespace, subresource=how["subresource"])

    async def admit(draft: StatusPatch) -> Outcome:
        nonlocal looks
        looks += 1
        draft.status["admitted"] = {"class": "x" if looks < 5 else "y"}
        draft.status["observedClusterGeneration"] = 1 if looks < 5 else 2
        return Settled()

    api.merge_patch = pruning  # type: ignore[method-assign, assignment]
    frame_ = frame(api, admit)

    writes = []
    for _ in range(6):
        before = api.count("merge_patch")
        await frame_.reconcile(KEY)
        writes.append(api.count("merge_patch") - before)

    # The first one writes the condition Ready, the second finds that the rest is not kept; the fifth has other news.
    assert writes == [1, 1, 0, 0, 1, 0]
    assert api.objects(ADDONS)[KEY]["status"].keys() == {"conditions"}
    reports = [record.message for record in caplog.records if "csctl crds" in record.message]
    assert len(reports) == 1
    assert "CustomResourceDefinition of ClusterAddon does not have all fields of status." in reports[0]
    await api.delete(ADDONS, KEY.name, KEY.namespace)
    await frame_.reconcile(KEY)
    assert not frame_._pruned
