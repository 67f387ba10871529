"""Why there is no way: a smallest set of facts that is enough to forbid it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.planner.compiling import Survey, compile_model
from clusterstacks.planner.effort import Effort, Exhausted
from clusterstacks.planner.search import Search

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from clusterstacks.planner.catalogue import Fact


@dataclass(slots=True)
class Question:
    """Whether a target is out of reach when only some facts count.

    Args:
        asked: What the question is about.
        effort: What all searches together may spend.
        starts_outside: Whether the cluster is outside its ranges.
        is_cut_short: Whether one of them did not end.
    """

    asked: Survey
    effort: Effort
    starts_outside: bool
    is_cut_short: bool = False

    def is_closed(self, facts: Collection[str]) -> bool:
        """Tell whether these facts and the laws are enough to forbid every way; False where it is not known in time."""
        if self.is_cut_short:
            return False
        try:
            model = compile_model(self.asked, self.effort, frozenset(facts))
            return Search(model, self.effort, only_reach=True).cheapest() is None
        except Exhausted:
            self.is_cut_short = True
            return False


def obstacles(question: Question) -> tuple[Fact, ...]:
    """Find facts that together, with the laws, forbid every way, and of which none can be spared.

    None at all means that the laws alone forbid it. Where a search did not end, some may be spared after all.

    Args:
        question: The target is out of reach when all facts count.
    """
    facts = question.asked.facts
    needed = sorted(_needed(question, (), _suspects(question), grown=True))
    if question.starts_outside:
        needed = _thinned(question, needed)
    return tuple(facts[fact] for fact in needed)


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


def _suspects(question: Question) -> list[str]:
    """Narrow the facts down to few addons; mostly those of one are enough, and that is searched in no time."""
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
    """Return the facts about some addons and those about none."""
    return sorted(fact.id for fact in facts if fact.addons.issubset(addons))


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
