from __future__ import annotations

import pytest

from clusterstacks.render.errors import RenderFailed
from clusterstacks.render.values import values_document


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
