"""Why there is no way: a smallest set of facts that is enough to forbid it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.compiling import Target, compile_model
from clusterstacks.domain.planning.search import BudgetReached
from clusterstacks.domain.planning.whole import cheapest_way

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from clusterstacks.domain.planning.catalogue import Fact
    from clusterstacks.domain.planning.compiling import Model
    from clusterstacks.domain.planning.world import State, World


PATIENCE = 3
"""Searches that may end undecided before an explanation is no longer narrowed down. Arbitrary: some seconds each."""


@dataclass(slots=True)
class Question:
    """Whether a target is out of reach when only some facts count.

    Args:
        world: What there is.
        state: Where the cluster is.
        target: Where to go.
        budget: Of each search.
        patience: How many more searches may end undecided.
    """

    world: World
    state: State
    target: Target
    budget: int
    patience: int = PATIENCE

    def is_closed(self, facts: Collection[str]) -> bool:
        """Tell whether these facts and the laws are enough to forbid every way; False where nobody knows."""
        if not self.patience:
            return False
        model = compile_model(self.world, self.state, self.target, frozenset(facts), bound_only=True)
        try:
            return cheapest_way(model, self.budget) is None
        except BudgetReached:
            self.patience -= 1
            return False


def obstacles(question: Question, model: Model) -> tuple[Fact, ...]:
    """Find facts that together, with the laws, forbid every way, and of which none can be spared.

    None at all means that the laws alone forbid it. Where searches end undecided, some may be spared after all.

    Args:
        question: The target is out of reach when all facts count.
        model: Its numbered world.
    """
    needed = sorted(_needed(question, (), _suspects(question, model), grown=True))
    return tuple(model.facts[fact] for fact in _thinned(question, needed))


def _thinned(question: Question, facts: list[str]) -> list[str]:
    """Drop what can be spared after all.

    A cluster that is outside its ranges at the start may move more freely with a fact than without: then halves do not
    tell everything.
    """
    for fact in facts:
        rest = [one for one in facts if one != fact]
        if question.is_closed(rest):
            return _thinned(question, rest)
    return facts


def _suspects(question: Question, model: Model) -> list[str]:
    """Narrow the facts down to few addons; mostly those of one are enough, and that is searched in no time."""
    for addon in (addon for group in model.groups for addon in group.addons):
        alone = sorted(fact.id for fact in model.facts.values() if fact.addons <= {addon.name})
        if question.is_closed(alone):
            return alone
    for group in model.groups:
        if len(group.addons) == 1:
            continue
        alone = _about(model, {addon.name for addon in group.addons})
        if question.is_closed(alone):
            return alone
    left = {addon.name for group in model.groups for addon in group.addons}
    for group in model.groups:
        without = left - {addon.name for addon in group.addons}
        if question.is_closed(_about(model, without)):
            left = without
    return _about(model, left)


def _about(model: Model, addons: Collection[str]) -> list[str]:
    """Return the facts about some addons and those about none."""
    return sorted(fact.id for fact in model.facts.values() if not fact.addons or not fact.addons.isdisjoint(addons))


def _needed(question: Question, kept: tuple[str, ...], rest: Sequence[str], *, grown: bool) -> list[str]:
    """Return a smallest part of ``rest`` that is closed together with ``kept`` (QuickXplain, Junker 2004).

    Args:
        question: Decides.
        kept: Facts that count in any case.
        rest: Closed together with them.
        grown: Whether ``kept`` may be enough by now.
    """
    if grown and question.is_closed(kept):
        return []
    if len(rest) == 1:
        return list(rest)
    half = len(rest) // 2
    second = _needed(question, (*kept, *rest[:half]), rest[half:], grown=True)
    return [*_needed(question, (*kept, *second), rest[:half], grown=bool(second)), *second]
