"""The first ``compatibility.yaml`` of a stack: what its charts and the facts tell, with what is only a guess marked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.api import yaml
from clusterstacks.authoring.stack import load_stack
from clusterstacks.building.source_tree import read_tree
from clusterstacks.charts.chart import kubernetes_range
from clusterstacks.charts.requirements import locked
from clusterstacks.compat.verdicts import Verdict
from clusterstacks.domain.compatibility import API_VERSION, FILE, parse_compatibility
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.domain.versions import InvalidVersion, KubernetesVersion
from clusterstacks.releases.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.authoring.stack import LintedChart, LintedStack
    from clusterstacks.charts.requirements import ChartRequirement
    from clusterstacks.compat.statements import UpstreamFacts
    from clusterstacks.compat.verdicts import Judgement
    from clusterstacks.domain.ranges import Range
    from clusterstacks.domain.versions import KubernetesMinor


def infer_file(directory: Path, facts: UpstreamFacts, known: Sequence[KubernetesMinor], *, force: bool) -> Path:
    """Write the file into a stack directory.

    Args:
        directory: Of the stack.
        facts: What upstream projects state.
        known: Kubernetes minors there are.
        force: Write over a file that is there.

    Raises:
        SpecError: The file is there, or the stack cannot be read.
        OSError: The directory cannot be read or written.
    """
    place = directory / FILE
    text = infer(load_stack(read_tree(directory), str(directory), listed=True), facts, known)
    try:
        with place.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError("FileExists", f"{place} is there already: give --force to write over it") from None
    return place


def infer(stacks: Sequence[LintedStack], facts: UpstreamFacts, known: Iterable[KubernetesMinor]) -> str:
    """Write the file as text; :func:`~clusterstacks.domain.compatibility.parse_compatibility` takes it.

    Args:
        stacks: One stack, once for each Kubernetes minor it is for; the versions of addons are those for the newest.
        facts: What upstream projects state.
        known: Kubernetes minors there are.

    Raises:
        SpecError: The stack cannot be read, or a chart's dependencies cannot.
    """
    versions = [_version(stack) for stack in stacks]
    minors, newest = sorted(one.series for one in versions), stacks[versions.index(max(versions))]
    found = tuple(_distinct(detect_components(newest, facts)))
    working = [minor for minor in known if found and all(_works(clue, minor, facts) for clue in found)]
    entries = [line for clue in found for line in _entry(clue, minors[-1], facts)]
    text = "\n".join([*_head(minors, working), "components:" if found else "components: []", *entries, ""])
    parse_compatibility(yaml.load(text, name=FILE))
    return text


def _version(stack: LintedStack) -> KubernetesVersion:
    if stack.settings is None:
        raise SourceBroken(stack.directory, f"is not a valid stack that can be read: {stack.settings_problem}")
    return stack.settings.kubernetes


def _distinct(found: Iterable[DetectedComponent]) -> Iterator[DetectedComponent]:
    """Give every component a name of its own, as the file must; what is said twice of one addon is said once."""
    seen: dict[str, DetectedComponent] = {}
    for clue in found:
        name = clue.name if clue.name not in seen else f"{clue.name}-{clue.addon or 'class'}"
        if name not in seen:
            seen[name] = clue
            yield replace(clue, name=name)


def _head(minors: Sequence[KubernetesMinor], working: Sequence[KubernetesMinor]) -> Iterator[str]:
    first, last = minors[0], minors[-1]
    yield "# Begun by csctl compat infer. Nobody has confirmed what is called a guess: correct it, then drop the word."
    yield f"apiVersion: {API_VERSION}"
    yield "# guess: the Kubernetes the stack is made for; widen it once its class was tried with another."
    if working:
        yield f"# All components below are known to work with Kubernetes {', '.join(map(str, working))}."
    yield f'kubernetes: ">={first} <{_following(last)}"'


def _following(minor: KubernetesMinor) -> str:
    return f"{minor.major}.{minor.minor + 1}"


def _works(clue: DetectedComponent, minor: KubernetesMinor, facts: UpstreamFacts) -> bool:
    if clue.kubernetes is not None and not _is_known(clue, facts):
        return clue.kubernetes.holds((minor.major, minor.minor, 0))
    return _judged(clue, minor, facts).verdict is Verdict.OK


def _judged(clue: DetectedComponent, minor: KubernetesMinor, facts: UpstreamFacts) -> Judgement:
    return facts.judge(clue.name, SemVer.parse(clue.version), KubernetesVersion(minor.major, minor.minor, 0))


def _entry(clue: DetectedComponent, minor: KubernetesMinor, facts: UpstreamFacts) -> Iterator[str]:
    own = None if _is_known(clue, facts) else clue.kubernetes
    yield f"# {'evidence' if clue.certain else 'guess'}: {_line(clue.told)}"
    if own is not None:
        yield "# evidence: Helm refuses the chart outside of the range; nobody says that all of it was tried."
    elif _is_known(clue, facts):
        judgement = _judged(clue, minor, facts)
        known = f"{judgement.verdict} with Kubernetes {minor}, as {judgement.text}"
        yield f"# evidence: {_line(known)}; this counts as long as no kubernetes is written here."
    else:
        yield "# Nobody states its range: add kubernetes with what you know, else its verdict is unknown."
    yield f"- name: {_quoted(clue.name)}"
    if clue.addon:
        yield f"  addon: {_quoted(clue.addon)}"
    yield f"  version: {_quoted(clue.version)}"
    if own is not None:
        yield f'  kubernetes: "{own}"'
        yield f"  source: {_quoted(f'kubeVersion of chart {clue.chart}')}"
    yield from _upgrade(clue, facts)


def _upgrade(clue: DetectedComponent, facts: UpstreamFacts) -> Iterator[str]:
    """What the project says about upgrades holds only where the release repeats it: a stack may know better."""
    rule = facts.upgrade_rule(clue.name, SemVer.parse(clue.version))
    stated = facts.components[clue.name].upgrade if rule is not None else None
    if rule is None or stated is None:
        return
    yield f"  # evidence: {_line(stated.source.url)}"
    step = "" if rule.max_minor_step is None else f"maxMinorStep: {rule.max_minor_step}, "
    yield f"  upgrade: {{{step}downgrade: {str(rule.downgrade).lower()}}}"


def _is_known(clue: DetectedComponent, facts: UpstreamFacts) -> bool:
    if clue.name not in facts.components:
        return False
    return any(one.kubernetes is not None for one in facts.components[clue.name].about(SemVer.parse(clue.version)))


def _quoted(text: str) -> str:
    """Write a text in quotes; JSON is YAML, but for the pairs of escapes of characters beyond 16 bits."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _line(text: str) -> str:
    """What stands in charts must not end a comment."""
    return "".join(character if character.isprintable() else " " for character in text)


