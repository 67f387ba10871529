"""Tables of releases, their components, and the Kubernetes minors they work with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.model.files.compatibility import FILE
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.constraints import class_fact, kubernetes_fact, requires_fact, violations
from clusterstacks.plan.compat.verdicts import Judgement, Verdict, judge_kubernetes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from clusterstacks.model.files.compatibility import Compatibility, Component
    from clusterstacks.model.ranges import Range
    from clusterstacks.model.versions import KubernetesMinor
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.compat.verdicts import Upstream
    from clusterstacks.plan.compat.world import Candidate

LAST_PATCH: Final = 99
"""A patch newer than any released one (a minor has some 17): its verdict holds for the next patch."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The best verdict for the patches of one Kubernetes minor; ``partly`` if another patch has another verdict."""

    verdict: Verdict
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A release, or a version of a component, with a verdict for each minor."""

    releases: tuple[str, ...]
    """Labels of the releases that contain it."""
    addon: str
    """The addon; empty for a component of class or image."""
    name: str
    """The component; empty where the row is about a whole release."""
    version: str
    cells: tuple[Cell, ...]
    """By Kubernetes minor, in the order of the matrix."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of releases, components and Kubernetes minors."""

    minors: tuple[KubernetesMinor, ...]
    """The columns: every minor of a release or class, and the next one."""
    releases: tuple[Row, ...]
    """Each release with its own addons."""
    components: tuple[Row, ...]
    """Every version of every component, those of addons first."""


def matrix(labelled: Sequence[tuple[str, Candidate]], known: Sequence[KubernetesMinor], judges: Judges) -> Matrix:
    """Judge labelled releases and their components with the known Kubernetes minors, which are sorted, oldest first."""
    candidates = [candidate for _, candidate in labelled]
    stated = set(_minors(candidates, known))
    minors = (*sorted(stated), *[minor for minor in known if minor > max(stated)][:1])
    samples = {minor: tuple(_samples(minor, candidates)) for minor in minors}
    releases = tuple(
        Row((label,), "", "", "", tuple(_together(candidate, samples[minor], judges) for minor in minors))
        for label, candidate in labelled
    )
    return Matrix(minors, releases, tuple(_component_rows(labelled, samples, judges.upstream)))


def _component_rows(
    labelled: Sequence[tuple[str, Candidate]],
    samples: Mapping[KubernetesMinor, Sequence[KubernetesVersion]],
    upstream: Upstream,
) -> Iterator[Row]:
    versions: dict[tuple[str, ...], tuple[Component, list[str]]] = {}
    for label, candidate in labelled:
        for component in components(candidate):
            key = (component.addon, component.name, component.text, str(component.kubernetes), component.kind)
            versions.setdefault(key, (component, []))[1].append(label)
    ordered = sorted(
        versions.values(), key=lambda pair: (not pair[0].addon, pair[0].addon, pair[0].name, pair[0].version)
    )
    for component, holders in ordered:
        cells = tuple(_alone(component, sampled, upstream) for sampled in samples.values())
        yield Row(tuple(holders), component.addon, component.name, component.text, cells)


def _together(candidate: Candidate, versions: Sequence[KubernetesVersion], judges: Judges) -> Cell:
    return _cell(worst(part.judgement for part in parts(candidate, version, judges)) for version in versions)


def _alone(component: Component, versions: Sequence[KubernetesVersion], upstream: Upstream) -> Cell:
    return _cell(judge_kubernetes(component, version, upstream).verdict for version in versions)


def _cell(verdicts: Iterable[Verdict]) -> Cell:
    distinct = set(verdicts)
    return Cell(max(distinct, key=WORST_FIRST.index), partly=len(distinct) > 1)


def _minors(candidates: Iterable[Candidate], known: Sequence[KubernetesMinor]) -> Iterator[KubernetesMinor]:
    for candidate in candidates:
        yield candidate.kubernetes.series
        if candidate.compatibility is not None:
            yield from _inside(candidate.compatibility.kubernetes, known)


def _inside(stated: Range, known: Sequence[KubernetesMinor]) -> Iterator[KubernetesMinor]:
    for minor in known:
        if any(stated.holds((minor.major, minor.minor, patch)) for patch in _patches(stated, minor)):
            yield minor


def _samples(minor: KubernetesMinor, candidates: Iterable[Candidate]) -> Iterator[KubernetesVersion]:
    """Yield versions of a minor that represent all its patches: no statement of a release changes between them."""
    patches = {0, LAST_PATCH}
    for candidate in candidates:
        if candidate.kubernetes.series == minor:
            yield candidate.kubernetes
        if candidate.compatibility is not None:
            patches |= _patches(candidate.compatibility.kubernetes, minor)
        for component in components(candidate):
            if component.kubernetes is not None:
                patches |= _patches(component.kubernetes, minor)
    for patch in sorted(patches):
        yield KubernetesVersion(minor.major, minor.minor, patch)


