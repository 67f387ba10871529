"""Writes the first ``compatibility.yaml`` of a stack from its charts and the upstream facts, and marks guesses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.authoring.stack import load_stack
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import API_VERSION, FILE, parse_compatibility
from clusterstacks.model.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.plan.compat.verdicts import Verdict
from clusterstacks.release.charts.chart import kubernetes_range
from clusterstacks.release.charts.dependencies import locked
from clusterstacks.release.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.csctl.authoring.stack import LintedChart, LintedStack
    from clusterstacks.model.ranges import Range
    from clusterstacks.model.versions import KubernetesMinor
    from clusterstacks.plan.compat.statements import UpstreamFacts
    from clusterstacks.plan.compat.verdicts import Judgement
    from clusterstacks.release.charts.dependencies import ChartRequirement


def infer_file(directory: Path, facts: UpstreamFacts, known: Sequence[KubernetesMinor], *, force: bool) -> Path:
    """Write the file into a stack directory and return its path; ``force`` overwrites an existing one.

    Raises:
        SpecError: The file exists, or the stack is broken.
    """
    place = directory / FILE
    text = infer(load_stack(read_tree(directory), str(directory), listed=True), facts, known)
    try:
        with place.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError("FileExists", f"{place} already exists: use --force to overwrite it") from None
    return place


def infer(stacks: Sequence[LintedStack], facts: UpstreamFacts, known: Iterable[KubernetesMinor]) -> str:
    """Return the text of the file, which :func:`~clusterstacks.model.files.compatibility.parse_compatibility` accepts.

    ``stacks`` is one stack, loaded for each of its Kubernetes minors; addon versions are those for the newest minor.

    Raises:
        SpecError: The stack or the dependencies of a chart are broken.
    """
    versions = [_version(stack) for stack in stacks]
    minors, newest = sorted(version.series for version in versions), stacks[versions.index(max(versions))]
    components = tuple(_distinct(detect_components(newest, facts)))
    working = [
        minor for minor in known if components and all(_works(detected, minor, facts) for detected in components)
    ]
    entries = [line for detected in components for line in _entry(detected, minors[-1], facts)]
    text = "\n".join([*_head(minors, working), "components:" if components else "components: []", *entries, ""])
    parse_compatibility(yaml.load(text, name=FILE))
    return text


def _version(stack: LintedStack) -> KubernetesVersion:
    if stack.settings is None:
        raise SourceBroken(stack.directory, f"is not a valid stack: {stack.settings_problem}")
    return stack.settings.kubernetes


def _distinct(components: Iterable[DetectedComponent]) -> Iterator[DetectedComponent]:
    """Make the names of components unique, as the file requires, and drop duplicates of one addon."""
    seen: dict[str, DetectedComponent] = {}
    for detected in components:
        name = detected.name if detected.name not in seen else f"{detected.name}-{detected.addon or 'class'}"
        if name not in seen:
            seen[name] = detected
            yield replace(detected, name=name)


def _head(minors: Sequence[KubernetesMinor], working: Sequence[KubernetesMinor]) -> Iterator[str]:
    first, last = minors[0], minors[-1]
    yield "# Written by csctl compat infer. A guess needs a check: correct it, then remove the word 'guess'."
    yield f"apiVersion: {API_VERSION}"
    yield "# guess: the Kubernetes minors of the stack; widen the range after a test of the class with another minor."
    if working:
        yield f"# All components below are known to work with Kubernetes {', '.join(map(str, working))}."
    yield f'kubernetes: ">={first} <{last.major}.{last.minor + 1}"'


def _works(detected: DetectedComponent, minor: KubernetesMinor, facts: UpstreamFacts) -> bool:
    if detected.kubernetes is not None and not _is_known(detected, facts):
        return detected.kubernetes.holds((minor.major, minor.minor, 0))
    return _judged(detected, minor, facts).verdict is Verdict.OK


def _judged(detected: DetectedComponent, minor: KubernetesMinor, facts: UpstreamFacts) -> Judgement:
    return facts.judge(detected.name, SemVer.parse(detected.version), KubernetesVersion(minor.major, minor.minor, 0))


def _entry(detected: DetectedComponent, minor: KubernetesMinor, facts: UpstreamFacts) -> Iterator[str]:
    own = None if _is_known(detected, facts) else detected.kubernetes
    yield f"# {'evidence' if detected.certain else 'guess'}: {_line(detected.origin)}"
    if own is not None:
        yield "# evidence: Helm rejects the chart outside of this range; parts of it may be untested."
    elif _is_known(detected, facts):
        judgement = _judged(detected, minor, facts)
        known = f"{judgement.verdict} with Kubernetes {minor}: {judgement.text}"
        yield f"# evidence: {_line(known)}; this applies unless kubernetes is set here."
    else:
        yield "# No range is known: add kubernetes, otherwise the verdict is unknown."
    yield f"- name: {_quoted(detected.name)}"
    if detected.addon:
        yield f"  addon: {_quoted(detected.addon)}"
    yield f"  version: {_quoted(detected.version)}"
    if own is not None:
        yield f'  kubernetes: "{own}"'
        yield f"  source: {_quoted(f'kubeVersion of chart {detected.chart}')}"
    yield from _upgrade(detected, facts)


def _upgrade(detected: DetectedComponent, facts: UpstreamFacts) -> Iterator[str]:
    """Yield the upgrade rule of the upstream project, which applies only if the release repeats it."""
    rule = facts.upgrade_rule(detected.name, SemVer.parse(detected.version))
    stated = facts.components[detected.name].upgrade if rule is not None else None
    if rule is None or stated is None:
        return
    yield f"  # evidence: {_line(stated.source.url)}"
    step = "" if rule.max_minor_step is None else f"maxMinorStep: {rule.max_minor_step}, "
    yield f"  upgrade: {{{step}downgrade: {str(rule.downgrade).lower()}}}"


def _is_known(detected: DetectedComponent, facts: UpstreamFacts) -> bool:
    if detected.name not in facts.components:
        return False
    return any(
        statement.kubernetes is not None
        for statement in facts.components[detected.name].about(SemVer.parse(detected.version))
    )


def _quoted(text: str) -> str:
    """Quote a text as JSON, which is valid YAML except for surrogate pairs."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _line(text: str) -> str:
    """Return a text from a chart as one line, so that it cannot end a comment."""
    return "".join(character if character.isprintable() else " " for character in text)


