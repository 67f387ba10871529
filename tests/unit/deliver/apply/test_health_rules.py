from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.health_rules import (
    REASON_CHARACTERS,
    RULES,
    SETTLE_TIME,
    HealthState,
    has_state,
    health_of,
    health_of_pending_claim,
    storage_class_of,
)
from clusterstacks.deliver.apply.live_fields import MESSAGE_CHARACTERS, one_line
from clusterstacks.model.objects import rfc3339
from tests.support.builders.health_fixtures import HealthCase, health_cases
from tests.support.builders.manifests import named

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["True", "Pending"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["conditions", "type", "status", "reason", "message", "phase", "replicas", "observedGeneration", "spec"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("case", health_cases(), ids=lambda case: case.name)
def test_an_object_has_the_health_of_its_fixture(case: HealthCase) -> None:
    health = health_of(case.object, NOW)

    assert health.state == case.health
    if health.state in {HealthState.IN_PROGRESS, HealthState.FAILED}:
        assert health.reason == case.reason


def test_every_rule_has_fixtures() -> None:
    covered = {case.object["kind"] for case in health_cases()}

    assert {kind for _, kind in RULES} - covered == {"Secret", "ConfigMap"}  # these have no state, so nothing to show


SECOND = timedelta(seconds=1)
APPLIED = NOW - 3 * SECOND


def written(manager: str, field: str, at: datetime) -> dict[str, Any]:
    return {"manager": manager, "time": rfc3339(at), "fieldsV1": {field: {}}}


def upgraded(
    status_at: datetime | None,
    *,
    created: datetime = NOW - timedelta(days=1),
    applied: datetime = APPLIED,
    **status: object,
) -> Manifest:
    """Return an object that the operator applied, and whose controller wrote its status before or afterwards."""
    entries = [written("someone", "f:spec", NOW), written("cluster-stack-operator", "f:spec", applied)]
    if status_at is not None:
        entries.append(written("controller", "f:status", status_at))
    live = named("example.com/v1", "Widget", "x", "n")
    live["metadata"] |= {"creationTimestamp": rfc3339(created), "generation": 2, "managedFields": entries}
    return live | {"status": {"conditions": [{"type": "Ready", "status": "True"}], **status}}


API_SERVICE = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}


@pytest.mark.regression("LIVE-LV-4")
@pytest.mark.parametrize(
    ("live", "is_judged"),
    [
        (upgraded(APPLIED - SECOND), False),
        (upgraded(APPLIED), False),
        (upgraded(APPLIED - SECOND, conditions=[]), False),
        (upgraded(APPLIED - SECOND, conditions=[{"type": "Available", "status": "True"}]) | API_SERVICE, False),
        (upgraded(APPLIED + SECOND), True),
        (upgraded(None), True),
        (upgraded(APPLIED, created=APPLIED), True),
        (upgraded(APPLIED - SECOND, observedGeneration=2), True),
        (upgraded(APPLIED - SECOND, applied=NOW - SETTLE_TIME), True),
        (upgraded(APPLIED - SECOND, applied=NOW + SETTLE_TIME), True),
    ],
    ids=[
        "before", "in the same second", "before, without condition", "before, APIService", "afterwards", "no status",
        "created by the delivery", "observed", "settled", "clock of the operator is behind",
    ],
)  # fmt: skip
def test_live_lv_4_a_status_from_before_the_delivery_does_not_count(live: Manifest, *, is_judged: bool) -> None:
    health = health_of(live, NOW)

    assert (health.state, health.reason) == (("Current", "") if is_judged else ("InProgress", "StatusNotObserved"))


@pytest.mark.regression("CASE-11")
@pytest.mark.parametrize(
    ("observed", "state", "reason"),
    [
        ("2", "Current", ""),
        ("1", "InProgress", "LatestGenerationNotObserved"),
        ("two", "Unknown", "Malformed"),
        ("9" * 5000, "Unknown", "Malformed"),
        (["2"], "Unknown", "Malformed"),
    ],
)
def test_case_11_the_text_of_a_number_is_an_observed_generation(observed: object, state: str, reason: str) -> None:
    health = health_of(upgraded(NOW, observedGeneration=observed), NOW)

    assert (health.state, health.reason) == (state, reason)


@pytest.mark.regression("CASE-11")
@pytest.mark.parametrize("status", [{"observedGeneration": "x"}, {"conditions": {}}, {"conditions": [{"type": 1}]}])
def test_case_11_a_field_of_the_wrong_type_is_named_with_the_rule_that_replaces_it(status: dict[str, object]) -> None:
    live = upgraded(NOW)
    health = health_of({**live, "status": {**live["status"], **status}}, NOW)

    assert health.state is HealthState.UNKNOWN
    assert health.message.startswith(
        f"status.{next(iter(status))} has the wrong type; a health rule for Widget.example.com"
    )


def claim(phase: str = "Pending", **annotations: str) -> Manifest:
    live = named("v1", "PersistentVolumeClaim", "x", "n", spec={"storageClassName": "local"})
    live["metadata"]["annotations"] = annotations
    return live | {"status": {"phase": phase}}


@pytest.mark.regression("CASE-12")
@pytest.mark.parametrize(
    ("live", "storage_class"),
    [
        (claim(), "local"),
        (claim(**{"volume.kubernetes.io/selected-node": "worker"}), ""),
        (claim("Lost"), ""),
        (claim() | {"spec": {}}, ""),
        (claim() | {"spec": {"storageClassName": ["local"]}}, ""),
    ],
    ids=["pending", "with consumer", "lost", "without class", "malformed"],
)
def test_case_12_a_pending_claim_without_consumer_is_judged_by_its_class(live: Manifest, storage_class: str) -> None:
    assert storage_class_of(live) == storage_class


@pytest.mark.regression("CASE-12")
@pytest.mark.parametrize(
    ("found", "state", "message"),
    [
        (
            {"volumeBindingMode": "WaitForFirstConsumer"},
            "Current",
            "it is bound with its first consumer, by StorageClass local",
        ),
        ({"volumeBindingMode": "Immediate"}, "InProgress", "its phase is Pending, not Bound"),
        ({}, "InProgress", "its phase is Pending, not Bound"),
        (None, "InProgress", "its phase is Pending, not Bound: StorageClass local does not exist"),
    ],
)
def test_case_12_a_claim_that_waits_for_its_first_consumer_is_healthy(
    found: Manifest | None, state: str, message: str
) -> None:
    health = health_of_pending_claim(health_of(claim(), NOW), "local", found)

    assert (health.state, health.message) == (state, message)


@given(kind=st.sampled_from([*RULES, ("example.com", "Widget")]), metadata=JSON, spec=JSON, status=JSON)
def test_no_object_of_a_hostile_cluster_raises_or_yields_a_long_text(
    kind: tuple[str, str], metadata: object, spec: object, status: object
) -> None:
    live = {"apiVersion": f"{kind[0]}/v1", "kind": kind[1], "metadata": metadata, "spec": spec, "status": status}

    health = health_of(live, NOW)

    assert len(health.reason) <= REASON_CHARACTERS
    assert len(health.message) <= MESSAGE_CHARACTERS
    assert (health.reason + health.message).isprintable()
    orjson.dumps([health.reason, health.message])


def test_an_unschedulable_pod_repeats_the_message_of_the_scheduler() -> None:
    (case,) = (case for case in health_cases() if case.name == "pod: unschedulable")

    assert health_of(case.object, NOW).message == "0/3 nodes are available: 3 Insufficient cpu."


def test_a_message_of_a_megabyte_is_cut() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "No\nLine " * 99, "message": "x\u202e\n" * 500_000}]
    live = {"apiVersion": "example.com/v1", "kind": "Widget", "status": {"conditions": conditions}}

    health = health_of(live, NOW)

    assert len(health.message) == MESSAGE_CHARACTERS
    assert health.reason.startswith("No Line No Line")


def test_a_crash_loop_of_many_containers_is_one_short_message() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    containers = [{"name": f"{number}" * 50, "state": waiting} for number in range(1000)]
    live = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "containerStatuses": containers}}

    assert len(health_of(live, NOW).message) == MESSAGE_CHARACTERS


@pytest.mark.parametrize(("text", "line"), [("a  b\n c", "a b c"), ("", ""), ("x" * 11, "x" * 9 + "…"), ("\x00", "")])
def test_a_text_becomes_one_line(text: str, line: str) -> None:
    assert one_line(text, 10) == line


@pytest.mark.parametrize(
    ("group", "kind", "state"),
    [
        ("", "ConfigMap", False),
        ("rbac.authorization.k8s.io", "ClusterRole", False),
        ("", "Service", True),
        ("", "Namespace", True),
        ("example.com", "ConfigMap", True),
        ("apps", "Deployment", True),
    ],
)
def test_kinds_without_a_state_need_not_be_read(group: str, kind: str, *, state: bool) -> None:
    assert has_state(group, kind) is state
