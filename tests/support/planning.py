"""A second planner, simple enough to be believed: Dijkstra over whole states, every rule read anew at every state.

It shares the values of the domain (ranges, versions, ``compatibility.yaml``) with the real planner and none of its code.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from clusterstacks.domain.compatibility import Component, Severity, parse_compatibility
from clusterstacks.domain.names import ReleaseName, parse_release
from clusterstacks.domain.planning.world import Candidate, State, World
from clusterstacks.domain.versions import KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from clusterstacks.domain.ranges import Range


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
        state: State,
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
        return () if stated is None else tuple((addon, name) for addon in stated.addons())

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
        for name, one in self.releases.items():
            for addon in one.compatibility.addons() if one.compatibility is not None else ():
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
        found += [(f"rule:{rule.id}", f"rule:{rule.id}") for rule in matching if rule.severity is Severity.DENY]
        excused = {fact for rule in matching if rule.severity is Severity.ALLOW for fact in rule.overrides}
        return [one for one in found if self._counts(one[0]) and one[0] not in excused]

    @staticmethod
    def _holds(wanted: Range, version: KubernetesVersion) -> bool:
        return wanted.holds((version.major, version.minor, version.patch), version.pre)

    @staticmethod
    def _has(components: list[Component], name: str, wanted: Range) -> bool:
        return any(one.name == name and wanted.holds(one.version.release, one.version.pre) for one in components)
