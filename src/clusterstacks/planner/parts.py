"""Splitting the addons: a spine that is looked at state by state, and parts that do not see each other beside it.

Two addons that a fact speaks about together must be searched together. Where too many hang together, those that the
others hang on become the spine: for each state of the spine what is left falls into small parts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from clusterstacks.planner.model import ANY, Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from clusterstacks.planner.model import Addon, Choice, Model, Scope

MOST_CHOICES = 1000
"""Choices of a part: the versions of two addons with thirty each. Above, a spine is the faster."""

Place = tuple[int, int, "Choice"]
"""What of class, version and spine a part depends on."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some addons, and the facts about them.

    Args:
        at: Numbers of the addons.
        addons: The addons.
        context: Numbers of the addons of the spine that facts about these speak about, too.
        scopes: Of these facts, each with where its addons are in choice and context.
        by_class: Whether any of them depends on the class.
        by_version: Whether any of them depends on the Kubernetes version.
    """

    at: tuple[int, ...]
    addons: tuple[Addon, ...]
    context: tuple[int, ...]
    scopes: tuple[tuple[Scope, tuple[int, ...]], ...]
    by_class: bool
    by_version: bool

    def place(self, node: Node, state: Choice) -> Place:
        """Return what this part depends on.

        Args:
            node: Of class and Kubernetes.
            state: By addon of the model, its option; looked at for those of the context.
        """
        candidate = node.candidate if self.by_class else ANY
        return candidate, node.version if self.by_version else ANY, tuple(state[at] for at in self.context)

    def allows(self, place: Place, choice: Choice) -> bool:
        """Tell whether a choice violates nothing."""
        node, every = Node(place[0], place[1]), choice + place[2]
        return not any(scope.violated(node, tuple([every[at] for at in picked])) for scope, picked in self.scopes)

    def worsens(self, old: tuple[Place, Choice], new: tuple[Place, Choice]) -> bool:
        """Tell whether a step adds a violation."""
        return any(
            not after <= before for before, after in zip(self._violated(*old), self._violated(*new), strict=True)
        )

    def neighbours(self, choice: Choice) -> Iterator[Choice]:
        """Yield the choices one addon step away."""
        for at, addon in enumerate(self.addons):
            for option in addon.moves[choice[at]]:
                yield (*choice[:at], option, *choice[at + 1 :])

    def ends(self, choice: Choice) -> bool:
        """Tell whether a plan may end with a choice."""
        return all(addon.ends(option) for addon, option in zip(self.addons, choice, strict=True))

    def _violated(self, place: Place, choice: Choice) -> Iterator[frozenset[str]]:
        node, every = Node(place[0], place[1]), choice + place[2]
        for scope, picked in self.scopes:
            yield scope.violated(node, tuple(every[at] for at in picked))


def part_of(model: Model, at: Iterable[int], scopes: Iterable[Scope]) -> Part:
    """Return some addons with some facts about them; other addons that these speak about are the context."""
    own, scopes = tuple(sorted(at)), tuple(scopes)
    context = tuple(sorted({one for scope in scopes for one in scope.at}.difference(own)))
    order = {one: index for index, one in enumerate(own + context)}
    return Part(
        own,
        tuple(model.addons[one] for one in own),
        context,
        tuple((scope, tuple(order[one] for one in scope.at)) for scope in scopes),
        any(scope.by_class for scope in scopes),
        any(scope.by_version for scope in scopes),
    )


@dataclass(frozen=True, slots=True)
class Split:
    """The addons of a model, split.

    Args:
        spine: Numbers of the addons looked at state by state.
        frame: The spine with the facts that speak about it alone.
        parts: The rest.
        patterns: Every addon in one: small sets, each with the facts about it alone, from which it is estimated what
            remains.
    """

    spine: tuple[int, ...]
    frame: Part
    parts: tuple[Part, ...]
    patterns: tuple[Part, ...]


def split(model: Model, most_choices: int = MOST_CHOICES) -> Split:
    """Split the addons of a model.

    Args:
        model: The numbered world.
        most_choices: Of one part.
    """
    linked = _linked(model)
    spine: set[int] = set()
    small: list[tuple[int, ...]] = []
    patterns: list[tuple[int, ...]] = []
    for group in _pieces(range(len(model.addons)), linked):
        waiting = [group]
        is_small = _choices(model, group) <= most_choices
        patterns += [group] if is_small else _pairs(model, group, linked, most_choices)
        while waiting:
            piece = waiting.pop()
            if _choices(model, piece) <= most_choices:
                small.append(piece)
                continue
            # Where all hang on one, the one; in a chain, the middle.
            taken = min(piece, key=lambda one: (_largest(model, piece, one, linked), one))
            spine.add(taken)
            waiting += _pieces([one for one in piece if one != taken], linked)
    return Split(
        tuple(sorted(spine)),
        part_of(model, spine, [scope for scope in model.scopes if spine.issuperset(scope.at)]),
        tuple(
            part_of(model, piece, [scope for scope in model.scopes if not set(piece).isdisjoint(scope.at)])
            for piece in sorted(small)
        ),
        tuple(
            part_of(model, piece, [scope for scope in model.scopes if set(piece).issuperset(scope.at)])
            for piece in sorted(patterns)
        ),
    )


def _linked(model: Model) -> list[set[int]]:
    linked: list[set[int]] = [set() for _ in model.addons]
    for scope in model.scopes:
        for one in scope.at:
            linked[one].update(scope.at)
    return linked


def _pieces(addons: Collection[int], linked: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return the addons that hang together, in order."""
    left, found = set(addons), []
    for first in sorted(addons):
        if first not in left:
            continue
        left.discard(first)
        piece, queue = [first], [first]
        while queue:
            near = linked[queue.pop()] & left
            left -= near
            piece += near
            queue += near
        found.append(tuple(sorted(piece)))
    return found


def _choices(model: Model, piece: Iterable[int]) -> int:
    return prod(len(model.addons[one].options) + 1 for one in piece)


def _largest(model: Model, piece: Sequence[int], without: int, linked: Sequence[set[int]]) -> int:
    """Return the choices of the largest piece that is left without an addon."""
    left = _pieces([one for one in piece if one != without], linked)
    return max((_choices(model, one) for one in left), default=0)


def _pairs(
    model: Model, piece: Sequence[int], linked: Sequence[set[int]], most_choices: int
) -> Iterator[tuple[int, ...]]:
    """Pair each addon with a neighbour that is left, one with few other neighbours first."""
    left = set(piece)
    for one in sorted(piece, key=lambda one: (len(linked[one]), one)):
        if one not in left:
            continue
        left.discard(one)
        near = [other for other in sorted(linked[one] & left) if _choices(model, (one, other)) <= most_choices]
        if not near:
            yield (one,)
            continue
        other = min(near, key=lambda other: (len(linked[other] & left), other))
        left.discard(other)
        yield tuple(sorted((one, other)))
