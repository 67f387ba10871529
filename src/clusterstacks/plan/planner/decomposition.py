"""Tree decomposition of the facts about several addons.

Addons that a fact is about together are on one path of the tree. So an addon and those below it depend on the rest only
through the addons above them that they share facts with, their *separator*.

Small separators are most important, because each of their states is another context. Addons with a single child come
next, because tables of a single child can always be united (:mod:`.cost_tables`). So one end of a chain is at the top,
and of addons that all require one other, this one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from clusterstacks.plan.planner.model import PlanningModel

MOST_CHOICES = 31**3
"""Options of an addon times those of its separator: three addons with thirty versions each. Above, some addons are
searched state by state instead."""

MOST_CHOICES_BESIDE_SPINE = 31**2
"""The same for the addons that depend on the spine: their tables are needed for many of its states (measured)."""


class AddonTree(NamedTuple):
    """An addon and those below it, as numbers of addons."""

    at: int
    separator: tuple[int, ...]
    members: frozenset[int]
    children: tuple[AddonTree, ...]


def decompose(model: PlanningModel, most_choices: int = MOST_CHOICES) -> tuple[tuple[int, ...], tuple[AddonTree, ...]]:
    """Return the spine, the addons to search state by state, and the trees of the rest.

    Args:
        model: The numbered world.
        most_choices: Bound of the options of an addon times those of its separator outside the spine.
    """
    linked = links(model)
    spine: set[int] = set()
    trees: list[AddonTree] = []
    waiting = [(piece, most_choices) for piece in _pieces(range(len(model.addons)), linked)]
    while waiting:
        piece, most = waiting.pop()
        tree = _tree(piece, linked)
        if _width(model, tree, spine) <= most:
            trees.append(tree)
            continue
        central = _central(piece, linked)
        spine.add(central)
        rest = _pieces([one for one in piece if one != central], linked)
        waiting += [(one, min(most, MOST_CHOICES_BESIDE_SPINE)) for one in rest]
    return tuple(sorted(spine)), tuple(sorted(trees, key=lambda tree: min(tree.members)))


def links(model: PlanningModel) -> list[set[int]]:
    """Return, by addon, the addons that share a fact with it, itself included."""
    linked: list[set[int]] = [{at} for at in range(len(model.addons))]
    for scope in model.scopes:
        for one in scope.at:
            linked[one].update(scope.at)
    return linked


def pairs_of(model: PlanningModel) -> list[tuple[int, ...]]:
    """Pair each addon with another that a fact is about too, addons with few such others first."""
    linked, left, found = links(model), set(range(len(model.addons))), []
    for one in sorted(left, key=lambda one: (len(linked[one]), one)):
        if one not in left:
            continue
        left.discard(one)
        other = min(linked[one] & left, key=lambda other: (len(linked[other] & left), other), default=None)
        left.discard(one if other is None else other)
        found.append((one,) if other is None else tuple(sorted((one, other))))
    return sorted(found)


def _tree(piece: Collection[int], linked: Sequence[set[int]]) -> AddonTree:
    """Eliminate the addon with the fewest neighbours, and link these with each other; go on upwards from there.

    This keeps separators small (minimum degree, Rose 1972).
    """
    near = {one: linked[one].intersection(piece) - {one} for one in piece}
    height = dict.fromkeys(piece, 0)
    trees: list[AddonTree] = []
    while near:
        at = min(near, key=lambda one: (len(near[one]), -height[one], one))
        above = near.pop(at)
        for one in above:
            near[one] = (near[one] | above) - {one, at}
            height[one] = max(height[one], height[at] + 1)
        children = tuple(tree for tree in trees if at in tree.separator)
        members = frozenset((at,)).union(*(child.members for child in children))
        outside = set().union(*(linked[one] for one in members)).difference(piece)
        trees = [tree for tree in trees if at not in tree.separator]
        trees.append(AddonTree(at, tuple(sorted(above | outside)), members, children))
    (tree,) = trees
    return tree


def _width(model: PlanningModel, tree: AddonTree, spine: Collection[int]) -> int:
    """Return the largest number of options of an addon times those of its separator outside the spine."""
    counted = [tree.at, *(one for one in tree.separator if one not in spine)]
    own = prod(len(model.addons[one].options) + 1 for one in counted)
    return max(own, *(_width(model, child, spine) for child in tree.children), 0)


def _central(piece: Collection[int], linked: Sequence[set[int]]) -> int:
    """Return the addon without which the rest falls into the smallest pieces."""

    def largest(one: int) -> int:
        return max((len(part) for part in _pieces([other for other in piece if other != one], linked)), default=0)

    return min(piece, key=lambda one: (largest(one), one))


def _pieces(addons: Iterable[int], linked: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return the groups of addons that facts connect, in order."""
    left, found = set(addons), []
    for first in sorted(left):
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
