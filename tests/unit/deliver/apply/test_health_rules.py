from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.health_rules import (
    REASON_CHARACTERS,
    RULES,
    HealthState,
    has_state,
    health_of,
)
from clusterstacks.deliver.apply.live_fields import MESSAGE_CHARACTERS, one_line
from tests.support.builders.health_fixtures import HealthCase, health_cases

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
