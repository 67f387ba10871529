"""What lint finds: a fault is where and what, a finding also says by which rule and how bad it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clusterstacks.authoring.stack import LintedStack


class LintSeverity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """The release would not be built, or would not work."""
    WARNING = "warning"
    """It works, but not for ever or not as its author may think."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong.

    Args:
        path: The file, relative to the stack directory.
        line: Counted from 1; 1 as well where only the file is known.
        message: What is wrong.
        way_out: What to do about it.
    """

    path: str
    line: int
    message: str
    way_out: str


@dataclass(frozen=True, slots=True, order=True)
class LintFinding:
    """A fault that a rule found."""

    fault: Fault
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
    check: Callable[[LintedStack], Iterable[Fault]]

    def findings(self, stack: LintedStack) -> list[LintFinding]:
        """Apply the rule."""
        return [LintFinding(fault, self.id, self.severity) for fault in self.check(stack)]
