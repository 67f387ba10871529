from __future__ import annotations

import pytest

from clusterstacks.domain.documents import DocumentError, Node


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
def test_what_stands_in_a_wrong_place_is_told_but_no_whole_file_is_repeated(
    value: object, field: str, told: str
) -> None:
    with pytest.raises(DocumentError) as error:
        raise Node(value, "x.yaml", field).refuse("write it")
    assert error.value.message == told
