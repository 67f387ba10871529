"""Joins moves of Kubernetes that Cluster API makes in one upgrade, because the class lists the versions on the way.

The search moves one minor at a time. Over ``spec.kubernetesVersions`` of a class, Cluster API walks several minors
after one write, with fewer replacements of the workers. Addon steps between these moves are taken before the first or
after the last of them, if every version on the way allows that.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from clusterstacks.plan.compat.constraints import violations
from clusterstacks.plan.planner.steps import PlannedVersions, Step, StepKind, components_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clusterstacks.plan.compat.constraints import Judges


def joined(steps: Iterable[Step], judges: Judges) -> tuple[Step, ...]:
    """Return the steps with as many moves of Kubernetes as possible joined."""
    taken: list[Step] = []
    for step in steps:
        taken.append(step)
        first = _first_to_join(taken)
        for ordered in _orders(taken[first:]) if first is not None else ():
            if _are_allowed(ordered, judges):
                taken[first:] = ordered
                break
    return tuple(taken)


def _first_to_join(steps: Sequence[Step]) -> int | None:
    """Return the index of the move that the last step could be joined with; None if there is none."""
    last = steps[-1]
    moves = [at for at, step in enumerate(steps[:-1]) if step.kind is not StepKind.ADDON]
    if last.kind is not StepKind.KUBERNETES or not moves:
        return None
    whole = replace(last, before=steps[moves[-1]].before)
    may_join = steps[moves[-1]].kind in (StepKind.KUBERNETES, StepKind.CLASS) and whole.path
    return moves[-1] if may_join else None


def _orders(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps with the first and the last joined: the addons in between move before it, or after it."""
    first, *addons, last = steps
    start, end = first.before, last.after
    yield [*_at(start, addons), Step(first.kind, replace(start, addons=end.addons), end)]
    if addons:
        middle = replace(end, addons=start.addons)
        yield [Step(first.kind, start, middle), *_at(end, addons)]


def _at(place: PlannedVersions, addons: Iterable[Step]) -> Iterator[Step]:
    """Yield addon steps with the class and the Kubernetes version of a place."""
    for step in addons:
        before, after = replace(place, addons=step.before.addons), replace(place, addons=step.after.addons)
        yield Step(step.kind, before, after, step.addon)


def _are_allowed(steps: Iterable[Step], judges: Judges) -> bool:
    passed = chain.from_iterable(
        [replace(step.after, kubernetes=version) for version in step.path] if step.path else [step.after]
        for step in steps
    )
    return not any(violations(at.candidate, at.kubernetes, components_of(at), judges) for at in passed)
