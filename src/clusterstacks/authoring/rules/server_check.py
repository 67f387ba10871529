"""What a management cluster says to the objects of the class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.positions import line_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack


def refused(stack: LintedStack) -> Iterator[Fault]:
    """The server takes every object of the class."""
    chart = stack.class_chart
    for refusal in stack.refusals if chart else ():
        path = chart.place(refusal.path) if chart else refusal.path
        line = line_of_text(stack.content(path), f"name: {refusal.name}", f"kind: {refusal.kind}")
        problem = f"the management cluster refuses {refusal.kind} {refusal.name}: {refusal.problem}"
        yield Fault(path, line, problem, refusal.way_out)


RULES = (
    LintRule(
        "server", LintSeverity.ERROR, "A management cluster takes the class's objects (only with --against).", refused
    ),
)
