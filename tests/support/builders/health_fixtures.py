"""Objects of known health, and variants of them with fields that are missing or have the wrong type."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "unit" / "deliver" / "apply" / "health"
"""One file for each kind."""

WRONG: tuple[Any, ...] = (None, "", "x", "True", 0, 1, -1, 7, 2**63, 1.5, True, [], [None], ["x"], [{}], {}, {"a": 1})
"""Values that take the place of every field."""

_IDENTITY = ("apiVersion", "kind")


@dataclass(frozen=True)
class HealthCase:
    """An object and its health."""

    name: str
    health: str
    reason: str
    object: dict[str, Any]


def health_cases() -> list[HealthCase]:
    """Read the cases of all kinds."""
    return [
        HealthCase(f"{file.stem}: {case['case']}", case["health"], case["reason"], case["object"])
        for file in sorted(FOLDER.glob("*.yaml"))
        for case in yaml.safe_load(file.read_text())
    ]


def variants(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the object without each of its fields, and with each wrong value in its place."""
    for path in _paths(manifest):
        if path[0] in _IDENTITY:
            continue
        yield _changed(manifest, path, ())
        for value in WRONG:
            yield _changed(manifest, path, (value,))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from _paths(member, (*path, key))


def _changed(manifest: dict[str, Any], path: tuple[Any, ...], value: tuple[Any, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(manifest)
    parent: Any = changed
    for key in path[:-1]:
        parent = parent[key]
    if value:
        parent[path[-1]] = value[0]
    else:
        del parent[path[-1]]
    return changed
