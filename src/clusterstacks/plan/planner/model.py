"""Numbered model of one question: states of class and Kubernetes, options of each addon, scopes of facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from clusterstacks.plan.compat.constraints import KUBERNETES, Judges, violations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.constraints import Violation
    from clusterstacks.plan.compat.world import Candidate

ABSENT = -1
"""The option of an addon that is not installed."""

ANY = -1
"""Index that replaces a candidate or a version on which nothing depends."""

NODE_COST = 10
"""Cost of a move of Kubernetes, class or release: nodes roll."""

ADDON_COST = 1
"""Cost of an addon step."""


class TopologyState(NamedTuple):
    """Class and Kubernetes version of a cluster: index of the candidate and of the version."""

    candidate: int
    version: int


Evaluated = dict[tuple["ReleaseName | None", "KubernetesVersion", tuple[int, ...]], tuple["Violation", ...]]
"""By class, Kubernetes version and identities of options, the violations."""

Choice = tuple[int, ...]
"""For each of several addons the index of its option, or :data:`ABSENT`."""


@dataclass(frozen=True, slots=True)
class Option:
    """One version of an addon.

    Args:
        version: The version of its leading component.
        components: All its components with their facts.
        releases: The releases that have it, in order; none if only the cluster has it.
    """

    version: str
    components: tuple[Component, ...]
    releases: tuple[ReleaseName, ...] = ()


@dataclass(frozen=True, slots=True)
class Addon:
    """One addon and its possible versions.

    Args:
        name: The chart directory.
        options: The versions in a fixed order.
        moves: By option, the options one step away; the last entry is for :data:`ABSENT`.
        wanted: The options it may end with; None for any.
    """

    name: str
    options: tuple[Option, ...]
    moves: tuple[tuple[int, ...], ...]
    wanted: frozenset[int] | None

    def components(self, option: int) -> tuple[Component, ...]:
        """Return the components of an option."""
        return () if option == ABSENT else self.options[option].components

    def ends(self, option: int) -> bool:
        """Report whether a plan may end with an option."""
        return self.wanted is None or option in self.wanted


@dataclass(slots=True)
class Scope:
    """Facts about the same addons.

    Args:
        at: Numbers of the addons.
        addons: The addons.
        subjects: Subjects of the facts; no other scope has the same subject.
        by_class: Whether any fact depends on the class.
        by_version: Whether any fact depends on the Kubernetes version.
        candidates: All candidates, by index.
        versions: The Kubernetes versions of the model, in order.
        judges: The sources of facts besides the releases.
        evaluated: Violations found before, of all facts; shared by all models of one question.
    """

    at: tuple[int, ...]
    addons: tuple[Addon, ...]
    subjects: frozenset[str]
    by_class: bool
    by_version: bool
    candidates: Sequence[Candidate]
    versions: Sequence[KubernetesVersion]
    judges: Judges
    evaluated: Evaluated
    _known: dict[tuple[int, int, Choice], frozenset[str]] = field(default_factory=dict)

    def violated(self, node: TopologyState, choice: Choice) -> frozenset[str]:
        """Return the subjects of the facts that options of the addons violate at a node."""
        key = (node.candidate if self.by_class else ANY, node.version if self.by_version else ANY, choice)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = frozenset(self._violations(node, choice))
        return found

    def contains(self, node: TopologyState, choice: Choice) -> bool:
        """Report whether the range of every addon contains the Kubernetes version; ranges of the class do not count."""
        own_of_class = "/"  # a subject begins with the name of its addon
        return not any(
            subject.endswith(KUBERNETES) and not subject.startswith(own_of_class)
            for subject in self.violated(node, choice)
        )

    def _violations(self, node: TopologyState, choice: Choice) -> Iterator[str]:
        options = tuple([addon.options[at] for addon, at in zip(self.addons, choice, strict=True) if at != ABSENT])
        version = self.versions[node.version]
        name = self.candidates[node.candidate].name if self.by_class else None
        key = name, version, tuple(map(id, options))
        if key not in self.evaluated:
            candidate = self.candidates[node.candidate]
            present = list(own_components(candidate)) if self.by_class else []
            if not self.by_class:
                # A bundle states nothing: so the class is not judged each time.
                candidate = replace(candidate, compatibility=None)
            present += [component for option in options for component in option.components]
            self.evaluated[key] = violations(candidate, version, present, replace(self.judges, enforced=None))
        for one in self.evaluated[key]:
            if one.subject in self.subjects and self.judges.enforces(one.fact):
                yield one.subject


@dataclass(frozen=True)
class PlanningModel:
    """The numbered world of one question, with one of each set of interchangeable versions.

    Args:
        candidates: Releases of the cluster's stack, sorted by name.
        versions: Kubernetes versions from the cluster's to the target's, in order.
        addons: The addons in the order of their names.
        scopes: The facts about addons.
        start: Class and Kubernetes version of the cluster.
        installed: By addon, its installed option; ABSENT everywhere if the class is a bundle's.
        goal_candidate: Index of the target class; None for any.
        goal_version: Index of the target Kubernetes version; -1 if it is below the cluster's.
        judges: The sources of facts besides the releases.
        class_subjects: Subjects of the facts that are about no addon.
    """

    candidates: tuple[Candidate, ...]
    versions: tuple[KubernetesVersion, ...]
    addons: tuple[Addon, ...]
    scopes: tuple[Scope, ...]
    start: TopologyState
    installed: Choice
    goal_candidate: int | None
    goal_version: int
    judges: Judges
    class_subjects: frozenset[str]

    @cached_property
    def allowed(self) -> dict[int, tuple[TopologyState, ...]]:
        """By version, the nodes that violate no fact about class and Kubernetes alone."""
        return {
            version: tuple(
                node
                for node in (TopologyState(at, version) for at in range(len(self.candidates)))
                if self._is_allowed(node)
            )
            for version in range(len(self.versions))
        }

    def is_bundle(self, node: TopologyState) -> bool:
        """Return whether the class of a node is a bundle's."""
        return self.candidates[node.candidate].is_bundle

    def is_goal(self, node: TopologyState) -> bool:
        """Return whether class and Kubernetes version are those of the target."""
        return node.version == self.goal_version and self.goal_candidate in (None, node.candidate)

    def offered(self, candidate: int) -> Choice:
        """Return, by addon, the option of a release."""
        name = self.candidates[candidate].name
        return tuple(
            next((at for at, option in enumerate(addon.options) if name in option.releases), ABSENT)
            for addon in self.addons
        )

    def successors(self, node: TopologyState) -> Iterator[TopologyState]:
        """Yield the nodes one move of Kubernetes, class or release away: the present class and new classes first."""
        into_bundles = self.is_bundle(node)
        for version in reversed(self._reachable(node.version)):
            found = [one for one in self.allowed[version] if one != node]
            found.sort(key=lambda one: (one.candidate != node.candidate, -one.candidate))
            for one in found:
                may_enter = into_bundles or one.candidate == self.goal_candidate
                if not self.is_bundle(one) or (may_enter and one.candidate != node.candidate):
                    yield one

    def _reachable(self, version: int) -> range:
        """Return the version itself and those one move away: a higher patch, or one minor up."""
        here = self.versions[version]
        end = version
        while end < len(self.versions) and self._is_near(here, self.versions[end]):
            end += 1
        return range(version, end)

    @staticmethod
    def _is_near(here: KubernetesVersion, there: KubernetesVersion) -> bool:
        return there.major == here.major and there.minor - here.minor in (0, 1)

    def _is_allowed(self, node: TopologyState) -> bool:
        candidate, version = self.candidates[node.candidate], self.versions[node.version]
        if not accepts(candidate, version):
            return False
        found = violations(candidate, version, own_components(candidate), self.judges)
        return all(one.subject not in self.class_subjects for one in found)


def accepts(candidate: Candidate, version: KubernetesVersion) -> bool:
    """Report whether a class accepts a version, ranges aside: a bundle its own, another one those that it lists."""
    if candidate.is_bundle:
        return version == candidate.kubernetes
    return not candidate.class_versions or version in candidate.class_versions


def own_components(candidate: Candidate) -> tuple[Component, ...]:
    """Return the components of a release's class itself."""
    return candidate.compatibility.of_addon("") if candidate.compatibility is not None else ()
