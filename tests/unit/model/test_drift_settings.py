from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.drift_settings import (
    LONGEST,
    SHORTEST,
    IgnoredDifference,
    InvalidInterval,
    first_interval,
    parse_interval,
    parse_pointer,
)
from clusterstacks.model.objects import ObjectId

MINUTE = timedelta(minutes=1)

INTERVALS = {
    "10s": timedelta(seconds=10),
    "1m30s": timedelta(seconds=90),
    "24h": timedelta(hours=24),
    "off": None,
}


@pytest.mark.parametrize("text", INTERVALS)
def test_intervals_are_durations_or_off(text: str) -> None:
    assert parse_interval(text) == INTERVALS[text]


@pytest.mark.parametrize("text", ["", "9s", "24h1s", "5 minutes", "1d", "-10s", "OFF", "10"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInterval, match="expected for example 5m, from 10s to 24h, or off"):
        parse_interval(text)


@given(st.text(max_size=20))
def test_every_interval_is_within_the_bounds(text: str) -> None:
    try:
        found = parse_interval(text)
    except InvalidInterval:
        return
    assert found is None or SHORTEST <= found <= LONGEST


PRECEDENCE = [
    ("", "", MINUTE, []),
    ("", "5m", 5 * MINUTE, []),
    ("2m", "5m", 2 * MINUTE, []),
    ("off", "5m", None, []),
    ("", "off", None, []),
    ("soon", "5m", 5 * MINUTE, ["annotation"]),
    ("soon", "", MINUTE, ["annotation"]),
    ("soon", "1s", MINUTE, ["annotation", "stack"]),
    ("", "48h", MINUTE, ["stack"]),
    ("2m", "48h", 2 * MINUTE, []),
]


@pytest.mark.parametrize(("annotation", "stack", "expected", "ignored"), PRECEDENCE)
def test_the_first_valid_interval_counts_and_those_before_it_are_named(
    annotation: str, stack: str, expected: timedelta | None, ignored: list[str]
) -> None:
    interval, complaints = first_interval((("annotation", annotation), ("stack", stack)), MINUTE)

    assert interval == expected
    assert [complaint.partition(" is not used: ")[0] for complaint in complaints] == ignored
    assert all("is not a valid interval" in complaint for complaint in complaints)


def test_pointers_are_those_of_rfc_6901() -> None:
    assert parse_pointer("/spec/replicas") == ("spec", "replicas")
    assert parse_pointer("/metadata/annotations/example.org~1a~0b") == ("metadata", "annotations", "example.org/a~b")


DNS = ObjectId("apps", "Deployment", "kube-system", "dns")

CONCERNED = [
    ("Deployment", "", True),
    ("Deployment", "dns", True),
    ("Deployment.apps", "dns", True),
    ("Deployment", "other", False),
    ("Deployment.example.org", "", False),
    ("DaemonSet", "", False),
]


@pytest.mark.parametrize(("kind", "name", "concerned"), CONCERNED)
def test_ignored_differences_are_chosen_by_kind_and_name(kind: str, name: str, *, concerned: bool) -> None:
    assert IgnoredDifference(kind, name, ()).concerns(DNS) is concerned
