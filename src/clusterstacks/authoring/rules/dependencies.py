"""The charts that charts depend on: a build must find the same ones tomorrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.reading import text
from clusterstacks.authoring.findings import Fault, Rule, Severity
from clusterstacks.authoring.lines import line_of_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import Chart, Stack
    from clusterstacks.domain.objects import Manifest

LOCK_FILE = "Chart.lock"


def unlocked(stack: Stack) -> Iterator[Fault]:
    """A dependency that is not in the stack is at least named by its exact version in a lock file."""
    for chart in stack.charts:
        for dependency in chart.unvendored:
            if LOCK_FILE not in chart.files:
                problem = f"dependency {text(dependency, 'name')} is neither in charts/ nor in {LOCK_FILE}"
                way_out = f"run helm dependency update {chart.directory} and commit {LOCK_FILE}"
                yield Fault(chart.chart_file, _line(chart, dependency), problem, way_out)


def unvendored(stack: Stack) -> Iterator[Fault]:
    """What is locked but not in the stack must be downloaded by every build, and is not looked at here."""
    for chart in stack.charts:
        for dependency in chart.unvendored:
            if LOCK_FILE in chart.files:
                problem = (
                    f"dependency {text(dependency, 'name')} is not in charts/, so {chart.title} is not rendered here"
                )
                way_out = f"csctl create downloads it; to lint it too, run helm dependency build {chart.directory}"
                yield Fault(chart.chart_file, _line(chart, dependency), problem, way_out)


def _line(chart: Chart, dependency: Manifest) -> int:
    return line_of_field(chart.content, ("dependencies", chart.dependencies.index(dependency)))


RULES = (
    Rule("dependency-unlocked", Severity.WARNING, "Every chart dependency is vendored or locked.", unlocked),
    Rule("dependency-unvendored", Severity.WARNING, "Every chart dependency is in charts/.", unvendored),
)
