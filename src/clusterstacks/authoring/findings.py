"""What lint finds: a fault is where and what, a finding also says by which rule and how bad it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import yaml as pyyaml

from clusterstacks.api import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clusterstacks.authoring.stack import LintedStack


class LintSeverity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """The release would not be built, or would not work."""
    WARNING = "warning"
    """It works, but not for ever or not as its author may think."""


@dataclass(frozen=True, slots=True, order=True)
class LintProblem:
    """One thing that is wrong.

    Args:
        path: The file, relative to the stack directory.
        line: Counted from 1; 1 as well where only the file is known.
        message: What is wrong.
        remedy: What to do about it.
    """

    path: str
    line: int
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, order=True)
class LintFinding:
    """A fault that a rule found."""

    problem: LintProblem
    rule: str
    severity: LintSeverity


@dataclass(frozen=True, slots=True)
class LintRule:
    """One thing lint looks at.

    Args:
        id: Its stable name, e.g. ``chart-name``.
        severity: Of everything it finds.
        summary: What it asks of a stack, one sentence.
        check: Finds the faults of a stack; never raises, whatever the files hold.
    """

    id: str
    severity: LintSeverity
    summary: str
    check: Callable[[LintedStack], Iterable[LintProblem]]

    def findings(self, stack: LintedStack) -> list[LintFinding]:
        """Apply the rule."""
        return [LintFinding(problem, self.id, self.severity) for problem in self.check(stack)]


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_COMPLAINT_FIELD = re.compile(r"^[^:]+: ([^\s:]+)(?::| is) ")
_COMPLAINT_LINE = re.compile(r", line (\d+):")


def line_of_field(content: bytes, path: Sequence[str | int]) -> int:
    """Find a field of a YAML file; the deepest part of the path that is there, and 1 in a file that is no YAML."""
    try:
        node = yaml.compose(content)
    except yaml.YamlError:
        return 1
    line = 1
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return line


def line_of_text(content: bytes, *needles: str) -> int:
    """Find the first line that holds the first of the texts that is anywhere in the file, else 1."""
    for needle in needles:
        at = content.find(needle.encode(errors="replace"))
        if at >= 0:
            return content.count(b"\n", 0, at) + 1
    return 1


def line_of_error(content: bytes, message: str) -> int:
    """Find the line an error of ``domain.documents`` or ``api.yaml`` speaks of."""
    if line := _COMPLAINT_LINE.search(message):
        return int(line[1])
    field = _COMPLAINT_FIELD.match(message)
    return line_of_field(content, steps(field[1])) if field else 1


def steps(field: str) -> list[str | int]:
    """Take ``addonStages.AfterClusterUpgrade[0].name`` apart."""
    return [int(index) if index else name for name, index in _STEP.findall(field)]


def _child(node: pyyaml.Node | None, step: str | int) -> tuple[int, pyyaml.Node] | None:
    if isinstance(node, pyyaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, pyyaml.ScalarNode) and key.value == step:
                return key.start_mark.line + 1, value
    if isinstance(node, pyyaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item: pyyaml.Node = node.value[step]
        return item.start_mark.line + 1, item
    return None


_FILE = re.compile(r"[^\s:,]+")
_PLACE = re.compile(r"^[:,\s]*(?:line \d+: )?")


def problem_of_error(stack: LintedStack, message: str, file: str, remedy: str) -> LintProblem:
    """Place an error in the file it names, or in ``file``; the message keeps the way out it has, if it has one."""
    named = _FILE.match(message)
    path = named[0] if named and named[0] in stack.tree else file
    problem, told = split_message(message, path)
    return LintProblem(path, line_of_error(stack.content(path), message), problem, told or remedy)


def split_message(message: str, place: str) -> tuple[str, str]:
    """Split an error into what is wrong and the way out; the latter is empty where the error has none.

    Errors read ``<file>: <field> is <what was found>: <way out>`` or ``<file>, line <number>: <problem>``.
    """
    rest = _PLACE.sub("", message.removeprefix(place), count=1)
    start = max(rest.find(" is "), 0)
    problem, _, remedy = rest[start:].partition(": ")
    return rest[:start] + problem, remedy
