"""Steps of a plan: orders the moves of addons between the moves of class and Kubernetes, as late as allowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any

from clusterstacks.planner.model import ABSENT, Option
from clusterstacks.planner.subtrees import links

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.planner.model import Choice, PlanningModel, TopologyState
    from clusterstacks.planner.search import PartialPlan, Search
    from clusterstacks.planner.subtrees import Context, Costs, Entry, Subtree


class StepKind(StrEnum):
    """The part of the cluster that a step moves."""

    WORKERS = "workers"
    KUBERNETES = "kubernetes"
    CLASS = "class"
    RELEASE = "release"
    ADDON = "addon"


@dataclass(frozen=True, slots=True)
class PlannedVersions:
    """The versions of a cluster between two steps.

    Args:
        candidate: The release of its class.
        kubernetes: The version of its control plane.
        addons: The installed addons; empty while the class is a bundle's.
    """

    candidate: Candidate
    kubernetes: KubernetesVersion
    addons: Mapping[str, Option] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One change.

    Args:
        kind: The part that moves.
        before: The versions before the step.
        after: The versions after the step.
        addon: The addon that moves; empty for other kinds.
    """

    kind: StepKind
    before: PlannedVersions
    after: PlannedVersions
    addon: str = ""


def steps_of(search: Search, partial: PartialPlan) -> tuple[Step, ...]:
    """Return the steps of a plan; at equal cost an addon moves as late as allowed, and in the order of the names."""
    model, partials = search.model, _partials(partial)
    moves = _addon_moves(search, partials)
    steps: list[Step] = []
    here = start_of(model)
    for layer, one in enumerate(partials):
        if layer:
            there = _arrive(model, partials[layer - 1], one, here)
            steps.append(_step(here, there))
            here = there
        for addon, option in moves.get(layer, ()):
            there = _with_addon(model, here, addon, option)
            steps.append(_step(here, there))
            here = there
    return tuple(steps)


def start_of(model: PlanningModel) -> PlannedVersions:
    """Return the versions of the cluster before the first step."""
    return _versions(model, model.start, model.installed)


def _partials(partial: PartialPlan) -> list[PartialPlan]:
    partials = [partial]
    while partials[-1].before is not None:
        partials.append(partials[-1].before)
    return partials[::-1]


@dataclass(frozen=True, slots=True)
class _Visit:
    """The stay of a subtree in one context; the moment orders it among the moves of all addons."""

    context: Context
    outside: bool
    moment: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Move:
    moment: tuple[Any, ...]
    addon: int
    option: int

    @property
    def layer(self) -> int:
        return int(self.moment[0])


def _addon_moves(search: Search, partials: Sequence[PartialPlan]) -> dict[int, list[tuple[int, int]]]:
    """Return by layer the moves of the addons in subtrees: addon and option.

    The last options before a bundle is entered do not matter.
    """
    ranged = [layer for layer, one in enumerate(partials) if one.state is not None]
    is_end = bool(ranged) and ranged[-1] == len(partials) - 1
    found, ranks = list[_Move](), count(0, -1)
    for tree in search.subtrees if ranged else ():
        visits = [
            _Visit(tree.context_at(partial.node, partial.state), partial.outside, (layer,))
            for layer, partial in enumerate(partials)
            if partial.state is not None
        ]
        installed = partials[ranged[0]].state
        assert installed is not None  # noqa: S101 - ranged
        found += _unroll(tree, visits, installed, ranks, is_end=is_end)
    linked = links(search.model)
    moves: dict[int, list[tuple[int, int]]] = {}
    for layer in sorted({one.layer for one in found}):
        here = sorted((one for one in found if one.layer == layer), key=lambda one: one.moment)
        moves[layer] = [(one.addon, one.option) for one in _by_name(here, linked)]
    return moves


def _by_name(moves: list[_Move], linked: Sequence[set[int]]) -> Iterator[_Move]:
    """Yield moves in the order of their addons, as far as those that share facts keep their order."""
    while moves:
        free = [
            at for at, one in enumerate(moves) if not any(earlier.addon in linked[one.addon] for earlier in moves[:at])
        ]
        yield moves.pop(min(free, key=lambda at: moves[at].addon))


