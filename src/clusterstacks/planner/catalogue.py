"""Every fact there is, by its id, with its words, the addons it speaks about and what it depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.compat.constraints import (
    CLASS,
    class_fact,
    kubernetes_fact,
    kubernetes_subject,
    requires_fact,
    requires_subject,
    upgrade_fact,
)
from clusterstacks.compat.verdicts import judge_kubernetes
from clusterstacks.domain.compatibility import RuleSeverity
from clusterstacks.planner.model import own_components

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from clusterstacks.compat.verdicts import Upstream
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.compatibility import Component, Rule
    from clusterstacks.domain.versions import KubernetesVersion


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that can stand in the way.

    Args:
        id: As in plans and rules: ``component:cilium@1.18.2:kubernetes``.
        text: For a person.
        source: Where it is from.
        addons: It speaks about; none for class and Kubernetes alone.
        subject: As of its violations; empty for a fact that nothing violates.
        by_class: Whether it depends on the class.
        by_version: Whether it depends on the Kubernetes version.
    """

    id: str
    text: str
    source: str
    addons: frozenset[str] = frozenset()
    subject: str = ""
    by_class: bool = False
    by_version: bool = False

    def with_other(self, other: Fact) -> Fact:
        """Return what two facts of one id speak about and depend on."""
        return replace(
            self,
            addons=self.addons | other.addons,
            by_class=self.by_class or other.by_class,
            by_version=self.by_version or other.by_version,
        )


@dataclass(frozen=True, slots=True)
class Statements:
    """Who states facts.

    Args:
        candidates: The releases.
        strangers: Components that are installed and in no release.
        providers: By component, the addons that can bring it.
        rules: The provider's own.
        upstream: What upstream projects state, where a release does not.
        kubernetes: The version asked for; some texts are about it.
    """

    candidates: Sequence[Candidate]
    strangers: Sequence[Component]
    providers: Mapping[str, frozenset[str]]
    rules: Sequence[Rule]
    upstream: Upstream
    kubernetes: KubernetesVersion

    def bringing(self, components: Iterable[str]) -> frozenset[str]:
        """Name the addons that can bring any of some components."""
        return frozenset[str]().union(*(self.providers.get(one, ()) for one in components))

    def of_classes(self) -> frozenset[str]:
        """Name the components that classes bring."""
        return frozenset(one.name for candidate in self.candidates for one in own_components(candidate))

    def all_rules(self) -> Iterator[tuple[Rule, bool]]:
        """Yield the rules of releases, then those of the provider; each with whether it is a release's."""
        for candidate in self.candidates:
            if candidate.compatibility is not None:
                yield from ((rule, True) for rule in candidate.compatibility.rules)
        yield from ((rule, False) for rule in self.rules)


def catalogue(statements: Statements) -> dict[str, Fact]:
    """Collect every fact.

    A fact that an Allow rule overrides speaks about what the rule asks for, too.
    """
    facts: dict[str, Fact] = {}
    for fact in _facts(statements):
        facts[fact.id] = facts[fact.id].with_other(fact) if fact.id in facts else fact
    for rule, of_release in statements.all_rules():
        for overridden in rule.overrides:
            if overridden in facts:
                facts[overridden] = facts[overridden].with_other(_of_rule(rule, of_release, statements))
    return facts


def _facts(statements: Statements) -> Iterator[Fact]:
    components: dict[int, Component] = {}
    for candidate in statements.candidates:
        if (stated := candidate.compatibility) is not None:
            text = f"class {candidate.name.class_name} is for Kubernetes {stated.kubernetes}"
            yield Fact(
                class_fact(candidate.name), text, str(candidate.name), subject=CLASS, by_class=True, by_version=True
            )
            components |= {id(one): one for one in stated.components}
    of_classes = statements.of_classes()
    for component in (*components.values(), *statements.strangers):
        yield from _of_component(component, of_classes, statements)
    for rule, of_release in statements.all_rules():
        yield _of_rule(rule, of_release, statements)


def _of_component(component: Component, of_classes: frozenset[str], statements: Statements) -> Iterator[Fact]:
    own, by_class = frozenset({component.addon} - {""}), not component.addon
    judgement = judge_kubernetes(component, statements.kubernetes, statements.upstream)
    yield Fact(
        kubernetes_fact(component),
        judgement.text,
        judgement.source,
        own,
        kubernetes_subject(component),
        by_class=by_class,
        by_version=True,
    )
    yield Fact(upgrade_fact(component), _upgrade_text(component), component.source, own)
    for other, wanted in component.requires.items():
        yield Fact(
            requires_fact(component, other),
            f"{component.name} {component.text} requires {other} {wanted}",
            component.source,
            own | statements.bringing((other,)),
            requires_subject(component, other),
            by_class=by_class or other in of_classes,
        )


def _of_rule(rule: Rule, of_release: bool, statements: Statements) -> Fact:  # noqa: FBT001 - comes with the rule
    return Fact(
        rule.fact,
        f"{rule.message}; {rule.way}" if rule.way else rule.message,
        rule.source,
        statements.bringing(rule.when.components),
        rule.fact if rule.severity is RuleSeverity.DENY else "",
        by_class=of_release or not statements.of_classes().isdisjoint(rule.when.components),
        by_version=rule.when.kubernetes is not None,
    )


def _upgrade_text(component: Component) -> str:
    rule = component.upgrade
    up = "any version" if rule.max_minor_step is None else f"at most {rule.max_minor_step} minor below it"
    down = "and from higher ones" if rule.downgrade else "and never from a higher one"
    return f"{component.name} {component.text} is moved to from {up}, {down}"
