"""Finds a minimal conflict: facts that together exclude every plan, each of them necessary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.plan.planner.budget import Budget, BudgetExhausted
from clusterstacks.plan.planner.model_builder import PlanningProblem, build_model
from clusterstacks.plan.planner.search import Search

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from clusterstacks.plan.planner.constraint_catalog import Fact


@dataclass(slots=True)
class ConflictSearch:
    """Reports whether some facts alone exclude every plan.

    Args:
        asked: The question.
        budget: Bounds all searches together.
        starts_outside: Whether the cluster violates facts at the start.
        is_cut_short: Whether a search spent the budget.
    """

    asked: PlanningProblem
    budget: Budget
    starts_outside: bool
    is_cut_short: bool = False

    def is_closed(self, facts: Collection[str]) -> bool:
        """Report whether these facts and the upgrade rules exclude every plan; False if the budget is spent."""
        if self.is_cut_short:
            return False
        try:
            model = build_model(self.asked, self.budget, frozenset(facts))
            return Search(model, self.budget, only_reach=True).cheapest() is None
        except BudgetExhausted:
            self.is_cut_short = True
            return False


def minimal_conflict(question: ConflictSearch) -> tuple[Fact, ...]:
    """Find facts that together exclude every plan, each of them necessary.

    No fact means that the upgrade rules alone exclude every plan. If the budget is spent, some may be unnecessary.

    Args:
        question: A question without a plan.
    """
    facts = question.asked.facts
    needed = sorted(_needed(question, (), _suspects(question), grown=True))
    if question.starts_outside:
        needed = _thinned(question, needed)
    return tuple(facts[fact] for fact in needed)


def _thinned(question: ConflictSearch, facts: list[str]) -> list[str]:
    """Drop facts one by one while the rest is still a conflict.

    A cluster that violates facts at the start may move more freely with a fact than without it, so that the search by
    halves may keep too many.
    """
    for fact in facts:
        rest = [one for one in facts if one != fact]
        if question.is_closed(rest):
            return _thinned(question, rest)
    return facts


def _suspects(question: ConflictSearch) -> list[str]:
    """Narrow the facts down to few addons: usually those of one or two suffice, and their searches are fast."""
    facts = question.asked.facts.values()
    pieces = sorted({tuple(sorted(fact.addons)) for fact in facts}, key=lambda piece: (len(piece), piece))
    for piece in pieces:
        alone = sorted(fact.id for fact in facts if fact.addons.issubset(piece))
        if question.is_closed(alone):
            return alone
    left = {addon for fact in facts for addon in fact.addons}
    for addon in sorted(left):
        without = left - {addon}
        if question.is_closed(_about(facts, without)):
            left = without
    return _about(facts, left)


def _about(facts: Iterable[Fact], addons: Collection[str]) -> list[str]:
    """Return the facts about no other addons than these."""
    return sorted(fact.id for fact in facts if fact.addons.issubset(addons))


def _needed(question: ConflictSearch, kept: tuple[str, ...], rest: Sequence[str], *, grown: bool) -> list[str]:
    """Return a minimal part of ``rest`` that is a conflict together with ``kept`` (QuickXplain, Junker 2004).

    Args:
        question: Checks sets of facts.
        kept: Facts that are always enforced.
        rest: A conflict together with ``kept``.
        grown: Whether ``kept`` may be a conflict by itself.
    """
    if grown and question.is_closed(kept):
        return []
    if len(rest) == 1:
        return list(rest)
    half = len(rest) // 2
    second = _needed(question, (*kept, *rest[:half]), rest[half:], grown=True)
    return [*_needed(question, (*kept, *second), rest[:half], grown=bool(second)), *second]
