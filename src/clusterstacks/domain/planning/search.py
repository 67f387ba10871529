"""The cheapest way from the start to the goal.

Between two moves of class and Kubernetes ("node moves") the groups of addons do not see each other. So the search goes
over sequences of node moves, best first, and carries for each group what every choice costs so far. A sequence that
another one to the same node beats for every choice is dropped. The estimate of what remains never exceeds it: the
fewest node moves, and for each addon the fewest steps to a version it may end with.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from clusterstacks.domain.planning.model import ABSENT, Choice, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.domain.planning.compiling import Model
    from clusterstacks.domain.planning.model import Addon, Group

T = TypeVar("T")

NODE_COST = 10
"""Cost of a move of Kubernetes, class or release: nodes roll."""

ADDON_COST = 1
"""Cost of an addon step."""

BUDGET = 400_000
"""Choices looked at before the search gives up. Arbitrary: some seconds."""

OUT_OF_REACH = 10**6
"""Steps to where no step leads."""

Costs = dict[Choice, int]
"""What it costs so far to have a group at each choice."""


class BudgetReached(Exception):
    """The search looked at as many choices as it may."""


@dataclass(frozen=True, slots=True)
class Way:
    """A sequence of node moves, as far as it is known.

    Args:
        node: Where it is.
        cost: Of the node moves, and of the addon steps before the class became a bundle's.
        costs: By group; None while the class is a bundle's.
        before: The way it extends; None at the start.
    """

    node: Node
    cost: int
    costs: tuple[Costs, ...] | None
    before: Way | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, the start first."""
        return (*(self.before.nodes if self.before is not None else ()), self.node)


