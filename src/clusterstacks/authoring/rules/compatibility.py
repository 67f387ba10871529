"""compatibility.yaml (FORMATS 17), where a stack has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.authoring.findings import Fault, Rule, Severity
from clusterstacks.authoring.lines import line_of_field
from clusterstacks.authoring.rules.complaints import fault_of
from clusterstacks.domain.compatibility import FILE, parse_compatibility
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import Stack
    from clusterstacks.domain.compatibility import Compatibility


def readable(stack: Stack) -> Iterator[Fault]:
    """The file can be read."""
    try:
        _read(stack)
    except SpecError as error:
        yield fault_of(stack, error.message, FILE, "write it as the formats say")


def complete(stack: Stack) -> Iterator[Fault]:
    """Every addon's versions are stated, and every addon that is stated is there."""
    try:
        stated = _read(stack)
    except SpecError:
        return
    if stated is None:
        return
    named = set(stated.addons())
    there = {chart.addon for chart in stack.addons}
    for addon in sorted(there - named):
        yield Fault(FILE, 1, f"says nothing of addon {addon}", f"add a component with addon: {addon}")
    for addon in sorted(named - there):
        yield Fault(FILE, 1, f"names addon {addon}, which has no chart", "correct the name, or drop it")


def own_version(stack: Stack) -> Iterator[Fault]:
    """The stack's own Kubernetes version lies in the range it states."""
    try:
        stated = _read(stack)
    except SpecError:
        return
    if stated is None or stack.settings is None:
        return
    kubernetes = stack.settings.kubernetes
    if not stated.kubernetes.holds((kubernetes.major, kubernetes.minor, kubernetes.patch), kubernetes.pre):
        line = line_of_field(stack.content(FILE), ("kubernetes",))
        problem = f"states the range {stated.kubernetes}, and the stack is made for {kubernetes}"
        yield Fault(FILE, line, problem, "widen the range, or correct the stack's Kubernetes version")


def _read(stack: Stack) -> Compatibility | None:
    if FILE not in stack.tree:
        return None
    return parse_compatibility(yaml.load(stack.content(FILE), name=FILE))


RULES = (
    Rule("compatibility", Severity.ERROR, "compatibility.yaml can be read.", readable),
    Rule("compatibility-addons", Severity.ERROR, "compatibility.yaml names every addon, and no other.", complete),
    Rule(
        "compatibility-kubernetes", Severity.ERROR, "compatibility.yaml's range holds the stack's version.", own_version
    ),
)
