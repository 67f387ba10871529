from __future__ import annotations

from datetime import timedelta

import pytest

from clusterstacks.model.documents import DocumentError, Node, parse_duration
from clusterstacks.model.errors import SpecError


@pytest.mark.parametrize(
    ("value", "field", "told"),
    [
        (None, "a.b", "x.yaml: a.b is missing: write it"),
        (3, "a.b", "x.yaml: a.b is 3: write it"),
        ("wrong", "a.b", "x.yaml: a.b is 'wrong': write it"),
        (["a"], "", "x.yaml: the document is a list: write it"),
        ("-----BEGIN PRIVATE KEY----- MIGH", "", "x.yaml: the document is a text: write it"),
    ],
)
def test_error_quotes_a_wrong_field_but_not_a_whole_document(value: object, field: str, told: str) -> None:
    with pytest.raises(DocumentError) as error:
        raise Node(value, "x.yaml", field).refuse("write it")
    assert error.value.message == told


@pytest.mark.parametrize(
    ("text", "minutes"), [("45s", 0.75), ("10m", 10), ("1h", 60), ("1h30m", 90), ("1h1m30s", 61.5), ("0s", 0)]
)
def test_duration_is_parsed(text: str, minutes: float) -> None:
    assert parse_duration(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "10", "m", "1m1h", "-1m", "1.5h", "1h ", "٣m", "9" * 50 + "s"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match="is not a valid duration"):
        parse_duration(text)
