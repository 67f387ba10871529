"""Groups the Clusters of a management cluster by the release whose addons they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, text
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class, release_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRelease:
    """A release and the Clusters that have its addons.

    Args:
        namespace: Namespace of its ClusterStackRelease and its class.
        name: The release.
        exists: Whether there is a ClusterStackRelease; Clusters may outlive it.
        ready: Whether its class can be used.
        kubernetes: Kubernetes version that it is made for; empty if it is not known.
        clusters: The Clusters whose addons come from it, also while they move to another release; and those that have
            no addons yet and ask for its class. Sorted by namespace and name.
        newer: The newest ready release of the same Kubernetes minor and that of the next one, if they are newer and of
            the same channel. ``csctl why`` decides whether a Cluster may move.
    """

    namespace: str
    name: ReleaseName
    exists: bool = False
    ready: bool = False
    kubernetes: str = ""
    clusters: tuple[ClusterSummary, ...] = ()
    newer: tuple[ReleaseName, ...] = field(default=())

    def newer_versions(self) -> list[str]:
        """Return the versions of the newer releases; those of another Kubernetes minor have the minor: ``1.36-v1``."""
        return [
            str(one.version) if one.kubernetes == self.name.kubernetes else f"{one.kubernetes}-{one.version}"
            for one in self.newer
        ]

    def document(self) -> Manifest:
        """Return the release and its Clusters as JSON."""
        return {
            "namespace": self.namespace,
            "release": self.name.release,
            "exists": self.exists,
            "ready": self.ready,
            "kubernetes": self.kubernetes,
            "newer": [one.release for one in self.newer],
            "clusters": [
                {
                    "namespace": one.key.namespace,
                    "name": one.key.name,
                    "class": one.class_name,
                    "delivered": one.delivered,
                }
                for one in self.clusters
            ],
        }


def group_by_release(releases: Iterable[Manifest], clusters: Iterable[ClusterSummary]) -> list[FleetRelease]:
    """Return each release with its Clusters, sorted by namespace, stack, Kubernetes minor and version.

    Args:
        releases: The ClusterStackReleases.
        clusters: All Clusters; those without a class of a cluster stack are left out.
    """
    known = {
        (text(one, "metadata", "namespace"), name): one
        for one in releases
        if (name := release_named(text(one, "metadata", "name"))) is not None
    }
    users: dict[tuple[str, ReleaseName], list[ClusterSummary]] = {key: [] for key in known}
    for cluster in clusters:
        if (release := _release(cluster.delivered or cluster.class_name)) is not None:
            users.setdefault((cluster.class_namespace, release), []).append(cluster)
    ready = {key for key, one in known.items() if at(one, "status", "ready") is True}
    return [
        FleetRelease(
            namespace=namespace,
            name=name,
            exists=(namespace, name) in known,
            ready=(namespace, name) in ready,
            kubernetes=text(known.get((namespace, name), {}), "status", "kubernetesVersion"),
            clusters=tuple(sorted(users[namespace, name], key=lambda one: one.key)),
            newer=newer_releases(name, [other for place, other in ready if place == namespace]),
        )
        for namespace, name in sorted(users)
    ]


def newer_releases(own: ReleaseName, ready: Sequence[ReleaseName]) -> tuple[ReleaseName, ...]:
    """Return the newest release of the same Kubernetes minor and that of the next one, if there are newer ones."""
    found = []
    for step in (0, 1):
        same = [
            one
            for one in ready
            if one.same_stack(own)
            and one.version.channel == own.version.channel
            and (one.kubernetes.major, one.kubernetes.minor) == (own.kubernetes.major, own.kubernetes.minor + step)
            and (step or one.version > own.version)
        ]
        found += [max(same)] if same else []
    return tuple(found)


def _release(class_name: str) -> ReleaseName | None:
    try:
        return parse_class(class_name)
    except InvalidName:
        return None
