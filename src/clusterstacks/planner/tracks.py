"""What the choices of a part cost so far, along a way of class, Kubernetes and spine.

The costs of all choices together are one *track*. There are few different ones: so each has a number, and what follows
from it at a place is computed once.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.planner.model import ADDON_COST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.planner.effort import Effort
    from clusterstacks.planner.model import Choice
    from clusterstacks.planner.parts import Part, Place

Costs = dict["Choice", int]
"""What it costs at least to have each choice."""

Step = tuple[int, int]
"""A price, and the number of the track it leads to."""


@dataclass(slots=True)
class Tracks:
    """The tracks of one part.

    Args:
        part: The addons.
        effort: What may be spent.
        step: Cost of an addon step; 0 where only it matters what can be reached.
    """

    part: Part
    effort: Effort
    step: int = ADDON_COST
    costs: list[Costs] = field(default_factory=list)
    _numbers: dict[frozenset[tuple[Choice, int]], int] = field(default_factory=dict)
    _entered: dict[tuple[int, Place], Step | None] = field(default_factory=dict)
    _surplus: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def begin(self, place: Place, choice: Choice, *, outside: bool) -> int:
        """Return the track of what is installed, and of all that can be had without a node move.

        Args:
            place: Where the cluster is.
            choice: What is installed.
            outside: Whether facts are violated already: then a step may not add a violation.
        """
        allowed = self._no_worse(place) if outside else self._legal(place)
        return self._number(self._spread({choice: 0}, allowed))[1]

    def enter(self, track: int, place: Place) -> Step | None:
        """Go to a place where nothing may be violated, and to all that can be had there; None where no choice may."""
        key = track, place
        if key not in self._entered:
            going = {choice: cost for choice, cost in self.costs[track].items() if self.part.allows(place, choice)}
            self.effort.look(len(self.costs[track]))
            self._entered[key] = self._number(self._spread(going, self._legal(place))) if going else None
        return self._entered[key]

    def slide(self, track: int, old: Place, new: Place) -> Step | None:
        """Go to a place that may be outside the ranges as much as the old one; None where no choice may."""
        part = self.part
        going = {
            choice: cost for choice, cost in self.costs[track].items() if not part.worsens((old, choice), (new, choice))
        }
        return self._number(self._spread(going, self._no_worse(new))) if going else None

    def surplus(self, one: int, other: int) -> int | None:
        """Return by how much the first track is dearer at most; None where it lacks a choice of the other."""
        key = one, other
        if key not in self._surplus:
            ours, theirs = self.costs[one], self.costs[other]
            lacks = len(theirs) > len(ours) or not theirs.keys() <= ours.keys()
            self._surplus[key] = None if lacks else max(ours[choice] - cost for choice, cost in theirs.items())
        return self._surplus[key]

    def least(self, track: int, rest: Callable[[Choice], int]) -> int:
        """Return the least of what a choice costs so far and what remains of it."""
        return min(cost + rest(choice) for choice, cost in self.costs[track].items())

    def _legal(self, place: Place) -> Callable[[Choice, Choice], bool]:
        return lambda _old, new: self.part.allows(place, new)

    def _no_worse(self, place: Place) -> Callable[[Choice, Choice], bool]:
        return lambda old, new: not self.part.worsens((place, old), (place, new))

    def _spread(self, costs: Costs, allowed: Callable[[Choice, Choice], bool]) -> Costs:
        """Add every choice that addon steps lead to, with its least cost."""
        result = dict(costs)
        heap = sorted((cost, choice) for choice, cost in costs.items())
        looks = 0
        while heap:
            cost, here = heapq.heappop(heap)
            if cost > result[here]:
                continue
            following = cost + self.step
            for there in self.part.neighbours(here):
                looks += 1
                if following < result.get(there, following + 1) and allowed(here, there):
                    result[there] = following
                    heapq.heappush(heap, (following, there))
            if looks > 1000:
                self.effort.look(looks)
                looks = 0
        self.effort.look(looks)
        return result

    def _number(self, costs: Mapping[Choice, int]) -> Step:
        least = min(costs.values())
        reduced = {choice: cost - least for choice, cost in costs.items()}
        key = frozenset(reduced.items())
        if key not in self._numbers:
            self._numbers[key] = len(self.costs)
            self.costs.append(reduced)
        return least, self._numbers[key]
