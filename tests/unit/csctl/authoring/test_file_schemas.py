"""Schemas for editors agree with the readers of the files."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from clusterstacks.csctl.authoring.file_schemas import all_schemas, file_schemas, kind_schemas, schema_file
from clusterstacks.csctl.authoring.scaffold import NewStack
from clusterstacks.csctl.building.settings import read_settings
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.addon_config import parse_addon_config
from clusterstacks.model.files.compatibility import parse_compatibility
from clusterstacks.model.files.metadata import parse_metadata
from clusterstacks.model.files.node_images import read_node_images
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.yaml import load, load_all
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[4]
SCHEMAS = file_schemas()
STACKS = (ROOT / "examples", ROOT / "tests/stacks", ROOT / "src/clusterstacks/csctl/authoring/skeletons")
FILES = sorted(
    path for folder in STACKS for path in folder.rglob("*.yaml") if path.name in SCHEMAS and "@" not in path.read_text()
)


def errors(file: str, document: object) -> list[str]:
    return [error.message for error in Draft7Validator(SCHEMAS[file]).iter_errors(document)]


@pytest.mark.parametrize("path", [*all_schemas()])
def test_every_schema_is_valid_and_has_its_path_as_id(path: str) -> None:
    schema = all_schemas()[path]

    Draft7Validator.check_schema(schema)
    assert schema["$id"].endswith(f"/schemas/{path}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_schema_accepts_the_files_of_examples_and_fixtures(path: Path) -> None:
    assert errors(path.name, load(path.read_bytes(), name=path.name)) == []


@pytest.mark.parametrize("provider", ["local", "openstack"])
def test_schema_accepts_the_files_of_a_new_stack(provider: str) -> None:
    files = NewStack.parse(f"{provider}/tiny/1-35").files()
    checked = [name for name in files if name in SCHEMAS]

    assert {"csctl.yaml", "clusteraddon.yaml"} <= {*checked}
    assert [errors(name, load(files[name].encode(), name=name)) for name in checked] == [[]] * len(checked)


@pytest.mark.parametrize(
    "path", [*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/clusterstacks.yaml")], ids=lambda path: path.name
)
def test_schemas_of_our_kinds_accept_the_examples(path: Path) -> None:
    ours = {(one["properties"]["apiVersion"]["const"], one["title"]): one for one in kind_schemas().values()}
    for document in load_all(path.read_bytes(), name=path.name):
        if schema := ours.get((document["apiVersion"], document["kind"])):
            Draft7Validator(schema).validate(document)


def test_schema_of_a_kind_refuses_unknown_fields_and_wrong_values() -> None:
    schema = kind_schemas()["clusterstack.x-k8s.io/clusterstack_v1alpha1.json"]
    (document, *_) = load_all((ROOT / "examples/clusterstack.yaml").read_bytes(), name="clusterstack.yaml")
    ClusterStack.parse(document)
    for change in ({"chanel": "stable"}, {"channel": "beta"}, {"autoSubscribe": "yes"}):
        broken = {**document, "spec": {**document["spec"], **change}}
        assert not Draft7Validator(schema).is_valid(broken), change
    assert not Draft7Validator(schema).is_valid({**document, "apiVersion": "v1"})


SOUND: dict[str, Any] = {
    "csctl.yaml": {
        "apiVersion": "csctl.clusterstack.x-k8s.io/v1alpha1",
        "config": {
            "kubernetesVersion": "v1.35.4",
            "clusterStackName": "scs",
            "provider": {"type": "openstack", "apiVersion": "openstack.x/v1alpha1", "config": {"method": "get"}},
        },
    },
    "stack.yaml": {
        "provider": "openstack",
        "clusterStackName": "scs",
        "kubernetesVersion": "1.35.4",
        "addons": {"ccm": "2.35.x"},
    },
    "versions.yaml": [{"kubernetes": "1.34.7", "occm": "2.34.1"}, {"kubernetes": "1.35.4"}],
    "clusteraddon.yaml": {
        "apiVersion": "clusteraddonconfig.x-k8s.io/v1alpha1",
        "clusterAddonVersion": "clusteraddons.clusterstack.x-k8s.io/v1alpha1",
        "addonStages": {
            "AfterControlPlaneInitialized": [
                {
                    "name": "cni",
                    "action": "apply",
                    "waitForPreCondition": {
                        "objects": [{"key": "node", "apiVersion": "v1", "kind": "Namespace", "name": "default"}],
                        "conditions": 'node.metadata.name != ""',
                    },
                    "waitFor": "Healthy",
                    "timeout": "1h30m",
                    "rollback": "OnFailure",
                }
            ],
            "BeforeClusterUpgrade": [{"name": "cni", "action": "delete"}],
        },
        "health": [{"kind": "CephCluster.ceph.rook.io", "current": "true", "failed": "false"}],
    },
    "compatibility.yaml": {
        "apiVersion": "compatibility.clusterstack.x-k8s.io/v1alpha1",
        "kubernetes": ">=1.34 <1.37 || =1.38.2",
        "components": [
            {
                "name": "cilium",
                "addon": "cni",
                "version": "1.18.2",
                "kubernetes": ">=1.30 <1.36",
                "kind": "tested",
                "requires": {"cert-manager": ">=1.15"},
                "upgrade": {"maxMinorStep": 1, "downgrade": False},
                "source": "https://docs.cilium.io/",
            }
        ],
        "rules": [
            {
                "id": "one",
                "when": {
                    "kubernetes": ">=1.28",
                    "components": {"kube-vip": "<0.7"},
                    "provider": "openstack",
                    "clusterLabels": {"stage": "prod"},
                    "variables": {"network.mtu": 1500},
                },
                "severity": "Deny",
                "message": "does not work",
                "way": "upgrade",
                "source": "https://example.org",
            },
            {"id": "two", "severity": "Allow", "message": "works", "overrides": ["rule:one"]},
        ],
    },
    "metadata.yaml": {
        "apiVersion": "metadata.clusterstack.x-k8s.io/v1alpha1",
        "versions": {
            "clusterStack": "v0-sha.abc",
            "kubernetes": "v1.35.0",
            "components": {"clusterAddon": "v2", "nodeImage": "v1"},
        },
    },
    "node-images.yaml": {
        "apiVersion": "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1",
        "openStackNodeImages": [
            {"url": "https://e.org/i", "createOpts": {"name": "i", "disk_format": "qcow2", "container_format": "bare"}}
        ],
    },
}
"""A document of each file with every field."""


def _read_settings(file: str) -> Callable[[object], object]:
    def read(document: object) -> object:
        own = {"csctl.yaml": SOUND["csctl.yaml"]} if file == "versions.yaml" else {}
        tree = {name: json.dumps(text).encode() for name, text in {**own, file: document}.items()}
        return read_settings(tree, listed=bool(own))

    return read


READERS: dict[str, Callable[[object], object]] = {
    "csctl.yaml": _read_settings("csctl.yaml"),
    "stack.yaml": _read_settings("stack.yaml"),
    "versions.yaml": _read_settings("versions.yaml"),
    "clusteraddon.yaml": parse_addon_config,
    "compatibility.yaml": parse_compatibility,
    "metadata.yaml": parse_metadata,
    "node-images.yaml": lambda document: read_node_images(document, "openstack"),
}


@pytest.mark.parametrize("file", [*SOUND])
def test_document_with_every_field_is_accepted_by_schema_and_reader(file: str) -> None:
    assert errors(file, SOUND[file]) == []
    READERS[file](SOUND[file])


def places(node: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, below in inner:
        yield from places(below, (*path, key))


def replaced(document: object, path: tuple[str | int, ...], value: object) -> Any:
    if not path:
        return value
    changed: Any = copy.deepcopy(document)
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return changed


VALUES = (None, "", "x", "v1", "1.35.4", ">=1.30 <1.36", ">1.30", "Healthy", "delete", "5m", "m", 0, 1, -1, 1.5, True)


@pytest.mark.hypothesis
@given(st.data())
def test_whatever_a_reader_accepts_its_schema_accepts(data: st.DataObject) -> None:
    file = data.draw(st.sampled_from([*SOUND]))
    path = data.draw(st.sampled_from([*places(SOUND[file])]))
    value: object = data.draw(st.sampled_from([*VALUES, [], {}, [{}], {"x": "1"}]))
    document = replaced(SOUND[file], path, value)
    try:
        READERS[file](document)
    except SpecError:
        return
    if file in LENIENT and re.search(LENIENT[file], ".".join(map(str, path))):
        return

    assert errors(file, document) == [], path


LENIENT = {
    # Unknown keys, or fields whose value no reader of this project uses.
    "csctl.yaml": r"^(apiVersion|config\.provider\.apiVersion)$",
    "clusteraddon.yaml": r"^(apiVersion|clusterAddonVersion|addonStages|.*\.(timeout|\d+))$|waitForPreCondition$",
    "metadata.yaml": "^apiVersion$",
}
"""Places where the schema is stricter: ``csctl lint`` reports unknown keys, and Go csctl needs the API versions."""


@pytest.mark.parametrize("part", ["components", "rules"])
def test_schema_knows_exactly_the_keys_that_the_reader_knows(part: str) -> None:
    with pytest.raises(SpecError, match="unknown field") as refused:
        parse_compatibility(replaced(SOUND["compatibility.yaml"], (part, 0, "unknown"), "x"))

    known = refused.value.message.rpartition("known are ")[2].split(", ")
    assert {*known} == {*SCHEMAS["compatibility.yaml"]["properties"][part]["items"]["properties"]}


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("csctl.yaml", ("config", "kubernetesVersion"), "1.35.x"),
        ("csctl.yaml", ("config", "clusterStackName"), "my_stack"),
        ("csctl.yaml", ("config", "provider"), "openstack"),
        ("csctl.yaml", ("confg",), {}),
        ("stack.yaml", ("kubernetesVersion",), "latest"),
        ("versions.yaml", (0, "kubernetes"), "1.34"),
        ("versions.yaml", (0, "occm"), 2.3),
        ("clusteraddon.yaml", ("addonStages", "AfterControlPlaneInitialised"), []),
        ("clusteraddon.yaml", ("addonStages", "AfterControlPlaneInitialized", 0, "waitForPostCondtion"), {}),
        ("clusteraddon.yaml", ("addonStages", "AfterControlPlaneInitialized", 0, "action"), "install"),
        ("clusteraddon.yaml", ("addonStages", "AfterControlPlaneInitialized", 0, "timeout"), "soon"),
        ("compatibility.yaml", ("kubernetes",), ">= 1.34"),
        ("compatibility.yaml", ("components", 0, "versions"), "1"),
        ("compatibility.yaml", ("rules", 0, "severity"), "deny"),
        ("compatibility.yaml", ("rules", 0, "overrides"), ["a"]),
        ("compatibility.yaml", ("rules", 1, "overrides"), []),
        ("metadata.yaml", ("versions", "clusterStack"), "1"),
        ("node-images.yaml", ("openStackNodeImages",), []),
    ],
    ids=str,
)
def test_schema_refuses_a_broken_file(file: str, path: tuple[str | int, ...], value: object) -> None:
    assert errors(file, replaced(SOUND[file], path, value))


def test_every_field_of_a_schema_has_a_description() -> None:
    def missing(schema: dict[str, Any], path: str) -> Iterator[str]:
        for name, field in schema.get("properties", {}).items():
            if "description" not in field and name != "metadata":
                yield f"{path}.{name}"
            yield from missing(field, f"{path}.{name}")
            yield from missing(field.get("items", {}), f"{path}.{name}[]")

    assert [one for file, schema in SCHEMAS.items() for one in missing(schema, file)] == []


def test_csctl_writes_all_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("schemas", tmp_path, "-o", "json") == 0

    files = json.loads(capsys.readouterr().out)["files"]
    assert {str(Path(file).relative_to(tmp_path)) for file in files} == {*all_schemas()}
    assert all(
        Path(file).read_text() == (ROOT / "schemas" / Path(file).relative_to(tmp_path)).read_text() for file in files
    )


def test_editor_settings_of_the_page_match_the_files_of_a_stack() -> None:
    page = (ROOT / "docs/how-to/use-an-editor.md").read_text()
    settings = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])["yaml.schemas"]  # type: ignore[index]

    assert {Path(schema).name: {*map(Path, globs)} for schema, globs in settings.items()} == {
        schema_file(file): {Path(f"**/{file}")} for file in SCHEMAS
    }
    assert yaml.load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1].encode(), name="page")  # type: ignore[index]
