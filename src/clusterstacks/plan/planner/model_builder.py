"""Builds the numbered model of a question that the search works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.names import ReleaseName
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.plan.compat.constraints import Judges, class_fact
from clusterstacks.plan.planner.addon_versions import (
    installed_option,
    option_moves,
    options_of,
    providers,
    strangers,
    wanted_options,
)
from clusterstacks.plan.planner.budget import Budget
from clusterstacks.plan.planner.constraint_catalog import (
    Fact,
    FactSources,
    catalogue,
    class_subjects,
    live_facts,
    scopes_of,
)
from clusterstacks.plan.planner.equivalence import Traits, representatives, same_moves
from clusterstacks.plan.planner.model import (
    ABSENT,
    Addon,
    Option,
    PlanningModel,
    TopologyState,
    accepts,
    own_components,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

    from clusterstacks.model.files.compatibility import Component, Rule
    from clusterstacks.model.ranges import Range
    from clusterstacks.plan.compat.world import Candidate, ClusterState, World
    from clusterstacks.plan.planner.model import Evaluated


Target = ReleaseName | KubernetesVersion
"""Target of a plan. A release means its class, exactly its addons and at least its Kubernetes version. A version means
that version; class and addons move only if needed."""

Goal = Target | KubernetesMinor
"""A target as a user names it; :meth:`World.target` finds the newest version of a minor."""


LOOKS_PER_PAIR = 2
"""Looks that the comparison of two versions of an addon costs (measured)."""


class PlanImpossible(SpecError):
    """The question itself is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__("PlanImpossible", message)


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """Everything that one question depends on.

    Args:
        state: The state of the cluster.
        candidates: Releases of the cluster's stack, sorted by name.
        versions: Known Kubernetes versions from the cluster's to the target's, in order.
        options: By addon, its versions.
        installed: Version of each installed addon.
        here: The release of the cluster's class.
        goal: The target release; None for any.
        goal_version: The target Kubernetes version.
        judges: The sources of facts besides the releases.
        facts: All facts by id.
        evaluated: The violations found so far.
    """

    state: ClusterState
    candidates: tuple[Candidate, ...]
    versions: tuple[KubernetesVersion, ...]
    options: Mapping[str, tuple[Option, ...]]
    installed: Mapping[str, str]
    here: Candidate
    goal: Candidate | None
    goal_version: KubernetesVersion
    judges: Judges
    facts: Mapping[str, Fact]
    evaluated: Evaluated = field(default_factory=dict)

    def rules(self) -> Iterator[Rule]:
        """Yield the rules of releases, then those of the provider."""
        for one in self.candidates:
            if one.compatibility is not None:
                yield from one.compatibility.rules
        yield from self.judges.rules


def planning_problem(
    world: World, state: ClusterState, target: Target, budget: Budget | None = None
) -> PlanningProblem:
    """Collect everything that a question depends on.

    Raises:
        BudgetExhausted: The budget is too small.
        PlanImpossible: A release is unknown or belongs to another stack, or the workers are ahead.
    """
    candidates = _candidates(world, state.release)
    known = {candidate.name: candidate for candidate in candidates}
    _check(known, state, target)
    goal = known[target] if isinstance(target, ReleaseName) else None
    goal_version = _goal_version(state, target, goal)
    installed = _installed(state, known[state.release])
    offered = (one.compatibility.addons() for one in candidates if one.compatibility is not None)
    names = sorted(set(installed).union(*offered))
    budget = Budget() if budget is None else budget
    options = {}
    for name in names:
        options[name] = options_of(name, candidates, installed.get(name))
        budget.spend(LOOKS_PER_PAIR * len(candidates) * len(options[name]))
    foreign = strangers(option for versions in options.values() for option in versions)
    statements = FactSources(candidates, foreign, providers(options), world.rules, world.upstream, goal_version)
    return PlanningProblem(
        state=state,
        candidates=candidates,
        versions=_versions(candidates, state.kubernetes, goal_version),
        options=options,
        installed=installed,
        here=known[state.release],
        goal=goal,
        goal_version=goal_version,
        judges=Judges(world.rules, world.upstream, state.labels, state.variables),
        facts=catalogue(statements),
    )


