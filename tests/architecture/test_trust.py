"""docs/reference/trust.md decides, for each writer and each field that the operator reads, what he can cause.

The fields are made from the source, so that a new one fails here until it is in the page. Modules and tests that the
page and SECURITY.md name must exist.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from clusterstacks.model import yaml
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.meta import ObjectMeta
from clusterstacks.model.kinds.names import Kind
from clusterstacks.operator.rbac import READ, RIGHTS, TAKE_OVER_RIGHTS
from deploy.manifests import INSTALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/clusterstacks"
ROOMS = ("model", "net", "runtime", "release", "plan", "deliver", "operator")
"""The rooms of the operator's image."""

WRITERS = ("cluster user", "namespace edit", "provider", "registry owner", "workload admin")
ROLES = {"namespace edit": ("edit",), "provider": ("admin", "edit")}
"""The roles of the chart that a writer has."""
BOUNDARIES = {"author", "registry", "provider", "user", "workload cluster", "local user", "network"}
NOTHING = "nothing: "
"""Begins the cell of a field without an effect, which needs neither check nor test."""

KEY = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._-]*")
API_VERSION = re.compile(r".*/v\d+((alpha|beta)\d+)?")
FILE = re.compile(r"[a-z-]+\.(yaml|json)|\.dsse\.json")
READERS = {"at", "text", "mapping", "mappings"}
"""Functions of ``model.documents`` that read a field by its path."""
READING = ("model/kinds", "operator")
"""Packages that read objects of the management cluster; each reads some of any kind."""


class Field(NamedTuple):
    """A row about some fields of an object."""

    names: tuple[str, ...]
    effect: str
    checks: tuple[str, ...]
    tests: tuple[str, ...]


@cache
def sections(page: str = "docs/reference/trust.md") -> dict[str, list[list[str]]]:
    """Return the rows of the table in each section of a page, without the head."""
    parts = iter(re.split(r"^## (.+)$", (ROOT / page).read_text(), flags=re.MULTILINE)[1:])
    rows = {title: re.findall(r"^\| (.*) \|$", text, re.MULTILINE) for title, text in zip(parts, parts, strict=True)}
    return {title: [[cell.strip() for cell in row.split("|")] for row in lines[1:]] for title, lines in rows.items()}


def quoted(cell: str) -> tuple[str, ...]:
    """Return the names in a cell; ``spec.{a,b}`` is two."""
    return tuple(name for text in re.findall(r"`([^`]+)`", cell) for name in spread(text))


def spread(text: str) -> Iterator[str]:
    before, brace, rest = text.partition(".{")
    if not brace:
        return iter((text,))
    inner, _, after = rest.rpartition("}")
    return (f"{before}.{one}{after}" for one in inner.split(","))


def writers() -> dict[str, frozenset[str]]:
    """Return the writers of each object."""
    return {
        name: frozenset(writer for writer, cell in zip(WRITERS, cells, strict=True) if cell)
        for name, _, *cells in sections()["Objects"]
    }


TITLES = (*writers(), "Metadata of our kinds")
"""The sections with fields, one for each object."""


def fields(title: str) -> list[Field]:
    return [
        Field(quoted(names) or (names,), effect, quoted(checks), quoted(tests))
        for names, effect, checks, tests in sections()[title]
    ]


def decided() -> set[str]:
    return {name for title in TITLES for row in fields(title) for name in row.names}


def other_names() -> set[str]:
    """Return the names in the source that nobody else can write."""
    return {name for names, _ in sections()["Names of nobody else"] for name in quoted(names)}


@cache
def strings() -> frozenset[str]:
    return frozenset(_strings())


def _strings() -> Iterator[str]:
    """Yield the texts in the source of the operator that are no documentation."""
    for room in ROOMS:
        for file in sorted((SOURCE / room).rglob("*.py")):
            tree = ast.parse(file.read_text())
            documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                    yield node.value


def paths() -> Iterator[str]:
    """Yield the paths of fields that are read of objects, from the object or from a part of it."""
    for package in READING:
        for file in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
                    steps = [one.value for one in node.args[1:] if isinstance(one, ast.Constant)]
                    if steps and (steps[0] in ("spec", "metadata") or file.name == "clusterapi.py"):
                        yield ".".join(map(str, steps))


def leaves(schema: Manifest, path: str) -> Iterator[str]:
    """Yield the fields of a schema; ``[]`` stands for the items of a list, ``{}`` for the values of a map."""
    if "properties" in schema:
        for name, part in schema["properties"].items():
            yield from leaves(part, f"{path}.{name}")
    elif "items" in schema:
        yield from leaves(schema["items"], f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from leaves(schema["additionalProperties"], f"{path}{{}}")
    else:
        yield path


def about(path: str, field: str) -> bool:
    """Return whether a path that the source reads is, contains or is the end of a field of the page."""
    return (
        path == field
        or field.startswith((f"{path}.", f"{path}["))
        or f".{field}".endswith(f".{path}")
        or path.startswith(f"{field}.")
    )


@pytest.mark.parametrize("definition", all_crds(), ids=lambda crd: crd["spec"]["names"]["kind"])
def test_every_field_of_our_kinds_is_decided(definition: Manifest) -> None:
    kind = definition["spec"]["names"]["kind"]
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]

    listed = [name for row in fields(kind) for name in row.names if name.startswith("spec.")]
    assert sorted(listed) == sorted(leaves(schema["spec"], "spec"))
    assert {*schema} <= {"apiVersion", "kind", "metadata", "spec", "status"}


