"""The generated CRDs and their structural schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from clusterstacks.model.kinds.crd_manifests import UnsupportedSchemaError, all_crds, structural_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

CRDS = {crd["spec"]["names"]["plural"]: crd for crd in all_crds()}


def schemas(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk every schema inside a schema."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from schemas(field, f"{path}.{name}")
    for inside in ("items", "additionalProperties"):
        if inside in schema:
            yield from schemas(schema[inside], f"{path}.{inside}")


def root(plural: str) -> dict[str, Any]:
    schema: dict[str, Any] = CRDS[plural]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


FIELDS = [
    pytest.param(schema, id=f"{plural}{path}")
    for plural in CRDS
    for part in ("spec", "status")
    for path, schema in schemas(root(plural)["properties"].get(part, {"type": "object"}), f".{part}")
]


UNCHECKED = "x-kubernetes-preserve-unknown-fields"


def test_only_the_objects_of_a_cluster_are_unchecked() -> None:
    unchecked = {
        f"{plural}{path}"
        for plural in CRDS
        for path, schema in schemas(root(plural))
        if UNCHECKED in schema and "type" not in schema
    }

    assert unchecked == {"clusteraddons.status.resources", "clusterresourcesyncbindings.status.resources"}


@pytest.mark.parametrize("schema", FIELDS)
def test_every_part_of_the_schema_is_structural(schema: dict[str, Any]) -> None:
    assert schema.get("type", UNCHECKED) in {"object", "array", "string", "boolean", "integer", UNCHECKED}
    assert not schema.keys() & {"$ref", "title", "anyOf", "oneOf", "allOf", "not", "const", "nullable", "definitions"}
    assert not ("properties" in schema and "additionalProperties" in schema)
    assert ("items" in schema) == (schema.get("type") == "array")
    assert schema.get("default") not in ("", [], {})


@pytest.mark.parametrize("schema", FIELDS)
def test_every_text_and_list_is_bounded(schema: dict[str, Any]) -> None:
    if schema.get("type") == "array":
        assert "maxItems" in schema
    if schema.get("type") == "string":
        assert schema.keys() & {"maxLength", "enum", "format"}


@pytest.mark.parametrize("plural", CRDS)
def test_every_field_is_described(plural: str) -> None:
    undescribed = [
        path
        for path, schema in schemas(root(plural))
        if not schema.get("description") and not path.endswith((".metadata", ".items", ".additionalProperties"))
    ]

    assert undescribed == []


def test_kinds_have_their_plural_and_short_names() -> None:
    names = {crd["metadata"]["name"]: crd["spec"]["names"] for crd in CRDS.values()}

    assert {name: (entry["kind"], entry["shortNames"]) for name, entry in names.items()} == {
        "clusterstacks.clusterstack.x-k8s.io": ("ClusterStack", ["csk"]),
        "clusterstackreleases.clusterstack.x-k8s.io": ("ClusterStackRelease", ["cskr"]),
        "clusteraddons.clusterstack.x-k8s.io": ("ClusterAddon", ["caddon"]),
        "compatibilityrules.clusterstack.x-k8s.io": ("CompatibilityRule", ["crule"]),
        "clusterresourcesyncs.addons.clusterstack.x-k8s.io": ("ClusterResourceSync", ["crsync"]),
        "clusterresourcesyncbindings.addons.clusterstack.x-k8s.io": (
            "ClusterResourceSyncBinding",
            ["crsyncbinding"],
        ),
        "clusterupgrades.clusterstack.x-k8s.io": ("ClusterUpgrade", ["cupg"]),
    }


# The columns of the Go operator; scripts that ask for wide tables find all of them.
KNOWN_COLUMNS = {
    "clusterstacks": {
        "Provider", "ClusterStack", "K8s", "Channel", "Autosubscribe", "Usable", "Latest", "Age", "Reason", "Message",
    },
    "clusterstackreleases": {"K8s Version", "Ready", "Age", "Reason", "Message"},
    "clusteraddons": {"Cluster", "Hook", "Ready", "Age", "Reason", "Message"},
}  # fmt: skip


@pytest.mark.parametrize("plural", KNOWN_COLUMNS)
def test_columns_begin_with_ready_and_reason_and_messages_are_only_in_wide_tables(plural: str) -> None:
    columns = CRDS[plural]["spec"]["versions"][0]["additionalPrinterColumns"]
    narrow = [column["name"] for column in columns if not column.get("priority")]

    assert narrow[:2] == ["Ready", "Reason"]
    assert "Message" not in narrow
    assert {column["name"] for column in columns} >= KNOWN_COLUMNS[plural]


def test_numbers_of_clusters_of_a_sync_are_in_narrow_tables_and_why_in_wide_ones() -> None:
    columns = CRDS["clusterresourcesyncs"]["spec"]["versions"][0]["additionalPrinterColumns"]

    assert [column["name"] for column in columns if not column.get("priority")] == [
        *("Ready", "Clusters", "Synced", "Drifted", "Age"),
    ]
    assert {column["name"] for column in columns if column.get("priority")} == {"Reason", "Message"}


def test_clusterctl_move_labels_cover_stacks_and_their_hierarchy() -> None:
    labels = {plural: crd["metadata"]["labels"] for plural, crd in CRDS.items()}

    assert all(entry["clusterctl.cluster.x-k8s.io"] == "" for entry in labels.values())
    assert [plural for plural, entry in labels.items() if "clusterctl.cluster.x-k8s.io/move-hierarchy" in entry] == [
        "clusterstacks",
        "clusterresourcesyncs",
        "clusterupgrades",
    ]


# What the Go operator's CRDs require and preset; more would refuse or change objects that exist.
REQUIRED = {
    ".spec": {"provider", "name", "kubernetesVersion"},
    ".status.summary.items": {"name", "ready", "phase"},
    ".status.conditions.items": {"type", "status", "lastTransitionTime"},
}


def test_required_fields_are_required_by_the_go_operator_as_well() -> None:
    stack = {path: set(schema["required"]) for path, schema in schemas(root("clusterstacks")) if "required" in schema}
    addon = {path: set(schema["required"]) for path, schema in schemas(root("clusteraddons")) if "required" in schema}
    release = {path for path, schema in schemas(root("clusterstackreleases")) if "required" in schema}

    ours = (".spec.clusterNamespaces", ".spec.drift.", ".spec.source.")
    assert {path: fields for path, fields in stack.items() if not path.startswith(ours)} == REQUIRED
    assert addon == {
        ".spec": {"clusterRef"},
        ".spec.addons.items": {"name", "release"},
        ".status.addons.items": {"name", "objects"},
        ".status.conditions.items": REQUIRED[".status.conditions.items"],
    }
    assert release - {".status.evidence.items"} == {".status.conditions.items"}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """The model's own description."""

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
    "description": "The model's own description.",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 3}},
    "required": ["name"],
}


def test_schema_inlines_references_and_keeps_field_descriptions() -> None:
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
def test_type_without_structural_schema_is_rejected(model: type[BaseModel], complaint: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=complaint):
        structural_schema(model)
