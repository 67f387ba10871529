"""Conditions on the Cluster in the style of its API version."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.kinds.cluster_conditions import ConditionView, condition_view, with_cluster_condition
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION

NOW = datetime(2026, 11, 21, 10, 0, 0, 5, tzinfo=UTC)
EARLIER = "2026-11-20T10:00:00Z"
FOREIGN = {"type": "Available", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": EARLIER}


def cluster(version: str, *conditions: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "kind": "Cluster",
        "metadata": {"name": "a", "resourceVersion": "17", "generation": 3, **metadata},
        "status": {"conditions": list(conditions)},
    }


def patched(manifest: dict[str, Any], patch: dict[str, Any] | None) -> dict[str, Any]:
    assert patch is not None
    return {**manifest, "status": {**manifest["status"], **patch["status"]}}


def test_v1beta2_condition_is_a_metav1_condition_and_others_are_kept() -> None:
    patch = with_cluster_condition(
        cluster("v1beta2", FOREIGN), ADDONS_READY_CONDITION, "False", "ObjectsApplyingOngoing", "3 of 7", NOW
    )

    assert patch == {
        "metadata": {"resourceVersion": "17"},
        "status": {
            "conditions": [
                FOREIGN,
                {
                    "type": "ClusterStackAddonsReady",
                    "status": "False",
                    "reason": "ObjectsApplyingOngoing",
                    "message": "3 of 7",
                    "observedGeneration": 3,
                    "lastTransitionTime": "2026-11-21T10:00:00Z",
                },
            ]
        },
    }


def test_v1beta1_condition_has_only_fields_of_its_schema() -> None:
    waiting = with_cluster_condition(cluster("v1beta1"), ADDONS_READY_CONDITION, "False", "Waiting", "w", NOW)
    ready = with_cluster_condition(cluster("v1beta1"), ADDONS_READY_CONDITION, "True", "Ready", "", NOW)

    common = {"type": "ClusterStackAddonsReady", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    assert waiting is not None
    assert ready is not None
    assert waiting["status"]["conditions"] == [
        {**common, "status": "False", "severity": "Info", "reason": "Waiting", "message": "w"}
    ]
    assert ready["status"]["conditions"] == [{**common, "status": "True", "reason": "Ready"}]


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
@given(
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.from_regex("[A-Z][a-z]{0,9}", fullmatch=True),
    message=st.text(max_size=20),
)
def test_unchanged_condition_is_not_written_again(version: str, status: str, reason: str, message: str) -> None:
    before = cluster(version, FOREIGN)
    after = patched(before, with_cluster_condition(before, ADDONS_READY_CONDITION, status, reason, message, NOW))
    later = datetime(2027, 1, 1, tzinfo=UTC)

    assert condition_view(after, ADDONS_READY_CONDITION) == ConditionView(status, reason, message)
    assert with_cluster_condition(after, ADDONS_READY_CONDITION, status, reason, message, later) is None


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_transition_time_changes_only_with_the_status(version: str) -> None:
    before = cluster(version, {"type": "T", "status": "False", "reason": "A", "lastTransitionTime": EARLIER}, FOREIGN)

    other_reason = with_cluster_condition(before, "T", "False", "B", "m", NOW)
    other_status = with_cluster_condition(before, "T", "True", "B", "m", NOW)

    assert other_reason is not None
    assert other_status is not None
    assert other_reason["status"]["conditions"][0]["lastTransitionTime"] == EARLIER
    assert other_status["status"]["conditions"][0]["lastTransitionTime"] == "2026-11-21T10:00:00Z"
    assert other_status["status"]["conditions"][1] == FOREIGN


@pytest.mark.parametrize(("version", "limit"), [("v1beta2", 32_768), ("v1beta1", 10_240)])
def test_long_message_is_truncated_to_the_limit_of_the_cluster(version: str, limit: int) -> None:
    patch = with_cluster_condition(cluster(version), "T", "False", "A", "x" * 40_000, NOW)

    assert patch is not None
    assert len(patch["status"]["conditions"][0]["message"]) == limit


OLD = {"type": "T", "status": "False", "reason": "Old"}
NEW = {"type": "T", "status": "True", "reason": "New"}


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ({"apiVersion": "cluster.x-k8s.io/v1beta2", "status": {"conditions": [NEW]}}, "New"),
        (
            {
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "status": {"conditions": [FOREIGN], "deprecated": {"v1beta1": {"conditions": [OLD]}}},
            },
            "Old",
        ),
        (
            {
                "apiVersion": "cluster.x-k8s.io/v1beta1",
                "status": {"conditions": [OLD], "v1beta2": {"conditions": [NEW]}},
            },
            "New",
        ),
        ({"apiVersion": "cluster.x-k8s.io/v1beta1", "status": {"conditions": [OLD]}}, "Old"),
        ({"apiVersion": "cluster.x-k8s.io/v1beta2"}, ""),
    ],
)
def test_v1beta2_condition_is_read_before_the_v1beta1_condition(manifest: dict[str, Any], reason: str) -> None:
    assert condition_view(manifest, "T").reason == reason


def test_missing_condition_is_neither_true_nor_false() -> None:
    absent = condition_view({}, "T")

    assert (absent.true, absent.false) == (False, False)
