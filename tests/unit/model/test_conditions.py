from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.conditions import (
    READY,
    Condition,
    Severity,
    from_documents,
    ready_summary,
    to_documents,
    updated,
)
from clusterstacks.model.outcomes import Outcome, Settled, Stalled, Waiting
from tests.support.builders.documents import JSON

NOON = datetime(2026, 11, 21, 12, 0, 0, 250000, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
NOON_TEXT = "2026-11-21T12:00:00Z"
LATER_TEXT = "2026-11-21T12:05:00Z"

TYPES = st.sampled_from(["Ready", "ClusterReady", "HelmChartApplied", "Foreign"])
CONDITIONS = st.builds(
    Condition,
    TYPES,
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["", "SomeReason"]),
    st.text(max_size=5),
    st.sampled_from(Severity),
)
CHANGES = st.dictionaries(TYPES, st.none() | CONDITIONS).map(
    lambda changes: {
        kind: change and Condition(kind, change.status, change.reason, change.message, change.severity)
        for kind, change in changes.items()
    }
)


def test_new_condition_gets_the_current_time_in_utc_seconds() -> None:
    abroad = NOON.astimezone(timezone(timedelta(hours=2)))

    assert updated([], {"A": Condition("A", "True")}, abroad) == (
        Condition("A", "True", "A", last_transition_time=NOON_TEXT),
    )


def test_transition_time_changes_with_the_status_and_not_with_the_message() -> None:
    before = updated([], {"A": Condition("A", "False", "Broken", "one", Severity.ERROR)}, NOON)
    reworded = updated(before, {"A": Condition("A", "False", "Broken", "two", Severity.ERROR)}, LATER)
    healed = updated(reworded, {"A": Condition("A", "True")}, LATER)

    assert [condition.last_transition_time for condition in (*before, *reworded, *healed)] == [
        NOON_TEXT,
        NOON_TEXT,
        LATER_TEXT,
    ]
    assert reworded[0].message == "two"


def test_conditions_of_others_are_kept_and_a_removed_one_is_deleted() -> None:
    foreign = Condition("Foreign", "Unknown", "Whatever", "text", last_transition_time="yesterday")
    existing = (Condition("A", "True"), foreign)

    assert updated(existing, {"A": None, "Absent": None}, NOON) == (foreign,)


@given(st.lists(CONDITIONS, unique_by=lambda condition: condition.type), CHANGES)
def test_repeated_update_changes_nothing(existing: list[Condition], changes: dict[str, Condition | None]) -> None:
    once = updated(existing, changes, NOON)

    assert updated(once, changes, LATER) == once


@given(st.lists(CONDITIONS, unique_by=lambda condition: condition.type))
def test_conditions_read_back_from_their_documents(existing: list[Condition]) -> None:
    dated = updated(existing, {condition.type: condition for condition in existing}, NOON)

    assert from_documents(to_documents(dated)) == dated


@given(JSON | st.lists(st.dictionaries(st.sampled_from(["type", "status", "severity"]), JSON)))
def test_reading_an_arbitrary_status_does_not_raise(document: object) -> None:
    for condition in from_documents(document):
        assert condition.document()["type"]


def test_a_changed_condition_always_has_a_reason() -> None:
    changed = updated((), {"A": Condition("A", "True"), "B": Condition("B", "False", "Broken")}, NOON)

    assert [one.reason for one in changed] == ["A", "Broken"]


def test_ready_says_what_the_object_has() -> None:
    (ready,) = ready_summary((), Settled(), NOON, message="3 addons, 29 objects")

    assert (ready.status, ready.reason, ready.message) == ("True", "Ready", "3 addons, 29 objects")


def test_an_object_that_is_not_ready_says_why_and_not_what_it_has() -> None:
    (ready,) = ready_summary((), Waiting("Slow", "not yet"), NOON, message="3 addons, 29 objects")

    assert (ready.status, ready.reason, ready.message) == ("False", "Slow", "not yet")


def test_empty_fields_are_omitted() -> None:
    assert to_documents([Condition("A", "True", last_transition_time=NOON_TEXT)]) == [
        {"type": "A", "status": "True", "lastTransitionTime": NOON_TEXT}
    ]


ERROR = Condition("E", "False", "Broken", "it is broken", Severity.ERROR)
SECOND_ERROR = Condition("F", "False", "AlsoBroken", "and that too", Severity.ERROR)
WARNING = Condition("A", "False", "Slow", "not yet", Severity.WARNING)
INFO = Condition("B", "False", "Waiting", "soon", Severity.INFO)
TRUE = Condition("C", "True")
UNKNOWN = Condition("D", "Unknown", "Unsure", "no answer")


@pytest.mark.parametrize(
    ("conditions", "outcome", "ready"),
    [
        ([], Settled(), ("True", "Ready", "")),
        ([TRUE, UNKNOWN], Settled(), ("True", "Ready", "")),
        ([UNKNOWN], Settled(), ("Unknown", "Unsure", "")),
        ([TRUE, INFO], Settled(), ("False", "Waiting", "Info")),
        ([INFO, WARNING, TRUE], Settled(), ("False", "Slow", "Warning")),
        ([SECOND_ERROR, WARNING, INFO, ERROR], Settled(), ("False", "Broken", "Error")),
        ([TRUE, Condition("Z", "False", "Bare")], Settled(), ("False", "Bare", "")),
        ([Condition(READY, "False", "Old", "old", Severity.ERROR), TRUE], Settled(), ("True", "Ready", "")),
        ([TRUE], Waiting("Upgrading", "wait"), ("False", "Upgrading", "Info")),
        ([TRUE], Stalled("InvalidName", "edit it"), ("False", "InvalidName", "Error")),
        ([WARNING], Stalled("InvalidName", "edit it"), ("False", "Slow", "Warning")),
    ],
)
def test_ready_condition_reports_the_worst_condition(
    conditions: list[Condition], outcome: Outcome, ready: tuple[str, str, str]
) -> None:
    summary = ready_summary(conditions, outcome, NOON)[0]

    assert summary.type == READY
    assert (summary.status, summary.reason, summary.severity.value) == ready


def test_advisory_conditions_do_not_affect_ready() -> None:
    (ready, *_) = ready_summary([WARNING, TRUE], Settled(), NOON, advisory={WARNING.type})
    (unready, *_) = ready_summary([WARNING, INFO], Settled(), NOON, advisory={WARNING.type})

    assert (ready.status, unready.reason) == ("True", INFO.reason)


@given(st.lists(CONDITIONS, unique_by=lambda condition: condition.type))
def test_ready_condition_is_excluded_from_its_summary(conditions: list[Condition]) -> None:
    once = ready_summary(conditions, Settled(), NOON)

    assert ready_summary(once, Settled(), LATER) == once
