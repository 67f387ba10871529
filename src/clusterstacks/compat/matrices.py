"""Tables of releases, their components, and the Kubernetes minors they work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.compat.combinations import WORST_FIRST, components, parts, worst
from clusterstacks.compat.verdicts import Verdict, judge_kubernetes
from clusterstacks.domain.versions import KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.verdicts import Upstream
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.ranges import Range
    from clusterstacks.domain.versions import KubernetesMinor

LAST_PATCH: Final = 99
"""A patch newer than any there is (Kubernetes makes some 17 of a minor): what holds for it holds for the next one."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What holds for the patches of one Kubernetes minor.

    Args:
        verdict: The best of them.
        partly: Whether another one has another.
    """

    verdict: Verdict
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a matrix.

    Args:
        releases: Labels of the releases that have it.
        addon: The addon; empty for what is part of class or image.
        name: The component; empty where the row is about a release as a whole.
        version: Of the component.
        cells: By Kubernetes minor, in the order of the matrix.
    """

    releases: tuple[str, ...]
    addon: str
    name: str
    version: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Which parts of releases work with which Kubernetes.

    Args:
        minors: The columns: every minor that a release or a class is for, and the next one.
        releases: Each release with its own addons.
        components: Every version of every component, those of addons first.
    """

    minors: tuple[KubernetesMinor, ...]
    releases: tuple[Row, ...]
    components: tuple[Row, ...]


def matrix(labelled: Sequence[tuple[str, Candidate]], known: Sequence[KubernetesMinor], judges: Judges) -> Matrix:
    """Judge releases and their components with Kubernetes minors.

    Args:
        labelled: The releases and what to call them.
        known: Kubernetes minors there are, oldest first.
        judges: What decides besides the releases.
    """
    candidates = [candidate for _, candidate in labelled]
    minors = _with_next(set(_minors(candidates, known)), known)
    samples = {minor: tuple(_samples(minor, candidates)) for minor in minors}
    releases = tuple(
        Row((label,), "", "", "", tuple(_together(candidate, samples[minor], judges) for minor in minors))
        for label, candidate in labelled
    )
    return Matrix(minors, releases, tuple(_component_rows(labelled, samples, judges.upstream)))


def _with_next(minors: set[KubernetesMinor], known: Sequence[KubernetesMinor]) -> tuple[KubernetesMinor, ...]:
    following = [minor for minor in known if minor > max(minors)][:1]
    return (*sorted(minors), *following)


def _component_rows(
    labelled: Sequence[tuple[str, Candidate]],
    samples: Mapping[KubernetesMinor, Sequence[KubernetesVersion]],
    upstream: Upstream,
) -> Iterator[Row]:
    versions: dict[tuple[str, ...], tuple[Component, list[str]]] = {}
    for label, candidate in labelled:
        for one in components(candidate):
            key = (one.addon, one.name, one.text, str(one.kubernetes), one.kind)
            versions.setdefault(key, (one, []))[1].append(label)
    ordered = sorted(
        versions.values(), key=lambda pair: (not pair[0].addon, pair[0].addon, pair[0].name, pair[0].version)
    )
    for one, holders in ordered:
        cells = tuple(_alone(one, sampled, upstream) for sampled in samples.values())
        yield Row(tuple(holders), one.addon, one.name, one.text, cells)


def _together(candidate: Candidate, versions: Sequence[KubernetesVersion], judges: Judges) -> Cell:
    return _cell(worst(part.judgement for part in parts(candidate, version, judges)) for version in versions)


def _alone(component: Component, versions: Sequence[KubernetesVersion], upstream: Upstream) -> Cell:
    return _cell(judge_kubernetes(component, version, upstream).verdict for version in versions)


def _cell(verdicts: Iterable[Verdict]) -> Cell:
    found = set(verdicts)
    return Cell(max(found, key=WORST_FIRST.index), partly=len(found) > 1)


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
    """Yield versions of a minor between which nothing changes that the releases state."""
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
    """Return the first and the last patch, and those around every end of a range."""
    bounds = [bound.numbers for alternative in stated.alternatives for bound in alternative]
    ends = {patch for major, number, patch in bounds if (major, number) == (minor.major, minor.minor)}
    return {0, LAST_PATCH, *(patch for end in ends for patch in (max(end - 1, 0), end, end + 1))}
