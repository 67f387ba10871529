"""Equivalence of versions for one question: of neighbours that no fact distinguishes, the model keeps one.

Only neighbours are equivalent. If a fact is about Kubernetes v1.35.2 alone, then v1.35.1 can move to v1.35.2 and
v1.35.3 cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.files.compatibility import TESTED
from clusterstacks.plan.compat.constraints import kubernetes_fact, requires_fact
from clusterstacks.plan.compat.verdicts import Verdict, judge_kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.ranges import Range
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.constraints import Judges

Moves = tuple[tuple[int, ...], ...]


def representatives(count: int, alike: Callable[[int], bool], there: int | None) -> tuple[int, ...]:
    """Choose one of each run of equivalent neighbours: the one that the cluster has, else the last and newest.

    Args:
        count: The number of versions.
        alike: Reports whether a version is equivalent to the next.
        there: The version of the cluster; None if it has none of them.
    """
    chosen, run = [], []
    for at in range(count):
        run.append(at)
        if at + 1 == count or not alike(at):
            chosen.append(there if there is not None and there in run else at)
            run = []
    return tuple(chosen)


def same_moves(moves: Moves, one: int, other: int) -> bool:
    """Report whether two options move to the same others, and the same others move to them."""
    pair = {one, other}
    if set(moves[one]) - pair != set(moves[other]) - pair:
        return False
    rest = (ends for at, ends in enumerate(moves) if at not in pair)
    return all((one in ends) == (other in ends) for ends in rest)


@dataclass(slots=True)
class Traits:
    """The properties of components that facts depend on.

    Args:
        versions: All Kubernetes versions.
        judges: The sources of facts besides the releases.
        overridden: Ids of the facts that Allow rules override.
        asked: By component, the ranges that facts mention.
        known: By component, its versions.
    """

    versions: Sequence[KubernetesVersion]
    judges: Judges
    overridden: Collection[str]
    asked: dict[str, set[Range]]
    known: dict[str, dict[str, Component]]
    _masks: dict[Hashable, int] = field(default_factory=dict)
    _met: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def held(self, stated: Range) -> int:
        """Return the Kubernetes versions in a range as a bit mask."""
        if stated.text not in self._masks:
            self._masks[stated.text] = _bits(stated.contains(one) for one in self.versions)
        return self._masks[stated.text]

    def works_with(self, component: Component) -> int:
        """Return the Kubernetes versions that a component works with as a bit mask; all if its fact is not enforced."""
        if component.kubernetes is not None and component.kind != TESTED:
            held = self.held(component.kubernetes)
        elif component.kubernetes is not None:
            return self.all_versions
        else:
            held = self._upstream(component)
        counts = held == self.all_versions or self.judges.enforces(kubernetes_fact(component))
        return held if counts else self.all_versions

    def met(self, other: str, wanted: Range) -> frozenset[str]:
        """Return the versions of a component that are in a range."""
        key = other, wanted.text
        if key not in self._met:
            known = self.known.get(other, {})
            self._met[key] = frozenset(
                text for text, one in known.items() if wanted.holds(one.version.release, one.version.pre)
            )
        return self._met[key]

    def of(self, component: Component) -> Hashable:
        """Return a key that is equal for components that no fact distinguishes."""
        required = sorted(
            (other, self.met(other, wanted))
            for other, wanted in component.requires.items()
            if self.judges.enforces(requires_fact(component, other))
        )
        asked = frozenset(
            one.text
            for one in self.asked.get(component.name, ())
            if one.holds(component.version.release, component.version.pre)
        )
        prefix = f"component:{component.title}:"
        named = component.title if any(one.startswith(prefix) for one in self.overridden) else ""
        return component.name, component.addon, self.works_with(component), tuple(required), asked, named

    @property
    def all_versions(self) -> int:
        """All Kubernetes versions as a bit mask."""
        return (1 << len(self.versions)) - 1

    def _upstream(self, component: Component) -> int:
        key = component.name, component.text
        if key not in self._masks:
            judged = (judge_kubernetes(component, one, self.judges.upstream) for one in self.versions)
            self._masks[key] = _bits(one.verdict is not Verdict.INCOMPATIBLE for one in judged)
        return self._masks[key]


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << at for at, flag in enumerate(flags) if flag)
