from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.domain.objects import contains, merge_diff

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
def test_the_patch_turns_the_old_into_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert applied(old, merge_diff(old, new)) == new


@given(OBJECTS)
def test_equal_objects_need_no_patch(value: dict[str, Any]) -> None:
    assert merge_diff(value, value) == {}


@given(OBJECTS, OBJECTS)
def test_a_merged_object_contains_what_was_merged(old: dict[str, Any], new: dict[str, Any]) -> None:
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
def test_containment_compares_objects_by_key_and_lists_whole(live: Any, wanted: Any, *, expected: bool) -> None:
    assert contains(live, wanted) is expected
