"""What is interchangeable for one question: of neighbours that nothing tells apart, one is enough.

Neighbours only: of Kubernetes v1.35.1, v1.35.2 and v1.35.3, where a fact is about the second alone, the first can move
to the second and the third cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.compat.constraints import kubernetes_fact, requires_fact
from clusterstacks.compat.verdicts import Verdict, contains, judge_kubernetes
from clusterstacks.domain.compatibility import TESTED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from clusterstacks.compat.constraints import Judges
    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.ranges import Range
    from clusterstacks.domain.versions import KubernetesVersion

Moves = tuple[tuple[int, ...], ...]


def representatives(count: int, alike: Callable[[int], bool], there: int | None) -> tuple[int, ...]:
    """Choose one of each run of neighbours: the one that is there already, else the last, which is the newest.

    Args:
        count: How many there are.
        alike: Tells whether one is like the next.
        there: The one the cluster has; None where it has none of them.
    """
    chosen, run = [], []
    for at in range(count):
        run.append(at)
        if at + 1 == count or not alike(at):
            chosen.append(there if there is not None and there in run else at)
            run = []
    return tuple(chosen)


def same_moves(moves: Moves, one: int, other: int) -> bool:
    """Tell whether two options move to the same others, and the same others move to them."""
    pair = {one, other}
    if set(moves[one]) - pair != set(moves[other]) - pair:
        return False
    rest = (ends for at, ends in enumerate(moves) if at not in pair)
    return all((one in ends) == (other in ends) for ends in rest)


@dataclass(slots=True)
class Traits:
    """What facts can tell of components.

    Args:
        versions: All Kubernetes versions.
        judges: What decides besides the releases.
        overridden: Ids of facts that Allow rules are about.
        asked: By component, the ranges that facts ask about.
        known: By component, the versions there are.
    """

    versions: Sequence[KubernetesVersion]
    judges: Judges
    overridden: Collection[str]
    asked: dict[str, set[Range]]
    known: dict[str, dict[str, Component]]
    _masks: dict[Hashable, int] = field(default_factory=dict)
    _met: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def held(self, stated: Range) -> int:
        """Return the Kubernetes versions in a range, as bits."""
        if stated.text not in self._masks:
            self._masks[stated.text] = _bits(contains(stated, one) for one in self.versions)
        return self._masks[stated.text]

    def works_with(self, component: Component) -> int:
        """Return the Kubernetes versions that a component works with, as bits; all where its fact does not count."""
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
        """Return what is the same for components that no fact tells apart."""
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
        """All Kubernetes versions, as bits."""
        return (1 << len(self.versions)) - 1

    def _upstream(self, component: Component) -> int:
        key = component.name, component.text
        if key not in self._masks:
            judged = (judge_kubernetes(component, one, self.judges.upstream) for one in self.versions)
            self._masks[key] = _bits(one.verdict is not Verdict.INCOMPATIBLE for one in judged)
        return self._masks[key]


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << at for at, flag in enumerate(flags) if flag)
