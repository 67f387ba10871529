"""The steps of a way: which addon moves between which moves of class and Kubernetes, as late as it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.domain.planning.model import ABSENT, Choice, Option
from clusterstacks.domain.planning.search import ADDON_COST, Costs, Way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.domain.planning.compiling import Model
    from clusterstacks.domain.planning.model import Group, Node
    from clusterstacks.domain.planning.world import Candidate
    from clusterstacks.domain.versions import KubernetesVersion


class Kind(StrEnum):
    """What a step moves."""

    WORKERS = "workers"
    KUBERNETES = "kubernetes"
    CLASS = "class"
    RELEASE = "release"
    ADDON = "addon"


@dataclass(frozen=True, slots=True)
class Situation:
    """A cluster between two steps.

    Args:
        candidate: The release whose class it has.
        kubernetes: Of its control plane.
        addons: What is installed; empty while the class is a bundle's.
    """

    candidate: Candidate
    kubernetes: KubernetesVersion
    addons: Mapping[str, Option] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One change.

    Args:
        kind: What moves.
        before: The cluster as the step finds it.
        after: The cluster as the step leaves it.
        addon: Which addon moves; empty for another kind.
    """

    kind: Kind
    before: Situation
    after: Situation
    addon: str = ""


def steps_of(model: Model, way: Way) -> tuple[Step, ...]:
    """Turn a way into steps; at equal cost an addon moves as late as it may, and in the order of the names."""
    ways = _ways(way)
    moves = [_addon_moves(model, at, ways) for at in range(len(model.groups))] if way.costs is not None else []
    if way.costs is None:
        moves = [_moves_left_behind(model, at, ways) for at in range(len(model.groups))]
    steps: list[Step] = []
    here = situation_of(model)
    for layer, one in enumerate(ways):
        if layer:
            there = _arrive(model, ways[layer - 1], one, here)
            steps.append(Step(_kind(model, ways[layer - 1].node, one.node), here, there))
            here = there
        for group, by_layer in zip(model.groups, moves, strict=True):
            for old, new in by_layer.get(layer, ()):
                name, option = _moved(group, old, new)
                addons = {key: value for key, value in here.addons.items() if key != name}
                if option is not None:
                    addons[name] = option
                there = Situation(here.candidate, here.kubernetes, dict(sorted(addons.items())))
                steps.append(Step(Kind.ADDON, here, there, name))
                here = there
    return tuple(steps)


def _ways(way: Way) -> list[Way]:
    ways = [way]
    while ways[-1].before is not None:
        ways.append(ways[-1].before)
    return ways[::-1]


Moves = Mapping[int, Sequence[tuple[Choice, Choice]]]
"""By layer, the choices a group moves between."""


def _addon_moves(model: Model, at: int, ways: Sequence[Way]) -> Moves:
    last = ways[-1].costs
    assert last is not None  # noqa: S101 - the caller looked
    ends = [(cost, choice) for choice, cost in last[at].items() if model.meets(at, choice)]
    return _back(model, at, ways, min(ends)[1])


def _moves_left_behind(model: Model, at: int, ways: Sequence[Way]) -> Moves:
    """Before a bundle is entered addons may have had to move; which choice they end at does not matter."""
    last = max((layer for layer, way in enumerate(ways) if way.costs is not None), default=None)
    costs = None if last is None else ways[last].costs
    if last is None or costs is None:
        return {}
    return _back(model, at, ways[: last + 1], min((cost, choice) for choice, cost in costs[at].items())[1])


def _back(model: Model, at: int, ways: Sequence[Way], end: Choice) -> Moves:
    """Walk from the end to the start, preferring the addon step: so addons move late."""
    moves: dict[int, list[tuple[Choice, Choice]]] = {}
    here, layer = end, len(ways) - 1
    while True:
        costs = ways[layer].costs
        assert costs is not None  # noqa: S101 - a layer with addons is never left for one without
        before = _step_before(model, at, ways[layer].node, layer, costs[at], here)
        if before is not None:
            moves.setdefault(layer, []).insert(0, (before, here))
            here = before
        elif layer == 0 or ways[layer - 1].costs is None:
            return moves
        else:
            layer -= 1


def _step_before(model: Model, at: int, node: Node, layer: int, costs: Costs, here: Choice) -> Choice | None:
    group = model.groups[at]
    found = [
        choice
        for choice, cost in costs.items()
        if cost == costs[here] - ADDON_COST
        and here in group.neighbours(choice)
        and (layer > 0 or group.violated(node, here) <= group.violated(node, choice))
    ]
    return min(found, default=None)


def _kind(model: Model, old: Node, new: Node) -> Kind:
    if old.candidate == new.candidate:
        return Kind.KUBERNETES
    return Kind.RELEASE if model.is_bundle(old) or model.is_bundle(new) else Kind.CLASS


def _arrive(model: Model, old: Way, new: Way, here: Situation) -> Situation:
    if new.costs is None:
        addons: Mapping[str, Option] = {}
    elif old.costs is None:
        addons = dict(_installed(model, model.offered(new.node.candidate)))
    else:
        addons = here.addons
    return Situation(model.candidates[new.node.candidate], model.versions[new.node.version], addons)


def situation_of(model: Model) -> Situation:
    """Return the cluster as it is."""
    addons = dict(_installed(model, model.choices))
    return Situation(model.candidates[model.start.candidate], model.versions[model.start.version], addons)


def _installed(model: Model, choices: Sequence[Choice]) -> Iterator[tuple[str, Option]]:
    pairs = [
        (addon.name, addon.options[option])
        for group, choice in zip(model.groups, choices, strict=True)
        for addon, option in zip(group.addons, choice, strict=True)
        if option != ABSENT
    ]
    yield from sorted(pairs, key=lambda pair: pair[0])


def _moved(group: Group, old: Choice, new: Choice) -> tuple[str, Option | None]:
    (at,) = [at for at in range(len(old)) if old[at] != new[at]]
    addon = group.addons[at]
    return addon.name, None if new[at] == ABSENT else addon.options[new[at]]
