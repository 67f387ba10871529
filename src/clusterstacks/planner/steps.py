"""The steps of a way: which addon moves between which moves of class and Kubernetes, as late as it may."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.planner.model import ABSENT, ADDON_COST, Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.planner.model import Choice, Model, Node
    from clusterstacks.planner.parts import Part, Place
    from clusterstacks.planner.search import Search, Way
    from clusterstacks.planner.tracks import Costs, Tracks


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


def steps_of(search: Search, way: Way) -> tuple[Step, ...]:
    """Turn a way into steps; at equal cost an addon moves as late as it may, and in the order of the names."""
    model, ways = search.model, _ways(way)
    moves = _moves_of_parts(search, ways)
    steps: list[Step] = []
    here = situation_of(model)
    for layer, one in enumerate(ways):
        if layer:
            there = _arrive(model, ways[layer - 1], one, here)
            steps.append(_step(here, there))
            here = there
        for addon, option in moves.get(layer, ()):
            there = _with_addon(model, here, addon, option)
            steps.append(_step(here, there))
            here = there
    return tuple(steps)


def situation_of(model: Model) -> Situation:
    """Return the cluster as it is."""
    return _situation(model, model.start, model.installed)


def _ways(way: Way) -> list[Way]:
    ways = [way]
    while ways[-1].before is not None:
        ways.append(ways[-1].before)
    return ways[::-1]


Moves = dict[int, list[tuple[int, int]]]
"""By layer, which addon moves to which option."""


def _moves_of_parts(search: Search, ways: Sequence[Way]) -> Moves:
    """Find what moves while the class states ranges; before a bundle is entered it does not matter where this ends."""
    ranged = [layer for layer, one in enumerate(ways) if one.state is not None]
    moves: Moves = {}
    for at, track in enumerate(search.tracks if ranged else ()):
        layers = _layers(at, track, [ways[layer] for layer in ranged])
        last = layers[-1].costs
        is_end = ranged[-1] == len(ways) - 1
        ends = [(cost, choice) for choice, cost in last.items() if not is_end or track.part.ends(choice)]
        for layer, old, new in _back(track.part, layers, min(ends)[1]):
            changes = zip(track.part.at, old, new, strict=True)
            (moved,) = [(addon, after) for addon, before, after in changes if before != after]
            moves.setdefault(ranged[layer], []).append(moved)
    return moves


@dataclass(frozen=True, slots=True)
class _Layer:
    place: Place
    costs: Costs
    outside: bool


def _layers(at: int, track: Tracks, ways: Sequence[Way]) -> list[_Layer]:
    layers, paid = [], 0
    for way in ways:
        assert way.state is not None  # noqa: S101 - the caller looked
        paid += way.prices[at] if way.prices else 0
        costs = {choice: cost + paid for choice, cost in track.costs[way.tracks[at]].items()}
        layers.append(_Layer(track.part.place(way.node, way.state), costs, way.outside))
    return layers


def _back(part: Part, layers: Sequence[_Layer], end: Choice) -> list[tuple[int, Choice, Choice]]:
    """Walk from the end to the start, preferring the addon step: so addons move late."""
    moves: list[tuple[int, Choice, Choice]] = []
    here, layer = end, len(layers) - 1
    while layer >= 0:
        before = _step_before(part, layers[layer], here)
        if before is None:
            layer -= 1
            continue
        moves.append((layer, before, here))
        here = before
    return moves[::-1]


def _step_before(part: Part, layer: _Layer, here: Choice) -> Choice | None:
    found = [
        choice
        for choice, cost in layer.costs.items()
        if cost == layer.costs[here] - ADDON_COST
        and here in part.neighbours(choice)
        and not (layer.outside and part.worsens((layer.place, choice), (layer.place, here)))
    ]
    return min(found, default=None)


def _step(old: Situation, new: Situation) -> Step:
    if old.candidate != new.candidate:
        bundled = old.candidate.is_bundle or new.candidate.is_bundle
        return Step(Kind.RELEASE if bundled else Kind.CLASS, old, new)
    if old.kubernetes != new.kubernetes:
        return Step(Kind.KUBERNETES, old, new)
    (addon,) = {name for name in {*old.addons, *new.addons} if old.addons.get(name) != new.addons.get(name)}
    return Step(Kind.ADDON, old, new, addon)


def _arrive(model: Model, old: Way, new: Way, here: Situation) -> Situation:
    if new.state is None or old.state is None:
        return _situation(model, new.node, new.state or ())
    for addon, (before, after) in enumerate(zip(old.state, new.state, strict=True)):
        if before != after:
            return _with_addon(model, here, addon, after)
    return Situation(model.candidates[new.node.candidate], model.versions[new.node.version], here.addons)


def _situation(model: Model, node: Node, state: Choice) -> Situation:
    options = zip(model.addons, state, strict=False)
    addons = {addon.name: addon.options[option] for addon, option in options if option != ABSENT}
    return Situation(model.candidates[node.candidate], model.versions[node.version], addons)


def _with_addon(model: Model, here: Situation, at: int, option: int) -> Situation:
    addon = model.addons[at]
    addons = {name: one for name, one in here.addons.items() if name != addon.name}
    if option != ABSENT:
        addons[addon.name] = addon.options[option]
    return Situation(here.candidate, here.kubernetes, dict(sorted(addons.items())))
