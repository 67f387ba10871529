"""Extracts and merges values documents."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.deliver.render.values_document import merge_values, overlaid_document, values_document
from clusterstacks.model import yaml

OVERLAID = """\
z: 1
a:
  list:
  - 1
  - 2.5
  - true
  - null
  text: two lines
  more:
    x: true
    'y': null
    words: 'a: b # c'
b: null
mode: 420
c:
- é
- '22:22'
- '1e3'
- ''
"""


@pytest.mark.parametrize(
    ("rendered", "values"),
    [
        ("values: |\n  port: 1000000\n", "port: 1000000\n"),
        ("values: |\n  a: 1\nother: 2\n", "a: 1\n"),
        ("values: {a: 1}\n", "values: {a: 1}\n"),
        ("values: 5\n", "values: 5\n"),
        ("values:\n", "values:\n"),
        ("mode: 0644 # octal\nn: 1_000\n", "mode: 0644 # octal\nn: 1_000\n"),
    ],
)
def test_string_under_values_is_the_document_otherwise_the_whole_text(rendered: str, values: str) -> None:
    assert values_document(rendered) == values


@pytest.mark.parametrize("rendered", ["", "\n", "# nothing\n", "---\n", "~", "values: ''", "values: '# nothing'"])
def test_empty_text_gives_no_values(rendered: str) -> None:
    assert values_document(rendered) == ""


@pytest.mark.parametrize(
    "rendered", ["- 1", "text", "5", "values: '- 1'", "a: 1\n---\nb: 2\n", "a: b: c", "values: 'a: b: c'"]
)
def test_values_that_are_not_a_mapping_are_rejected(rendered: str) -> None:
    with pytest.raises(RenderFailed) as caught:
        values_document(rendered)

    assert caught.value.code == "TemplateFailed"


@pytest.mark.parametrize("text", ["", "a: {low: 1, high: 2}\n"])
def test_overlaid_values_win_key_by_key(text: str) -> None:
    laid = yaml.load(overlaid_document(text, {"a": {"high": 3}}))

    assert laid["a"] == ({"low": 1, "high": 3} if text else {"high": 3})


def test_overlaid_values_have_a_stable_text_form() -> None:
    """The text is part of the digest that triggers a new delivery of an addon."""
    text = "# comment\nz: 1\na: {list: [1, 2.50, yes, null], text: 'two lines'}\nb: 'no'\nmode: 0644\n"
    over = {"a": {"more": {"x": True, "y": None, "words": "a: b # c"}}, "b": None, "c": ["é", "22:22", "1e3", ""]}

    assert overlaid_document(text, over) == OVERLAID


@pytest.mark.parametrize("text", ["- 1", "text", "a: b: c"])
def test_values_can_only_be_laid_over_a_mapping(text: str) -> None:
    with pytest.raises(RenderFailed):
        overlaid_document(text, {"a": 1})


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
def test_mappings_are_merged_and_other_values_replaced(
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
def test_merge_is_idempotent_and_does_not_change_its_arguments(
    base: dict[str, object], over: dict[str, object]
) -> None:
    before = deepcopy((base, over))
    once = merge_values(base, over)
    assert merge_values(once, over) == once
    assert (base, over) == before
