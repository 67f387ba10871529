"""Rules for csctl.yaml, stack.yaml and versions.yaml, and for the names that follow from them."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.findings import (
    LintProblem,
    LintRule,
    LintSeverity,
    line_of_field,
    line_of_text,
    problem_of_error,
)
from clusterstacks.csctl.building.packaging import leftover_version
from clusterstacks.csctl.building.pinning import without_dependency
from clusterstacks.csctl.building.settings import CSCTL, STACK, VERSIONS
from clusterstacks.model.documents import at, shown
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedStack


def settings(stack: LintedStack) -> Iterator[LintProblem]:
    """Report settings that are not valid, or whose names are not allowed in the name of a release."""
    if problem := stack.settings_problem:
        yield problem_of_error(stack, problem, CSCTL, "correct it; csctl init writes an example")


def addon_versions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report addon versions of a Kubernetes version that cannot be set."""
    if problem := stack.pinning_problem:
        yield problem_of_error(stack, problem, STACK, "list dependencies of the addon charts, with versions that exist")


def idle_versions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report versions in the settings that have no effect."""
    if stack.settings is None:
        return
    if stack.settings.unlisted is not None:
        file = stack.settings.addons_file
        problem = (
            f"names Kubernetes {stack.settings.unlisted}, but {file} {stack.settings.kubernetes} for the same minor"
        )
        line = line_of_text(stack.content(CSCTL), "kubernetesVersion:")
        yield LintProblem(
            CSCTL,
            line,
            problem,
            "csctl create builds the first, with --kubernetes the second: write the same version in both",
        )
    if not stack.pinning_problem:
        for key in without_dependency(stack.tree, stack.settings):
            path = stack.settings.addons_file
            problem = f"{key} is not a dependency of an addon, so it has no effect"
            line = line_of_text(stack.content(path), f"{key}:")
            yield LintProblem(path, line, problem, "correct its name, or keep it if another program reads it")


def left_versions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a Kubernetes version of another release of the same directory in the class."""
    if stack.settings is None:
        return
    try:
        leftover = leftover_version(stack.tree, stack.settings.kubernetes, stack.others)
    except SpecError:
        return  # .helmignore is broken: ``chart-renders`` reports it
    if leftover is not None:
        yield LintProblem(leftover.path, leftover.line, leftover.problem, leftover.remedy)


def chart_name(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a class chart without the name that releases require."""
    chart = stack.class_chart
    if chart is None or stack.name is None:
        return
    actual = at(chart.metadata, "name")
    expected = f"{stack.name.series}-cluster-class"
    if chart.metadata is not None and actual != expected:
        line = line_of_field(chart.content, ("name",))
        yield LintProblem(chart.chart_file, line, f"the chart has the name {shown(actual)}", f"write name: {expected}")


def chart_version(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a chart whose version is set by a build, but has no line of its own."""
    for chart in stack.charts:
        if chart.versioned and chart.metadata is not None and at(chart.metadata, "version") != stack.version.dot:
            line = line_of_text(chart.content, "version:")
            problem = "has no line with only the version, so a build cannot set it"
            yield LintProblem(chart.chart_file, line, problem, "write the line 'version: v1' without indentation")


def minor_directory(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a stack for another minor than the one in the name of its directory."""
    if stack.settings is None or VERSIONS in stack.tree:
        return
    major, dash, minor = PurePath(stack.directory).name.partition("-")
    series = stack.settings.kubernetes.series
    path = STACK if STACK in stack.tree else CSCTL
    if dash and major.isdecimal() and minor.isdecimal() and f"{major}.{minor}" != str(series):
        line = line_of_text(stack.content(path), "kubernetesVersion:")
        problem = f"is for Kubernetes {series}, but its directory has the name {major}-{minor}"
        yield LintProblem(
            path, line, problem, f"correct the version, or rename the directory to {series.major}-{series.minor}"
        )


RULES = (
    LintRule(
        "settings",
        LintSeverity.ERROR,
        "csctl.yaml or stack.yaml names provider, stack and Kubernetes version.",
        settings,
    ),
    LintRule(
        "addon-versions",
        LintSeverity.ERROR,
        "The addon versions of stack.yaml or versions.yaml can be set.",
        addon_versions,
    ),
    LintRule("idle-version", LintSeverity.WARNING, "Every version in the settings has an effect.", idle_versions),
    LintRule(
        "left-version",
        LintSeverity.ERROR,
        "The class contains no Kubernetes version of another release of the same directory.",
        left_versions,
    ),
    LintRule(
        "chart-name",
        LintSeverity.ERROR,
        "The class chart has the name <provider>-<stack>-<major>-<minor>-cluster-class.",
        chart_name,
    ),
    LintRule(
        "chart-version",
        LintSeverity.ERROR,
        "A chart whose version is set by a build has a line with only the version.",
        chart_version,
    ),
    LintRule(
        "directory-name",
        LintSeverity.WARNING,
        "A directory with the name 1-35 contains a stack for Kubernetes 1.35.",
        minor_directory,
    ),
)
