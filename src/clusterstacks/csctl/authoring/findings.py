"""Lint rules, problems and findings, and the positions of problems in files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import yaml as pyyaml

from clusterstacks.model import yaml
from clusterstacks.model.documents import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from clusterstacks.csctl.authoring.stack import LintedStack
    from clusterstacks.model.errors import SpecError


class LintSeverity(StrEnum):
    """Severity of a rule and of its findings."""

    ERROR = "error"
    """The release would not be built, or would not work."""
    WARNING = "warning"
    """The release works, but may break later or behave unexpectedly."""


@dataclass(frozen=True, slots=True, order=True)
class LintProblem:
    """A problem in a file of a stack, and how to fix it."""

    path: str
    """The file, relative to the stack directory."""
    line: int
    """Counted from 1; 1 if only the file is known."""
    message: str
    """The problem, without file and line."""
    remedy: str


@dataclass(frozen=True, slots=True, order=True)
class LintFinding:
    """A problem, with the rule that it violates."""

    problem: LintProblem
    rule: str
    severity: LintSeverity


@dataclass(frozen=True, slots=True)
class LintRule:
    """A requirement on stacks, and how it is checked."""

    id: str
    """Its stable name, e.g. ``chart-name``."""
    severity: LintSeverity
    summary: str
    """The requirement, as one sentence."""
    check: Callable[[LintedStack], Iterable[LintProblem]]
    """Returns the problems of a stack; never raises, whatever the files contain."""

    def findings(self, stack: LintedStack) -> list[LintFinding]:
        """Return the problems of a stack with the name and severity of this rule."""
        return [LintFinding(problem, self.id, self.severity) for problem in self.check(stack)]


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_FIELD_IN_MESSAGE = re.compile(r"^[^:]+: ([^\s:]+)(?::| is) ")
_LINE_IN_MESSAGE = re.compile(r", line (\d+):")


def line_of_field(content: bytes, path: Sequence[str | int]) -> int:
    """Return the line of a field: of the deepest existing part of its path; 1 in a file that is not valid YAML."""
    try:
        node = yaml.compose(content)
    except yaml.YamlError:
        return 1
    line = 1
    for step in path:
        child = _child(node, step)
        if child is None:
            break
        line, node = child
    return line


def line_of_text(content: bytes, *needles: str) -> int:
    """Return the first line with the first of the texts that the file contains; 1 if it contains none."""
    for needle in needles:
        at = content.find(needle.encode(errors="replace"))
        if at >= 0:
            return content.count(b"\n", 0, at) + 1
    return 1


def line_of_error(content: bytes, message: str) -> int:
    """Return the line that a message of ``model.documents`` or ``model.yaml`` names."""
    if line := _LINE_IN_MESSAGE.search(message):
        return int(line[1])
    field = _FIELD_IN_MESSAGE.match(message)
    return line_of_field(content, steps(field[1])) if field else 1


def steps(field: str) -> list[str | int]:
    """Split a field path such as ``addonStages.AfterClusterUpgrade[0].name``."""
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
    """Return the problem of an error message about ``file``.

    The message may begin with the name of another file of the stack, and contain a remedy: both are then used instead.
    """
    named = _FILE.match(message)
    path = named[0] if named and named[0] in stack.tree else file
    problem, own_remedy = split_message(message, path)
    return LintProblem(path, line_of_error(stack.content(path), message), problem, own_remedy or remedy)


def problems_of_error(stack: LintedStack, error: SpecError, file: str, remedy: str) -> Iterator[LintProblem]:
    """Yield a problem for each fault of an error; the parameters are those of :func:`problem_of_error`."""
    for message in error.faults if isinstance(error, DocumentError) else (error.message,):
        yield problem_of_error(stack, message, file, remedy)


def split_message(message: str, place: str) -> tuple[str, str]:
    """Split a message into problem and remedy; the remedy is empty if the message has none.

    Messages have the form ``<file>: <field> is <value>: <remedy>`` or ``<file>, line <number>: <problem>``.
    """
    rest = _PLACE.sub("", message.removeprefix(place), count=1)
    start = max(rest.find(" is "), 0)
    problem, _, remedy = rest[start:].partition(": ")
    return rest[:start] + problem, remedy
