"""The cheapest way where so many addons are bound together that not every choice of them can be looked at.

A* over whole states (Hart, Nilsson, Raphael 1968), with :mod:`.alone` and the fewest node moves as the estimate. Where
facts between addons only say in which order they move, the estimate is the truth and the search goes straight to the
goal. Of equal estimates the state nearest to the goal goes on, and a node moves before an addon: so addons move late.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.alone import GONE, Alone, Spot
from clusterstacks.domain.planning.model import Choice, Node
from clusterstacks.domain.planning.search import (
    ADDON_COST,
    NODE_COST,
    OUT_OF_REACH,
    BudgetReached,
    Costs,
    Search,
    Way,
    node_distances,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.domain.planning.compiling import Model

MOST_CHOICES = 1000
"""Choices of a group above which whole states are searched (measured: about where that becomes the faster one)."""


def cheapest_way(model: Model, budget: int, most_choices: int = MOST_CHOICES) -> Way | None:
    """Return the cheapest way; None when there is none.

    Args:
        model: The numbered world.
        budget: Choices that may be looked at.
        most_choices: Of one group, to look at all of them.

    Raises:
        BudgetReached: It is not known whether there is one.
    """
    largest = max((prod(len(addon.options) + 1 for addon in group.addons) for group in model.groups), default=0)
    return (WholeSearch if largest > most_choices else Search)(model, budget).cheapest()


STATE_PRICE = 4
"""What a state takes of the budget: it costs the time of about so many choices."""


@dataclass(frozen=True, slots=True)
class Place:
    """A whole state.

    Args:
        node: Where class and Kubernetes are.
        choices: By group, what is installed; None while the class is a bundle's.
        strict: Whether nothing may be violated. Where the cluster is now it may violate facts already.
    """

    node: Node
    choices: tuple[Choice, ...] | None
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Path:
    """A way to a state.

    Args:
        place: The state.
        cost: Of all moves.
        before: The way it extends; None at the start.
    """

    place: Place
    cost: int
    before: Path | None = None


@dataclass(slots=True)
class WholeSearch:
    """One search.

    Args:
        model: The numbered world.
        budget: Choices it may look at; a state counts as :data:`STATE_PRICE` of them.
    """

    model: Model
    budget: int
    _nodes: Mapping[Node, int] = field(init=False)
    _alone: Sequence[Sequence[Mapping[Spot, int]]] = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        self._nodes = node_distances(model)
        self._alone = [
            [Alone(model, self._nodes, group, at).distances() for at in range(len(model.groups[group].addons))]
            for group in range(len(model.groups))
        ]

    def cheapest(self) -> Way | None:
        """Return the cheapest way; None when there is none.

        Raises:
            BudgetReached: It is not known whether there is one.
        """
        ticket, start = count(), self._start()
        costs: dict[Place, int] = {start: 0}
        heap = [(self._rest(start), 0, next(ticket), Path(start, 0))]
        while heap:
            estimate, _, _, path = heapq.heappop(heap)
            if estimate >= OUT_OF_REACH:
                return None
            if path.cost > costs[path.place]:
                continue
            self._count()
            if not self._is_allowed(path.place):
                continue
            if self._is_goal(path.place):
                return _way_of(path)
            for price, place in self._following(path.place):
                cost = path.cost + price
                if cost < costs.get(place, cost + 1):
                    costs[place] = cost
                    rest = self._rest(place)
                    heapq.heappush(heap, (cost + rest, rest, next(ticket), Path(place, cost, path)))
        return None

    def _start(self) -> Place:
        model = self.model
        place = Place(model.start, None if model.is_bundle(model.start) else model.choices)
        return place if self._is_allowed(place) else replace(place, strict=False)

    def _rest(self, place: Place) -> int:
        """Return what remains at least; :data:`OUT_OF_REACH` and more where no way leads to the goal."""
        rest = NODE_COST * self._nodes.get(place.node, OUT_OF_REACH)
        for at, group in enumerate(self._alone):
            for addon, distances in enumerate(group):
                option = GONE if place.choices is None else place.choices[at][addon]
                rest += distances.get((place.node, option), OUT_OF_REACH)
        return rest

    def _is_goal(self, place: Place) -> bool:
        model = self.model
        return model.is_goal(place.node) and all(model.meets(at, one) for at, one in enumerate(place.choices or ()))

    def _is_allowed(self, place: Place) -> bool:
        """Tell whether a state violates nothing it may not.

        Asked when a state's turn comes, which is never for most of those that are found; only where facts are violated
        already it depends on the state before, and is asked by :meth:`_following`.
        """
        if not place.strict or place.choices is None:
            return True
        groups = zip(self.model.groups, place.choices, strict=True)
        return all(group.allows(place.node, choice) for group, choice in groups)

    def _following(self, place: Place) -> Iterator[tuple[int, Place]]:
        """Yield what one move leads to, with the price; node moves first."""
        for node in self.model.successors(place.node):
            if self.model.is_bundle(node):
                yield NODE_COST, Place(node, None)
            elif place.choices is not None:
                yield NODE_COST, Place(node, place.choices)
            elif self._may_release(place.node, node):
                yield NODE_COST, Place(node, self.model.offered(node.candidate))
        choices = place.choices or ()
        for at, here in enumerate(choices):
            for there in self.model.groups[at].neighbours(here):
                if place.strict or self._adds_nothing(at, here, there):
                    yield ADDON_COST, Place(place.node, (*choices[:at], there, *choices[at + 1 :]), place.strict)

    def _may_release(self, old: Node, new: Node) -> bool:
        """Out of a bundle the addons are those of the new release; they must allow the old version, too."""
        node = Node(new.candidate, old.version)
        offered = zip(self.model.groups, self.model.offered(new.candidate), strict=True)
        return all(group.contain(node, choice) for group, choice in offered)

    def _adds_nothing(self, at: int, here: Choice, there: Choice) -> bool:
        group, start = self.model.groups[at], self.model.start
        return group.violated(start, there) <= group.violated(start, here)

    def _count(self) -> None:
        self.budget -= STATE_PRICE
        if self.budget < 0:
            raise BudgetReached


def _way_of(path: Path) -> Way:
    """Turn states into node moves, each with the choices passed there and what they cost so far."""
    first, *rest = _places(path)
    way = Way(first.node, 0, _entered(first, None))
    for place in rest:
        if place.node != way.node:
            way = Way(place.node, way.cost + NODE_COST, _entered(place, way.costs), way)
            continue
        for costs, choice in zip(way.costs or (), place.choices or (), strict=True):
            costs.setdefault(choice, _so_far(costs) + ADDON_COST)
    return way


def _places(path: Path) -> list[Place]:
    places = [path.place]
    while path.before is not None:
        path = path.before
        places.append(path.place)
    return places[::-1]


def _entered(place: Place, before: tuple[Costs, ...] | None) -> tuple[Costs, ...] | None:
    if place.choices is None:
        return None
    so_far = [0] * len(place.choices) if before is None else [_so_far(costs) for costs in before]
    return tuple({choice: cost} for choice, cost in zip(place.choices, so_far, strict=True))


def _so_far(costs: Costs) -> int:
    return max(costs.values())
