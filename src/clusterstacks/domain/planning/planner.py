"""The planner's entry: a question in, a plan or the reason why there is none out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.compiling import Target, compile_model
from clusterstacks.domain.planning.explaining import Question, obstacles
from clusterstacks.domain.planning.search import BUDGET, NODE_COST, BudgetReached
from clusterstacks.domain.planning.steps import Kind, Situation, Step, situation_of, steps_of
from clusterstacks.domain.planning.whole import cheapest_way

if TYPE_CHECKING:
    from clusterstacks.domain.planning.catalogue import Fact
    from clusterstacks.domain.planning.world import State, World


@dataclass(frozen=True, slots=True)
class Plan:
    """A way.

    Args:
        start: The cluster as it is.
        steps: In order; none when it is there already.
        cost: 10 for each step that rolls nodes, 1 for each addon step.
    """

    start: Situation
    steps: tuple[Step, ...]
    cost: int

    @property
    def end(self) -> Situation:
        """The cluster when all steps are done."""
        return self.steps[-1].after if self.steps else self.start


@dataclass(frozen=True, slots=True)
class NoWay:
    """There is none.

    Args:
        start: The cluster as it is.
        facts: A set that is enough to forbid every way and of which none can be spared; empty when the laws alone do.
    """

    start: Situation
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search reached its budget before it knew.

    Args:
        start: The cluster as it is.
        budget: The choices it looked at.
    """

    start: Situation
    budget: int


def find_plan(world: World, state: State, target: Target, *, budget: int = BUDGET) -> Plan | NoWay | Undecided:
    """Find the cheapest plan.

    Raises:
        PlanImpossible: A release is not known, or of another stack, or the workers are ahead of the control plane.
    """
    model = compile_model(world, state, target)
    start = situation_of(model)
    try:
        way = cheapest_way(model, budget)
        if way is None:
            return NoWay(start, obstacles(Question(world, state, target, budget), model))
    except BudgetReached:
        return Undecided(start, budget)
    steps = steps_of(model, way)
    if state.workers < state.kubernetes:
        # No write: the plan goes on when the workers have reached the control plane.
        steps = (Step(Kind.WORKERS, start, start), *steps)
    return Plan(start, steps, sum(NODE_COST if step.kind is not Kind.ADDON else 1 for step in steps))
