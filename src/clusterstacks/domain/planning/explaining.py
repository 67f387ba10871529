"""Why there is no way: a smallest set of facts that is enough to forbid it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.compiling import Target, compile_model
from clusterstacks.domain.planning.facts import KUBERNETES, Judges, Violation, upgrade_fact, violations
from clusterstacks.domain.planning.model import forbidden_upgrades
from clusterstacks.domain.planning.search import BudgetReached, Search
from clusterstacks.domain.planning.steps import Kind, Situation, Step, steps_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from clusterstacks.domain.planning.world import State, World


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that stands in the way.

    Args:
        id: As in plans and rules: ``component:cilium@1.18.2:kubernetes``.
        text: For a person.
        source: Where it is from.
    """

    id: str
    text: str
    source: str


def obstacles(world: World, state: State, target: Target, budget: int) -> tuple[Fact, ...]:
    """Find facts that together, with the laws, forbid every way, and of which none can be spared.

    Starting with no fact at all, a way that exists is asked which facts it violates; those are added until there is no
    way any more. Then each is tried without. None at all means that the laws alone forbid it.

    Args:
        world: What there is.
        state: Where the cluster is.
        target: What it cannot reach.
        budget: Of each search.
    """
    found: dict[str, Fact] = {}
    while (steps := _way(world, state, target, found, budget)) is not None:
        culprits = {fact.id: fact for fact in violated(world, state, steps)}
        if culprits.keys() <= found.keys():
            raise AssertionError(f"a way to {target} violates nothing, but was not found")
        found |= culprits
    for fact in sorted(found):
        rest = {key: value for key, value in found.items() if key != fact}
        if _is_closed(world, state, target, rest, budget):
            found = rest
    return tuple(found[key] for key in sorted(found))


def violated(world: World, state: State, steps: Iterable[Step]) -> list[Fact]:
    """Return the facts that steps violate, all of them enforced."""
    judges = Judges(world.rules, world.upstream, state.labels, state.variables)
    found: list[Fact] = []
    for step in steps:
        if step.kind is Kind.ADDON:
            found += _of_addon_step(step, judges)
        else:
            found += map(_fact, _violations(step.after, judges))
            if step.kind is Kind.RELEASE and not step.after.candidate.is_bundle:
                old = Situation(step.after.candidate, step.before.kubernetes, step.after.addons)
                found += [_fact(one) for one in _violations(old, judges) if one.addon and one.fact.endswith(KUBERNETES)]
    return found


def _of_addon_step(step: Step, judges: Judges) -> list[Fact]:
    before = {one.subject for one in _violations(step.before, judges)}
    found = [_fact(one) for one in _violations(step.after, judges) if one.subject not in before]
    old, new = step.before.addons.get(step.addon), step.after.addons.get(step.addon)
    if old is not None and new is not None:
        for component in forbidden_upgrades(old, new):
            rule = component.upgrade
            limit = f"at most {rule.max_minor_step} minor at a time" if rule.max_minor_step is not None else "any step"
            text = f"{component.name} {component.text} may be moved to upward by {limit}"
            text += ", downward too" if rule.downgrade else ", never downward"
            found.append(Fact(upgrade_fact(component), text, component.source))
    return found


def _violations(situation: Situation, judges: Judges) -> tuple[Violation, ...]:
    stated = situation.candidate.compatibility
    present = list(stated.of_addon("")) if stated is not None else []
    for option in situation.addons.values():
        present += option.components
    return violations(situation.candidate, situation.kubernetes, present, judges)


def _fact(violation: Violation) -> Fact:
    return Fact(violation.fact, violation.text, violation.source)


def _way(world: World, state: State, target: Target, enforced: Collection[str], budget: int) -> tuple[Step, ...] | None:
    model = compile_model(world, state, target, frozenset(enforced))
    way = Search(model, budget).cheapest()
    return None if way is None else steps_of(model, way)


def _is_closed(world: World, state: State, target: Target, enforced: Collection[str], budget: int) -> bool:
    try:
        return _way(world, state, target, enforced, budget) is None
    except BudgetReached:
        return False
