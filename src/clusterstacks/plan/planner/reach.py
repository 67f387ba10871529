"""Reports whether a plan exists if at most two addons matter: looks at their states until it finds the target.

Explanations ask this question many times, mostly with few facts, so that the target is found after few states or few
states are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.plan.planner.model import TopologyState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.model import Choice, PlanningModel

MOST_ADDONS = 2
"""With thirty versions each they have about a thousand states at each Kubernetes version."""


def is_small(model: PlanningModel) -> bool:
    """Report whether the states of the addons are few, and depend on no class."""
    is_by_class = any(scope.by_class for scope in model.scopes) or any(one.is_bundle for one in model.candidates)
    return len(model.addons) <= MOST_ADDONS and not is_by_class


def is_reachable(
    model: PlanningModel, successors: Mapping[TopologyState, Sequence[TopologyState]], budget: Budget
) -> bool:
    """Report whether a plan exists for a small model without a violation at the start.

    Classes at the same Kubernetes version lead to the same versions, so they are the same.

    Args:
        model: The numbered world.
        successors: By node from which the goal can be reached, such nodes one move away.
        budget: Bounds the search.

    Raises:
        BudgetExhausted: The budget does not suffice for an answer.
    """
    versions: dict[int, set[int]] = {}
    for node, nodes in successors.items():
        versions.setdefault(node.version, set()).update(one.version for one in nodes)
    start = model.start.version, model.installed
    waiting, seen = [start], {start}
    while waiting:
        version, choice = waiting.pop()
        ends = all(addon.ends(option) for addon, option in zip(model.addons, choice, strict=True))
        if ends and version == model.goal_version:
            return True
        following = [*_steps(model, version, choice), *((there, choice) for there in sorted(versions[version]))]
        budget.spend(len(following))
        for one in following:
            if one not in seen:
                seen.add(one)
                if _is_allowed(model, *one):
                    waiting.append(one)
    return False


def _steps(model: PlanningModel, version: int, choice: Choice) -> Iterator[tuple[int, Choice]]:
    for at, addon in enumerate(model.addons):
        for option in addon.moves[choice[at]]:
            yield version, (*choice[:at], option, *choice[at + 1 :])


def _is_allowed(model: PlanningModel, version: int, choice: Choice) -> bool:
    node = TopologyState(model.start.candidate, version)
    return not any(scope.violated(node, tuple([choice[at] for at in scope.at])) for scope in model.scopes)
