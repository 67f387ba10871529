"""The generated CRDs. ``UPDATE_GOLDEN=1 pytest tests/unit/api`` writes the golden files anew: look at the diff."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.api.crd_manifests import all_crds

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden"
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


@pytest.mark.parametrize("plural", CRDS)
def test_equals_the_golden_file(plural: str) -> None:
    golden = GOLDEN / f"{plural}.yaml"
    generated = yaml.safe_dump(CRDS[plural], sort_keys=False, width=120)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(generated, encoding="utf-8")

    assert generated == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("schema", FIELDS)
def test_every_part_of_the_schema_is_structural(schema: dict[str, Any]) -> None:
    assert schema["type"] in {"object", "array", "string", "boolean", "integer"}
    assert not schema.keys() & {"$ref", "title", "anyOf", "oneOf", "allOf", "not", "const", "nullable", "definitions"}
    assert not ("properties" in schema and "additionalProperties" in schema)
    assert ("items" in schema) == (schema["type"] == "array")
    assert schema.get("default") not in ("", [], {})


@pytest.mark.parametrize("schema", FIELDS)
def test_every_text_and_list_is_bounded(schema: dict[str, Any]) -> None:
    if schema["type"] == "array":
        assert "maxItems" in schema
    if schema["type"] == "string":
        assert schema.keys() & {"maxLength", "enum", "format"}


@pytest.mark.parametrize("plural", CRDS)
def test_every_field_is_described(plural: str) -> None:
    undescribed = [
        path
        for path, schema in schemas(root(plural))
        if not schema.get("description") and not path.endswith((".metadata", ".items", ".additionalProperties"))
    ]

    assert undescribed == []


def test_kinds_are_found_under_the_names_users_know() -> None:
    names = {crd["metadata"]["name"]: crd["spec"]["names"] for crd in CRDS.values()}

    assert {name: (entry["kind"], entry["shortNames"]) for name, entry in names.items()} == {
        "clusterstacks.clusterstack.x-k8s.io": ("ClusterStack", ["csk"]),
        "clusterstackreleases.clusterstack.x-k8s.io": ("ClusterStackRelease", ["cskr"]),
        "clusteraddons.clusterstack.x-k8s.io": ("ClusterAddon", ["caddon"]),
        "compatibilityrules.clusterstack.x-k8s.io": ("CompatibilityRule", ["crule"]),
    }


def test_the_columns_users_know_come_first() -> None:
    columns = {
        plural: [column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
        for plural, crd in CRDS.items()
    }

    assert columns["clusterstacks"][:7] == [
        "Provider", "ClusterStack", "K8s", "Channel", "Autosubscribe", "Usable", "Latest",
    ]  # fmt: skip
    assert columns["clusterstackreleases"][:5] == ["K8s Version", "Ready", "Age", "Reason", "Message"]
    assert columns["clusteraddons"][:6] == ["Cluster", "Hook", "Ready", "Age", "Reason", "Message"]


def test_clusterctl_moves_stacks_with_all_they_own() -> None:
    labels = {plural: crd["metadata"]["labels"] for plural, crd in CRDS.items()}

    assert all(entry["clusterctl.cluster.x-k8s.io"] == "" for entry in labels.values())
    assert [plural for plural, entry in labels.items() if "clusterctl.cluster.x-k8s.io/move-hierarchy" in entry] == [
        "clusterstacks"
    ]


# What the Go operator's CRDs require and preset; more would refuse or change objects that exist.
REQUIRED = {
    ".spec": {"provider", "name", "kubernetesVersion"},
    ".status.summary.items": {"name", "ready", "phase"},
    ".status.conditions.items": {"type", "status", "lastTransitionTime"},
}


def test_no_field_is_required_that_the_go_operator_does_not_require() -> None:
    stack = {path: set(schema["required"]) for path, schema in schemas(root("clusterstacks")) if "required" in schema}
    addon = {path: set(schema["required"]) for path, schema in schemas(root("clusteraddons")) if "required" in schema}
    release = [path for path, schema in schemas(root("clusterstackreleases")) if "required" in schema]

    ours = (".spec.clusterNamespaces", ".spec.source.")
    assert {path: fields for path, fields in stack.items() if not path.startswith(ours)} == REQUIRED
    assert addon == {
        ".spec": {"clusterRef"},
        ".spec.addons.items": {"name", "release"},
        ".status.addons.items": {"name", "objects"},
        ".status.conditions.items": REQUIRED[".status.conditions.items"],
    }
    assert release == [".status.conditions.items"]
