"""Pattern databases (Culberson and Schaeffer 1998): lower bounds of the cost that remains, for a few addons each.

A pattern leaves out the other addons and the cost of node moves, so no plan is cheaper. Every addon is in one pattern,
so the bounds of all patterns may be added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from clusterstacks.plan.planner.model import ABSENT, ADDON_COST, ANY, TopologyState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.model import Choice, PlanningModel, Scope

OUT_OF_REACH = 10**6
"""Cost of a state from which no plan leads to the goal."""


@dataclass(frozen=True)
class PatternDatabase:
    """The least remaining costs of a few addons.

    Args:
        model: The numbered world.
        at: Numbers of the addons.
        successors: By node from which the goal can be reached, such nodes one move away.
        budget: Bounds the work.
        starts_outside: Whether the cluster violates facts: then any version is allowed at the start.
    """

    model: PlanningModel
    at: tuple[int, ...]
    successors: Mapping[TopologyState, Sequence[TopologyState]]
    budget: Budget
    starts_outside: bool

    def least(self, node: TopologyState, choice: Choice) -> int:
        """Return the least cost that remains; :data:`OUT_OF_REACH` if no plan leads to the goal."""
        return self.remaining[self._place(node)].get(choice, OUT_OF_REACH)

    @cached_property
    def remaining(self) -> dict[TopologyState, dict[Choice, int]]:
        """By place, the choices from which a plan leads to the goal, each with the least cost of its steps."""
        found: dict[TopologyState, dict[Choice, int]] = {place: {} for place in self._allowed}
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
                found[place][choice] = cost
                reached.append((place, choice))
                level += [(before, choice) for before in self._places_before[place] if choice in left[before]]
            for place, choice in reached:
                waiting = left[place]
                if waiting:
                    level += [(place, before) for before in self._steps_before(place, choice) if before in waiting]
            self.budget.spend(len(reached) + len(level))
            cost += ADDON_COST
        return found

    @cached_property
    def _scopes(self) -> list[tuple[Scope, tuple[int, ...]]]:
        scopes = [scope for scope in self.model.scopes if set(self.at).issuperset(scope.at)]
        return [(scope, tuple(self.at.index(one) for one in scope.at)) for scope in scopes]

    @cached_property
    def by_class(self) -> bool:
        """True if any of the facts depends on the class."""
        return any(scope.by_class for scope, _ in self._scopes)

    @cached_property
    def by_version(self) -> bool:
        """True if any of the facts depends on the Kubernetes version."""
        return any(scope.by_version for scope, _ in self._scopes)

    def _place(self, node: TopologyState) -> TopologyState:
        return TopologyState(node.candidate if self.by_class else ANY, node.version if self.by_version else ANY)

    def _ends(self) -> Iterator[tuple[TopologyState, Choice]]:
        model = self.model
        for node, following in self.successors.items():
            if model.is_bundle(node):
                continue
            place = self._place(node)
            into_bundle = any(model.is_bundle(one) for one in following)
            if into_bundle or model.is_goal(node):
                yield from ((place, one) for one in self._allowed[place] if into_bundle or self._is_end(one))

    def _is_end(self, choice: Choice) -> bool:
        return all(self.model.addons[at].ends(option) for at, option in zip(self.at, choice, strict=True))

    @cached_property
    def _allowed(self) -> dict[TopologyState, list[Choice]]:
        start = self._place(self.model.start)
        allowed: dict[TopologyState, list[Choice]] = {}
        for node in self.successors:
            place = self._place(node)
            if place not in allowed and not self.model.is_bundle(node):
                allowed[place] = self._choices(place, any_will_do=self.starts_outside and place == start)
        return allowed

    def _choices(self, place: TopologyState, *, any_will_do: bool) -> list[Choice]:
        """Return the choices that violate no fact, addon by addon, so that few are built in vain."""
        choices: list[Choice] = [()]
        for count, at in enumerate(self.at, start=1):
            about = [] if any_will_do else [one for one in self._scopes if max(one[1]) + 1 == count]
            alone = [scope for scope, picked in about if len(picked) == 1]
            shared = [(scope, picked) for scope, picked in about if len(picked) > 1]
            options = range(ABSENT, len(self.model.addons[at].options))
            allowed = [one for one in options if not any(scope.violated(place, (one,)) for scope in alone)]
            longer = [(*choice, option) for choice in choices for option in allowed]
            self.budget.spend(len(options) + len(longer))
            choices = [
                choice
                for choice in longer
                if not any(scope.violated(place, tuple([choice[one] for one in picked])) for scope, picked in shared)
            ]
        return choices

    @cached_property
    def _places_before(self) -> dict[TopologyState, set[TopologyState]]:
        before: dict[TopologyState, set[TopologyState]] = {place: set() for place in self._allowed}
        for node, following in self.successors.items():
            if not self.model.is_bundle(node):
                here = self._place(node)
                for one in following:
                    if not self.model.is_bundle(one) and (there := self._place(one)) != here:
                        before[there].add(here)
        return before

    @cached_property
    def _options_before(self) -> dict[TopologyState, list[dict[int, list[int]]]]:
        """By place and addon, the options there that move to an option."""
        found = {}
        for place, choices in self._allowed.items():
            found[place] = back = [dict[int, list[int]]() for _ in self.at]
            for number, at in enumerate(self.at):
                for option in {choice[number] for choice in choices}:
                    for there in self.model.addons[at].moves[option]:
                        back[number].setdefault(there, []).append(option)
        return found

    def _steps_before(self, place: TopologyState, choice: Choice) -> Iterator[Choice]:
        for at, back in enumerate(self._options_before[place]):
            for option in back.get(choice[at], ()):
                yield (*choice[:at], option, *choice[at + 1 :])


def nodes_to_goal(
    model: PlanningModel, budget: Budget
) -> tuple[dict[TopologyState, tuple[TopologyState, ...]], dict[TopologyState, int]]:
    """Return the nodes from which the goal can be reached, each with its successors, and their fewest moves."""
    after: dict[TopologyState, tuple[TopologyState, ...]] = {}
    queue = [model.start]
    while queue:
        here = queue.pop()
        if here not in after:
            after[here] = tuple(model.successors(here))
            budget.spend(len(after[here]) + 1)
            queue += after[here]
    before: dict[TopologyState, list[TopologyState]] = {}
    for here, following in after.items():
        for there in following:
            before.setdefault(there, []).append(here)
    moves: dict[TopologyState, int] = dict.fromkeys(filter(model.is_goal, after), 0)
    level = list(moves)
    while level:
        near = (one for here in level for one in before.get(here, ()))
        reached = {one: moves[level[0]] + 1 for one in near if one not in moves}
        moves |= reached
        level = list(reached)
    return {here: tuple(one for one in after[here] if one in moves) for here in after if here in moves}, moves