_IMAGE: Final = re.compile(r"(?<![a-z0-9-])([a-z0-9][a-z0-9-]*):v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9A-Za-z.-])")
_NUMBERS: Final = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LIBRARY: Final = "library"
_NO_VERSION: Final = "0.0.0"


@dataclass(frozen=True, slots=True)
class DetectedComponent:
    """A component that the charts of a stack seem to contain."""

    name: str
    version: str
    """Version of its software."""
    addon: str
    """The addon that contains it; empty for the class."""
    origin: str
    """Source of name and version, for a comment."""
    certain: bool
    """True for evidence, false for a guess."""
    kubernetes: Range | None = None
    """Range of ``kubeVersion`` of its chart; None if it has none."""
    chart: str = ""
    """Name of the chart with ``kubeVersion``."""


def detect_components(stack: LintedStack, facts: UpstreamFacts) -> Iterator[DetectedComponent]:
    """Find the components of a stack: images of its class chart, and the software of its addons."""
    for chart in stack.charts:
        yield from _of_addon(chart, facts) if chart.addon else _of_class(chart, facts)


def _of_class(chart: LintedChart, facts: UpstreamFacts) -> Iterator[DetectedComponent]:
    """Find images of known components in the text of the class chart."""
    for path, content in sorted(chart.files.items()):
        for image in _IMAGE.finditer(content.decode(errors="replace")):
            if image[1] in facts.components:
                yield DetectedComponent(image[1], image[2], "", f"image in {chart.directory}/{path}", certain=True)


def _of_addon(chart: LintedChart, facts: UpstreamFacts) -> Iterator[DetectedComponent]:
    listed = locked(chart.files, chart.directory)
    vendored = {str(metadata.get("name")): metadata for metadata in chart.dependency_metadata()}
    wanted = [requirement for requirement in listed if vendored.get(requirement.name, {}).get("type") != _LIBRARY]
    for requirement in wanted:
        yield _of_dependency(chart, requirement, vendored.get(requirement.name), facts)
    if not wanted:
        yield _of_chart(chart.addon, chart.chart_file, chart.metadata or {}, facts)


def _of_dependency(
    chart: LintedChart, requirement: ChartRequirement, vendored: Mapping[str, object] | None, facts: UpstreamFacts
) -> DetectedComponent:
    if vendored is not None:
        return _of_chart(chart.addon, f"chart {requirement.name} in {chart.directory}/charts", vendored, facts)
    component, versions = _by_chart(requirement.name, facts)
    numbers = _NUMBERS.search(requirement.constraint.text)
    version = (requirement.exact or (numbers[0] if numbers else _NO_VERSION)).removeprefix("v")
    place = f"dependency {requirement} in {chart.chart_file}"
    if component and requirement.exact and (not versions or version in versions):
        origin = place if not versions else f"{place}, which contains {component} {versions[version]}"
        return DetectedComponent(component, versions.get(version, version), chart.addon, origin, certain=True)
    origin = f"{place}: this is the version of the chart; write the version of the software"
    return DetectedComponent(component or requirement.name, version, chart.addon, origin, certain=False)


def _of_chart(addon: str, place: str, metadata: Mapping[str, object], facts: UpstreamFacts) -> DetectedComponent:
    name = str(metadata.get("name"))
    if not _NAME.fullmatch(name):
        name = addon  # Helm rejects the chart anyway
    component, _ = _by_chart(name, facts)
    kubernetes = _kubernetes_range(metadata.get("kubeVersion"))
    for key, certain in (("appVersion", True), ("version", False)):
        version = str(metadata.get(key) or "").removeprefix("v")
        if _is_version(version):
            origin = f"{key} of {place}" if certain else f"version of {place}: write the version of the software"
            return DetectedComponent(component or name, version, addon, origin, certain, kubernetes, name)
    origin = f"{place} has no version: write the version of the software"
    return DetectedComponent(
        component or name, _NO_VERSION, addon, origin, certain=False, kubernetes=kubernetes, chart=name
    )


def _by_chart(chart: str, facts: UpstreamFacts) -> tuple[str, Mapping[str, str]]:
    """Return the component that a chart contains, and its versions by chart version."""
    for name, component in facts.components.items():
        for stated in component.charts:
            if stated.name == chart:
                return name, stated.versions
    return (chart, {}) if chart in facts.components else ("", {})


def _kubernetes_range(kube_version: object) -> Range | None:
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
