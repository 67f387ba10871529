"""The planner's world in numbers: options of each addon, nodes of Kubernetes and class, and what binds addons together.

A *node* is a release and a Kubernetes version. A *choice* is, for a group of addons, the option each of them has. Two
addons are in one group when a fact speaks about both, so groups can be searched apart between two moves of the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from clusterstacks.domain.planning.facts import KUBERNETES, Judges, Violation, upgrade_fact, violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.planning.world import Candidate
    from clusterstacks.domain.versions import KubernetesVersion

ABSENT = -1
"""The option of an addon that is not installed."""


class Node(NamedTuple):
    """Where class and Kubernetes are: index of the candidate and of the version."""

    candidate: int
    version: int


Choice = tuple[int, ...]
"""For each addon of a group the index of its option, or :data:`ABSENT`."""


@dataclass(frozen=True, slots=True)
class Option:
    """One version of an addon.

    Args:
        version: Of its leading component.
        components: All it brings, with their facts.
        releases: Those that have it, in order; none when only the cluster has it.
    """

    version: str
    components: tuple[Component, ...]
    releases: tuple[ReleaseName, ...] = ()


@dataclass(frozen=True, slots=True)
class Addon:
    """One addon and the versions it can have.

    Args:
        name: The chart directory.
        options: In a fixed order.
        moves: By option, the options one step away; the last entry is for :data:`ABSENT`.
    """

    name: str
    options: tuple[Option, ...]
    moves: tuple[tuple[int, ...], ...]

    def components(self, option: int) -> tuple[Component, ...]:
        """Return what an option brings."""
        return () if option == ABSENT else self.options[option].components


@dataclass(slots=True)
class Group:
    """Addons that facts bind together, and what each choice violates at each node.

    Args:
        addons: In a fixed order.
        candidates: All of them, to look up nodes.
        versions: The known Kubernetes versions, in order.
        judges: What decides besides the releases.
        concerns: Tells whether a violation is about an addon of this group.
        follows_class: Whether what a choice violates depends on the class, and not on the Kubernetes version alone.
    """

    addons: tuple[Addon, ...]
    candidates: Sequence[Candidate]
    versions: Sequence[KubernetesVersion]
    judges: Judges
    concerns: Callable[[Violation], bool]
    follows_class: bool
    _known: dict[tuple[Node, Choice], frozenset[str]] = field(default_factory=dict)

    def violated(self, node: Node, choice: Choice) -> frozenset[str]:
        """Return the subjects of the facts about this group that a choice violates at a node."""
        key = (node if self.follows_class else Node(0, node.version), choice)
        found = self._known.get(key)
        if found is None:
            found = frozenset(one.subject for one in self._violations(node, choice) if self.concerns(one))
            self._known[key] = found
        return found

    def allows(self, node: Node, choice: Choice) -> bool:
        """Tell whether a choice violates nothing at a node."""
        return not self.violated(node, choice)

    def contain(self, node: Node, choice: Choice) -> bool:
        """Tell whether the range of every addon holds the Kubernetes version of a node; not those of the class."""
        own_of_class = "/"  # a subject begins with the name of its addon
        return not any(
            subject.endswith(KUBERNETES) and not subject.startswith(own_of_class)
            for subject in self.violated(node, choice)
        )

    def neighbours(self, choice: Choice) -> Iterable[Choice]:
        """Yield the choices one addon step away."""
        for at, addon in enumerate(self.addons):
            for option in addon.moves[choice[at]]:
                yield (*choice[:at], option, *choice[at + 1 :])

    def _violations(self, node: Node, choice: Choice) -> tuple[Violation, ...]:
        candidate = self.candidates[node.candidate]
        stated = candidate.compatibility
        present = list(stated.of_addon("")) if stated is not None else []
        for addon, option in zip(self.addons, choice, strict=True):
            present += addon.components(option)
        return violations(candidate, self.versions[node.version], present, self.judges)


def option_moves(
    options: Sequence[Option], judges: Judges, *, install: bool, remove: bool
) -> tuple[tuple[int, ...], ...]:
    """Return, by option, where it may move: the rule of the version moved to decides.

    Args:
        options: Of one addon.
        judges: Say which rules count.
        install: Whether it may be installed where it is absent.
        remove: Whether it may be removed.
    """
    offered = [at for at, option in enumerate(options) if option.releases]
    moves = [
        tuple(to for to in offered if to != at and _may_move(option, options[to], judges))
        + ((ABSENT,) if remove else ())
        for at, option in enumerate(options)
    ]
    return (*moves, tuple(offered) if install else ())


def forbidden_upgrades(old: Option, new: Option) -> tuple[Component, ...]:
    """Return the components whose rule forbids a move."""
    before = {component.name: component.version for component in old.components}
    return tuple(
        component
        for component in new.components
        if component.name in before and not component.upgrade.allows(before[component.name], component.version)
    )


def _may_move(old: Option, new: Option, judges: Judges) -> bool:
    return not any(judges.enforces(upgrade_fact(component)) for component in forbidden_upgrades(old, new))