def _patches(stated: Range, minor: KubernetesMinor) -> set[int]:
    """Return the first and the last patch, and those around every limit of a range."""
    bounds = [bound.numbers for alternative in stated.alternatives for bound in alternative]
    ends = {patch for major, number, patch in bounds if (major, number) == (minor.major, minor.minor)}
    return {0, LAST_PATCH, *(patch for end in ends for patch in (max(end - 1, 0), end, end + 1))}


WORST_FIRST: Final = (Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.UNTESTED, Verdict.OK)


@dataclass(frozen=True, slots=True)
class ReleasePart:
    """One part of a release and the judgement about it."""

    fact: str
    """Id of the fact that decided, as in plans and rules."""
    name: str
    """The component; empty for the class and for rules."""
    version: str
    addon: str
    """The addon that contains it; empty for a component of class or image."""
    judgement: Judgement


def worst(judgements: Iterable[Judgement]) -> Verdict:
    """Return the worst verdict; ok without judgements."""
    return min((judgement.verdict for judgement in judgements), key=WORST_FIRST.index, default=Verdict.OK)


def parts(candidate: Candidate, kubernetes: KubernetesVersion, judges: Judges) -> tuple[ReleasePart, ...]:
    """Judge every part of a release with a Kubernetes version: class, components, what they require, rules.

    Rules about labels or variables match only if ``judges`` contains these.
    """
    stated = candidate.compatibility
    if stated is None:
        return (_bundle(candidate, kubernetes),)
    broken = {violation.fact: violation for violation in violations(candidate, kubernetes, stated.components, judges)}
    unjudged = [_class(candidate, stated, kubernetes)]
    unjudged += [_component(component, kubernetes, judges.upstream) for component in stated.components]
    judged = [_allowed(part, broken.keys()) for part in unjudged]
    known = {part.fact for part in judged}
    by_requirement = {
        requires_fact(component, other): component for component in stated.components for other in component.requires
    }
    for fact, violation in broken.items():
        if fact not in known:
            judgement = Judgement(Verdict.INCOMPATIBLE, violation.text, violation.source or FILE)
            judged.append(_part(fact, by_requirement.get(fact), judgement))
    return tuple(judged)


def components(candidate: Candidate) -> tuple[Component, ...]:
    """Return the components of a release; none for a bundle."""
    return () if candidate.compatibility is None else candidate.compatibility.components


def contradictions(labelled: Sequence[tuple[str, Candidate]]) -> tuple[str, ...]:
    """Report releases that state different things about one version of a component; its own release decides."""
    seen: dict[str, tuple[str, Component]] = {}
    reports: list[str] = []
    for label, candidate in labelled:
        for component in components(candidate):
            first, known = seen.setdefault(component.title, (label, component))
            if different := _different(known, component):
                reports.append(
                    f"{component.title} has another {' and another '.join(different)} in {label} than in {first}"
                )
    return tuple(reports)


def _different(component: Component, other: Component) -> list[str]:
    pairs = {
        "Kubernetes range": (str(component.kubernetes), component.kind) != (str(other.kubernetes), other.kind),
        "requires": {key: str(value) for key, value in component.requires.items()}
        != {key: str(value) for key, value in other.requires.items()},
        "upgrade rule": component.upgrade != other.upgrade,
    }
    return [name for name, differs in pairs.items() if differs]


def _bundle(candidate: Candidate, kubernetes: KubernetesVersion) -> ReleasePart:
    fine = kubernetes == candidate.kubernetes
    text = f"the release is a bundle: its class, addons and Kubernetes {candidate.kubernetes} belong together"
    judgement = Judgement(Verdict.OK if fine else Verdict.INCOMPATIBLE, text)
    return _part(class_fact(candidate.name), None, judgement)


def _class(candidate: Candidate, stated: Compatibility, kubernetes: KubernetesVersion) -> ReleasePart:
    fine = stated.kubernetes.contains(kubernetes)
    text = f"the class is for Kubernetes {stated.kubernetes}"
    judgement = Judgement(Verdict.OK if fine else Verdict.INCOMPATIBLE, text, FILE)
    return _part(class_fact(candidate.name), None, judgement)


def _component(component: Component, kubernetes: KubernetesVersion, upstream: Upstream) -> ReleasePart:
    judgement = judge_kubernetes(component, kubernetes, upstream)
    if component.kubernetes is not None and not judgement.source:
        judgement = replace(judgement, source=FILE)
    return _part(kubernetes_fact(component), component, judgement)


def _part(fact: str, component: Component | None, judgement: Judgement) -> ReleasePart:
    if component is None:
        return ReleasePart(fact, "", "", "", judgement)
    return ReleasePart(fact, component.name, component.text, component.addon, judgement)


def _allowed(part: ReleasePart, broken: Collection[str]) -> ReleasePart:
    """Return ok for a violated fact that is not among the broken ones: an Allow rule overrides it."""
    judgement = part.judgement
    if judgement.verdict is not Verdict.INCOMPATIBLE or part.fact in broken:
        return part
    return replace(part, judgement=replace(judgement, verdict=Verdict.OK, text=f"{judgement.text}; a rule allows it"))
