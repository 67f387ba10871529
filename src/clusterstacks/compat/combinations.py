"""What the facts say about the parts of releases with a Kubernetes version, for people who choose between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.compat.constraints import class_fact, kubernetes_fact, requires_fact, violations
from clusterstacks.compat.verdicts import Judgement, Verdict, contains, judge_kubernetes
from clusterstacks.domain.compatibility import FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.verdicts import Upstream
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.compatibility import Compatibility, Component
    from clusterstacks.domain.versions import KubernetesVersion

WORST_FIRST: Final = (Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.UNTESTED, Verdict.OK)


@dataclass(frozen=True, slots=True)
class ReleasePart:
    """One part of a release and what holds of it.

    Args:
        fact: Id of the fact that decided, as in plans and rules.
        name: The component; empty for the class and for rules.
        version: Of the component.
        addon: The addon that brings it; empty for what is part of class or image.
        judgement: The verdict, the fact's words and where it is from.
    """

    fact: str
    name: str
    version: str
    addon: str
    judgement: Judgement


def worst(judgements: Iterable[Judgement]) -> Verdict:
    """Return the worst verdict; ok where there is none."""
    return min((one.verdict for one in judgements), key=WORST_FIRST.index, default=Verdict.OK)


def parts(candidate: Candidate, kubernetes: KubernetesVersion, judges: Judges) -> tuple[ReleasePart, ...]:
    """Judge every part of a release with a Kubernetes version: class, components, what they require, rules.

    Args:
        candidate: The release.
        kubernetes: The version of the control plane.
        judges: What decides besides the release. Rules that ask for labels or variables match only if it has these.
    """
    stated = candidate.compatibility
    if stated is None:
        return (_bundle(candidate, kubernetes),)
    broken = {one.fact: one for one in violations(candidate, kubernetes, stated.components, judges)}
    found = [_class(candidate, stated, kubernetes)]
    found += [_component(component, kubernetes, judges.upstream) for component in stated.components]
    judged = [_allowed(part, broken.keys()) for part in found]
    known = {part.fact for part in judged}
    by_requirement = {requires_fact(one, other): one for one in stated.components for other in one.requires}
    for fact, violation in broken.items():
        if fact not in known:
            component = by_requirement.get(fact)
            judgement = Judgement(Verdict.INCOMPATIBLE, violation.text, violation.source or FILE)
            judged.append(_part(fact, component, judgement))
    return tuple(judged)


def components(candidate: Candidate) -> tuple[Component, ...]:
    """Return what a release states about; nothing for a bundle."""
    return () if candidate.compatibility is None else candidate.compatibility.components


def contradictions(labelled: Sequence[tuple[str, Candidate]]) -> tuple[str, ...]:
    """Say which releases state different things about one version of a component; the release it is from decides."""
    seen: dict[str, tuple[str, Component]] = {}
    told: list[str] = []
    for label, candidate in labelled:
        for component in components(candidate):
            first, known = seen.setdefault(component.title, (label, component))
            if different := _different(known, component):
                told.append(
                    f"{component.title} has another {' and another '.join(different)} in {label} than in {first}"
                )
    return tuple(told)


def _different(one: Component, other: Component) -> list[str]:
    pairs = {
        "Kubernetes range": (str(one.kubernetes), one.kind) != (str(other.kubernetes), other.kind),
        "requires": {key: str(value) for key, value in one.requires.items()}
        != {key: str(value) for key, value in other.requires.items()},
        "upgrade rule": one.upgrade != other.upgrade,
    }
    return [name for name, differs in pairs.items() if differs]


def _bundle(candidate: Candidate, kubernetes: KubernetesVersion) -> ReleasePart:
    fine = kubernetes == candidate.kubernetes
    text = f"the release is a bundle: its class, addons and Kubernetes {candidate.kubernetes} belong together"
    judgement = Judgement(Verdict.OK if fine else Verdict.INCOMPATIBLE, text)
    return _part(class_fact(candidate.name), None, judgement)


def _class(candidate: Candidate, stated: Compatibility, kubernetes: KubernetesVersion) -> ReleasePart:
    fine = contains(stated.kubernetes, kubernetes)
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
    """A fact that is not among the broken ones although it is violated lost its force to an Allow rule."""
    judgement = part.judgement
    if judgement.verdict is not Verdict.INCOMPATIBLE or part.fact in broken:
        return part
    return replace(part, judgement=replace(judgement, verdict=Verdict.OK, text=f"{judgement.text}; a rule allows it"))
