"""Structural schemas from models."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from clusterstacks.api.crd_manifests import UnsupportedSchemaError, structural_schema


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """What the model says of itself."""

    name: Annotated[str, Field(max_length=3)] = Field(min_length=1)


class Outer(BaseModel):
    colour: Colour = Field(default=Colour.RED, description="The field's own words.")
    inner: Inner
    maybe: Inner | None = Field(default=None, description="The field's own words.")
    many: tuple[Inner, ...] = Field(default=(), max_length=2)
    words: dict[str, Annotated[str, Field(max_length=3)]] = Field(default_factory=dict)
    kind: Literal["Outer"] = "Outer"
    text: str = ""
    switch: bool = False


INNER = {
    "type": "object",
    "description": "What the model says of itself.",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 3}},
    "required": ["name"],
}


def test_writes_references_out_and_keeps_the_words_of_the_field() -> None:
    assert structural_schema(Outer)["properties"] == {
        "colour": {
            "type": "string",
            "enum": ["red", "blue"],
            "default": "red",
            "description": "The field's own words.",
        },
        "inner": INNER,
        "maybe": {**INNER, "description": "The field's own words."},
        "many": {"type": "array", "items": INNER, "maxItems": 2},
        "words": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
        "kind": {"type": "string", "enum": ["Outer"], "default": "Outer"},
        "text": {"type": "string"},
        "switch": {"type": "boolean", "default": False},
    }


class WithUnion(BaseModel):
    inner: list[int | str]


class WithAnything(BaseModel):
    value: object


class WithBound(BaseModel):
    value: int = Field(gt=1)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (WithUnion, "WithUnion.inner.items: a union"),
        (WithAnything, "WithAnything.value: a structural schema names the type"),
        (WithBound, "WithBound.value: exclusiveMinimum has no place"),
    ],
)
def test_refuses_what_has_no_structural_form(model: type[BaseModel], complaint: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=complaint):
        structural_schema(model)
