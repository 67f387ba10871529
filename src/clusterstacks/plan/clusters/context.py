"""The context of an upgrade: a live Cluster, the releases it could use, the rules, and the start of a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.documents import listed, mapping
from clusterstacks.model.errors import SpecError, error_context
from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.kinds.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION, read_requested_releases
from clusterstacks.model.names import ReleaseName
from clusterstacks.model.semver import SemVer
from clusterstacks.plan.clusters.candidates import published
from clusterstacks.plan.clusters.live_cluster import LiveCluster, read_cluster
from clusterstacks.plan.clusters.offered_stacks import Offered, read_offered
from clusterstacks.plan.clusters.provider_rules import read_rules
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.compat.rules.upgrades import other_stack
from clusterstacks.plan.compat.world import ClusterState, World
from clusterstacks.plan.planner.patches import taken_from
from clusterstacks.plan.planner.steps import StepKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.live_cluster import LiveCluster
    from clusterstacks.plan.compat.statements import UpstreamFacts
    from clusterstacks.plan.compat.world import Candidate
    from clusterstacks.plan.planner.model_builder import Target
    from clusterstacks.plan.planner.steps import Step
    from clusterstacks.release.sources.source_opener import SourceOpener


@dataclass(frozen=True, slots=True)
class UpgradeContext:
    """A Cluster with the releases and rules that decide about its upgrade."""

    cluster: LiveCluster
    offered: Offered
    """The releases that its management cluster offers."""
    world: World
    """All known releases, and the rules."""
    state: ClusterState
    """The start of a plan."""
    notices: tuple[str, ...]
    """Objects that could not be read, and causes of a delay of the cluster."""

    def candidate(self, release: ReleaseName) -> Candidate:
        """Return the facts of a release to which the cluster is to move.

        Raises:
            SpecError: The release is not known, or is of another stack.
        """
        if problem := other_stack(self.cluster.release, release):
            raise SpecError("AnotherStack", problem)
        candidate = next((known for known in self.world.candidates if known.name == release), None)
        if candidate is None:
            remedy = self.offered.missing(release, its_class=True) or "if it is right, publish it"
            problem = f"release {release} is not among those that could be read: check its name; {remedy}"
            raise SpecError("TargetUnknown", listed(problem, self.notices))
        return candidate

    def combination(self) -> Candidate:
        """Return the release of the class with the addons that the Cluster asks for, as if they were one release."""
        known = {candidate.name: candidate for candidate in self.world.candidates}
        own = known[self.cluster.release]
        if own.compatibility is None:
            return own
        requested = read_requested_releases(self.cluster.view.annotations, own.name)
        components = list(own.compatibility.of_addon(""))
        for addon, release in requested.sources({name: known[name].addons for name in requested.releases()}).items():
            stated = known[release].compatibility
            brought = stated.of_addon(addon) if stated is not None else ()
            components += [replace(component, source=component.source or f"release {release}") for component in brought]
        return replace(own, compatibility=replace(own.compatibility, components=tuple(components)))

    def judges(self) -> Judges:
        """Return the facts and rules besides the releases."""
        view = self.cluster.view
        return Judges(self.world.rules, self.world.upstream, view.labels, self.cluster.variables)

    def hints(self, target: Target) -> list[str]:
        """Return notices for a user who moves the cluster to a target in one step."""
        hints = list(self.notices)
        if self.state.workers < self.state.kubernetes:
            hints.append(
                f"nodes of {self.state.workers} are to be upgraded to {self.state.kubernetes}: wait for them first"
            )
        if isinstance(target, ReleaseName) and (missing := self.offered.missing(target, its_class=True)):
            hints.append(missing)
        return hints

    def preparations(self, steps: Iterable[Step]) -> list[str]:
        """Return what the management cluster must offer before the steps can be taken."""
        needed: dict[ReleaseName, bool] = {}
        for step in steps:
            if step.kind in (StepKind.CLASS, StepKind.RELEASE):
                needed[step.after.candidate.name] = True
            elif step.kind is StepKind.ADDON and (release := taken_from(step)) is not None:
                needed.setdefault(release, False)
        missing = (self.offered.missing(release, its_class=its_class) for release, its_class in needed.items())
        return list(filter(None, missing))


async def read_context(
    client: Client,
    key: ObjectKey,
    *,
    opener: SourceOpener | None,
    upstream: UpstreamFacts,
    given: Sequence[Candidate],
    now: datetime,
) -> UpgradeContext:
    """Read a Cluster with the rights of the user, the releases it could use, and the rules that count for it.

    Args:
        client: The management cluster.
        key: The Cluster.
        opener: Opens the sources that ClusterStacks name; None to read none of them.
        upstream: Facts of upstream projects.
        given: Releases that are added to those of the sources.
        now: The time, by which rules expire.

    Raises:
        ClusterUnplannable: The Cluster does not exist, or its class comes from no cluster stack.
        ReleasesUnknown: The release of its class, or one that an annotation names, is not known.
        AddonReleaseRefused: An annotation names an invalid release.
        DependencyError: The API server does not answer, or does not let this user read the Cluster.
    """
    notices: list[str] = []
    cluster = await read_cluster(client, key, notices)
    offered = await read_offered(client, cluster.view.class_namespace, cluster.release, notices)
    candidates = dict(offered.facts)
    if opener is not None:
        others = bool(given or candidates)
        candidates = await published(
            offered.stacks, cluster.release, opener, notices, known=offered.facts, others_given=others
        )
    for candidate in given:
        if candidate.name.same_stack(cluster.release):
            candidates.setdefault(candidate.name, candidate)
    for name, candidate in candidates.items():
        candidates[name] = replace(candidate, class_versions=offered.class_versions.get(name.class_name, ()))
    rules = await read_rules(client, cluster.release, cluster.view.labels, now, notices)
    state = state_of(cluster, candidates, notices)
    world = World(tuple(candidates.values()), rules, upstream)
    return UpgradeContext(cluster, offered, world, state, tuple(dict.fromkeys(notices)))


class ReleasesUnknown(SpecError):
    """A Cluster uses an unknown release."""

    def __init__(self, cluster: ObjectKey, release: ReleaseName, use: str, notices: Sequence[str]) -> None:
        message = f"Cluster {cluster}: release {release}, {use}, is not among those that could be read"
        super().__init__("ReleasesUnknown", listed(f"{message}: publish it, or give it with --releases DIR", notices))


def state_of(cluster: LiveCluster, candidates: Mapping[ReleaseName, Candidate], notices: list[str]) -> ClusterState:
    """Return the start of a plan; ``notices`` gets the changes that are not finished.

    An addon that is not delivered yet counts with the version that is asked for; one that is being removed does not
    count.

    Raises:
        ReleasesUnknown: A release that the cluster uses is not known.
        AddonReleaseRefused: An annotation names an invalid release, or one without that addon.
    """
    own = candidates.get(cluster.release)
    if own is None:
        raise ReleasesUnknown(cluster.view.key, cluster.release, "whose class it has", notices)
    addons = None if own.is_bundle else _addons(cluster, candidates, notices)
    return ClusterState(
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
    with error_context(f"Cluster {key}"):
        requested = read_requested_releases(cluster.view.annotations, cluster.release)
        for release in requested.releases():
            if release not in candidates:
                raise ReleasesUnknown(key, release, "which an annotation names", notices)
        sources = requested.sources({name: candidates[name].addons for name in requested.releases()})
    addons: dict[str, str] = {}
    for addon, release in sources.items():
        asked = _version(candidates, release, addon)
        addons[addon] = _delivered_version(cluster, candidates, addon) or asked
        if addons[addon] != asked:
            notices.append(f"cluster addon {addon} has {addons[addon]} and is being upgraded to {asked}")
    leaving = sorted(cluster.delivered.keys() - addons.keys())
    notices.extend(f"cluster addon {addon} is being removed" for addon in leaving)
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
    """Return the version of an addon in a release; empty where it is not known."""
    candidate = candidates.get(release) if release is not None else None
    stated = candidate.compatibility if candidate is not None else None
    components = stated.of_addon(addon) if stated is not None else ()
    return leading(addon, components).text if components else ""


def moved_to(context: UpgradeContext, target: Target) -> Manifest:
    """Return the Cluster with a target written in one step, to ask whether that is allowed.

    A version is written alone. A release, which must be known, replaces class and addons, and the Kubernetes version if
    its own is higher.
    """
    cluster = context.cluster.view.raw
    topology = dict(mapping(cluster, "spec", "topology"))
    metadata = dict(mapping(cluster, "metadata"))
    if isinstance(target, ReleaseName):
        _take_release(context, target, topology)
        if annotations := mapping(metadata, "annotations"):
            metadata["annotations"] = {key: value for key, value in annotations.items() if not _about_addons(key)}
    else:
        topology["version"] = target.text
    return {**cluster, "metadata": metadata, "spec": {**mapping(cluster, "spec"), "topology": topology}}


def _take_release(context: UpgradeContext, release: ReleaseName, topology: Manifest) -> None:
    candidate = context.candidate(release)
    if "class" in topology:  # v1beta1
        topology["class"] = release.class_name
    else:
        topology["classRef"] = {**mapping(topology, "classRef"), "name": release.class_name}
    wanted = candidate.kubernetes
    if candidate.is_bundle or wanted > context.state.kubernetes:
        topology["version"] = wanted.text


def _about_addons(annotation: str) -> bool:
    return annotation == RELEASE_ANNOTATION or annotation.startswith(ADDON_ANNOTATION)