def _unroll(
    tree: Subtree, visits: Sequence[_Visit], installed: Choice, ranks: Iterator[int], *, is_end: bool
) -> Iterator[_Move]:
    """Yield the moves of an addon and those below it, given the contexts that the other moves lead to.

    Args:
        tree: The subtree.
        visits: The contexts in order.
        installed: The options before the first move.
        ranks: Order the moves of different addons after the same moment: those below an addon move first.
        is_end: Whether the plan ends after the last visit.
    """
    layers, rank = _layers(tree, visits, installed), next(ranks)
    ends = layers[-1]
    if is_end:
        ends = {one: cost + tree.ends(one[1]) for one, cost in ends.items() if tree.addon.ends(one[0])}
    moves = _moves_back(tree, visits, layers, min((cost, one) for one, cost in ends.items())[1])
    option = installed[tree.at]
    below: list[list[_Visit]] = [[] for _ in tree.children]
    for visit, options in zip(visits, moves, strict=True):
        moments = [(option, visit.moment)]
        for number, option in enumerate(options):
            moments.append((option, (*visit.moment, (rank, number))))
            yield _Move(moments[-1][1], tree.at, option)
        for one, moment in moments:
            for visited, context in zip(below, tree.local(visit.context, one).contexts, strict=True):
                visited.append(_Visit(context, visit.outside, moment))
    for (child, _), visited in zip(tree.children, below, strict=True):
        yield from _unroll(child, visited, installed, ranks, is_end=is_end)


def _before(visits: Sequence[_Visit], at: int) -> Context | None:
    return visits[at - 1].context if visits[at].outside else None


def _layers(tree: Subtree, visits: Sequence[_Visit], installed: Choice) -> list[Costs]:
    """Return by visit the least cost of every state."""
    found = tree.begin(visits[0].context, installed, outside=visits[0].outside)
    paid, table, layers = 0, 0, []
    for at, visit in enumerate(visits):
        if at:
            found = tree.enter(table, visit.context, _before(visits, at))
        assert found is not None  # noqa: S101 - the search came along here
        price, table = found
        paid += price
        layers.append({one: cost + paid for one, cost in tree.tables[table].items()})
    return layers


def _moves_back(tree: Subtree, visits: Sequence[_Visit], layers: Sequence[Costs], end: Entry) -> list[list[int]]:
    """Walk from the end to the start and prefer the addon step, so that addons move late."""
    moves: list[list[int]] = [[] for _ in visits]
    here, at = end, len(visits) - 1
    while True:
        cost, visit = layers[at][here], visits[at]
        stepped = [
            one
            for one, before in layers[at].items()
            if before < cost and (here, cost - before) in tree.steps_from(one, visit.context, outside=visit.outside)
        ]
        if stepped:
            moves[at].insert(0, here[0])
            here = min(stepped)
        elif at:
            came = [
                one
                for one, before in layers[at - 1].items()
                if one[0] == here[0] and tree.arrival(one, visit.context, _before(visits, at)) == (here, cost - before)
            ]
            here, at = min(came), at - 1
        else:
            return moves


def _step(old: PlannedVersions, new: PlannedVersions) -> Step:
    if old.candidate != new.candidate:
        bundled = old.candidate.is_bundle or new.candidate.is_bundle
        return Step(StepKind.RELEASE if bundled else StepKind.CLASS, old, new)
    if old.kubernetes != new.kubernetes:
        return Step(StepKind.KUBERNETES, old, new)
    (addon,) = {name for name in {*old.addons, *new.addons} if old.addons.get(name) != new.addons.get(name)}
    return Step(StepKind.ADDON, old, new, addon)


def _arrive(model: PlanningModel, old: PartialPlan, new: PartialPlan, here: PlannedVersions) -> PlannedVersions:
    if new.state is None or old.state is None:
        return _versions(model, new.node, new.state or ())
    for addon, (before, after) in enumerate(zip(old.state, new.state, strict=True)):
        if before != after:
            return _with_addon(model, here, addon, after)
    return PlannedVersions(model.candidates[new.node.candidate], model.versions[new.node.version], here.addons)


def _versions(model: PlanningModel, node: TopologyState, state: Choice) -> PlannedVersions:
    options = zip(model.addons, state, strict=False)
    addons = {addon.name: addon.options[option] for addon, option in options if option != ABSENT}
    return PlannedVersions(model.candidates[node.candidate], model.versions[node.version], addons)


def _with_addon(model: PlanningModel, here: PlannedVersions, at: int, option: int) -> PlannedVersions:
    addon = model.addons[at]
    addons = {name: one for name, one in here.addons.items() if name != addon.name}
    if option != ABSENT:
        addons[addon.name] = addon.options[option]
    return PlannedVersions(here.candidate, here.kubernetes, dict(sorted(addons.items())))
