"""Everything the planner has to know of one live Cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.domain.compatibility import leading
from clusterstacks.domain.decoupling import read_wishes
from clusterstacks.domain.errors import SpecError, told_of
from clusterstacks.domain.names import ReleaseName
from clusterstacks.domain.planning.patches import taken_from
from clusterstacks.domain.planning.steps import Kind
from clusterstacks.domain.planning.world import State, World
from clusterstacks.domain.semver import SemVer
from clusterstacks.domain.upstream import UpstreamFacts, with_upstream_upgrades
from clusterstacks.fleet.candidates import published
from clusterstacks.fleet.clusters import LiveCluster, read_cluster
from clusterstacks.fleet.stacks import Offered, read_offered, read_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.domain.planning.compiling import Target
    from clusterstacks.domain.planning.steps import Step
    from clusterstacks.domain.planning.world import Candidate
    from clusterstacks.fleet.sources.opening import SourceOpener
    from clusterstacks.kube.client import Client


class ReleasesUnknown(SpecError):
    """A Cluster uses a release about which nothing can be found out."""

    def __init__(self, cluster: ObjectKey, release: ReleaseName, use: str, notices: Sequence[str]) -> None:
        message = f"Cluster {cluster}: release {release}, {use}, is not among those that could be read"
        super().__init__(
            "ReleasesUnknown", "\n".join([f"{message}: publish it, or give it with --releases DIR", *notices])
        )


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
    state: State
    notices: tuple[str, ...]

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
            if step.kind in (Kind.CLASS, Kind.RELEASE):
                needed[step.after.candidate.name] = True
            elif step.kind is Kind.ADDON and (release := taken_from(step)) is not None:
                needed.setdefault(release, False)
        told = (self.offered.missing(release, its_class=its_class) for release, its_class in needed.items())
        return [one for one in told if one]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is asked besides the management cluster.

    Args:
        opener: Opens the sources that ClusterStacks name.
        upstream: What upstream projects state.
        given: Releases for where no source gives them.
        now: The time.
    """

    opener: SourceOpener
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
    found = await published(offered.stacks, cluster.release, around.opener, notices)
    for candidate in around.given:
        if (candidate.name.provider, candidate.name.stack) == (cluster.release.provider, cluster.release.stack):
            found.setdefault(candidate.name, candidate)
    candidates = {name: _with_upgrades(one, around.upstream) for name, one in found.items()}
    rules = await read_rules(client, cluster.release, cluster.view.labels, around.now, notices)
    state = state_of(cluster, candidates, notices)
    world = World(tuple(candidates.values()), rules, around.upstream)
    return Outlook(cluster, offered, world, state, tuple(dict.fromkeys(notices)))


def state_of(cluster: LiveCluster, candidates: Mapping[ReleaseName, Candidate], notices: list[str]) -> State:
    """Return where a plan begins.

    An addon that is asked for and not delivered yet counts as it is asked for; one that is being removed, not at all.

    Args:
        cluster: The cluster.
        candidates: What is known of releases.
        notices: Gets what is under way.

    Raises:
        ReleasesUnknown: Too little is known.
        AddonReleaseRefused: An annotation names no release, or one that has no such addon.
    """
    own = candidates.get(cluster.release)
    if own is None:
        raise ReleasesUnknown(cluster.view.key, cluster.release, "whose class it has", notices)
    addons = None if own.is_bundle else _addons(cluster, candidates, notices)
    return State(
        kubernetes=cluster.kubernetes,
        workers=cluster.oldest,
        release=cluster.release,
        addons=addons,
        labels=cluster.view.labels,
        variables=cluster.variables,
        annotations=cluster.view.annotations,
    )


def _addons(cluster: LiveCluster, candidates: Mapping[ReleaseName, Candidate], notices: list[str]) -> dict[str, str]:
    key = cluster.view.key
    with told_of(f"Cluster {key}"):
        wishes = read_wishes(cluster.view.annotations, cluster.release)
        for release in wishes.releases():
            if release not in candidates:
                raise ReleasesUnknown(key, release, "which an annotation names", notices)
        sources = wishes.sources({name: candidates[name].addons for name in wishes.releases()})
    addons: dict[str, str] = {}
    for addon, release in sources.items():
        asked = _version(candidates, release, addon)
        addons[addon] = _delivered_version(cluster, candidates, addon) or asked
        if addons[addon] != asked:
            notices.append(f"cluster addon {addon} has {addons[addon]} and is on its way to {asked}")
    leaving = sorted(cluster.delivered.keys() - addons.keys())
    notices.extend(f"cluster addon {addon} is on its way out" for addon in leaving)
    return addons


def _delivered_version(cluster: LiveCluster, candidates: Mapping[ReleaseName, Candidate], addon: str) -> str:
    delivered = cluster.delivered.get(addon)
    if delivered is None:
        return ""
    try:
        SemVer.parse(delivered.version)
    except SpecError:
        return _version(candidates, delivered.release, addon)
    return delivered.version.removeprefix("v")


def _version(candidates: Mapping[ReleaseName, Candidate], release: ReleaseName | None, addon: str) -> str:
    """Return the version a release states of an addon; empty where it is not known."""
    candidate = candidates.get(release) if release is not None else None
    stated = candidate.compatibility if candidate is not None else None
    components = stated.of_addon(addon) if stated is not None else ()
    return leading(addon, components).text if components else ""


def _with_upgrades(candidate: Candidate, facts: UpstreamFacts) -> Candidate:
    stated = candidate.compatibility
    return candidate if stated is None else replace(candidate, compatibility=with_upstream_upgrades(stated, facts))
