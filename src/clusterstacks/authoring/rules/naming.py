"""csctl.yaml and the names that follow from it."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from clusterstacks.api.untyped import at
from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.positions import line_of_field, line_of_text
from clusterstacks.authoring.rules.messages import fault_of
from clusterstacks.building.leftover_versions import left_version
from clusterstacks.building.pinning import without_dependency
from clusterstacks.building.settings import CSCTL, STACK, VERSIONS
from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack


def settings(stack: LintedStack) -> Iterator[Fault]:
    """The files that say which stack it is can be read, and their names can stand in a release's name."""
    if problem := stack.settings_problem:
        yield fault_of(stack, problem, CSCTL, "correct it; csctl init shows one")


def addon_versions(stack: LintedStack) -> Iterator[Fault]:
    """Versions of addons listed for a Kubernetes version can be set."""
    if problem := stack.pinning_problem:
        yield fault_of(stack, problem, STACK, "list dependencies of the addons' charts with versions they have")


def idle_versions(stack: LintedStack) -> Iterator[Fault]:
    """Nothing about versions is written that has no effect."""
    if stack.settings is None:
        return
    if stack.settings.unlisted is not None:
        file = stack.settings.addons_file
        problem = (
            f"names Kubernetes {stack.settings.unlisted}, and {file} {stack.settings.kubernetes} for the same minor"
        )
        line = line_of_text(stack.content(CSCTL), "kubernetesVersion:")
        yield Fault(
            CSCTL, line, problem, "csctl create builds the first, with --kubernetes the second: write one version"
        )
    if not stack.pinning_problem:
        for key in without_dependency(stack.tree, stack.settings):
            path = stack.settings.addons_file
            problem = f"{key} is no dependency of an addon: it sets nothing"
            line = line_of_text(stack.content(path), f"{key}:")
            yield Fault(path, line, problem, "correct its name, or leave it if something else reads it")


def left_versions(stack: LintedStack) -> Iterator[Fault]:
    """The class names no Kubernetes version of another release of its directory."""
    if stack.settings is None:
        return
    try:
        left = left_version(stack.tree, stack.settings.kubernetes, stack.others)
    except SpecError:
        return  # of .helmignore, which rendering reports
    if left is not None:
        yield Fault(left.path, left.line, left.problem, left.remedy)


def chart_name(stack: LintedStack) -> Iterator[Fault]:
    """The class's chart is called as releases expect it (INCUMBENT D48)."""
    chart = stack.class_chart
    if chart is None or stack.name is None:
        return
    found = at(chart.metadata, "name")
    expected = f"{stack.name.series}-cluster-class"
    if chart.metadata is not None and found != expected:
        line = line_of_field(chart.content, ("name",))
        yield Fault(chart.chart_file, line, f"the chart is called {shown(found)}", f"write name: {expected}")


def chart_version(stack: LintedStack) -> Iterator[Fault]:
    """A chart that a build gives its version has one line for it."""
    for chart in stack.charts:
        if chart.versioned and chart.metadata is not None and at(chart.metadata, "version") != stack.version.dot:
            line = line_of_text(chart.content, "version:")
            problem = "has no line that holds the version alone, which a build could set"
            yield Fault(chart.chart_file, line, problem, "write a line version: v1, without blanks before it")


def minor_directory(stack: LintedStack) -> Iterator[Fault]:
    """A directory called after a Kubernetes minor holds a stack for that minor."""
    if stack.settings is None or VERSIONS in stack.tree:
        return
    major, dash, minor = PurePath(stack.directory).name.partition("-")
    series = stack.settings.kubernetes.series
    path = STACK if STACK in stack.tree else CSCTL
    if dash and major.isdecimal() and minor.isdecimal() and f"{major}.{minor}" != str(series):
        line = line_of_text(stack.content(path), "kubernetesVersion:")
        problem = f"is for Kubernetes {series}, but its directory is called {major}-{minor}"
        yield Fault(
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
        "Addon versions of stack.yaml or versions.yaml can be set.",
        addon_versions,
    ),
    LintRule("idle-version", LintSeverity.WARNING, "Every version written down has an effect.", idle_versions),
    LintRule(
        "left-version",
        LintSeverity.ERROR,
        "The class names no Kubernetes version of another release of its directory.",
        left_versions,
    ),
    LintRule(
        "chart-name",
        LintSeverity.ERROR,
        "The class's chart is called <provider>-<stack>-<major>-<minor>-cluster-class.",
        chart_name,
    ),
    LintRule(
        "chart-version",
        LintSeverity.ERROR,
        "A chart that a build gives its version has one line for it.",
        chart_version,
    ),
    LintRule(
        "directory-name",
        LintSeverity.WARNING,
        "A directory called 1-35 holds a stack for Kubernetes 1.35.",
        minor_directory,
    ),
)
