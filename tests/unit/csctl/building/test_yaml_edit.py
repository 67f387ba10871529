from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.building.yaml_edit import Place, with_key, with_values
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError

CHART = b"""\
# the chart
name: "x"   # in quotes
version: v1
dependencies:
- {name: a, version: '1.0'} # flow
-   name: b
    version: 2.0.0\t# tab
"""


def test_values_change_and_other_text_stays() -> None:
    values: dict[Place, str] = {
        ("name",): "y",
        ("version",): "v0-sha.abc",
        ("dependencies", 0, "version"): "1.1.0",
        ("dependencies", 1, "version"): "2.0.1",
    }

    assert with_values(CHART, values, name="Chart.yaml") == (
        b"# the chart\nname: y   # in quotes\nversion: v0-sha.abc\ndependencies:\n"
        b"- {name: a, version: 1.1.0} # flow\n-   name: b\n    version: 2.0.1\t# tab\n"
    )


@pytest.mark.parametrize(
    "place", [("no",), ("dependencies",), ("dependencies", 2, "version"), ("name", "x"), ("dependencies", "version")]
)
def test_path_without_a_scalar_changes_nothing(place: Place) -> None:
    assert with_values(CHART, {place: "x"}, name="Chart.yaml") is None


def test_empty_value_cannot_be_replaced() -> None:
    assert with_values(b"version:\nname: x\n", {("version",): "v1"}, name="Chart.yaml") is None


@pytest.mark.parametrize(
    "chart", ["version: &v v1\nx: *v\n", "x: &v v1\nversion: *v\n", "version: |\n  v1\n", "version: !!str v1\n"]
)
def test_anchored_tagged_or_block_value_cannot_be_replaced(chart: str) -> None:
    assert with_values(chart.encode(), {("version",): "v2"}, name="Chart.yaml") is None


def test_byte_order_mark_is_removed() -> None:
    assert with_values(b"\xef\xbb\xbfversion: v1\n", {("version",): "v2"}, name="x") == b"version: v2\n"


def test_multibyte_characters_do_not_shift_positions() -> None:
    assert with_values("ä: ü # ö\nversion: v1\n".encode(), {("version",): "v2"}, name="x") == (
        "ä: ü # ö\nversion: v2\n".encode()
    )


def test_invalid_yaml_is_rejected() -> None:
    with pytest.raises(yaml.YamlError, match=r"Chart.yaml"):
        with_values(b"a: [", {("a",): "x"}, name="Chart.yaml")


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(max_size=20), min_size=1), st.data())
def test_changed_document_differs_only_in_that_value(document: dict[str, str], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(document)))
    written = yaml.dump(document).encode()

    changed = with_values(written, {(key,): "v7"}, name="x")

    if document[key] or b"''" in written:
        assert changed is None or yaml.load(changed) == {**document, key: "v7"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a:\n  - b: 1  # kept\n    c: 2\n", "a:\n  - k: v\n    b: 1  # kept\n    c: 2\n"),
        ("a:\n  - {b: 1}\n", "a:\n  - {k: v, b: 1}\n"),
        ("a:\n- b: 1\n  k: old\n", "a:\n- b: 1\n  k: v\n"),
    ],
)
def test_key_is_replaced_or_written_before_the_others(before: str, after: str) -> None:
    assert with_key(before.encode(), ("a", 0), "k", "v", name="list.yaml") == after.encode()


@pytest.mark.parametrize("content", ["a:\n  - b: 1\n    k: ''\n", "a:\n  - b: 1\n    k: |\n      old\n", "a: 1\n"])
def test_value_that_cannot_be_edited_is_left_to_the_author(content: str) -> None:
    with pytest.raises(SpecError, match=r"list.yaml: write k: v at a\[0\]"):
        with_key(content.encode(), ("a", 0), "k", "v", name="list.yaml")
