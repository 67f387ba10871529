"""Metrics about objects are bounded, whatever the number of objects and whatever their status says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.object_problem_metrics import NAMED_OBJECTS, REASON_CHARACTERS, REASONS, ObjectProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client.samples import Sample

NAMED = "clusterstacks_object_problem_since_timestamp_seconds"
COUNTED = "clusterstacks_object_problems"


def samples(problems: Sequence[ObjectProblem], kind: str = "ClusterAddon") -> dict[str, list[Sample]]:
    metrics = Metrics()
    metrics.watch_problems(kind, lambda: problems)
    families = text_string_to_metric_families(metrics.expose().decode())
    return {family.name: family.samples for family in families}


@pytest.mark.regression("LIVE-M1")
def test_metrics_of_not_ready_objects_support_alerts() -> None:
    found = samples(
        [
            ObjectProblem("ns", "one", "Ready", "Stalled", 1700000000.0),
            ObjectProblem("ns", "two", "Ready", "Stalled", 0.0),
            ObjectProblem("ns", "two", "Healthy", "ObjectsFailed", 1600000000.0),
        ]
    )

    assert [one.value for one in found["clusterstacks_not_ready_objects"]] == [2]
    assert [one.value for one in found["clusterstacks_not_ready_since_timestamp_seconds"]] == [1.7e9]
    assert {(one.labels["problem"], one.labels["reason"]): one.value for one in found[COUNTED]} == {
        ("Ready", "Stalled"): 2,
        ("Healthy", "ObjectsFailed"): 1,
    }
    assert {(one.labels["object_name"], one.labels["problem"]): one.value for one in found[NAMED]} == {
        ("one", "Ready"): 1.7e9,
        ("two", "Ready"): 0,
        ("two", "Healthy"): 1.6e9,
    }


@pytest.mark.regression("LIVE-M1")
def test_a_kind_without_problems_has_the_number_0() -> None:
    found = samples([])

    assert [one.value for one in found["clusterstacks_not_ready_objects"]] == [0]
    assert [one.value for one in found["clusterstacks_not_ready_since_timestamp_seconds"]] == [0]
    assert found[NAMED] == found[COUNTED] == []


def test_the_objects_with_the_oldest_problems_are_named() -> None:
    problems = [ObjectProblem("ns", f"object-{n}", "Ready", "R", 1e9 - n) for n in range(3 * NAMED_OBJECTS)]
    named = samples(problems)[NAMED]

    assert len(named) == NAMED_OBJECTS
    assert {one.labels["object_name"] for one in named} == {one.name for one in problems[-NAMED_OBJECTS:]}


@given(
    st.lists(
        st.builds(
            ObjectProblem,
            st.sampled_from(["a", "b"]),
            st.integers(0, 500).map("object-{}".format),
            st.sampled_from(["Ready", "Healthy"]),
            st.integers(0, 3 * REASONS).map("R{}".format) | st.text(max_size=2 * REASON_CHARACTERS),
            st.floats(0, 2e9),
        ),
        max_size=300,
    )
)
def test_the_number_of_series_is_bounded_and_every_object_is_counted(problems: list[ObjectProblem]) -> None:
    found = samples(problems)

    assert len(found[NAMED]) <= NAMED_OBJECTS
    for problem in ("Ready", "Healthy"):
        counted = [one for one in found[COUNTED] if one.labels["problem"] == problem]
        assert len(counted) <= REASONS + 1
        assert all(len(one.labels["reason"]) <= REASON_CHARACTERS for one in counted)
        assert sum(one.value for one in counted) == sum(one.problem == problem for one in problems)
