"""Where a plan for a live Cluster begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import read_wishes
from clusterstacks.compat.world import ClusterState
from clusterstacks.domain.compatibility import leading
from clusterstacks.domain.errors import SpecError, told_of
from clusterstacks.domain.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.clusters.live_cluster import LiveCluster
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import ObjectKey


class ReleasesUnknown(SpecError):
    """A Cluster uses a release about which nothing can be found out."""

    def __init__(self, cluster: ObjectKey, release: ReleaseName, use: str, notices: Sequence[str]) -> None:
        message = f"Cluster {cluster}: release {release}, {use}, is not among those that could be read"
        super().__init__(
            "ReleasesUnknown", "\n".join([f"{message}: publish it, or give it with --releases DIR", *notices])
        )


def state_of(cluster: LiveCluster, candidates: Mapping[ReleaseName, Candidate], notices: list[str]) -> ClusterState:
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
