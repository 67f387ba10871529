from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.drift_rules import CHANGED, DELETED, ChangedField, DriftedObject
from clusterstacks.model.drift_settings import DriftMode, DriftSettings
from clusterstacks.model.objects import ObjectId, rfc3339
from clusterstacks.operator.controllers.drift_report import LISTED, Correction, DriftReport, drift_entries, report_drift
from clusterstacks.operator.controllers.status_reconciler import StatusPatch

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, LATER = rfc3339(NOW), "2026-01-02T00:00:00Z"


def drifted(name: str = "dns", error: str = "") -> DriftedObject:
    fields = (ChangedField(".data.key", ("kubectl-edit",)),)
    return DriftedObject(ObjectId("", "ConfigMap", "kube-system", name), "dns", CHANGED, fields, error)


def patch(*drift: Manifest) -> StatusPatch:
    metadata = {"namespace": "team", "name": "cluster-addon-one"}
    status: Any = {"drift": list(drift)} if drift else {}
    return StatusPatch({"kind": "ClusterAddon", "metadata": metadata, "status": status})


def reported(
    report: DriftReport | None, *before: Manifest, failure: str = "", **settings: Any
) -> tuple[StatusPatch, str]:
    found = patch(*before)
    report_drift(found, DriftSettings(**settings), report, failure, NOW)
    condition = found.condition("InSync")
    return found, "" if condition is None else f"{condition.status} {condition.reason} {condition.message}".strip()


CONTESTED = DriftReport((drifted(),), contested=frozenset({drifted().id}))
DIFFERS = "1 objects differ from what was delivered: ConfigMap kube-system/dns was changed: .data.key"

CONDITIONS: list[tuple[DriftReport | None, dict[str, Any], str]] = [
    (None, {}, ""),
    (None, {"interval": None}, ""),
    (DriftReport(()), {}, "True"),
    (DriftReport(()), {"complaint": "spec.drift is not used"}, "True InvalidInterval spec.drift is not used"),
    (DriftReport((drifted(),)), {}, f"False ObjectsChanged {DIFFERS}"),
    (DriftReport((drifted(),)), {"mode": DriftMode.WARN}, f"False ObjectsChanged {DIFFERS}"),
    (CONTESTED, {}, f"False CorrectionsReverted {DIFFERS}"),
]


@pytest.mark.parametrize(("report", "settings", "expected"), CONDITIONS)
def test_the_condition_says_what_differs_and_what_is_done(
    report: DriftReport | None, settings: dict[str, Any], expected: str
) -> None:
    _, condition = reported(report, **settings)

    assert condition.startswith(expected)
    assert bool(condition) == bool(expected)


def test_a_cluster_that_cannot_be_reached_has_an_unknown_condition_and_keeps_its_entries() -> None:
    entry = drift_entries([], DriftReport((drifted(),)), FIRST)[0]

    found, condition = reported(DriftReport(()), entry, failure="not compared since then: refused")

    assert condition == "Unknown DriftUnknown not compared since then: refused"
    assert found.status["drift"] == [entry]


def test_a_correction_is_announced_once() -> None:
    report = DriftReport((), (Correction(drifted(), FIRST),))

    first, _ = reported(report)
    again, _ = reported(report, *first.status["drift"])

    assert [one.message for _, one in first.news] == [
        'corrected: ConfigMap kube-system/dns was changed: .data.key (set by "kubectl-edit")'
    ]
    assert again.news == []
    assert again.status["drift"] == first.status["drift"]


def test_two_corrections_of_an_object_within_a_second_are_both_announced() -> None:
    changed, deleted = Correction(drifted(), FIRST), Correction(replace(drifted(), change=DELETED, fields=()), FIRST)
    first, _ = reported(DriftReport((), (changed,)))

    second, _ = reported(DriftReport((), (deleted, changed)), *first.status["drift"])

    assert [one.message for _, one in second.news] == ["corrected: ConfigMap kube-system/dns was deleted"]


def test_open_entries_keep_their_time_and_corrections_of_an_earlier_process_stay() -> None:
    open_, gone, corrected = drifted("open"), drifted("gone"), drifted("corrected")
    before = drift_entries([], DriftReport((open_, gone), (Correction(corrected, FIRST),)), FIRST)

    after = drift_entries(before, DriftReport((open_,)), LATER)

    assert [(one["name"], one["since"], one.get("correctedAt", "")) for one in after] == [
        ("open", FIRST, ""),
        ("corrected", FIRST, FIRST),
    ]


def test_the_list_is_bounded_and_has_no_values() -> None:
    many = tuple(drifted(f"dns-{number}", "no\nright" * 1000) for number in range(50))

    entries = drift_entries([], DriftReport(many), FIRST)

    assert len(entries) == LISTED
    assert len(str(entries)) < 20_000
    assert entries[0]["fields"] == [".data.key"]
    assert entries[0]["managers"] == ["kubectl-edit"]


def test_a_deleted_object_has_no_fields() -> None:
    gone = DriftedObject(drifted().id, "dns", DELETED)

    (entry,) = drift_entries([], DriftReport((gone,)), FIRST)

    assert entry == {
        "kind": "ConfigMap",
        "namespace": "kube-system",
        "name": "dns",
        "addon": "dns",
        "change": "was deleted",
        "since": FIRST,
    }
