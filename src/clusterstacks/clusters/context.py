"""Everything the planner has to know of one live Cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import read_wishes
from clusterstacks.clusters.candidates import published
from clusterstacks.clusters.live_cluster import LiveCluster, read_cluster
from clusterstacks.clusters.offered_stacks import Offered, read_offered, read_rules
from clusterstacks.clusters.state import state_of
from clusterstacks.compat.constraints import Judges
from clusterstacks.compat.rules.upgrades import other_stack
from clusterstacks.compat.world import ClusterState, World
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import ReleaseName
from clusterstacks.planner.patches import taken_from
from clusterstacks.planner.steps import StepKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from clusterstacks.compat.statements import UpstreamFacts
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.kube.client import Client
    from clusterstacks.planner.model_builder import Target
    from clusterstacks.planner.steps import Step
    from clusterstacks.sources.open_source import SourceOpener


class TargetUnknown(SpecError):
    """A Cluster is to move to a release about which nothing can be found out."""

    def __init__(self, release: ReleaseName, notices: Sequence[str]) -> None:
        message = f"release {release} is not among those that could be read: correct its name, or publish it"
        super().__init__("TargetUnknown", "\n".join([message, *notices]))


@dataclass(frozen=True, slots=True)
class Outlook:
    """A cluster and what it could become.

    Args:
        cluster: As it is.
        offered: By its management cluster.
        world: The releases there are, and the rules.
        state: Where a plan begins.
        notices: What could not be read, and what holds the cluster up.
    """

    cluster: LiveCluster
    offered: Offered
    world: World
    state: ClusterState
    notices: tuple[str, ...]

    def candidate(self, release: ReleaseName) -> Candidate:
        """Return what is known of a release the cluster is to move to.

        Raises:
            TargetUnknown: Nothing.
            SpecError: It is of another stack.
        """
        if problem := other_stack(self.cluster.release, release):
            raise SpecError("AnotherStack", problem)
        found = next((one for one in self.world.candidates if one.name == release), None)
        if found is None:
            raise TargetUnknown(release, self.notices)
        return found

    def combination(self) -> Candidate:
        """Return the release of its class with the addons that it asks for, as if it were one release."""
        known = {one.name: one for one in self.world.candidates}
        own = known[self.cluster.release]
        if own.compatibility is None:
            return own
        wishes = read_wishes(self.cluster.view.annotations, own.name)
        components = list(own.compatibility.of_addon(""))
        for addon, release in wishes.sources({name: known[name].addons for name in wishes.releases()}).items():
            stated = known[release].compatibility
            brought = stated.of_addon(addon) if stated is not None else ()
            components += [replace(one, source=one.source or f"release {release}") for one in brought]
        return replace(own, compatibility=replace(own.compatibility, components=tuple(components)))

    def judges(self) -> Judges:
        """Return what decides on its combinations besides the releases."""
        view = self.cluster.view
        return Judges(self.world.rules, self.world.upstream, view.labels, self.cluster.variables)

    def hints(self, target: Target) -> list[str]:
        """Say what somebody should know who moves the cluster to a target at once."""
        hints = list(self.notices)
        if self.state.workers < self.state.kubernetes:
            hints.append(
                f"nodes of {self.state.workers} are on their way to {self.state.kubernetes}: wait for them first"
            )
        if isinstance(target, ReleaseName) and (missing := self.offered.missing(target, its_class=True)):
            hints.append(missing)
        return hints

    def preparations(self, steps: Iterable[Step]) -> list[str]:
        """Say what has to be offered in the management cluster before steps can be taken."""
        needed: dict[ReleaseName, bool] = {}
        for step in steps:
            if step.kind in (StepKind.CLASS, StepKind.RELEASE):
                needed[step.after.candidate.name] = True
            elif step.kind is StepKind.ADDON and (release := taken_from(step)) is not None:
                needed.setdefault(release, False)
        told = (self.offered.missing(release, its_class=its_class) for release, its_class in needed.items())
        return [one for one in told if one]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is asked besides the management cluster.

    Args:
        opener: Opens the sources that ClusterStacks name; None asks none of them.
        upstream: What upstream projects state.
        given: Releases for where no source gives them.
        now: The time.
    """

    opener: SourceOpener | None
    upstream: UpstreamFacts
    given: tuple[Candidate, ...] = ()
    now: datetime


async def read_outlook(client: Client, key: ObjectKey, around: Surroundings) -> Outlook:
    """Read a Cluster, the releases it could use and the rules that count for it.

    Args:
        client: The management cluster, as the user who asks: nothing is read that this user may not read.
        key: The Cluster.
        around: What else is asked.

    Raises:
        ClusterUnplannable: There is no such Cluster, or none of a cluster stack.
        ReleasesUnknown: Nothing is known of the release of its class, or of one that an annotation names.
        AddonReleaseRefused: An annotation names no release.
        DependencyError: The API server does not answer, or does not let this user read the Cluster.
    """
    notices: list[str] = []
    cluster = await read_cluster(client, key, notices)
    offered = await read_offered(client, cluster.view.class_namespace, cluster.release, notices)
    found = dict(offered.facts)
    if around.opener is not None:
        others = bool(around.given or found)
        found = await published(
            offered.stacks, cluster.release, around.opener, notices, known=offered.facts, others_given=others
        )
    for candidate in around.given:
        if (candidate.name.provider, candidate.name.stack) == (cluster.release.provider, cluster.release.stack):
            found.setdefault(candidate.name, candidate)
    rules = await read_rules(client, cluster.release, cluster.view.labels, around.now, notices)
    state = state_of(cluster, found, notices)
    world = World(tuple(found.values()), rules, around.upstream)
    return Outlook(cluster, offered, world, state, tuple(dict.fromkeys(notices)))
