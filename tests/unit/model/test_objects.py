from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.objects import age, contains, merge_diff, rfc3339

VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


def applied(target: Any, patch: Any) -> Any:
    """Apply a merge patch by the pseudo code of RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = applied(result.get(key), value)
    return result


@given(OBJECTS, OBJECTS)
def test_merge_patch_turns_the_old_object_into_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert applied(old, merge_diff(old, new)) == new


@given(OBJECTS)
def test_equal_objects_need_no_patch(value: dict[str, Any]) -> None:
    assert merge_diff(value, value) == {}


@given(OBJECTS, OBJECTS)
def test_merged_object_contains_the_patch(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert contains({**old, **new}, new)


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": None}}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
    ],
)
def test_containment_compares_objects_by_key_and_lists_as_a_whole(live: Any, wanted: Any, *, expected: bool) -> None:
    assert contains(live, wanted) is expected


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (-5, "0s"),
        (119, "119s"),
        (120, "2m"),
        (363, "6m3s"),
        (720, "12m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_600, "3h30m"),
        (36_000, "10h"),
        (187_200, "2d4h"),
        (864_000, "10d"),
        (95_000_000, "3y"),
    ],
)
def test_age_is_printed_as_kubectl_prints_it(seconds: int, printed: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    assert age(rfc3339(now - timedelta(seconds=seconds)), now) == printed


@pytest.mark.parametrize("timestamp", ["", "yesterday", "2026-03-01T00:00:00"])
def test_age_of_an_invalid_timestamp_is_empty(timestamp: str) -> None:
    assert age(timestamp, datetime(2026, 3, 1, tzinfo=UTC)) == ""
