"""From the world as it is asked about to the numbers the search works with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from clusterstacks.domain.compatibility import leading
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import ReleaseName
from clusterstacks.domain.planning.binding import Binding, bind, groups
from clusterstacks.domain.planning.catalogue import Fact, Statements, catalogue
from clusterstacks.domain.planning.facts import Judges, Violation, violations
from clusterstacks.domain.planning.model import ABSENT, Addon, Choice, Group, Node, option_moves
from clusterstacks.domain.planning.options import goals_of, installed_option, options_of, providers, strangers
from clusterstacks.domain.versions import KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from clusterstacks.domain.planning.world import Candidate, State, World


Target = ReleaseName | KubernetesVersion
"""Where to go: a release means its class, exactly its addons and at least its Kubernetes version; a version means that
version, with class and addons moved only where needed."""


class PlanImpossible(SpecError):
    """The question itself cannot be asked."""

    def __init__(self, message: str) -> None:
        super().__init__("PlanImpossible", message)


@dataclass(frozen=True)
class Model:
    """The numbered world of one question.

    Args:
        candidates: Releases of the cluster's stack, sorted by name.
        versions: Known Kubernetes versions from the cluster's to the target's, in order.
        groups: Addons that must be searched together.
        alone: By group, each of its addons as if there were no facts about several.
        start: Where class and Kubernetes are.
        choices: By group, what is installed; ABSENT everywhere when the class is a bundle.
        goal_candidate: Index of the class to reach; None for any.
        goal_version: Index of the Kubernetes version to reach.
        goals: By group and addon, the options to reach; None for any.
        judges: What decides besides the releases.
        facts: All there are, by id.
    """

    candidates: tuple[Candidate, ...]
    versions: tuple[KubernetesVersion, ...]
    groups: tuple[Group, ...]
    alone: tuple[tuple[Group, ...], ...]
    start: Node
    choices: tuple[Choice, ...]
    goal_candidate: int | None
    goal_version: int
    goals: tuple[tuple[frozenset[int], ...], ...] | None
    judges: Judges
    facts: Mapping[str, Fact]

    @cached_property
    def allowed(self) -> frozenset[Node]:
        """The nodes at which class and Kubernetes version go together, whatever the addons."""
        return frozenset(
            node
            for node in (
                Node(at, version) for at in range(len(self.candidates)) for version in range(len(self.versions))
            )
            if self._is_allowed(node)
        )

    def is_bundle(self, node: Node) -> bool:
        """Whether the class of a node is a bundle's."""
        return self.candidates[node.candidate].is_bundle

    def is_goal(self, node: Node) -> bool:
        """Whether class and Kubernetes version are where they are to be."""
        return node.version == self.goal_version and self.goal_candidate in (None, node.candidate)

    def meets(self, group: int, choice: Choice) -> bool:
        """Whether a group's addons are as they are to be."""
        if self.goals is None:
            return True
        return all(option in wanted for option, wanted in zip(choice, self.goals[group], strict=True))

    def offered(self, candidate: int) -> tuple[Choice, ...]:
        """Return, by group, the addons of a release."""
        name = self.candidates[candidate].name
        return tuple(
            tuple(
                next((at for at, option in enumerate(addon.options) if name in option.releases), ABSENT)
                for addon in group.addons
            )
            for group in self.groups
        )

    def successors(self, node: Node) -> Iterator[Node]:
        """Yield the nodes one move of Kubernetes, class or release away, in a fixed order."""
        versions = self.reachable(node.version)
        for at, candidate in enumerate(self.candidates):
            if candidate.is_bundle and not self.is_bundle(node) and at != self.goal_candidate:
                continue
            for version in versions:
                following = Node(at, version)
                if (
                    following != node
                    and (at != node.candidate or not candidate.is_bundle)
                    and following in self.allowed
                ):
                    yield following

    def reachable(self, version: int) -> tuple[int, ...]:
        """Return the version itself and those one move away: a higher patch, or one minor up."""
        here = self.versions[version]
        return tuple(
            at
            for at in range(version, len(self.versions))
            if self.versions[at].major == here.major and self.versions[at].minor - here.minor in (0, 1)
        )

    def _is_allowed(self, node: Node) -> bool:
        candidate, version = self.candidates[node.candidate], self.versions[node.version]
        if candidate.is_bundle and version != candidate.kubernetes:
            return False
        own = candidate.compatibility.of_addon("") if candidate.compatibility is not None else ()
        found = violations(candidate, version, own, self.judges)
        return all(any(group.concerns(one) for group in self.groups) for one in found)


