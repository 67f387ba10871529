"""A second planner, simple enough to be believed: Dijkstra over whole states, every rule read anew at every state.

It shares values of the domain (ranges, versions, ``compatibility.yaml``) with the real planner, and none of its code.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from clusterstacks.model.files.compatibility import Component, RuleSeverity, parse_compatibility
from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.world import Candidate, ClusterState, World
from clusterstacks.plan.planner.steps import Step, StepKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from random import Random

    from clusterstacks.model.ranges import Range


@dataclass(frozen=True)
class Place:
    """A state: the version, the release of the class, and for each addon the release it is taken from."""

    kubernetes: KubernetesVersion
    release: ReleaseName
    addons: tuple[tuple[str, ReleaseName], ...]


def candidate(name: str, kubernetes: str, stated: dict[str, Any] | None) -> Candidate:
    """Build a release; ``stated`` is its compatibility.yaml without apiVersion, None for a bundle."""
    document = None if stated is None else {"apiVersion": "compatibility.clusterstack.x-k8s.io/v1alpha1", **stated}
    return Candidate(
        parse_release(name),
        KubernetesVersion.parse(kubernetes),
        None if document is None else parse_compatibility(document),
    )


class Oracle:
    """Answers one question by looking at every state.

    Args:
        world: What there is.
        state: Where the cluster is; its addons are those of its release.
        target: Where to go.
        enforced: Ids of the facts that count; None for all.
    """

    def __init__(
        self,
        world: World,
        state: ClusterState,
        target: ReleaseName | KubernetesVersion,
        enforced: Collection[str] | None = None,
    ) -> None:
        self.world, self.state, self.target, self.enforced = world, state, target, enforced
        self.releases = {one.name: one for one in world.candidates}
        self.start = self._start()
        self.known = {one.kubernetes for one in world.candidates} | {state.kubernetes}
        goal = self.releases[target] if isinstance(target, ReleaseName) else None
        self.goal = goal
        if goal is None:
            assert isinstance(target, KubernetesVersion)
            self.wanted = target
        else:
            self.wanted = goal.kubernetes if goal.compatibility is None else max(goal.kubernetes, state.kubernetes)
        self.known.add(self.wanted)

    def cheapest(self) -> int | None:
        """The least cost; None when the target is out of reach."""
        ticket = count()
        heap = [(0, next(ticket), self.start)]
        seen: set[Place] = set()
        while heap:
            cost, _, place = heapq.heappop(heap)
            if place in seen:
                continue
            seen.add(place)
            if self._is_goal(place):
                return cost
            for price, following in self._moves(place):
                heapq.heappush(heap, (cost + price, next(ticket), following))
        return None

    def _start(self) -> Place:
        name = self.state.release
        return Place(self.state.kubernetes, name, self._addons_of(name))

    def _addons_of(self, name: ReleaseName) -> tuple[tuple[str, ReleaseName], ...]:
        stated = self.releases[name].compatibility
        return () if stated is None else tuple((addon, self._same(addon, name)) for addon in stated.addons())

    def _version(self, addon: str, name: ReleaseName) -> str:
        stated = self.releases[name].compatibility
        assert stated is not None
        components = stated.of_addon(addon)
        return next((one for one in components if one.name == addon), components[0]).text

    def _is_goal(self, place: Place) -> bool:
        if place.kubernetes != self.wanted:
            return False
        if self.goal is None:
            return True
        if place.release != self.goal.name:
            return False
        have = {addon: self._version(addon, name) for addon, name in place.addons}
        return have == {addon: self._version(addon, name) for addon, name in self._addons_of(self.goal.name)}

    def _moves(self, place: Place) -> Iterator[tuple[int, Place]]:
        if self.releases[place.release].compatibility is not None:
            yield from self._addon_moves(place)
        for name, one in self.releases.items():
            for version in self.known:
                following = self._node_move(place, one, version)
                if following is not None and (version, name) != (place.kubernetes, place.release):
                    yield 10, following

    def _node_move(self, place: Place, one: Candidate, version: KubernetesVersion) -> Place | None:
        old = place.kubernetes
        if not (old <= version and version.major == old.major and version.minor - old.minor <= 1):
            return None
        here = self.releases[place.release]
        if one.compatibility is None:
            allowed = version == one.kubernetes and (here.compatibility is None or one == self.goal)
            following = Place(version, one.name, ())
            return following if allowed and one != here and not self._broken(following) else None
        if here.compatibility is None:
            following = Place(version, one.name, self._addons_of(one.name))
            at_old = Place(old, one.name, following.addons)
            outside = [fact for fact, subject in self._broken(at_old) if subject.startswith("kubernetes of addon")]
            return None if self._broken(following) or outside else following
        following = Place(version, one.name, place.addons)
        return None if self._broken(following) else following

    def _addon_moves(self, place: Place) -> Iterator[tuple[int, Place]]:
        before = {subject for _, subject in self._broken(place)}
        have = dict(place.addons)
        wanted = None if self.goal is None or self.goal.compatibility is None else set(self.goal.compatibility.addons())
        offered = [pair for name in self.releases for pair in self._addons_of(name)]
        for addon, name in dict.fromkeys(offered):
            if addon in have and have[addon] != name and self._may_move(addon, have[addon], name):
                yield from self._if_allowed(place, {**have, addon: name}, before)
            if addon not in have and wanted is not None and addon in wanted:
                yield from self._if_allowed(place, {**have, addon: name}, before)
        for addon in have:
            if wanted is not None and addon not in wanted:
                rest = {key: value for key, value in have.items() if key != addon}
                yield from self._if_allowed(place, rest, before)

    def _if_allowed(
        self, place: Place, addons: dict[str, ReleaseName], before: set[str]
    ) -> Iterator[tuple[int, Place]]:
        following = Place(place.kubernetes, place.release, tuple(sorted(addons.items())))
        if {subject for _, subject in self._broken(following)} <= before:
            yield 1, following

    def _may_move(self, addon: str, old: ReleaseName, new: ReleaseName) -> bool:
        before = {one.name: one for one in self._components(addon, old)}
        for one in self._components(addon, new):
            if one.name not in before or not self._counts(f"component:{one.name}@{one.text}:upgrade"):
                continue
            source, goal = before[one.name].version, one.version
            step = one.upgrade.max_minor_step
            too_far = step is not None and (goal.major != source.major or goal.minor - source.minor > step)
            if (goal < source and not one.upgrade.downgrade) or (goal > source and too_far):
                return False
        return True

    def _components(self, addon: str, name: ReleaseName) -> tuple[Component, ...]:
        stated = self.releases[name].compatibility
        return () if stated is None else tuple(one for one in stated.components if one.addon == addon)

    def _counts(self, fact: str) -> bool:
        return self.enforced is None or fact in self.enforced

    def _broken(self, place: Place) -> list[tuple[str, str]]:
        """Ids of the facts a place violates, each with what stays the same when another version violates it."""
        stated = self.releases[place.release].compatibility
        components = list(self._components("", place.release))
        for addon, name in place.addons:
            components += self._components(addon, name)
        found: list[tuple[str, str]] = []
        if stated is not None and not self._holds(stated.kubernetes, place.kubernetes):
            found.append((f"class:{place.release}", "class"))
        for one in components:
            title, whose = f"{one.name}@{one.text}", f"addon {one.addon}" if one.addon else "class"
            if (
                one.kubernetes is not None
                and one.kind != "tested"
                and not self._holds(one.kubernetes, place.kubernetes)
            ):
                found.append((f"component:{title}:kubernetes", f"kubernetes of {whose} {one.name}"))
            found += [
                (f"component:{title}:requires:{other}", f"requires of {whose} {one.name} {other}")
                for other, wanted in one.requires.items()
                if not self._has(components, other, wanted)
            ]
        rules = [*(stated.rules if stated is not None else ()), *self.world.rules]
        matching = [
            rule
            for rule in rules
            if (rule.when.kubernetes is None or self._holds(rule.when.kubernetes, place.kubernetes))
            and all(self._has(components, name, wanted) for name, wanted in rule.when.components.items())
            and rule.when.provider in ("", place.release.provider)
            and all(self.state.labels.get(key) == value for key, value in rule.when.labels.items())
        ]
        found += [(f"rule:{rule.id}", f"rule:{rule.id}") for rule in matching if rule.severity is RuleSeverity.DENY]
        excused = {fact for rule in matching if rule.severity is RuleSeverity.ALLOW for fact in rule.overrides}
        return [one for one in found if self._counts(one[0]) and one[0] not in excused]

    @staticmethod
    def _holds(wanted: Range, version: KubernetesVersion) -> bool:
        return wanted.holds((version.major, version.minor, version.patch), version.pre)

    @staticmethod
    def _has(components: list[Component], name: str, wanted: Range) -> bool:
        return any(one.name == name and wanted.holds(one.version.release, one.version.pre) for one in components)

    def complaints(self, steps: Sequence[Step]) -> list[str]:
        """What is wrong with a plan, looked at step by step."""
        found: list[str] = []
        place = self.start
        for step in steps:
            if step.kind is StepKind.WORKERS:
                continue
            following = self._place(step)
            moves = [*self._moves(place)]
            if following not in [move for _, move in moves]:
                found.append(f"{step.kind} {step.addon} leads from {place} to {following}, which no move does")
            place = following
        if not self._is_goal(place):
            found.append(f"the plan ends at {place}")
        return found

    def _place(self, step: Step) -> Place:
        """Where a step leads: an option that several releases share is taken from the one the moves name."""
        after = step.after
        addons = tuple((addon, option.releases[0]) for addon, option in sorted(after.addons.items()))
        return Place(after.kubernetes, after.candidate.name, addons)

    def _same(self, addon: str, name: ReleaseName) -> ReleaseName:
        """Name the first release that states just the same of an addon: taken from there it is the same addon."""
        return min(one for one in self.releases if self._components(addon, one) == self._components(addon, name))


@dataclass(frozen=True)
class _Kind:
    """What a random world is like: small worlds of every kind find more than large ones of one kind."""

    patches: int
    narrow: bool
    at_patches: float
    coupled: float
    bundles: float
    repeated: float


def random_question(r: Random) -> tuple[World, ClusterState, ReleaseName | KubernetesVersion] | None:
    """Make up a small world and a question; None where chance gave no release."""
    kind = _Kind(
        patches=r.choice([2, 2, 5]),
        narrow=r.random() < 0.3,
        at_patches=r.choice([0, 0, 0.5]),
        coupled=r.choice([0.25, 0.25, 0.7]),
        bundles=r.choice([0, 0.25, 0.5]),
        repeated=r.choice([0, 0.3]),
    )
    candidates: list[Candidate] = []
    facts: dict[tuple[str, str], dict[str, Any]] = {}
    statements: list[dict[str, Any]] = []
    names: set[str] = set()
    for number in range(r.randint(1, 6)):
        minor = r.randint(8, 11)
        name = f"p-s-1-{minor}-v{r.randint(1, 12)}"
        if name in names:
            continue
        names.add(name)
        stated = None
        if r.random() >= kind.bundles:
            again = statements and r.random() < kind.repeated
            stated = r.choice(statements) if again else _random_statement(r, name, minor, (number, kind), facts)
            statements.append(stated)
        candidates.append(candidate(name, f"v1.{minor}.{r.randint(0, kind.patches)}", stated))
    if not candidates:
        return None
    start = r.choice(candidates)
    now = start.kubernetes
    if r.random() < 0.3:
        now = KubernetesVersion(1, max(8, now.minor + r.randint(-1, 1)), r.randint(0, kind.patches))
    by_version = KubernetesVersion(1, r.randint(8, 12), r.randint(0, kind.patches))
    target = r.choice(candidates).name if r.random() < 0.6 else by_version
    return World(tuple(candidates)), ClusterState(now, now, start.name), target


def _random_statement(
    r: Random, name: str, minor: int, of: tuple[int, _Kind], facts: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    number, kind = of
    components = [_random_component(r, addon, kind, facts) for addon in r.sample(["a", "b", "c"], r.randint(0, 3))]
    if r.random() < 0.3:
        requires = {"requires": {"a": ">=1.9"}} if r.random() < 0.3 else {}
        components.append(
            {"name": "x", "version": f"1.{r.randint(8, 11)}.0", "kubernetes": _random_range(r, kind), **requires}
        )
    rules: list[dict[str, Any]] = []
    if r.random() < 0.3:
        when = {"kubernetes": _random_range(r, kind)} if r.random() < 0.7 else {}
        bounds = {other: f"<1.{r.randint(8, 11)}" for other in r.sample("abcx", r.randint(0, 2))}
        rules.append({"id": f"r{number}", "severity": "Deny", "message": "m", "when": {**when, "components": bounds}})
    if r.random() < 0.2:
        ids = [f"component:{one['name']}@{one['version']}:kubernetes" for one in components]
        overridden = r.choice([f"class:{name}", f"rule:r{number}", *ids])
        bounds = {other: f">=1.{r.randint(8, 11)}" for other in r.sample("abcx", r.randint(0, 1))}
        rules.append(
            {
                "id": f"al{number}",
                "severity": "Allow",
                "message": "m",
                "overrides": [overridden],
                "when": {"components": bounds},
            }
        )
    kubernetes = f">=1.{minor - r.randint(0, 1)} <1.{minor + r.randint(1, 3)}"
    return {"kubernetes": kubernetes, "components": components, "rules": rules}


def _random_component(
    r: Random, addon: str, kind: _Kind, facts: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    version = f"1.{r.randint(8, 11)}.0" if r.random() < 0.85 else f"2.{r.randint(0, 1)}.0"
    if r.random() < 0.9 and (addon, version) in facts:
        return facts[addon, version]
    component: dict[str, Any] = {"name": addon, "addon": addon, "version": version}
    if r.random() < 0.8:
        component["kubernetes"] = _random_range(r, kind)
    if r.random() < 0.2:
        component["kind"] = "tested"
    if r.random() < kind.coupled:
        component["requires"] = {r.choice("abcx"): f">=1.{r.randint(8, 11)}"}
    if r.random() < 0.5:
        component["upgrade"] = {"downgrade": r.random() < 0.3}
        if r.random() < 0.7:
            component["upgrade"]["maxMinorStep"] = r.randint(0, 2)
    facts[addon, version] = component
    return component


def _random_range(r: Random, kind: _Kind) -> str:
    low = r.randint(7, 12)
    high = low + r.randint(1, 2) if kind.narrow else r.randint(low, 13) + 1
    if r.random() < kind.at_patches:
        return f">=1.{low}.{r.randint(0, kind.patches)} <1.{high}.{r.randint(0, kind.patches)}"
    return f">=1.{low} <1.{high}"
