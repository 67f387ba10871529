"""Every fact there is, by its id, with its words and the addons it speaks about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.binding import all_rules
from clusterstacks.domain.planning.facts import class_fact, kubernetes_fact, requires_fact, upgrade_fact
from clusterstacks.domain.verdicts import judge_kubernetes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusterstacks.domain.compatibility import Component, Rule
    from clusterstacks.domain.planning.binding import Binding
    from clusterstacks.domain.planning.world import Candidate
    from clusterstacks.domain.verdicts import Upstream
    from clusterstacks.domain.versions import KubernetesVersion


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that can stand in the way.

    Args:
        id: As in plans and rules: ``component:cilium@1.18.2:kubernetes``.
        text: For a person.
        source: Where it is from.
        addons: It speaks about; none for class and Kubernetes alone.
    """

    id: str
    text: str
    source: str
    addons: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Statements:
    """Who states facts.

    Args:
        candidates: The releases.
        strangers: Components that are installed and in no release.
        rules: The provider's own.
        upstream: What upstream projects state, where a release does not.
        kubernetes: The version asked for; some texts are about it.
    """

    candidates: Sequence[Candidate]
    strangers: Sequence[Component]
    rules: Sequence[Rule]
    upstream: Upstream
    kubernetes: KubernetesVersion


def catalogue(binding: Binding, statements: Statements) -> dict[str, Fact]:
    """Collect every fact.

    Args:
        binding: Tells which addons a fact speaks about.
        statements: Where facts come from.
    """
    facts: dict[str, Fact] = {}
    for fact in _facts(binding, statements):
        widened = binding.widened.get(fact.id, frozenset())
        addons = fact.addons.union(*map(binding.bringing, widened))
        known = facts.get(fact.id, fact)
        facts[fact.id] = Fact(known.id, known.text, known.source, known.addons | addons)
    return facts


def _facts(binding: Binding, statements: Statements) -> Iterator[Fact]:
    candidates = statements.candidates
    stated = [one.compatibility for one in candidates if one.compatibility is not None]
    for candidate in candidates:
        if candidate.compatibility is not None:
            text = f"class {candidate.name.class_name} is for Kubernetes {candidate.compatibility.kubernetes}"
            yield Fact(class_fact(candidate.name), text, str(candidate.name))
    for component in (*(one for compatibility in stated for one in compatibility.components), *statements.strangers):
        yield from _of_component(component, binding, statements)
    for rule in all_rules(stated, statements.rules):
        text = f"{rule.message}; {rule.way}" if rule.way else rule.message
        addons = frozenset[str]().union(*map(binding.bringing, rule.when.components))
        yield Fact(rule.fact, text, rule.source, addons)


def _of_component(component: Component, binding: Binding, statements: Statements) -> Iterator[Fact]:
    own = frozenset({component.addon}) if component.addon else frozenset[str]()
    judgement = judge_kubernetes(component, statements.kubernetes, statements.upstream)
    yield Fact(kubernetes_fact(component), judgement.text, judgement.source, own)
    yield Fact(upgrade_fact(component), _upgrade_text(component), component.source, own)
    for other, wanted in component.requires.items():
        text = f"{component.name} {component.text} requires {other} {wanted}"
        yield Fact(requires_fact(component, other), text, component.source, own | binding.bringing(other))


def _upgrade_text(component: Component) -> str:
    rule = component.upgrade
    up = "any version" if rule.max_minor_step is None else f"at most {rule.max_minor_step} minor below it"
    down = "and from higher ones" if rule.downgrade else "and never from a higher one"
    return f"{component.name} {component.text} is moved to from {up}, {down}"
