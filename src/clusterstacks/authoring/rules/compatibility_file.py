"""compatibility.yaml (FORMATS 17), where a stack has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.authoring.detect_components import clues
from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.positions import line_of_field
from clusterstacks.authoring.read_compat import stated_in
from clusterstacks.authoring.rules.messages import fault_of
from clusterstacks.compat.library import facts
from clusterstacks.domain.compatibility import FILE
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.domain.compatibility import Compatibility


def readable(stack: LintedStack) -> Iterator[Fault]:
    """The file can be read."""
    try:
        stated_in(stack)
    except SpecError as error:
        yield fault_of(stack, error.message, FILE, "write it as the formats say")


def complete(stack: LintedStack) -> Iterator[Fault]:
    """Every addon's versions are stated, and every addon that is stated is there."""
    stated = _readable(stack)
    if stated is None:
        return
    named = set(stated.addons())
    there = {chart.addon for chart in stack.addons}
    for addon in sorted(there - named):
        yield Fault(FILE, 1, f"says nothing of addon {addon}", f"add a component with addon: {addon}")
    for addon in sorted(named - there):
        yield Fault(FILE, 1, f"names addon {addon}, which has no chart", "correct the name, or drop it")


def own_version(stack: LintedStack) -> Iterator[Fault]:
    """The stack's own Kubernetes version lies in the range it states."""
    stated = _readable(stack)
    if stated is None or stack.settings is None:
        return
    kubernetes = stack.settings.kubernetes
    if not stated.kubernetes.holds((kubernetes.major, kubernetes.minor, kubernetes.patch), kubernetes.pre):
        line = line_of_field(stack.content(FILE), ("kubernetes",))
        problem = f"states the range {stated.kubernetes}, and the stack is made for {kubernetes}"
        yield Fault(FILE, line, problem, "widen the range, or correct the stack's Kubernetes version")


def known_names(stack: LintedStack) -> Iterator[Fault]:
    """A component whose range is not stated is one that facts are known about; so is what others require."""
    stated = _readable(stack)
    if stated is None:
        return
    known = facts().components
    for at, one in enumerate(stated.components):
        if one.kubernetes is None and one.name not in known:
            line = line_of_field(stack.content(FILE), ("components", at, "name"))
            yield Fault(FILE, line, f"nothing is known about {one.name}", "state its kubernetes, or correct the name")
    there = {one.name for one in stated.components}
    for at, one in enumerate(stated.components):
        for other in sorted(one.requires.keys() - there - known.keys()):
            line = line_of_field(stack.content(FILE), ("components", at, "requires", other))
            yield Fault(FILE, line, f"{one.name} requires {other}, which nobody knows", "correct the name")


def versions(stack: LintedStack) -> Iterator[Fault]:
    """The version of a component is the one its chart names."""
    stated = _readable(stack)
    if stated is None:
        return
    try:
        told = {(one.addon, one.name): one for one in clues(stack, facts()) if one.certain}
    except SpecError:
        return  # a chart's dependencies cannot be read, which another rule says
    for at, one in enumerate(stated.components):
        clue = told.get((one.addon, one.name))
        if clue is not None and SemVer.parse(clue.version) != one.version:
            line = line_of_field(stack.content(FILE), ("components", at, "version"))
            problem = f"says {one.name} {one.text}, and {clue.told} says {clue.version}"
            yield Fault(FILE, line, problem, f"write version: {clue.version}")


def _readable(stack: LintedStack) -> Compatibility | None:
    """Read the file; None where there is none, or none that can be read, which another rule says."""
    try:
        return stated_in(stack)
    except SpecError:
        return None


RULES = (
    LintRule("compatibility", LintSeverity.ERROR, "compatibility.yaml can be read.", readable),
    LintRule(
        "compatibility-addons", LintSeverity.ERROR, "compatibility.yaml names every addon, and no other.", complete
    ),
    LintRule(
        "compatibility-kubernetes",
        LintSeverity.ERROR,
        "compatibility.yaml's range holds the stack's version.",
        own_version,
    ),
    LintRule(
        "compatibility-name", LintSeverity.WARNING, "Every component has a range, its own or a known one.", known_names
    ),
    LintRule(
        "compatibility-version", LintSeverity.WARNING, "Components have the versions their charts name.", versions
    ),
)
