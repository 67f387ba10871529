"""What the charts of a stack tell about the software in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.charts.kube_version import kubernetes_range
from clusterstacks.charts.requirements import locked
from clusterstacks.domain.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.domain.versions import InvalidVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.authoring.stack_chart import Chart
    from clusterstacks.charts.requirements import ChartRequirement
    from clusterstacks.compat.statements import UpstreamFacts
    from clusterstacks.domain.ranges import Range

_IMAGE: Final = re.compile(r"(?<![a-z0-9-])([a-z0-9][a-z0-9-]*):v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9A-Za-z.-])")
_NUMBERS: Final = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LIBRARY: Final = "library"
_NO_VERSION: Final = "0.0.0"


@dataclass(frozen=True, slots=True)
class Clue:
    """A component that a stack seems to hold.

    Args:
        name: Of the component.
        version: Of its software.
        addon: That brings it; empty for the class.
        told: Where name and version are from.
        certain: Whether that is evidence rather than a guess.
        kubernetes: What its chart asks for; None where it does not.
        chart: Name of the chart that asks.
    """

    name: str
    version: str
    addon: str
    told: str
    certain: bool
    kubernetes: Range | None = None
    chart: str = ""


def clues(stack: LintedStack, facts: UpstreamFacts) -> Iterator[Clue]:
    """Find the components of a stack.

    Raises:
        SpecError: The dependencies of a chart cannot be read.
    """
    for chart in stack.charts:
        yield from _of_addon(chart, facts) if chart.addon else _of_class(chart, facts)


def _of_class(chart: Chart, facts: UpstreamFacts) -> Iterator[Clue]:
    """Find images of known components in the text of the class; more of it nobody can tell."""
    for path, content in sorted(chart.files.items()):
        for found in _IMAGE.finditer(content.decode(errors="replace")):
            if found[1] in facts.components:
                yield Clue(found[1], found[2], "", f"image in {chart.directory}/{path}", certain=True)


def _of_addon(chart: Chart, facts: UpstreamFacts) -> Iterator[Clue]:
    listed = locked(chart.files, chart.directory)
    held = {str(one.get("name")): one for one in chart.held()}
    wanted = [one for one in listed if held.get(one.name, {}).get("type") != _LIBRARY]
    for requirement in wanted:
        yield _of_dependency(chart, requirement, held.get(requirement.name), facts)
    if not wanted:
        yield _of_chart(chart.addon, chart.chart_file, chart.metadata or {}, facts)


def _of_dependency(
    chart: Chart, requirement: ChartRequirement, held: Mapping[str, object] | None, facts: UpstreamFacts
) -> Clue:
    if held is not None:
        return _of_chart(chart.addon, f"chart {requirement.name} in {chart.directory}/charts", held, facts)
    component, versions = _by_chart(requirement.name, facts)
    numbers = _NUMBERS.search(requirement.constraint.text)
    version = (requirement.exact or (numbers[0] if numbers else _NO_VERSION)).removeprefix("v")
    place = f"dependency {requirement} in {chart.chart_file}"
    if component and requirement.exact and (not versions or version in versions):
        told = place if not versions else f"{place}, which brings {component} {versions[version]}"
        return Clue(component, versions.get(version, version), chart.addon, told, certain=True)
    told = f"{place}: this is the version of the chart; write that of the software"
    return Clue(component or requirement.name, version, chart.addon, told, certain=False)


def _of_chart(addon: str, place: str, metadata: Mapping[str, object], facts: UpstreamFacts) -> Clue:
    name = str(metadata.get("name"))
    if not _NAME.fullmatch(name):
        name = addon  # Helm refuses the chart, so nothing is lost
    component, _ = _by_chart(name, facts)
    kubernetes = _wanted(metadata.get("kubeVersion"))
    for key, certain in (("appVersion", True), ("version", False)):
        version = str(metadata.get(key) or "").removeprefix("v")
        if _is_version(version):
            told = f"{key} of {place}" if certain else f"version of {place}: write that of the software"
            return Clue(component or name, version, addon, told, certain, kubernetes, name)
    told = f"{place} names no version: write that of the software"
    return Clue(component or name, _NO_VERSION, addon, told, certain=False, kubernetes=kubernetes, chart=name)


def _by_chart(chart: str, facts: UpstreamFacts) -> tuple[str, Mapping[str, str]]:
    """Find the component a chart brings, and its versions by those of the chart."""
    for name, component in facts.components.items():
        for one in component.charts:
            if one.name == chart:
                return name, one.versions
    return (chart, {}) if chart in facts.components else ("", {})


def _wanted(kube_version: object) -> Range | None:
    try:
        return kubernetes_range(Constraint.parse(kube_version))
    except InvalidConstraint:
        return None


def _is_version(text: str) -> bool:
    try:
        SemVer.parse(text)
    except InvalidVersion:
        return False
    return True
