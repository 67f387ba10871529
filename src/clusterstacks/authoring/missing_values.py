"""Values that the templates of a chart print and that neither values.yaml nor its values template sets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.api import yaml
from clusterstacks.render.missing import RefusedFunctionError, with_checks
from clusterstacks.render.template_syntax import UnreadableActionError, actions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack_chart import Chart

MAX_TEMPLATE_BYTES: Final = 1024 * 1024
"""Largest template looked at (arbitrary: the largest of Cilium has 60 KB)."""

_VALUE: Final = re.compile(r"\$?\.Values\.(\w+(?:\.\w+)*)")
_OPENING: Final = frozenset({"if", "with", "range"})
_GLOBAL: Final = "global"
"""Values that a parent chart may pass on."""


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A value that is not set.

    Args:
        path: The template, below the chart's directory.
        line: Of the action, from 1.
        value: As the template writes it, e.g. ``.Values.zone``.
    """

    path: str
    line: int
    value: str


def missing_values(chart: Chart) -> Iterator[MissingValue]:
    """Find the values that the chart's own templates print without a condition or default, and that are not set."""
    try:
        values = yaml.load(chart.files.get("values.yaml", b""), name="values.yaml")
    except yaml.YamlError:
        return  # rendering says so
    for path, content in sorted(chart.files.items()):
        if path.startswith("templates/") and path.endswith((".yaml", ".yml", ".tpl")):
            for line, value in _printed(content):
                found = _VALUE.fullmatch(value)
                if found and not _is_set(found[1].split("."), values, chart.values_template):
                    yield MissingValue(path, line, value)


def _printed(content: bytes) -> list[tuple[int, str]]:
    """List the values that are printed where nothing asked before whether they exist."""
    if len(content) > MAX_TEMPLATE_BYTES:
        return []
    try:
        text = content.decode()
        _, checks = with_checks(text)
        guards = _guards(text)
    except (UnicodeDecodeError, RefusedFunctionError, UnreadableActionError):
        return []  # other rules say so, or values cannot be found in it
    return [(one.line, one.value) for one in checks if not _is_guarded(one.value, guards.get(one.action, ()))]


def _guards(text: str) -> dict[str, tuple[str, ...]]:
    """Return the conditions around each action, by its text; of equal actions those of the least guarded."""
    found: dict[str, tuple[str, ...]] = {}
    open_conditions: list[str] = []
    for action in actions(text):
        written = text[action.start : action.end]
        if action.keyword in _OPENING | {"define", "block"}:
            open_conditions.append(written if action.keyword in _OPENING else "")
        elif action.keyword == "end" and open_conditions:
            open_conditions.pop()
        elif written not in found or len(found[written]) > len(open_conditions):
            found[written] = tuple(open_conditions)
    return found


def _is_guarded(value: str, conditions: tuple[str, ...]) -> bool:
    path = value.removeprefix("$")
    steps = path.split(".")
    # A condition on .Values.a also guards .Values.a.b.
    prefixes = [".".join(steps[:length]) for length in range(3, len(steps) + 1)]
    return any(re.search(rf"{re.escape(one)}(?!\w)", condition) for condition in conditions for one in prefixes)


def _is_set(steps: list[str], values: object, template: bytes) -> bool:
    if steps[0] == _GLOBAL or re.search(rf"(?m)^[ \t]*['\"]?{steps[0]}['\"]?[ \t]*:".encode(), template):
        return True  # what a values template sets below the key depends on the cluster
    for step in steps:
        if not isinstance(values, dict) or step not in values:
            return False
        values = values[step]
    return True
