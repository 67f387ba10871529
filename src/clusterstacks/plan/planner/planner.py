"""Entry of the planner: answers a question with a plan, a conflict or the progress of an unfinished search."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.plan.planner.budget import Budget, BudgetExhausted
from clusterstacks.plan.planner.conflicts import ConflictSearch, minimal_conflict
from clusterstacks.plan.planner.joined_minors import joined
from clusterstacks.plan.planner.model import ADDON_COST, NODE_COST
from clusterstacks.plan.planner.model_builder import Target, build_model, planning_problem
from clusterstacks.plan.planner.search import Progress, Search
from clusterstacks.plan.planner.steps import PlannedVersions, Step, StepKind, start_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.world import ClusterState, World
    from clusterstacks.plan.planner.constraint_catalog import Fact


@dataclass(frozen=True, slots=True)
class Plan:
    """The cheapest plan.

    Args:
        start: The versions of the cluster.
        steps: The steps in order; none if the cluster is at its target.
        cost: 10 for each step that rolls nodes, 1 for each addon step.
    """

    start: PlannedVersions
    steps: tuple[Step, ...]
    cost: int

    @property
    def end(self) -> PlannedVersions:
        """The versions after the last step."""
        return self.steps[-1].after if self.steps else self.start


@dataclass(frozen=True, slots=True)
class NoPlan:
    """No plan exists.

    Args:
        start: The versions of the cluster.
        facts: A set of facts that excludes every plan; empty if the upgrade rules of Kubernetes and bundles do.
        minimal: Whether every fact of the set is proven necessary; else the budget was too small to prove it.
    """

    start: PlannedVersions
    facts: tuple[Fact, ...]
    minimal: bool = True


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search spent its budget before it had an answer.

    Args:
        looks: The combinations it looked at.
        bound: No plan is cheaper than this.
        nearest: The Kubernetes version nearest to the target that the search reached; None if it did not begin.
    """

    looks: int
    bound: int
    nearest: KubernetesVersion | None


Answer = Plan | NoPlan | Undecided


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause the collector of reference cycles.

    A search keeps millions of tuples and makes no cycles. The collector would examine these tuples again and again,
    which takes a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_garbage_collection_paused()
def find_plan(world: World, state: ClusterState, target: Target, budget: Budget | None = None) -> Answer:
    """Find the cheapest plan.

    Args:
        world: Releases, rules and upstream statements.
        state: The state of the cluster.
        target: A release or a Kubernetes version.
        budget: Bounds the search; afterwards it has what is left.

    Raises:
        PlanImpossible: A release is unknown or of another stack, or the workers are ahead of the control plane.
    """
    budget = Budget() if budget is None else budget
    before, search = budget.looks, None
    try:
        asked = planning_problem(world, state, target, budget)
        search = Search(build_model(asked, budget), budget)
        found = search.cheapest()
        steps = joined(steps_of(search, found), asked.judges) if found is not None else ()
    except BudgetExhausted:
        return _undecided(before - budget.looks, search)
    start = start_of(search.model)
    if found is None:
        question = ConflictSearch(asked, budget, search.outside)
        facts = minimal_conflict(question)
        return NoPlan(start, facts, minimal=not question.is_cut_short)
    if state.workers < state.kubernetes:
        # This step writes nothing: the plan continues when the workers have reached the control plane.
        steps = (Step(StepKind.WORKERS, start, start), *steps)
    return Plan(start, steps, sum(NODE_COST if step.kind is not StepKind.ADDON else ADDON_COST for step in steps))


def _undecided(looks: int, search: Search | None) -> Undecided:
    progress = search.progress if search is not None else Progress()
    if search is None or progress.node is None:
        return Undecided(looks, progress.bound, None)
    return Undecided(looks, progress.bound, search.model.versions[progress.node.version])
