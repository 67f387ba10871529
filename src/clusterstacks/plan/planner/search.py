"""Finds the cheapest plan.

A* (Hart, Nilsson, Raphael 1968) over the moves of class and Kubernetes and, if facts connect too many addons, over the
moves of the addons of the spine. The other addons are in subtrees: a partial plan has for each subtree the table of its
least costs. A partial plan is dropped if another one to the same state is at most as dear in every state of the
subtrees. The remaining cost is bounded by the fewest node moves and by pattern databases.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from clusterstacks.plan.planner.decomposition import MOST_CHOICES, decompose, pairs_of
from clusterstacks.plan.planner.model import ADDON_COST, NODE_COST, TopologyState
from clusterstacks.plan.planner.pattern_database import OUT_OF_REACH, PatternDatabase, nodes_to_goal
from clusterstacks.plan.planner.reach import is_reachable, is_small
from clusterstacks.plan.planner.subtrees import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.cost_tables import Transition
    from clusterstacks.plan.planner.model import Choice, PlanningModel


@dataclass(frozen=True, slots=True)
class PartialPlan:
    """A sequence of moves of class, Kubernetes and spine.

    Args:
        node: The class and the Kubernetes version that it leads to.
        cost: Cost of these moves, and of the addon steps that every state of a subtree needs.
        state: By addon its option; for addons of subtrees the installed one. None while the class is a bundle's.
        tables: By subtree, the number of its table.
        outside: Whether facts may be violated as they were at the start.
        before: The partial plan it extends; None at the start.
    """

    node: TopologyState
    cost: int
    state: Choice | None
    tables: tuple[int, ...]
    outside: bool = False
    before: PartialPlan | None = None


@dataclass(slots=True)
class Progress:
    """Progress of a search.

    Args:
        bound: No plan is cheaper.
        node: The node nearest to the goal, in node moves; None before the first.
        moves: The fewest node moves that remain from there.
    """

    bound: int = 0
    node: TopologyState | None = None
    moves: int = OUT_OF_REACH


@dataclass
class Search:
    """One search.

    Args:
        model: The numbered world.
        budget: Bounds the search.
        only_reach: Whether only the existence of a plan matters: then no move costs anything.
        most_choices: Bound of the width of a subtree.
    """

    model: PlanningModel
    budget: Budget
    only_reach: bool = False
    most_choices: int = MOST_CHOICES
    progress: Progress = field(default_factory=Progress)

    def cheapest(self) -> PartialPlan | None:
        """Return the cheapest plan; None if no plan exists.

        Raises:
            BudgetExhausted: The budget does not suffice for an answer.
        """
        model, budget = self.model, self.budget
        self.successors, self.moves = nodes_to_goal(model, budget)
        self.outside = not model.is_bundle(model.start) and self._is_outside(model.start, model.installed)
        if model.start not in self.moves:
            return None
        if self.only_reach and not self.outside and is_small(model):
            is_found = is_reachable(model, self.successors, budget)
            return PartialPlan(model.start, 0, model.installed, ()) if is_found else None
        self.node_cost, self.addon_cost = (0, 0) if self.only_reach else (NODE_COST, ADDON_COST)
        pairs = [] if self.only_reach else pairs_of(model)
        estimates = [PatternDatabase(model, at, self.successors, budget, self.outside) for at in pairs]
        self.spine, trees = decompose(model, self.most_choices)
        self.subtrees = [subtree(model, tree, estimates, budget, self.addon_cost) for tree in trees]
        self.frame = [scope for scope in model.scopes if set(self.spine).issuperset(scope.at)]
        self.beside = [one for one in estimates if set(self.spine).issuperset(one.at)]
        return self._cheapest()

    def _cheapest(self) -> PartialPlan | None:
        ticket = count()
        heap: list[tuple[int, int, int, int, int, PartialPlan]] = []
        settled: dict[tuple[TopologyState, bool, Choice | None], list[PartialPlan]] = {}

        def push(partial: PartialPlan | None) -> None:
            if partial is not None and (rest := self._rest(partial)) < OUT_OF_REACH:
                heapq.heappush(heap, (partial.cost + rest, 1, rest, self.moves[partial.node], next(ticket), partial))

        push(self._start())
        while heap:
            estimate, is_open, *_, partial = heapq.heappop(heap)
            self._note(partial, estimate)
            if not is_open:
                return partial
            partials = settled.setdefault((partial.node, partial.outside, self._spine_state(partial)), [])
            self.budget.spend(len(partials) + 1)
            if any(self._beats(other, partial) for other in partials):
                continue
            partials.append(partial)
            if (total := self._total(partial)) is not None:
                heapq.heappush(heap, (total, 0, 0, 0, next(ticket), partial))
            for following in self._following(partial):
                self.budget.spend()
                push(following)
        return None

    def _is_outside(self, node: TopologyState, state: Choice) -> bool:
        return any(scope.violated(node, tuple(state[at] for at in scope.at)) for scope in self.model.scopes)

    def _start(self) -> PartialPlan | None:
        model = self.model
        if model.is_bundle(model.start):
            return PartialPlan(model.start, 0, None, ())
        return self._begun(PartialPlan(model.start, 0, model.installed, (), self.outside))

    def _begun(self, partial: PartialPlan) -> PartialPlan | None:
        """Return a partial plan with the tables of the installed addons."""
        assert partial.state is not None  # noqa: S101 - the callers have one
        steps = [
            tree.begin(tree.context_at(partial.node, partial.state), partial.state, outside=partial.outside)
            for tree in self.subtrees
        ]
        return _with_tables(partial, steps)

    def _following(self, partial: PartialPlan) -> Iterator[PartialPlan | None]:
        """Yield the partial plans one move of class, Kubernetes or spine longer."""
        model = self.model
        for node in self.successors[partial.node]:
            cost = partial.cost + self.node_cost
            if model.is_bundle(node):
                yield PartialPlan(node, cost, None, (), before=partial)
            elif partial.state is None:
                yield self._released(partial, node)
            else:
                yield self._moved(partial, PartialPlan(node, cost, partial.state, (), before=partial))
        if partial.state is not None:
            for at in self.spine:
                for option in model.addons[at].moves[partial.state[at]]:
                    state = (*partial.state[:at], option, *partial.state[at + 1 :])
                    yield self._moved(
                        partial,
                        PartialPlan(
                            partial.node, partial.cost + self.addon_cost, state, (), partial.outside, before=partial
                        ),
                    )

    def _moved(self, old: PartialPlan, new: PartialPlan) -> PartialPlan | None:
        """Return a partial plan with the tables that follow from those before; None if no state is allowed there.

        While facts are violated an addon step must only not add a violation.
        """
        assert old.state is not None and new.state is not None  # noqa: S101, PT018 - the caller looked
        for scope in self.frame:
            found = scope.violated(new.node, tuple(new.state[at] for at in scope.at))
            if found and not (
                new.outside and found <= scope.violated(old.node, tuple(old.state[at] for at in scope.at))
            ):
                return None
        steps: list[Transition | None] = []
        for tree, table in zip(self.subtrees, old.tables, strict=True):
            context, before = tree.context_at(new.node, new.state), tree.context_at(old.node, old.state)
            steps.append(tree.enter(table, context, before if new.outside else None))
            if steps[-1] is None:
                return None
        return _with_tables(new, steps)

    def _released(self, partial: PartialPlan, node: TopologyState) -> PartialPlan | None:
        """Return the move from a bundle to a release, whose addons must also allow the old Kubernetes version."""
        model = self.model
        old, state = TopologyState(node.candidate, partial.node.version), model.offered(node.candidate)
        for scope in model.scopes:
            choice = tuple(state[at] for at in scope.at)
            if scope.violated(node, choice) or not scope.contains(old, choice):
                return None
        return self._begun(PartialPlan(node, partial.cost + self.node_cost, state, (), before=partial))

    def _spine_state(self, partial: PartialPlan) -> Choice | None:
        return None if partial.state is None else tuple(partial.state[at] for at in self.spine)

    def _total(self, partial: PartialPlan) -> int | None:
        """Return the cost of a plan that ends here; None if it cannot."""
        if not self.model.is_goal(partial.node):
            return None
        if partial.state is None:
            return partial.cost
        if not all(self.model.addons[at].ends(partial.state[at]) for at in self.spine):
            return None
        total = partial.cost + sum(
            tree.tables.end(table) for tree, table in zip(self.subtrees, partial.tables, strict=True)
        )
        return total if total < OUT_OF_REACH else None

    def _rest(self, partial: PartialPlan) -> int:
        """Return a lower bound of the remaining cost; :data:`OUT_OF_REACH` and more if no plan leads to the goal."""
        rest = self.moves[partial.node] * self.node_cost
        if partial.state is None:
            return rest
        for estimate in self.beside:
            rest += estimate.least(partial.node, tuple(partial.state[at] for at in estimate.at))
        for tree, table in zip(self.subtrees, partial.tables, strict=True):
            rest += tree.rest(table, tree.context_at(partial.node, partial.state))
        return rest

    def _beats(self, one: PartialPlan, other: PartialPlan) -> bool:
        """Report whether ``one`` ends at most as dear as ``other``, however both go on from their common node."""
        surplus = one.cost - other.cost
        for tree, ours, theirs in zip(self.subtrees, one.tables, other.tables, strict=False):
            more = tree.tables.surplus(ours, theirs)
            if more is None:
                return False
            surplus += more
        return surplus <= 0

    def _note(self, partial: PartialPlan, estimate: int) -> None:
        progress = self.progress
        progress.bound = max(progress.bound, estimate)
        if self.moves[partial.node] < progress.moves:
            progress.node, progress.moves = partial.node, self.moves[partial.node]


def _with_tables(partial: PartialPlan, steps: list[Transition | None]) -> PartialPlan | None:
    found = [one for one in steps if one is not None]
    if len(found) < len(steps):
        return None
    cost = partial.cost + sum(price for price, _ in found)
    return PartialPlan(
        partial.node, cost, partial.state, tuple(table for _, table in found), partial.outside, partial.before
    )
