"""Steps of a plan: orders the moves of addons between the moves of class and Kubernetes, as late as allowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.plan.compat.rules.upgrades import walked
from clusterstacks.plan.planner.decomposition import links
from clusterstacks.plan.planner.model import ABSENT, ADDON_COST, Option, own_components

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.world import Candidate
    from clusterstacks.plan.planner.model import Choice, PlanningModel, Scope, TopologyState
    from clusterstacks.plan.planner.search import PartialPlan, Search
    from clusterstacks.plan.planner.subtrees import Subtree


_Move = tuple[int, int]
"""An addon and the option it moves to."""


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

    @property
    def path(self) -> tuple[KubernetesVersion, ...]:
        """The Kubernetes versions that the control plane has one after the other, the last one included."""
        return walked(self.before.kubernetes, self.after.kubernetes, self.after.candidate.class_versions)


def components_of(situation: PlannedVersions) -> list[Component]:
    """Return every component of a cluster."""
    return [
        *own_components(situation.candidate),
        *(part for one in situation.addons.values() for part in one.components),
    ]


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


def _addon_moves(search: Search, partials: Sequence[PartialPlan]) -> dict[int, list[_Move]]:
    """Return by index of a partial plan the moves of the addons in subtrees after it.

    The last options before a bundle is entered do not matter.
    """
    ranged = [at for at, one in enumerate(partials) if one.state is not None]
    found: dict[int, list[_Move]] = {at: [] for at in ranged}
    is_end = bool(ranged) and ranged[-1] == len(partials) - 1
    for tree in search.subtrees if ranged else ():
        moves = _moves_back(search.model, tree, [partials[at] for at in ranged], is_end=is_end)
        for at, some in zip(ranged, moves, strict=True):
            found[at] += some
    linked = links(search.model)
    return {at: list(_by_name(moves, linked)) for at, moves in found.items()}


def _by_name(moves: list[_Move], linked: Sequence[set[int]]) -> Iterator[_Move]:
    """Yield moves in the order of their addons, as far as those that share facts keep their order."""
    while moves:
        free = [at for at, (addon, _) in enumerate(moves) if not any(one in linked[addon] for one, _ in moves[:at])]
        yield moves.pop(min(free, key=lambda at: moves[at][0]))


def _moves_back(
    model: PlanningModel, tree: Subtree, partials: Sequence[PartialPlan], *, is_end: bool
) -> list[list[_Move]]:
    """Walk from the end to the start and prefer addon steps, so that addons move late; return the moves by layer.

    Args:
        model: The numbered world.
        tree: The subtree.
        partials: The partial plans outside of bundles, in order.
        is_end: Whether the plan ends after the last.
    """
    moves: list[list[_Move]] = [[] for _ in partials]
    tables = _tables(tree, partials)
    state = tree.tables.cheapest_state(tables[-1], is_end=is_end)
    for at in range(len(partials) - 1, -1, -1):
        found = _previous(model, tree, partials[at], tables[at], state)
        while found is not None:
            addon, before = found
            moves[at].insert(0, (addon, state[addon]))
            state[addon] = before
            found = _previous(model, tree, partials[at], tables[at], state)
    return moves


def _tables(tree: Subtree, partials: Sequence[PartialPlan]) -> list[int]:
    """Return by partial plan the number of its table."""
    found: list[int] = []
    before = None
    for one in partials:
        assert one.state is not None  # noqa: S101 - the caller looked
        context = tree.context_at(one.node, one.state)
        if before is None:
            step = tree.begin(context, one.state, outside=one.outside)
        else:
            step = tree.enter(found[-1], context, before if one.outside else None)
        assert step is not None  # noqa: S101 - the search came along here
        found.append(step[1])
        before = context
    return found


def _previous(
    model: PlanningModel, tree: Subtree, partial: PartialPlan, table: int, members: Mapping[int, int]
) -> _Move | None:
    """Return the last addon step to a state, as the addon and its option before; None if no step led there.

    Args:
        model: The numbered world.
        tree: The subtree.
        partial: The moves of class, Kubernetes and spine so far.
        table: Least costs of the states of the subtree after these moves.
        members: The state of the subtree: by addon, its option.
    """
    assert partial.state is not None  # noqa: S101 - the caller looked
    after = tuple(members.get(at, option) for at, option in enumerate(partial.state))
    cost = tree.tables.cost(table, after)
    for addon in sorted(members, reverse=True):
        scopes = [scope for scope in model.scopes if addon in scope.at]
        moves = model.addons[addon].moves
        for option in range(ABSENT, len(moves) - 1):
            if members[addon] not in moves[option]:
                continue
            state = (*after[:addon], option, *after[addon + 1 :])
            if _is_allowed(scopes, partial, state, after) and tree.tables.cost(table, state) == cost - ADDON_COST:
                return addon, option
    return None


def _is_allowed(scopes: Sequence[Scope], partial: PartialPlan, before: Choice, after: Choice) -> bool:
    """Report whether a step is allowed: before it no fact may be violated, or after it none that was not before."""
    for scope in scopes:
        violated = scope.violated(partial.node, tuple([before[at] for at in scope.at]))
        if violated and not partial.outside:
            return False
        if partial.outside and scope.violated(partial.node, tuple([after[at] for at in scope.at])) - violated:
            return False
    return True


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
