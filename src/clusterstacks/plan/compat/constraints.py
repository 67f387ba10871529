"""Evaluates compatibility constraints: the facts that the versions of a cluster violate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.files.compatibility import RuleSeverity
from clusterstacks.plan.compat.verdicts import NOTHING_KNOWN, OK, Upstream, Verdict, judge_kubernetes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from clusterstacks.model.files.compatibility import Circumstances, Component, Rule
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.ranges import Range
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.world import Candidate


KUBERNETES = ":kubernetes"
"""Suffix of the ids of facts about a component and Kubernetes."""

CLASS = "class"
"""Subject of the ranges of classes."""


@dataclass(frozen=True, slots=True)
class Judges:
    """The facts and rules besides the releases, for one Cluster."""

    rules: tuple[Rule, ...] = ()
    """The CompatibilityRules of the provider."""
    upstream: Upstream = NOTHING_KNOWN
    labels: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    """The variables of its topology, by dotted path."""
    enforced: Collection[str] | None = None
    """Ids of the facts that count; None for all."""

    def enforces(self, fact: str) -> bool:
        """Return whether a fact counts."""
        return self.enforced is None or fact in self.enforced


@dataclass(frozen=True, slots=True)
class Violation:
    """A fact that the versions of a cluster violate."""

    fact: str
    """Its id."""
    subject: str
    """Equal for the same fact about another version: an addon that stays outside its range adds no violation."""
    addon: str
    """The addon of its component; empty for the class and for rules."""
    needs: tuple[str, ...]
    """Components that could end the violation if they were present."""
    text: str
    source: str


def class_fact(release: ReleaseName) -> str:
    """Return the id of the range of a class."""
    return f"class:{release}"


def upgrade_fact(component: Component) -> str:
    """Return the id of the upgrade rule of a version."""
    return f"component:{component.title}:upgrade"


def kubernetes_fact(component: Component) -> str:
    """Return the id of the range of Kubernetes versions that a component works with."""
    return f"component:{component.title}{KUBERNETES}"


def kubernetes_subject(component: Component) -> str:
    """Return the subject of the range of Kubernetes versions that a component works with."""
    return f"{component.addon}/{component.name}{KUBERNETES}"


def requires_subject(component: Component, other: str) -> str:
    """Return the subject of the requirement of a component on another."""
    return f"{component.addon}/{component.name}:requires:{other}"


def requires_fact(component: Component, other: str) -> str:
    """Return the id of the requirement of a component on another."""
    return f"component:{component.title}:requires:{other}"


def violations(
    candidate: Candidate, kubernetes: KubernetesVersion, components: Collection[Component], judges: Judges
) -> tuple[Violation, ...]:
    """Return every fact that the versions of a cluster violate.

    ``candidate`` is the release of the class (a bundle has no facts of its own), ``kubernetes`` the version of the
    control plane, and ``components`` includes those of the class.
    """
    matching = [
        rule for rule in _rules(candidate, judges) if _matches(rule.when, candidate, kubernetes, components, judges)
    ]
    violated = [*_class(candidate, kubernetes), *_components(kubernetes, components, judges), *_denied(matching)]
    if not violated:
        return ()
    excused = _excused(matching, judges)
    return tuple(
        violation for violation in violated if judges.enforces(violation.fact) and violation.fact not in excused
    )


def cautions(
    candidate: Candidate, kubernetes: KubernetesVersion, components: Collection[Component], judges: Judges
) -> Iterator[str]:
    """Yield the messages of matching rules that only warn; the parameters are those of :func:`violations`."""
    for rule in _rules(candidate, judges):
        if rule.severity is RuleSeverity.WARN and _matches(rule.when, candidate, kubernetes, components, judges):
            yield f"{rule.message}; {rule.way}" if rule.way else rule.message


def depends_on_labels_or_variables(candidate: Candidate, before: Judges, after: Judges) -> bool:
    """Return whether a change of labels or variables may change the result of :func:`violations`."""
    return before.rules != after.rules or any(
        rule.when.labels or rule.when.variables for rule in _rules(candidate, after)
    )


def _class(candidate: Candidate, kubernetes: KubernetesVersion) -> Iterator[Violation]:
    stated = candidate.compatibility
    if stated is not None and not stated.kubernetes.contains(kubernetes):
        text = f"class {candidate.name.class_name} is for Kubernetes {stated.kubernetes}"
        yield Violation(class_fact(candidate.name), CLASS, "", (), text, str(candidate.name))


def _components(
    kubernetes: KubernetesVersion, components: Collection[Component], judges: Judges
) -> Iterator[Violation]:
    for component in components:
        in_range = component.kubernetes is not None and component.kubernetes.contains(kubernetes)
        judgement = OK if in_range else judge_kubernetes(component, kubernetes, judges.upstream)
        if judgement.verdict is Verdict.INCOMPATIBLE:
            subject = kubernetes_subject(component)
            yield Violation(kubernetes_fact(component), subject, component.addon, (), judgement.text, judgement.source)
        for other, stated in component.requires.items():
            if not _present(other, stated, components):
                subject = requires_subject(component, other)
                text = f"{component.name} {component.text} requires {other} {stated}"
                yield Violation(
                    requires_fact(component, other), subject, component.addon, (other,), text, component.source
                )


def _denied(matching: Iterable[Rule]) -> Iterator[Violation]:
    for rule in matching:
        if rule.severity is RuleSeverity.DENY:
            text = f"{rule.message}; {rule.way}" if rule.way else rule.message
            yield Violation(rule.fact, rule.fact, "", tuple(rule.when.components), text, rule.source)


def _rules(candidate: Candidate, judges: Judges) -> tuple[Rule, ...]:
    stated = candidate.compatibility
    return (*(stated.rules if stated is not None else ()), *judges.rules)


def _excused(matching: Iterable[Rule], judges: Judges) -> set[str]:
    """Return the ids of the facts that Allow rules override; a release cannot override a rule of the provider."""
    provider = {rule.fact for rule in judges.rules}
    excused: set[str] = set()
    for rule in matching:
        if rule.severity is RuleSeverity.ALLOW:
            excused |= set(rule.overrides) if rule in judges.rules else set(rule.overrides) - provider
    return excused


def _matches(
    when: Circumstances,
    candidate: Candidate,
    kubernetes: KubernetesVersion,
    components: Collection[Component],
    judges: Judges,
) -> bool:
    return (
        (when.kubernetes is None or when.kubernetes.contains(kubernetes))
        and when.provider in ("", candidate.name.provider)
        and all(_present(name, stated, components) for name, stated in when.components.items())
        and all(judges.labels.get(key) == value for key, value in when.labels.items())
        and all(_variable(judges.variables, path) == value for path, value in when.variables.items())
    )


def _present(name: str, stated: Range, components: Iterable[Component]) -> bool:
    return any(
        component.name == name and stated.holds(component.version.release, component.version.pre)
        for component in components
    )


def _variable(variables: Mapping[str, object], path: str) -> object:
    """Read a variable by its dotted path, or by its name if that contains dots."""
    if path in variables:
        return variables[path]
    value: object = variables
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value
