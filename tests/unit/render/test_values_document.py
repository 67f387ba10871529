from __future__ import annotations

import pytest

from clusterstacks.api import yaml
from clusterstacks.render.errors import RenderFailed
from clusterstacks.render.values_document import overlaid_document, values_document

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
def test_a_text_under_values_is_the_document_else_everything_is(rendered: str, values: str) -> None:
    assert values_document(rendered) == values


@pytest.mark.parametrize("rendered", ["", "\n", "# nothing\n", "---\n", "~", "values: ''", "values: '# nothing'"])
def test_nothing_gives_no_values(rendered: str) -> None:
    assert values_document(rendered) == ""


@pytest.mark.parametrize(
    "rendered", ["- 1", "text", "5", "values: '- 1'", "a: 1\n---\nb: 2\n", "a: b: c", "values: 'a: b: c'"]
)
def test_what_is_no_mapping_is_an_error(rendered: str) -> None:
    with pytest.raises(RenderFailed) as caught:
        values_document(rendered)

    assert caught.value.code == "TemplateFailed"


@pytest.mark.parametrize("text", ["", "a: {low: 1, high: 2}\n"])
def test_values_laid_over_others_win_key_by_key(text: str) -> None:
    laid = yaml.load(overlaid_document(text, {"a": {"high": 3}}))

    assert laid["a"] == ({"low": 1, "high": 3} if text else {"high": 3})


def test_values_laid_over_others_are_written_as_the_first_release_wrote_them() -> None:
    """The text is part of the digest that tells whether an addon is delivered anew."""
    text = "# comment\nz: 1\na: {list: [1, 2.50, yes, null], text: 'two lines'}\nb: 'no'\nmode: 0644\n"
    over = {"a": {"more": {"x": True, "y": None, "words": "a: b # c"}}, "b": None, "c": ["é", "22:22", "1e3", ""]}

    assert overlaid_document(text, over) == OVERLAID


@pytest.mark.parametrize("text", ["- 1", "text", "a: b: c"])
def test_values_are_laid_over_mappings_only(text: str) -> None:
    with pytest.raises(RenderFailed):
        overlaid_document(text, {"a": 1})