def compile_model(
    world: World,
    state: State,
    target: Target,
    enforced: Collection[str] | None = None,
    *,
    bound_only: bool = False,
) -> Model:
    """Number the world for one question.

    Args:
        world: What there is.
        state: Where the cluster is.
        target: Where to go.
        enforced: Ids of the facts that count; None for all.
        bound_only: Leave out addons about which no fact counts: they can always get where they are to be. Enough to
            know whether there is a way.

    Raises:
        PlanImpossible: A release is not known, or belongs to another stack, or the workers are ahead.
    """
    candidates = _candidates(world, state.release)
    index = {candidate.name: at for at, candidate in enumerate(candidates)}
    _check(index, state, target)
    stated = [one.compatibility for one in candidates if one.compatibility is not None]
    judges = Judges(world.rules, world.upstream, state.labels, state.variables, enforced)
    goal = candidates[index[target]] if isinstance(target, ReleaseName) else None
    goal_version = _goal_version(state, target, goal)
    versions = _versions(candidates, state.kubernetes, goal_version)
    installed = _installed(state, candidates[index[state.release]])
    wanted = set(goal.compatibility.addons()) if goal is not None and goal.compatibility is not None else None
    names = sorted(set(installed).union(*(one.addons() for one in stated)))
    options = {name: options_of(name, candidates, installed.get(name)) for name in names}
    addons = {
        name: Addon(
            name,
            options[name],
            option_moves(
                options[name],
                judges,
                install=wanted is not None and name in wanted,
                remove=wanted is not None and name not in wanted,
            ),
        )
        for name in names
    }
    binding = bind(providers(addons.values()), stated, world.rules)
    statements = Statements(candidates, strangers(addons.values()), world.rules, world.upstream, goal_version)
    facts = catalogue(binding, statements)
    counting = [fact.addons for fact in facts.values() if judges.enforces(fact.id)]
    if bound_only:
        names = [name for name in names if any(name in together for together in counting)]
    grouped = tuple(
        Group(
            tuple(addons[name] for name in group),
            candidates,
            versions,
            judges,
            concerns=_concerned(frozenset(group), binding),
            follows_class=not binding.related.isdisjoint(group),
        )
        for group in groups(names, [together.intersection(names) for together in counting])
    )
    return Model(
        candidates=candidates,
        versions=versions,
        groups=grouped,
        alone=tuple(
            tuple(
                Group((addon,), candidates, versions, judges, _concerned_only(addon.name, binding), group.follows_class)
                for addon in group.addons
            )
            for group in grouped
        ),
        start=Node(index[state.release], versions.index(state.kubernetes)),
        choices=tuple(
            tuple(installed_option(addon, installed, state.release) for addon in one.addons) for one in grouped
        ),
        goal_candidate=None if goal is None else index[goal.name],
        goal_version=versions.index(goal_version) if goal_version in versions else -1,
        goals=None if goal is None or goal.compatibility is None else goals_of(grouped, goal),
        judges=judges,
        facts=facts,
    )


def _candidates(world: World, release: ReleaseName) -> tuple[Candidate, ...]:
    """Return the releases of the cluster's own stack: a class never moves to another."""
    own = [one for one in world.candidates if (one.name.provider, one.name.stack) == (release.provider, release.stack)]
    return tuple(sorted(own, key=lambda one: one.name))


def _check(index: Mapping[ReleaseName, int], state: State, target: Target) -> None:
    if state.release not in index:
        raise PlanImpossible(f"release {state.release}, whose class the cluster has, is not among the releases given")
    if isinstance(target, ReleaseName) and target not in index:
        if (target.provider, target.stack) != (state.release.provider, state.release.stack):
            raise PlanImpossible(
                f"release {target} is of another stack than {state.release}: a class cannot move there"
            )
        raise PlanImpossible(f"release {target} is not among the releases given")
    if state.workers > state.kubernetes:
        message = f"workers of {state.workers} are ahead of the control plane of {state.kubernetes}"
        raise PlanImpossible(f"{message}: Kubernetes does not allow that; correct the state")


def _goal_version(state: State, target: Target, goal: Candidate | None) -> KubernetesVersion:
    if goal is None:
        assert isinstance(target, KubernetesVersion)  # noqa: S101 - the other kind of target has a release
        return target
    return goal.kubernetes if goal.is_bundle else max(goal.kubernetes, state.kubernetes)


def _versions(
    candidates: Iterable[Candidate], now: KubernetesVersion, goal: KubernetesVersion
) -> tuple[KubernetesVersion, ...]:
    """Return the known versions between now and the goal: Kubernetes never goes down."""
    known = {now, goal, *(one.kubernetes for one in candidates)}
    return tuple(sorted(one for one in known if now <= one <= max(goal, now)))


def _installed(state: State, candidate: Candidate) -> dict[str, str]:
    """Return the version of each addon that is installed; what a bundle brings is known to nobody and moves with it."""
    stated = candidate.compatibility
    if stated is None:
        return {}
    if state.addons is not None:
        return dict(state.addons)
    return {addon: leading(addon, stated.of_addon(addon)).text for addon in stated.addons()}


def _concerned_only(name: str, binding: Binding) -> Callable[[Violation], bool]:
    return lambda violation: binding.addons(violation) == {name}


def _concerned(names: frozenset[str], binding: Binding) -> Callable[[Violation], bool]:
    return lambda violation: not names.isdisjoint(binding.addons(violation))