def build_model(asked: PlanningProblem, budget: Budget, enforced: Collection[str] | None = None) -> PlanningModel:
    """Number the world for one question.

    Args:
        asked: The question.
        budget: Bounds the comparison of versions.
        enforced: Ids of the enforced facts, if only the existence of a plan matters: addons without enforced facts can
            always reach their target and are left out. None for all facts.

    Raises:
        BudgetExhausted: The budget is too small.
    """
    return _ModelBuilder(asked, budget, enforced).model()


class _ModelBuilder:
    def __init__(self, asked: PlanningProblem, budget: Budget, enforced: Collection[str] | None) -> None:
        self.asked, self.budget, judges = asked, budget, asked.judges
        self.judges = Judges(judges.rules, judges.upstream, judges.labels, judges.variables, enforced)
        self.facts = [fact for fact in asked.facts.values() if self.judges.enforces(fact.id)]
        bound = set[str]().union(*(fact.addons for fact in self.facts))
        self.names = [name for name in asked.options if enforced is None or name in bound]
        self.overridden = frozenset(fact for rule in asked.rules() for fact in rule.overrides)
        self.candidates = self._reachable()
        self.traits = Traits(asked.versions, self.judges, self.overridden, self._asked(), self._known())

    def model(self) -> PlanningModel:
        asked = self.asked
        candidates = self._kept_classes()
        versions = self._kept_versions()
        addons, installed = self._addons()
        live = frozenset(live_facts(addons, installed, candidates, self.traits))
        index = {candidate.name: at for at, candidate in enumerate(candidates)}
        at_goal = [at for at, version in enumerate(versions) if version == asked.goal_version]
        return PlanningModel(
            candidates=candidates,
            versions=versions,
            addons=addons,
            scopes=scopes_of(self.facts, addons, live, (candidates, versions, self.judges, asked.evaluated)),
            start=TopologyState(index[asked.here.name], 0),
            installed=installed,
            goal_candidate=None if asked.goal is None else index[asked.goal.name],
            goal_version=at_goal[0] if at_goal else -1,
            judges=self.judges,
            class_subjects=class_subjects(self.facts),
        )

    def _reachable(self) -> tuple[Candidate, ...]:
        """Leave out the bundles that no plan may enter."""
        here, goal = self.asked.here, self.asked.goal
        return tuple(one for one in self.asked.candidates if here.is_bundle or not one.is_bundle or one is goal)

    def _components(self) -> Iterator[Component]:
        for name in self.names:
            for option in self.asked.options[name]:
                yield from option.components
        for candidate in self.candidates:
            yield from own_components(candidate)

    def _known(self) -> dict[str, dict[str, Component]]:
        known: dict[str, dict[str, Component]] = {}
        for one in self._components():
            known.setdefault(one.name, {})[one.text] = one
        return known

    def _asked(self) -> dict[str, set[Range]]:
        asked: dict[str, set[Range]] = {}
        for one in self._components():
            for other, wanted in one.requires.items():
                asked.setdefault(other, set()).add(wanted)
        for rule in self.asked.rules():
            for other, wanted in rule.when.components.items():
                asked.setdefault(other, set()).add(wanted)
        return asked

    def _kept_versions(self) -> tuple[KubernetesVersion, ...]:
        asked, traits = self.asked, self.traits
        ranges = [one.compatibility.kubernetes for one in self.candidates if one.compatibility is not None]
        ranges += [rule.when.kubernetes for rule in asked.rules() if rule.when.kubernetes is not None]
        masks = {traits.held(one) for one in ranges} | {traits.works_with(one) for one in self._components()}
        bundled = {one.kubernetes for one in self.candidates if one.is_bundle} | {asked.goal_version}
        columns = sorted(masks)

        def label(at: int) -> Hashable:
            version = asked.versions[at]
            alone = version if version in bundled else None
            accepted = tuple(accepts(one, version) for one in self.candidates if one.class_versions)
            return version.series, alone, accepted, tuple(one >> at & 1 for one in columns)

        labels = [label(at) for at in range(len(asked.versions))]
        kept = representatives(len(labels), lambda at: labels[at] == labels[at + 1], 0)
        return tuple(asked.versions[at] for at in kept)

    def _kept_classes(self) -> tuple[Candidate, ...]:
        """Keep the newest of equivalent classes, and the classes of cluster and target."""
        kept: dict[Hashable, Candidate] = {}
        for one in self.candidates:
            stays = one is self.asked.here or one is self.asked.goal or one.is_bundle
            kept[one.name if stays else self._class_label(one)] = one
        for named in (self.asked.here, self.asked.goal):
            if named is not None and not named.is_bundle:
                kept.pop(self._class_label(named), None)
        return tuple(sorted(kept.values(), key=lambda one: one.name))

    def _class_label(self, one: Candidate) -> Hashable:
        stated = one.compatibility
        if stated is None:
            return one.name
        counts = self.judges.enforces(class_fact(one.name))
        own = own_components(one)
        return (
            self.traits.held(stated.kubernetes) if counts else self.traits.all_versions,
            tuple(map(self.traits.of, own)),
            one.class_versions,
            tuple((rule.fact, repr(rule)) for rule in stated.rules),
            one.name if class_fact(one.name) in self.overridden or self.asked.here.is_bundle else None,
        )

    def _addons(self) -> tuple[tuple[Addon, ...], tuple[int, ...]]:
        numbered = [self._addon(name) for name in self.names]
        return tuple(addon for addon, _ in numbered), tuple(installed for _, installed in numbered)

    def _addon(self, name: str) -> tuple[Addon, int]:
        """Number the options of an addon; return it with its installed option."""
        asked = self.asked
        options = asked.options[name]
        wanted = wanted_options(name, options, asked.goal)
        self.budget.spend(LOOKS_PER_PAIR * len(options) ** 2)
        moves = option_moves(options, self.judges, wanted)
        installed = installed_option(name, options, asked.installed.get(name), asked.here.name)
        labels = [
            (tuple(map(self.traits.of, option.components)), wanted is not None and at in wanted)
            for at, option in enumerate(options)
        ]

        def alike(at: int) -> bool:
            # A cluster that leaves a bundle gets the addons of the release, interchangeable or not.
            return not asked.here.is_bundle and labels[at] == labels[at + 1] and same_moves(moves, at, at + 1)

        kept = representatives(len(options), alike, installed)
        number = {at: new for new, at in enumerate(kept)} | {ABSENT: ABSENT}
        addon = Addon(
            name,
            tuple(options[at] for at in kept),
            tuple(tuple(number[to] for to in moves[at] if to in number) for at in (*kept, ABSENT)),
            None if wanted is None else frozenset(number[at] for at in wanted if at in number),
        )
        return addon, number[installed]