def test_every_field_of_metadata_is_decided() -> None:
    aliases = {field.alias or name for name, field in ObjectMeta.model_fields.items()}
    listed = [name for row in fields("Metadata of our kinds") for name in row.names]
    assert sorted(listed) == sorted(f"metadata.{alias}" for alias in aliases)


def test_every_annotation_label_and_type_of_secret_is_decided() -> None:
    found = {text for text in strings() if KEY.fullmatch(text) and not API_VERSION.fullmatch(text)}
    unread = other_names()
    listed = {name for name in decided() | unread if KEY.fullmatch(name)}

    assert found - listed == set(), "decide what their writers can cause"
    assert listed - found == set(), "they are not in the source"
    assert decided() & unread == set()


def test_every_field_that_is_read_of_an_object_is_decided() -> None:
    known = decided()
    assert [path for path in sorted({*paths()}) if not any(about(path, field) for field in known)] == []


def test_every_file_of_a_release_is_decided() -> None:
    found = {text for text in strings() if FILE.fullmatch(text)}
    listed = {name for row in fields("Release") for name in row.names}
    assert found - listed - other_names() == set()


def test_every_kind_that_the_operator_may_read_is_decided() -> None:
    read = {
        (".".join(filter(None, (resource, right.group))), f" ({right.scope})" if resource == "secrets" else "")
        for right in (*RIGHTS, *TAKE_OVER_RIGHTS)
        for resource in right.resources
        if {*right.verbs} & {*READ}
    }
    cells = [cell for _, cell, *_ in sections()["Objects"]]
    assert sorted(f"`{name}`{where}" for name, where in read) == sorted(
        one for cell in cells if cell for one in cell.split(", ")
    )


def test_the_writers_of_our_kinds_are_those_of_the_roles() -> None:
    granted: dict[str, set[str]] = {}
    for manifest in yaml.load_all(INSTALL.read_text(), name=INSTALL.name):
        role = manifest["metadata"]["name"].rpartition("-")[2]
        if manifest["kind"] == "ClusterRole" and f"rbac.authorization.k8s.io/aggregate-to-{role}" in (
            manifest["metadata"].get("labels") or {}
        ):
            for rule in manifest["rules"]:
                assert {*rule["apiGroups"]} <= {kind.group for kind in Kind}
                if {*rule["verbs"]} - {*READ}:
                    granted.setdefault(role, set()).update(rule["resources"])
    kinds = {crd["spec"]["names"]["kind"]: crd["spec"]["names"]["plural"] for crd in all_crds()}

    assert {*granted} == {"edit", "admin"}
    for kind, plural in kinds.items():
        expected = {writer for writer, roles in ROLES.items() if any(plural in granted[role] for role in roles)}
        assert writers()[kind] == expected, kind
    assert [plural for plurals in granted.values() for plural in plurals if "/" in plural or "*" in plural] == []


def test_every_pair_of_writer_and_field_has_a_check_and_a_test() -> None:
    """A pair is decided by RBAC, which forbids the write, or by a row with a check at the place of use and a test."""
    pairs = list(product(WRITERS, (row for title in TITLES for row in fields(title) for _ in row.names)))
    assert len(pairs) > 800  # the tables were found
    open_rows = {
        row.names
        for _, row in pairs
        if not row.effect or (not (row.checks and row.tests) and not row.effect.startswith(NOTHING))
    }
    assert open_rows == set()


def test_checks_and_tests_of_the_pages_exist() -> None:
    boundaries = sections("SECURITY.md")["Trust boundaries"]
    cells = [(quoted(checks), quoted(tests)) for _, _, checks, tests in boundaries]
    assert {boundary for boundary, *_ in boundaries} == BOUNDARIES
    assert all(checks and tests for checks, tests in cells)

    cells += [(row.checks, row.tests) for title in TITLES for row in fields(title)]
    checks, tests = ({name for names in column for name in names} for column in zip(*cells, strict=True))
    assert [check for check in sorted(checks) if not exists(check)] == []
    assert [test for test in sorted(tests) if not is_test(test)] == []


def exists(name: str) -> bool:
    """Return whether a module, class, function or method exists."""
    parts = f"clusterstacks.{name}".split(".")
    depth = max(
        end
        for end in range(1, len(parts) + 1)
        if (place := SOURCE.parent.joinpath(*parts[:end])).is_dir() or place.with_suffix(".py").exists()
    )
    found: object = import_module(".".join(parts[:depth]))
    for attribute in parts[depth:]:
        found = getattr(found, attribute, None)
    return found is not None


def is_test(name: str) -> bool:
    """Return whether ``file::function`` is a test."""
    file, _, function = name.partition("::")
    path = ROOT / "tests" / file
    if not path.is_file() or not function.startswith("test_"):
        return False
    return re.search(rf"^(async )?def {function}\(", path.read_text(), re.MULTILINE) is not None
