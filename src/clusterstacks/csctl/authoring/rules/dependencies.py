"""Rules for chart dependencies: a build finds them, and a later build finds the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.findings import LintProblem, LintRule, LintSeverity, line_of_field, split_message
from clusterstacks.model.errors import SpecError
from clusterstacks.release.charts.dependencies import lacking, locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedChart, LintedStack
    from clusterstacks.release.charts.dependencies import ChartRequirement


def readable(stack: LintedStack) -> Iterator[LintProblem]:
    """Report dependencies and lock files that are not valid, or do not agree."""
    for chart in stack.charts:
        if chart.metadata is None:
            continue  # ``chart-renders`` reports it
        try:
            locked(chart.files, chart.directory)
            lacking(chart.files, chart.directory)
        except SpecError as error:
            problem, remedy = split_message(error.message, chart.directory)
            yield LintProblem(
                chart.chart_file, _line(chart), problem, remedy or "correct the dependencies of the chart"
            )


def unlocked(stack: LintedStack) -> Iterator[LintProblem]:
    """Report dependencies that are neither vendored nor have one exact version."""
    for chart in stack.charts:
        for number, requirement in _lacking(chart):
            if not requirement.exact:
                problem = f"dependency {requirement.name} is not pinned: each build uses the newest matching version"
                remedy = (
                    f"run helm dependency update {chart.directory} and commit Chart.lock, or write one exact version"
                )
                yield LintProblem(chart.chart_file, _line(chart, number), problem, remedy)


def unvendored(stack: LintedStack) -> Iterator[LintProblem]:
    """Report charts that are skipped because a dependency is missing."""
    for chart in stack.charts:
        if chart.complete is not None or chart.missing:
            continue
        for number, requirement in _lacking(chart):
            problem = f"dependency {requirement.name} is not in charts/, so {chart.title} is not rendered here"
            yield LintProblem(chart.chart_file, _line(chart, number), problem, "lint it without --dependencies leave")


def missing(stack: LintedStack) -> Iterator[LintProblem]:
    """Report dependencies that cannot be downloaded."""
    for chart in stack.charts:
        if chart.missing and _lacking(chart):
            remedy = f"run helm dependency build {chart.directory}, or skip the chart with --dependencies leave"
            if chart.unreachable:
                remedy = "check the network and the address, or skip the chart with --dependencies leave"
            yield LintProblem(chart.chart_file, _line(chart), chart.missing, remedy)


def _lacking(chart: LintedChart) -> list[tuple[int, ChartRequirement]]:
    """Return the dependencies that are not in ``charts/``, with their indexes in the list."""
    try:
        absent = {(requirement.name, requirement.repository) for requirement in lacking(chart.files, chart.directory)}
        wanted = list(locked(chart.files, chart.directory))
    except SpecError:
        return []
    return [
        (number, requirement)
        for number, requirement in enumerate(wanted)
        if (requirement.name, requirement.repository) in absent
    ]


def _line(chart: LintedChart, number: int = 0) -> int:
    return line_of_field(chart.content, ("dependencies", number))


RULES = (
    LintRule(
        "dependencies", LintSeverity.ERROR, "Chart dependencies and their lock file are valid and agree.", readable
    ),
    LintRule(
        "dependency-unlocked",
        LintSeverity.WARNING,
        "Every chart dependency is vendored or has one exact version.",
        unlocked,
    ),
    LintRule("dependency-missing", LintSeverity.ERROR, "Every chart dependency can be downloaded.", missing),
    LintRule(
        "dependency-unvendored",
        LintSeverity.WARNING,
        "No chart is skipped because a dependency is missing.",
        unvendored,
    ),
)
