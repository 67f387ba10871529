"""Which change of a condition is worth an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.controllers.status_reconciler import ConditionEvent, condition_events

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


def release(*conditions: Manifest) -> Manifest:
    return {"kind": "ClusterStackRelease", "status": {"conditions": list(conditions)}}


def condition(kind: str, status: str, reason: str = "", message: str = "", severity: str = "Warning") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "severity": severity}


BROKEN = condition("ClusterStackReleaseDownloaded", "False", "IssueWithReleaseAssets", "no metadata.yaml", "Error")
TOLD = ConditionEvent("Warning", "IssueWithReleaseAssets", "no metadata.yaml")


@pytest.mark.parametrize(
    "before",
    [
        release(),
        {"kind": "ClusterStackRelease"},
        release(condition("ClusterStackReleaseDownloaded", "True")),
        release(condition("ClusterStackReleaseDownloaded", "False", "ReleaseAssetsNotDownloadedYet")),
    ],
    ids=["no condition", "no status", "True before", "another reason before"],
)
def test_a_condition_that_turns_false_is_news(before: Manifest) -> None:
    assert condition_events(before, release(BROKEN)) == [TOLD]


def test_the_same_trouble_in_other_words_is_not() -> None:
    assert condition_events(release({**BROKEN, "message": "attempt 1"}), release(BROKEN)) == []


def test_readiness_is_told_once() -> None:
    waiting, ready = release(condition("Ready", "False", "Waiting")), release(condition("Ready", "True"))

    assert condition_events(waiting, ready) == [ConditionEvent("Normal", "Ready", "ClusterStackRelease is ready")]
    assert condition_events(ready, ready) == []
    assert condition_events(ready, waiting) == [], "the condition that failed tells it"


@pytest.mark.parametrize(
    "usual",
    [
        condition("ProviderClusterStackReleaseReady", "False", "ProcessOngoing"),
        condition("ClusterReady", "False", "ControlPlaneNotReady"),
        condition("ClusterStackReleaseAvailable", "False", "NoReleaseReady", severity="Info"),
        condition("HelmChartApplied", "Unknown"),
        condition("HelmChartApplied", "True"),
    ],
    ids=lambda one: f"{one['reason'] or one['status']}",
)
def test_what_every_object_passes_through_is_not(usual: Manifest) -> None:
    assert condition_events(release(), release(usual)) == []


def test_users_of_the_go_operator_find_its_reason() -> None:
    failed = condition("ClusterStackReleasesSynced", "False", "FailedToCreateOrUpdate", "forbidden")

    assert condition_events(release(), release(failed)) == [
        ConditionEvent("Warning", "ErrorCreatingClusterStackRelease", "forbidden")
    ]
