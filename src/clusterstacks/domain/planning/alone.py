"""What remains at least: every addon as if it were alone.

The facts about several addons at once are left out. Then an addon's steps depend on where class and Kubernetes are, and
on nothing else, so the fewest steps to the goal are found for every addon, node and option before the search begins.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.model import ABSENT, Node
from clusterstacks.domain.planning.search import backwards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.domain.planning.compiling import Model
    from clusterstacks.domain.planning.model import Group

GONE = ABSENT - 1
"""In place of an option: the class is a bundle's, whose addons are not looked at."""

Spot = tuple[Node, int]
"""A node and an addon's option there, or :data:`GONE`."""


@dataclass(frozen=True)
class Alone:
    """One addon of a model.

    Args:
        model: The numbered world.
        nodes: Those on ways to the goal.
        group: Which group of the model the addon is in.
        at: Where it is in its group.
    """

    model: Model
    nodes: Mapping[Node, object]
    group: int
    at: int

    def distances(self) -> dict[Spot, int]:
        """By spot, the fewest steps of this addon on any way to the goal; none where there is no way."""
        found = dict.fromkeys(self._ends(), 0)
        heap = [(0, spot) for spot in sorted(found)]
        while heap:
            steps, spot = heapq.heappop(heap)
            if steps > found[spot]:
                continue
            for price, before in self._before(spot):
                if steps + price < found.get(before, steps + price + 1):
                    found[before] = steps + price
                    heapq.heappush(heap, (steps + price, before))
        return found

    @cached_property
    def _rules(self) -> Group:
        return self.model.alone[self.group][self.at]

    @cached_property
    def _options(self) -> dict[Node, frozenset[int]]:
        """By node, the options this addon may have there; where the cluster is now it may violate facts already."""
        every = range(ABSENT, len(self._rules.addons[0].options))
        model = self.model
        return {
            node: frozenset({GONE})
            if model.is_bundle(node)
            else frozenset(one for one in every if node == model.start or self._rules.allows(node, (one,)))
            for node in self.nodes
        }

    @cached_property
    def _nodes_before(self) -> dict[Node, list[Node]]:
        before: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for there in self.model.successors(node):
                before.setdefault(there, []).append(node)
        return before

    @cached_property
    def _options_before(self) -> dict[int, list[int]]:
        return backwards(self._rules.addons[0])

    def _ends(self) -> Iterator[Spot]:
        goals = self.model.goals
        for node in self.nodes:
            if self.model.is_goal(node):
                for option in self._options[node]:
                    if option == GONE or goals is None or option in goals[self.group][self.at]:
                        yield node, option

    def _before(self, spot: Spot) -> Iterator[tuple[int, Spot]]:
        """Yield the spots one move before, with the steps of this addon that the move takes."""
        node, option = spot
        for before in self._nodes_before.get(node, ()):
            if option == GONE:
                yield from ((0, (before, one)) for one in self._options[before])
            elif option in self._options[before] or (
                self.model.is_bundle(before) and option == self.model.offered(node.candidate)[self.group][self.at]
            ):
                yield 0, (before, GONE if self.model.is_bundle(before) else option)
        for one in self._options_before.get(option, ()):
            if one in self._options[node]:
                yield 1, (node, one)
