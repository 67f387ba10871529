"""Catalog of all facts by id, and scopes: the facts about the same addons, which must be searched together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.files.compatibility import RuleSeverity
from clusterstacks.plan.compat.constraints import (
    CLASS,
    class_fact,
    kubernetes_fact,
    kubernetes_subject,
    requires_fact,
    requires_subject,
    upgrade_fact,
)
from clusterstacks.plan.compat.verdicts import judge_kubernetes
from clusterstacks.plan.planner.model import ABSENT, Scope, own_components

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from clusterstacks.model.files.compatibility import Component, Rule
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.compat.verdicts import Upstream
    from clusterstacks.plan.compat.world import Candidate
    from clusterstacks.plan.planner.equivalence import Traits
    from clusterstacks.plan.planner.model import Addon, Choice, Evaluated


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that can make a target unreachable.

    Args:
        id: The id in plans and rules, for example ``component:cilium@1.18.2:kubernetes``.
        text: The fact in words.
        source: The file or project that states it.
        addons: The addons it is about; none if it is about class and Kubernetes alone.
        subject: The subject of its violations; empty if no state violates it.
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
        """Return the union of two facts of one id."""
        return replace(
            self,
            addons=self.addons | other.addons,
            by_class=self.by_class or other.by_class,
            by_version=self.by_version or other.by_version,
        )


@dataclass(frozen=True, slots=True)
class FactSources:
    """The sources of facts.

    Args:
        candidates: The releases.
        strangers: Installed components that no release has.
        providers: By component, the addons that can install it.
        rules: The rules of the provider.
        upstream: The statements of upstream projects, used if a release states nothing.
        kubernetes: The target version; some texts mention it.
    """

    candidates: Sequence[Candidate]
    strangers: Sequence[Component]
    providers: Mapping[str, frozenset[str]]
    rules: Sequence[Rule]
    upstream: Upstream
    kubernetes: KubernetesVersion

    def bringing(self, components: Iterable[str]) -> frozenset[str]:
        """Return the addons that can install any of the components."""
        return frozenset[str]().union(*(self.providers.get(one, ()) for one in components))

    def of_classes(self) -> frozenset[str]:
        """Return the components of classes."""
        return frozenset(one.name for candidate in self.candidates for one in own_components(candidate))

    def all_rules(self) -> Iterator[tuple[Rule, bool]]:
        """Yield the rules of releases, then those of the provider, each with whether a release states it."""
        for candidate in self.candidates:
            if candidate.compatibility is not None:
                yield from ((rule, True) for rule in candidate.compatibility.rules)
        yield from ((rule, False) for rule in self.rules)


def catalogue(statements: FactSources) -> dict[str, Fact]:
    """Collect every fact.

    A fact that an Allow rule overrides is also about the addons that the rule asks for.
    """
    facts: dict[str, Fact] = {}
    for fact in _facts(statements):
        facts[fact.id] = facts[fact.id].with_other(fact) if fact.id in facts else fact
    for rule, of_release in statements.all_rules():
        for overridden in rule.overrides:
            if overridden in facts:
                facts[overridden] = facts[overridden].with_other(_of_rule(rule, of_release, statements))
    return facts


def _facts(statements: FactSources) -> Iterator[Fact]:
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


def _of_component(component: Component, of_classes: frozenset[str], statements: FactSources) -> Iterator[Fact]:
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


def _of_rule(rule: Rule, of_release: bool, statements: FactSources) -> Fact:  # noqa: FBT001 - comes with the rule
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


OF_COMPONENTS = "component:"
"""Prefix of the ids of facts about components."""


def by_subject(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    """Return the facts that can be violated, by their subject."""
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.subject:
            found.setdefault(fact.subject, []).append(fact)
    return found


def class_subjects(facts: Iterable[Fact]) -> frozenset[str]:
    """Return the subjects of the facts that are about no addon."""
    return frozenset(subject for subject, same in by_subject(facts).items() if not any(fact.addons for fact in same))


def scopes_of(
    facts: Iterable[Fact],
    addons: Sequence[Addon],
    live: Collection[str],
    shared: tuple[Sequence[Candidate], Sequence[KubernetesVersion], Judges, Evaluated],
) -> tuple[Scope, ...]:
    """Group facts by the addons they are about.

    Args:
        facts: The enforced facts.
        addons: The addons in the order of their names.
        live: Ids of the facts about components that some combination of versions violates.
        shared: Candidates, versions and judges of the model, and the violations found before.
    """
    number = {addon.name: at for at, addon in enumerate(addons)}
    found: dict[tuple[int, ...], list[tuple[str, list[Fact]]]] = {}
    for subject, same in by_subject(facts).items():
        at = tuple(sorted({number[name] for fact in same for name in fact.addons}))
        if at and any(fact.id in live or not fact.id.startswith(OF_COMPONENTS) for fact in same):
            found.setdefault(at, []).append((subject, same))
    return tuple(
        Scope(
            at,
            tuple(addons[one] for one in at),
            frozenset(subject for subject, _ in subjects),
            any(fact.by_class for _, same in subjects for fact in same),
            any(fact.by_version for _, same in subjects for fact in same),
            *shared,
        )
        for at, subjects in sorted(found.items())
    )


def live_facts(
    addons: Sequence[Addon], installed: Choice, candidates: Iterable[Candidate], traits: Traits
) -> Iterator[str]:
    """Yield the ids of the facts about components that some combination of versions violates.

    Args:
        addons: The addons.
        installed: By addon, its installed option.
        candidates: The releases.
        traits: The facts about components.
    """
    lasting = _lasting(addons, installed)
    for component in _components(addons, candidates):
        if traits.works_with(component) != traits.all_versions:
            yield kubernetes_fact(component)
        for other, wanted in component.requires.items():
            met = traits.met(other, wanted)
            if not any(_always(addon, other, met) for addon in lasting):
                yield requires_fact(component, other)


def _components(addons: Iterable[Addon], candidates: Iterable[Candidate]) -> Iterator[Component]:
    for addon in addons:
        for option in addon.options:
            yield from option.components
    for candidate in candidates:
        yield from own_components(candidate)


def _lasting(addons: Sequence[Addon], installed: Choice) -> list[Addon]:
    """Return the installed addons that no plan removes."""
    return [
        addon
        for addon, option in zip(addons, installed, strict=True)
        if option != ABSENT and not any(ABSENT in ends for ends in addon.moves)
    ]


def _always(addon: Addon, component: str, met: Collection[str]) -> bool:
    return all(any(one.name == component and one.text in met for one in option.components) for option in addon.options)