@dataclass(slots=True)
class Search:
    """One search.

    Args:
        model: The numbered world.
        budget: Choices it may look at.
    """

    model: Model
    budget: int = BUDGET
    _spread: dict[tuple[int, Node, tuple[tuple[Choice, int], ...]], Costs] = field(default_factory=dict)

    def cheapest(self) -> Way | None:
        """Return the cheapest way; None when there is none.

        Raises:
            BudgetReached: It is not known whether there is one.
        """
        model = self.model
        remaining = node_distances(model)
        hops = self._addon_distances()
        ticket = count()
        heap: list[tuple[int, bool, tuple[Node, ...], int, Way]] = []
        settled: dict[Node, list[Way]] = {}

        def push(way: Way) -> None:
            if way.node not in remaining:
                return
            estimate = way.cost + remaining[way.node] * NODE_COST + self._rest(way, hops)
            if estimate >= OUT_OF_REACH:
                return
            heapq.heappush(heap, (estimate, True, way.nodes, next(ticket), way))

        push(Way(model.start, 0, self._start_costs()))
        while heap:
            _estimate, is_open, nodes, _, way = heapq.heappop(heap)
            if not is_open:
                return way
            if (total := self._total(way)) is not None:
                heapq.heappush(heap, (total, False, nodes, next(ticket), way))
            if any(_beats(other, way) for other in settled.setdefault(way.node, [])):
                continue
            settled[way.node].append(way)
            for node in model.successors(way.node):
                if (following := self._advance(way, node)) is not None:
                    push(following)
        return None

    def _start_costs(self) -> tuple[Costs, ...] | None:
        model = self.model
        if model.is_bundle(model.start):
            return None
        return tuple(
            self._spread_from_start(group, choice) for group, choice in zip(model.groups, model.choices, strict=True)
        )

    def _spread_from_start(self, group: Group, choice: Choice) -> Costs:
        """Where the cluster is outside its ranges already, an addon step may not add a violation."""
        start = self.model.start
        costs, queue = {choice: 0}, deque([choice])
        while queue:
            here = queue.popleft()
            for there in group.neighbours(here):
                self._count()
                if there not in costs and group.violated(start, there) <= group.violated(start, here):
                    costs[there] = costs[here] + ADDON_COST
                    queue.append(there)
        return costs

    def _advance(self, way: Way, node: Node) -> Way | None:
        """Extend a way by a node move; None where the addons do not allow it."""
        cost = way.cost + NODE_COST
        if self.model.is_bundle(node):
            # The steps that addons had to take until here stay in the plan.
            left_behind = sum(min(costs.values()) for costs in way.costs or ())
            return Way(node, cost + left_behind, None, way)
        costs = self._released(way, node) if way.costs is None else self._kept(way.costs, node)
        return None if costs is None else Way(node, cost, costs, way)

    def _kept(self, before: tuple[Costs, ...], node: Node) -> tuple[Costs, ...] | None:
        """The addons stay: only choices that are allowed at the new node go on, and may move from there."""
        result = []
        for at, costs in enumerate(before):
            group = self.model.groups[at]
            going = {choice: cost for choice, cost in costs.items() if group.allows(node, choice)}
            if not going:
                return None
            result.append(self._spread_out(at, node, going))
        return tuple(result)

    def _released(self, way: Way, node: Node) -> tuple[Costs, ...] | None:
        """Out of a bundle the addons are those of the new release; they must allow the old version, too."""
        old = Node(node.candidate, way.node.version)
        offered = self.model.offered(node.candidate)
        for group, choice in zip(self.model.groups, offered, strict=True):
            if not group.allows(node, choice) or not group.contain(old, choice):
                return None
        return tuple(self._spread_out(at, node, {choice: 0}) for at, choice in enumerate(offered))

    def _spread_out(self, at: int, node: Node, costs: Costs) -> Costs:
        """Add every choice that addon steps lead to at a node, with its least cost."""
        key = (at, node, tuple(sorted(costs.items())))
        if key in self._spread:
            return self._spread[key]
        group, result = self.model.groups[at], dict(costs)
        heap = sorted((cost, choice) for choice, cost in costs.items())
        while heap:
            cost, here = heapq.heappop(heap)
            if cost > result[here]:
                continue
            for there in group.neighbours(here):
                self._count()
                if cost + ADDON_COST < result.get(there, cost + ADDON_COST + 1) and group.allows(node, there):
                    result[there] = cost + ADDON_COST
                    heapq.heappush(heap, (cost + ADDON_COST, there))
        self._spread[key] = result
        return result

    def _total(self, way: Way) -> int | None:
        """What a way costs when it ends here; None when it cannot."""
        if not self.model.is_goal(way.node):
            return None
        total = way.cost
        for at, costs in enumerate(way.costs or ()):
            ends = [cost for choice, cost in costs.items() if self.model.meets(at, choice)]
            if not ends:
                return None
            total += min(ends)
        return total

    def _rest(self, way: Way, hops: tuple[tuple[Mapping[int, int], ...], ...] | None) -> int:
        """Estimate what the addons cost, with what they cost so far; too much for a choice that cannot end."""
        if way.costs is None:
            return 0
        if hops is None:
            return sum(min(costs.values()) for costs in way.costs)
        return sum(
            min(cost + sum(map(_hop, group, choice)) for choice, cost in costs.items())
            for group, costs in zip(hops, way.costs, strict=True)
        )

    def _addon_distances(self) -> tuple[tuple[Mapping[int, int], ...], ...] | None:
        """By group, addon and option, the fewest steps to an option it may end with; None where any will do."""
        model = self.model
        if model.goals is None:
            return None
        return tuple(
            tuple(_distances(wanted, backwards(addon)) for addon, wanted in zip(group.addons, goals, strict=True))
            for group, goals in zip(model.groups, model.goals, strict=True)
        )

    def _count(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise BudgetReached


def node_distances(model: Model) -> dict[Node, int]:
    """By node, the fewest node moves to a goal, where it can be reached at all."""
    back: dict[Node, list[Node]] = {}
    seen, queue = {model.start}, deque([model.start])
    while queue:
        here = queue.popleft()
        for there in model.successors(here):
            back.setdefault(there, []).append(here)
            if there not in seen:
                seen.add(there)
                queue.append(there)
    return _distances([node for node in seen if model.is_goal(node)], back)


def _hop(distances: Mapping[int, int], option: int) -> int:
    return distances.get(option, OUT_OF_REACH)


def _beats(one: Way, other: Way) -> bool:
    """Whether ``one`` ends at most as dear as ``other``, however both go on from their common node."""
    if one.costs is None or other.costs is None:
        return one.cost <= other.cost
    surplus = 0
    for ours, theirs in zip(one.costs, other.costs, strict=True):
        if not theirs.keys() <= ours.keys():
            return False
        surplus += max(ours[choice] - cost for choice, cost in theirs.items())
    return one.cost + surplus <= other.cost


def backwards(addon: Addon) -> dict[int, list[int]]:
    """By option, those it is one step away from."""
    back: dict[int, list[int]] = {}
    for option in (*range(len(addon.options)), ABSENT):
        for there in addon.moves[option]:
            back.setdefault(there, []).append(option)
    return back


def _distances(ends: Iterable[T], back: Mapping[T, list[T]]) -> dict[T, int]:
    """By place, the fewest steps to one of ``ends``; ``back`` leads from a place to those before it."""
    found = dict.fromkeys(ends, 0)
    queue = deque(found)
    while queue:
        here = queue.popleft()
        for there in back.get(here, ()):
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found
