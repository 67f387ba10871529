"""Finds the cheapest way from the start to the goal.

A* (Hart, Nilsson, Raphael 1968) over the moves of class and Kubernetes and, where facts connect too many addons, of the
addons of the spine. The other addons are in subtrees: a way carries for each subtree the table of its least costs. A
way that another way to the same place beats in every state is dropped. The remaining cost is estimated by the fewest
node moves and, for each pattern of addons, by the fewest steps of these alone.

States that cost more than the slack above the best estimate of their table are dropped. If the plan found is within the
slack of the estimate at the start, no plan is cheaper. Otherwise the search starts again with more slack.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from clusterstacks.planner.model import ADDON_COST, NODE_COST, TopologyState
from clusterstacks.planner.pattern_database import OUT_OF_REACH, PatternDatabase, ways_to_goal
from clusterstacks.planner.subtrees import MOST_CHOICES, Limits, decompose, pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.planner.budget import Budget
    from clusterstacks.planner.model import Choice, PlanningModel
    from clusterstacks.planner.subtrees import Transition

SLACKS = (0, 2, OUT_OF_REACH)
"""Slack of one search after another (measured): most plans cost what the estimate says."""


@dataclass(frozen=True, slots=True)
class PartialPlan:
    """A sequence of moves of class, Kubernetes and spine.

    Args:
        node: The class and the Kubernetes version.
        cost: Cost of these moves, and of the addon steps that every state of a subtree needed.
        state: By addon its option; for addons of subtrees the installed one. None while the class is a bundle's.
        tables: By subtree, the number of its table.
        outside: Whether facts may be violated as they were at the start.
        before: The way it extends; None at the start.
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
        node: The node of the way that came nearest to the goal, in node moves; None before the first.
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
        budget: What may be spent.
        only_reach: Whether only the existence of a way matters: then no move costs anything.
        most_choices: Bound of the width of a subtree.
    """

    model: PlanningModel
    budget: Budget
    only_reach: bool = False
    most_choices: int = MOST_CHOICES
    progress: Progress = field(default_factory=Progress)

    def cheapest(self) -> PartialPlan | None:
        """Return the cheapest way; None when there is none.

        Raises:
            BudgetExhausted: It is not known whether there is one.
        """
        model, budget = self.model, self.budget
        self.ways, self.moves = ways_to_goal(model, budget)
        self.outside = not model.is_bundle(model.start) and self._is_outside(model.start, model.installed)
        if model.start not in self.moves:
            return None
        self.estimates = [
            PatternDatabase(model, at, self.ways, budget, self.outside, self.only_reach) for at in pairs_of(model)
        ]
        if self.only_reach and self._is_estimate_exact():
            (estimate,) = self.estimates
            rest = estimate.least(model.start, tuple(model.installed[at] for at in estimate.at))
            return PartialPlan(model.start, 0, model.installed, ()) if rest < OUT_OF_REACH else None
        for slack in (OUT_OF_REACH,) if self.only_reach else SLACKS:
            way = self._cheapest_within(slack)
            if way is not None:
                return way
        return None

    def _is_estimate_exact(self) -> bool:
        """Report whether the only estimate tells if there is a way.

        Of classes at the same Kubernetes version each leads to where the other does, so they need not be told apart.
        """
        return (
            len(self.estimates) == 1
            and not self.outside
            and not self.model.is_bundle(self.model.start)
            and not any(scope.by_class for scope in self.model.scopes)
        )

    def _cheapest_within(self, slack: int) -> PartialPlan | None:
        """Return the cheapest way; None if it costs more than the estimate at the start and the slack."""
        self.node_cost, self.addon_cost = (0, 0) if self.only_reach else (NODE_COST, ADDON_COST)
        limits = Limits(self.budget, self.addon_cost, slack)
        self.spine, self.subtrees = decompose(self.model, self.estimates, limits, self.most_choices)
        self.frame = [scope for scope in self.model.scopes if set(self.spine).issuperset(scope.at)]
        self.beside = [one for one in self.estimates if set(self.spine).issuperset(one.at)]
        ticket = count()
        heap: list[tuple[int, int, int, int, int, PartialPlan]] = []
        settled: dict[tuple[TopologyState, bool, Choice | None], list[PartialPlan]] = {}

        def push(way: PartialPlan | None) -> None:
            if way is not None and (rest := self._rest(way)) < OUT_OF_REACH:
                heapq.heappush(heap, (way.cost + rest, 1, rest, self.moves[way.node], next(ticket), way))

        push(self._start())
        most = heap[0][0] + slack if heap else 0
        while heap and heap[0][0] <= most:
            estimate, is_open, *_, way = heapq.heappop(heap)
            self._note(way, estimate)
            if not is_open:
                return way
            ways = settled.setdefault((way.node, way.outside, self._spine_state(way)), [])
            self.budget.spend(len(ways) + 1)
            if any(self._beats(other, way) for other in ways):
                continue
            ways.append(way)
            if (total := self._total(way)) is not None:
                heapq.heappush(heap, (total, 0, 0, 0, next(ticket), way))
            for following in self._following(way):
                self.budget.spend()
                push(following)
        self.progress.bound = max(self.progress.bound, most + 1)
        return None

    def _is_outside(self, node: TopologyState, state: Choice) -> bool:
        return any(scope.violated(node, tuple(state[at] for at in scope.at)) for scope in self.model.scopes)

    def _start(self) -> PartialPlan | None:
        model = self.model
        if model.is_bundle(model.start):
            return PartialPlan(model.start, 0, None, ())
        return self._begun(PartialPlan(model.start, 0, model.installed, (), self.outside))

    def _begun(self, way: PartialPlan) -> PartialPlan | None:
        """Return a way with the tables of what is installed."""
        assert way.state is not None  # noqa: S101 - the callers have one
        steps = [tree.begin(tree.place(way.node, way.state), way.state, outside=way.outside) for tree in self.subtrees]
        return _with_tables(way, steps)

    def _following(self, way: PartialPlan) -> Iterator[PartialPlan | None]:
        """Yield what one move of class, Kubernetes or spine leads to."""
        model = self.model
        for node in self.ways[way.node]:
            cost = way.cost + self.node_cost
            if model.is_bundle(node):
                yield PartialPlan(node, cost, None, (), before=way)
            elif way.state is None:
                yield self._released(way, node)
            else:
                yield self._moved(way, PartialPlan(node, cost, way.state, (), before=way))
        if way.state is not None:
            for at in self.spine:
                for option in model.addons[at].moves[way.state[at]]:
                    state = (*way.state[:at], option, *way.state[at + 1 :])
                    yield self._moved(
                        way, PartialPlan(way.node, way.cost + self.addon_cost, state, (), way.outside, before=way)
                    )

    def _moved(self, old: PartialPlan, new: PartialPlan) -> PartialPlan | None:
        """Return a way with the tables that follow from those before; None if no state is allowed there.

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
            place, before = tree.place(new.node, new.state), tree.place(old.node, old.state)
            is_unmoved = new.outside and place == before
            steps.append((0, table) if is_unmoved else tree.enter(table, place, before if new.outside else None))
            if steps[-1] is None:
                return None
        return _with_tables(new, steps)

    def _released(self, way: PartialPlan, node: TopologyState) -> PartialPlan | None:
        """Return the way out of a bundle: to the addons of the new release, which must allow the old version too."""
        model = self.model
        old, state = TopologyState(node.candidate, way.node.version), model.offered(node.candidate)
        for scope in model.scopes:
            choice = tuple(state[at] for at in scope.at)
            if scope.violated(node, choice) or not scope.contains(old, choice):
                return None
        return self._begun(PartialPlan(node, way.cost + self.node_cost, state, (), before=way))

    def _spine_state(self, way: PartialPlan) -> Choice | None:
        return None if way.state is None else tuple(way.state[at] for at in self.spine)

    def _total(self, way: PartialPlan) -> int | None:
        """Return the cost of a way that ends here; None if it cannot."""
        if not self.model.is_goal(way.node):
            return None
        if way.state is None:
            return way.cost
        if not all(self.model.addons[at].ends(way.state[at]) for at in self.spine):
            return None
        total = way.cost + sum(tree.end(table) for tree, table in zip(self.subtrees, way.tables, strict=True))
        return total if total < OUT_OF_REACH else None

    def _rest(self, way: PartialPlan) -> int:
        """Return a lower bound of what remains; :data:`OUT_OF_REACH` and more if no way leads to the goal."""
        rest = self.moves[way.node] * self.node_cost
        if way.state is None:
            return rest
        for estimate in self.beside:
            rest += estimate.least(way.node, tuple(way.state[at] for at in estimate.at))
        for tree, table in zip(self.subtrees, way.tables, strict=True):
            rest += tree.rest(table, tree.place(way.node, way.state))
        return rest

    def _beats(self, one: PartialPlan, other: PartialPlan) -> bool:
        """Report whether ``one`` ends at most as dear as ``other``, however both go on from their common place."""
        surplus = one.cost - other.cost
        for tree, ours, theirs in zip(self.subtrees, one.tables, other.tables, strict=False):
            more = tree.surplus(ours, theirs)
            if more is None:
                return False
            surplus += more
        return surplus <= 0

    def _note(self, way: PartialPlan, estimate: int) -> None:
        progress = self.progress
        progress.bound = max(progress.bound, estimate)
        if self.moves[way.node] < progress.moves:
            progress.node, progress.moves = way.node, self.moves[way.node]


def _with_tables(way: PartialPlan, steps: list[Transition | None]) -> PartialPlan | None:
    found = [one for one in steps if one is not None]
    if len(found) < len(steps):
        return None
    cost = way.cost + sum(price for price, _ in found)
    return PartialPlan(way.node, cost, way.state, tuple(table for _, table in found), way.outside, way.before)
