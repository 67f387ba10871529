from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.authoring.findings import line_of_error, line_of_field, line_of_text, steps

FILE = b"""\
# about
config:
  name: x
stages:
  After:
    - name: a
    -
      name: b
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("config", 2),
        ("config.name", 3),
        ("stages.After[0].name", 6),
        ("stages.After[1].name", 8),
        ("config.nothing.more", 2),
        ("stages.After[7]", 5),
        ("nothing", 1),
    ],
)
def test_line_of_a_missing_field_is_that_of_its_parent(field: str, line: int) -> None:
    assert line_of_field(FILE, steps(field)) == line


def test_finding_names_a_line_or_a_field() -> None:
    assert line_of_error(FILE, "f.yaml, line 7: key 'a' is a duplicate") == 7
    assert line_of_error(FILE, "f.yaml: config.name is missing: write a name") == 3
    assert line_of_error(FILE, "f.yaml: config.name: 'x' is no range") == 3
    assert line_of_error(FILE, "something else") == 1


def test_line_of_the_first_text_that_occurs_is_returned() -> None:
    assert line_of_text(FILE, "nowhere", "name: b") == 8
    assert line_of_text(FILE, "nowhere") == 1


@given(st.binary(max_size=60), st.lists(st.text(max_size=3) | st.integers(0, 3), max_size=3))
def test_arbitrary_file_has_a_line_for_any_field(content: bytes, path: list[str | int]) -> None:
    assert line_of_field(content, path) >= 1