def _candidates(world: World, release: ReleaseName) -> tuple[Candidate, ...]:
    """Return the releases of the cluster's stack: a class never moves to another stack."""
    own = [one for one in world.candidates if (one.name.provider, one.name.stack) == (release.provider, release.stack)]
    return tuple(sorted(own, key=lambda one: one.name))


def _check(known: Collection[ReleaseName], state: ClusterState, target: Target) -> None:
    if state.release not in known:
        raise PlanImpossible(f"release {state.release}, whose class the cluster has, is not among the releases given")
    if isinstance(target, ReleaseName) and target not in known:
        if (target.provider, target.stack) != (state.release.provider, state.release.stack):
            raise PlanImpossible(
                f"release {target} is of another stack than {state.release}: a class cannot move there"
            )
        raise PlanImpossible(f"release {target} is not among the releases given")
    if state.workers > state.kubernetes:
        message = f"workers of {state.workers} are ahead of the control plane of {state.kubernetes}"
        raise PlanImpossible(f"{message}: Kubernetes does not allow that; correct the state")


def _goal_version(state: ClusterState, target: Target, goal: Candidate | None) -> KubernetesVersion:
    if goal is None:
        assert isinstance(target, KubernetesVersion)  # noqa: S101 - the other kind of target has a release
        return target
    return goal.kubernetes if goal.is_bundle else max(goal.kubernetes, state.kubernetes)


def _versions(
    candidates: Iterable[Candidate], now: KubernetesVersion, goal: KubernetesVersion
) -> tuple[KubernetesVersion, ...]:
    """Return the known versions between now and the goal: Kubernetes never goes down."""
    known = {now, goal}
    for one in candidates:
        known |= {one.kubernetes, *one.class_versions}
    return tuple(sorted(one for one in known if now <= one <= max(goal, now)))


def _installed(state: ClusterState, candidate: Candidate) -> dict[str, str]:
    """Return the version of each installed addon; the addons of a bundle are unknown and move with it."""
    stated = candidate.compatibility
    if stated is None:
        return {}
    if state.addons is not None:
        return dict(state.addons)
    return {addon: leading(addon, stated.of_addon(addon)).text for addon in stated.addons()}
