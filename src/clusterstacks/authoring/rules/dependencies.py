"""The charts that charts depend on: a build must find them, and tomorrow the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.positions import line_of_field
from clusterstacks.authoring.rules.messages import cause_of
from clusterstacks.charts.requirements import lacking, locked
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.authoring.stack_chart import Chart
    from clusterstacks.charts.requirements import ChartRequirement


def readable(stack: LintedStack) -> Iterator[Fault]:
    """Dependencies and lock file can be read and fit together."""
    for chart in stack.charts:
        if chart.metadata is None:
            continue  # it does not render, which says so better
        try:
            locked(chart.files, chart.directory)
            lacking(chart.files, chart.directory)
        except SpecError as error:
            problem, way_out = cause_of(error.message, chart.directory)
            yield Fault(chart.chart_file, _line(chart), problem, way_out or "correct its dependencies")


def unlocked(stack: LintedStack) -> Iterator[Fault]:
    """A dependency that is not in the stack is one exact version."""
    for chart in stack.charts:
        for number, requirement in _lacking(chart):
            if not requirement.exact:
                problem = f"dependency {requirement.name} is whatever version is the newest when a release is built"
                way_out = (
                    f"run helm dependency update {chart.directory} and commit Chart.lock, or write one exact version"
                )
                yield Fault(chart.chart_file, _line(chart, number), problem, way_out)


def unvendored(stack: LintedStack) -> Iterator[Fault]:
    """A chart whose dependencies are left out cannot be looked at."""
    for chart in stack.charts:
        if chart.complete is not None or chart.missing:
            continue
        for number, requirement in _lacking(chart):
            problem = f"dependency {requirement.name} is not in charts/, so {chart.title} is not rendered here"
            yield Fault(chart.chart_file, _line(chart, number), problem, "lint it without --dependencies leave")


def missing(stack: LintedStack) -> Iterator[Fault]:
    """Every dependency can be had."""
    for chart in stack.charts:
        if chart.missing and _lacking(chart):
            way_out = f"run helm dependency build {chart.directory}, or lint with --dependencies leave"
            if chart.unreachable:
                way_out = "check the network and the address; lint with --dependencies leave to leave the chart out"
            yield Fault(chart.chart_file, _line(chart), chart.missing, way_out)


def _lacking(chart: Chart) -> list[tuple[int, ChartRequirement]]:
    """Dependencies that ``charts/`` does not hold, with their places in the list."""
    try:
        absent = lacking(chart.files, chart.directory)
        wanted = list(locked(chart.files, chart.directory))
    except SpecError:
        return []
    return [(number, one) for number, one in enumerate(wanted) if (one.name, one.repository) in _names(absent)]


def _names(requirements: tuple[ChartRequirement, ...]) -> set[tuple[str, str]]:
    return {(one.name, one.repository) for one in requirements}


def _line(chart: Chart, number: int = 0) -> int:
    return line_of_field(chart.content, ("dependencies", number))


RULES = (
    LintRule(
        "dependencies", LintSeverity.ERROR, "Chart dependencies and their lock file can be read and agree.", readable
    ),
    LintRule(
        "dependency-unlocked",
        LintSeverity.WARNING,
        "Every chart dependency is vendored, or one exact version.",
        unlocked,
    ),
    LintRule("dependency-missing", LintSeverity.ERROR, "Every chart dependency can be downloaded.", missing),
    LintRule(
        "dependency-unvendored", LintSeverity.WARNING, "No chart is left out for lack of a dependency.", unvendored
    ),
)
