"""What a few addons cost at least on the way to the goal, as if there were no others and node moves were free.

The facts about others are left out, so no plan is cheaper; and as every addon is in one pattern, the costs of all
patterns may be added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from clusterstacks.planner.model import ABSENT, ADDON_COST, Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.planner.effort import Effort
    from clusterstacks.planner.model import Choice, Model
    from clusterstacks.planner.parts import Part, Place

Spot = tuple["Place", "Choice"]


@dataclass(frozen=True)
class Estimate:
    """One pattern.

    Args:
        model: The numbered world.
        part: The addons, and the facts about them alone.
        ways: By node on ways to the goal, those one move away that are, too.
        effort: What may be spent.
        starts_outside: Whether the cluster is outside its ranges: then any version may be there at first.
    """

    model: Model
    part: Part
    ways: Mapping[Node, Sequence[Node]]
    effort: Effort
    starts_outside: bool

    @cached_property
    def remaining(self) -> dict[Spot, int]:
        """By place and choice, the least cost of the steps that remain; none where there is no way."""
        found: dict[Spot, int] = {}
        left = {place: set(choices) for place, choices in self._allowed.items()}
        level = list(self._ends())
        cost = 0
        while level:
            reached = []
            while level:
                place, choice = level.pop()
                if choice not in left[place]:
                    continue
                left[place].remove(choice)
                found[place, choice] = cost
                reached.append((place, choice))
                level += [(before, choice) for before in self._places_before[place] if choice in left[before]]
            for place, choice in reached:
                waiting = left[place]
                if waiting:
                    level += [(place, before) for before in self._steps_before(choice) if before in waiting]
            self.effort.look(len(reached) + len(level))
            cost += ADDON_COST
        return found

    def place(self, node: Node) -> Place:
        """Return what the pattern depends on."""
        return self.part.place(node, ())

    def _ends(self) -> Iterator[Spot]:
        model = self.model
        for node, following in self.ways.items():
            if model.is_bundle(node):
                continue
            place = self.place(node)
            into_bundle = any(model.is_bundle(one) for one in following)
            if into_bundle or model.is_goal(node):
                ends = (one for one in self._allowed[place] if into_bundle or self.part.ends(one))
                yield from ((place, choice) for choice in ends)

    @cached_property
    def _allowed(self) -> dict[Place, frozenset[Choice]]:
        start = self.place(self.model.start)
        allowed: dict[Place, frozenset[Choice]] = {}
        for node in self.ways:
            place = self.place(node)
            if place not in allowed and not self.model.is_bundle(node):
                any_will_do = self.starts_outside and place == start
                choices = list(product(*self._options(place, any_will_do=any_will_do)))
                self.effort.look(len(choices))
                allowed[place] = frozenset(one for one in choices if any_will_do or self.part.allows(place, one))
        return allowed

    def _options(self, place: Place, *, any_will_do: bool) -> Iterator[list[int]]:
        """Yield for each addon the options that the facts about it alone allow: there are fewer pairs of these."""
        node = Node(place[0], place[1])
        for at, addon in zip(self.part.at, self.part.addons, strict=True):
            own = [] if any_will_do else [scope for scope, _ in self.part.scopes if scope.at == (at,)]
            options = range(ABSENT, len(addon.options))
            yield [one for one in options if not any(scope.violated(node, (one,)) for scope in own)]

    @cached_property
    def _places_before(self) -> dict[Place, set[Place]]:
        before: dict[Place, set[Place]] = {place: set() for place in self._allowed}
        for node, following in self.ways.items():
            if not self.model.is_bundle(node):
                here = self.place(node)
                for one in following:
                    if not self.model.is_bundle(one) and (there := self.place(one)) != here:
                        before[there].add(here)
        return before

    @cached_property
    def _options_before(self) -> list[dict[int, list[int]]]:
        found = []
        for addon in self.part.addons:
            back: dict[int, list[int]] = {}
            for option in (*range(len(addon.options)), ABSENT):
                for there in addon.moves[option]:
                    back.setdefault(there, []).append(option)
            found.append(back)
        return found

    def _steps_before(self, choice: Choice) -> Iterator[Choice]:
        for at, back in enumerate(self._options_before):
            for option in back.get(choice[at], ()):
                yield (*choice[:at], option, *choice[at + 1 :])


def ways_to_goal(model: Model, effort: Effort) -> tuple[dict[Node, tuple[Node, ...]], dict[Node, int]]:
    """Return the nodes on ways to the goal, each with those one move away; and their fewest moves to the goal."""
    after: dict[Node, tuple[Node, ...]] = {}
    queue = [model.start]
    while queue:
        here = queue.pop()
        if here not in after:
            after[here] = tuple(model.successors(here))
            effort.look(len(after[here]) + 1)
            queue += after[here]
    before: dict[Node, list[Node]] = {}
    for here, following in after.items():
        for there in following:
            before.setdefault(there, []).append(here)
    moves: dict[Node, int] = dict.fromkeys(filter(model.is_goal, after), 0)
    level = list(moves)
    while level:
        near = (one for here in level for one in before.get(here, ()))
        reached = {one: moves[level[0]] + 1 for one in near if one not in moves}
        moves |= reached
        level = list(reached)
    return {here: tuple(one for one in after[here] if one in moves) for here in after if here in moves}, moves
