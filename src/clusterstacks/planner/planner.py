"""The planner's entry: a question in, a plan or the reason why there is none out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.planner.compiling import Target, compile_model, survey
from clusterstacks.planner.effort import Effort, Exhausted
from clusterstacks.planner.explaining import Question, obstacles
from clusterstacks.planner.model import ADDON_COST, NODE_COST
from clusterstacks.planner.search import Progress, Search
from clusterstacks.planner.steps import Kind, Situation, Step, situation_of, steps_of

if TYPE_CHECKING:
    from clusterstacks.compat.world import ClusterState, World
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.planner.catalogue import Fact


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
        facts: A set that is enough to forbid every way; empty when the laws alone do.
        minimal: Whether none of them can be spared for certain; else the search for a smaller set reached its bounds.
    """

    start: Situation
    facts: tuple[Fact, ...]
    minimal: bool = True


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search reached its bounds before it knew.

    Args:
        looks: The combinations it looked at.
        bound: No plan is cheaper than this.
        nearest: The Kubernetes version that is nearest to the target, of those that some plan was found to; None
            where the search did not begin.
    """

    looks: int
    bound: int
    nearest: KubernetesVersion | None


Answer = Plan | NoWay | Undecided


def find_plan(world: World, state: ClusterState, target: Target, effort: Effort | None = None) -> Answer:
    """Find the cheapest plan.

    Args:
        world: What there is.
        state: Where the cluster is.
        target: Where it is to go.
        effort: What the search may spend; what is left of it afterwards is what it did not need.

    Raises:
        PlanImpossible: A release is not known, or of another stack, or the workers are ahead of the control plane.
    """
    effort = Effort() if effort is None else effort
    before, search = effort.looks, None
    try:
        asked = survey(world, state, target, effort)
        search = Search(compile_model(asked, effort), effort)
        way = search.cheapest()
        steps = steps_of(search, way) if way is not None else ()
    except Exhausted:
        return _undecided(before - effort.looks, search)
    start = situation_of(search.model)
    if way is None:
        question = Question(asked, effort, search.outside)
        facts = obstacles(question)
        return NoWay(start, facts, minimal=not question.is_cut_short)
    if state.workers < state.kubernetes:
        # No write: the plan goes on when the workers have reached the control plane.
        steps = (Step(Kind.WORKERS, start, start), *steps)
    return Plan(start, steps, sum(NODE_COST if step.kind is not Kind.ADDON else ADDON_COST for step in steps))


def _undecided(looks: int, search: Search | None) -> Undecided:
    progress = search.progress if search is not None else Progress()
    if search is None or progress.node is None:
        return Undecided(looks, progress.bound, None)
    return Undecided(looks, progress.bound, search.model.versions[progress.node.version])
