"""Values laid over others."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.render.merge_values import merge_values


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({}, {}, {}),
        ({"a": {"x": 1}}, {"a": {"x": None}}, {"a": {"x": None}}),
        ({"a": None}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": 1, "b": 2}, {"a": None, "c": None}, {"a": None, "b": 2, "c": None}),
    ],
)
def test_mappings_are_merged_and_all_else_is_replaced(
    base: dict[str, object], over: dict[str, object], merged: dict[str, object]
) -> None:
    assert merge_values(base, over) == merged


values = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(documents, documents)
def test_laying_over_twice_is_laying_over_once_and_changes_neither(
    base: dict[str, object], over: dict[str, object]
) -> None:
    before = deepcopy((base, over))
    once = merge_values(base, over)
    assert merge_values(once, over) == once
    assert (base, over) == before
