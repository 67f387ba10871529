"""Reading documents into sections, and the messages of faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import Field, StrictBool

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.files.definitions import (
    OptionalText,
    RangeText,
    Remedy,
    Section,
    Text,
    matching,
    read,
    schema,
    unique,
    write,
)


@dataclass(frozen=True, slots=True)
class Port(Section):
    """A port."""

    name: Annotated[str, matching("[a-z]+"), Remedy("write lower-case letters"), Field(description="Its name.")]
    is_open: Annotated[StrictBool, Field(alias="open", description="Whether it is open.")] = False


@dataclass(frozen=True, slots=True)
class Host(Section):
    """A host."""

    host_name: Annotated[Text, Field(description="Its name.")]
    ports: Annotated[tuple[Port, ...], unique("name", "name each port once"), Field(description="Its ports.")] = ()
    first: Annotated[Port | None, Field(description="Its first port.")] = None
    kubernetes: Annotated[RangeText | None, Field(description="Its versions.")] = None
    labels: Annotated[Mapping[Text, OptionalText], Field(description="Its labels.")] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        (None, ["x.yaml: the document is missing: write a mapping"]),
        ("secret", ["x.yaml: the document is a text: write a mapping"]),
        ({}, ["x.yaml: hostName is missing: write a non-empty string"]),
        ({"hostName": None}, ["x.yaml: hostName is missing: write a non-empty string"]),
        ({"hostName": " "}, ["x.yaml: hostName is ' ': write a non-empty string"]),
        ({"hostName": 1}, ["x.yaml: hostName is 1: write a non-empty string"]),
        ({"hostName": 10**5000}, ["x.yaml: hostName is 'a huge number': write a non-empty string"]),
        (
            {"hostname": "a"},
            [
                "x.yaml has the unknown field hostname: known are first, hostName, kubernetes, labels, ports",
                "x.yaml: hostName is missing: write a non-empty string",
            ],
        ),
        (
            {"hostName": "a", 7: 1},
            ["x.yaml has the unknown field 7: known are first, hostName, kubernetes, labels, ports"],
        ),
        (
            {"hostName": "a", "ports": [{"name": "a", "x": 1}]},
            ["x.yaml: ports[0] has the unknown field x: known are name, open"],
        ),
        ({"hostName": "a", "ports": {}}, ["x.yaml: ports is a mapping: write a list"]),
        ({"hostName": "a", "ports": [[]]}, ["x.yaml: ports[0] is a list: write a mapping"]),
        (
            {"hostName": "a", "ports": [{"name": "a"}, {"name": "A"}, {"open": 1}]},
            [
                "x.yaml: ports[1].name is 'A': write lower-case letters",
                "x.yaml: ports[2].name is missing: write lower-case letters",
                "x.yaml: ports[2].open is 1: write true or false",
            ],
        ),
        (
            {"hostName": "a", "ports": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            ["x.yaml: ports[2].name is 'a': name each port once"],
        ),
        # A section that is used a second time.
        (
            {"hostName": "a", "first": {"name": "a", "open": None, 7: 1}},
            ["x.yaml: first has the unknown field 7: known are name, o"],
        ),
        ({"hostName": "a", "kubernetes": "1"}, ["x.yaml: kubernetes: '1' is not a valid version range"]),
        ({"hostName": "a", "labels": {7: "x"}}, ["x.yaml: labels is a mapping: use names as keys"]),
        ({"hostName": "a", "labels": {"x": []}}, ["x.yaml: labels.x is a list: write a non-empty string"]),
    ],
)
def test_every_fault_names_file_field_value_and_remedy(document: object, faults: list[str]) -> None:
    with pytest.raises(DocumentError) as raised:
        read(Host, document, file="x.yaml")

    found = raised.value.faults
    assert raised.value.message == found[0]
    assert [fault[: len(start)] for fault, start in zip(found, faults, strict=True)] == faults


@pytest.mark.parametrize(
    "document",
    [
        {"hostName": "a"},
        {"hostName": "a", "ports": [{"name": "b", "open": True}], "kubernetes": ">=1.30 <1.36", "labels": {"x": "y"}},
    ],
)
def test_written_section_is_read_back(document: dict[str, Any]) -> None:
    section = read(Host, document, file="x.yaml")

    assert read(Host, write(section), file="x.yaml") == section
    assert write(read(Host, {**document, "first": None, "labels": None}, file="x.yaml")).keys() <= document.keys()


def test_unknown_keys_are_ignored_on_request() -> None:
    assert read(Host, {"hostName": "a", "x": 1, 7: 2}, file="x.yaml", ignore_unknown=True) == Host("a")


def test_schema_has_no_references_and_allows_null_for_what_is_optional() -> None:
    port = {
        "type": "object",
        "additionalProperties": False,
        "description": "A port.",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$", "description": "Its name."},
            "open": {"type": ["boolean", "null"], "description": "Whether it is open."},
        },
        "required": ["name"],
    }

    found = schema(Host)["properties"]
    assert found["hostName"] == {"type": "string", "minLength": 1, "description": "Its name."}
    assert found["ports"] == {"type": ["array", "null"], "items": port, "description": "Its ports."}
    assert found["first"] == {**port, "type": ["object", "null"], "description": "Its first port."}
