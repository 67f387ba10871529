"""A fixture is imported by a conftest.py only: pytest makes a new one for each module that imports it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax trees of all test files."""
    return {path: ast.parse(path.read_bytes()) for path in sorted(TESTS.rglob("*.py"))}


def is_fixture(node: ast.stmt) -> bool:
    """Return whether a statement of a module defines a fixture."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any(isinstance(one, ast.Attribute) and one.attr == "fixture" for one in decorators)


def test_session_fixtures_are_made_once() -> None:
    fixtures = {
        (".".join(path.relative_to(TESTS.parent).with_suffix("").parts), node.name)
        for path, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_fixture(node)
    }
    imported = {
        (node.module, alias.name): path.name
        for path, tree in trees().items()
        if path.name != "conftest.py"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert ("tests.support.servers.registries", "registry") in fixtures
    assert {fixture: path for fixture, path in imported.items() if fixture in fixtures} == {}