_IMAGE: Final = re.compile(r"(?<![a-z0-9-])([a-z0-9][a-z0-9-]*):v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9A-Za-z.-])")
_NUMBERS: Final = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LIBRARY: Final = "library"
_NO_VERSION: Final = "0.0.0"


@dataclass(frozen=True, slots=True)
class DetectedComponent:
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


def detect_components(stack: LintedStack, facts: UpstreamFacts) -> Iterator[DetectedComponent]:
    """Find the components of a stack.

    Raises:
        SpecError: The dependencies of a chart cannot be read.
    """
    for chart in stack.charts:
        yield from _of_addon(chart, facts) if chart.addon else _of_class(chart, facts)


def _of_class(chart: LintedChart, facts: UpstreamFacts) -> Iterator[DetectedComponent]:
    """Find images of known components in the text of the class; more of it nobody can tell."""
    for path, content in sorted(chart.files.items()):
        for found in _IMAGE.finditer(content.decode(errors="replace")):
            if found[1] in facts.components:
                yield DetectedComponent(found[1], found[2], "", f"image in {chart.directory}/{path}", certain=True)


def _of_addon(chart: LintedChart, facts: UpstreamFacts) -> Iterator[DetectedComponent]:
    listed = locked(chart.files, chart.directory)
    held = {str(one.get("name")): one for one in chart.held()}
    wanted = [one for one in listed if held.get(one.name, {}).get("type") != _LIBRARY]
    for requirement in wanted:
        yield _of_dependency(chart, requirement, held.get(requirement.name), facts)
    if not wanted:
        yield _of_chart(chart.addon, chart.chart_file, chart.metadata or {}, facts)


def _of_dependency(
    chart: LintedChart, requirement: ChartRequirement, held: Mapping[str, object] | None, facts: UpstreamFacts
) -> DetectedComponent:
    if held is not None:
        return _of_chart(chart.addon, f"chart {requirement.name} in {chart.directory}/charts", held, facts)
    component, versions = _by_chart(requirement.name, facts)
    numbers = _NUMBERS.search(requirement.constraint.text)
    version = (requirement.exact or (numbers[0] if numbers else _NO_VERSION)).removeprefix("v")
    place = f"dependency {requirement} in {chart.chart_file}"
    if component and requirement.exact and (not versions or version in versions):
        told = place if not versions else f"{place}, which brings {component} {versions[version]}"
        return DetectedComponent(component, versions.get(version, version), chart.addon, told, certain=True)
    told = f"{place}: this is the version of the chart; write that of the software"
    return DetectedComponent(component or requirement.name, version, chart.addon, told, certain=False)


def _of_chart(addon: str, place: str, metadata: Mapping[str, object], facts: UpstreamFacts) -> DetectedComponent:
    name = str(metadata.get("name"))
    if not _NAME.fullmatch(name):
        name = addon  # Helm refuses the chart, so nothing is lost
    component, _ = _by_chart(name, facts)
    kubernetes = _wanted(metadata.get("kubeVersion"))
    for key, certain in (("appVersion", True), ("version", False)):
        version = str(metadata.get(key) or "").removeprefix("v")
        if _is_version(version):
            told = f"{key} of {place}" if certain else f"version of {place}: write that of the software"
            return DetectedComponent(component or name, version, addon, told, certain, kubernetes, name)
    told = f"{place} names no version: write that of the software"
    return DetectedComponent(
        component or name, _NO_VERSION, addon, told, certain=False, kubernetes=kubernetes, chart=name
    )


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
