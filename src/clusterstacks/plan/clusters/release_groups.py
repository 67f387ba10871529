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
class ReleaseGroup:
    """A release and the Clusters that have its addons."""

    namespace: str
    """Namespace of its ClusterStackRelease and its class."""
    name: ReleaseName
    exists: bool = False
    """Whether there is a ClusterStackRelease; Clusters may outlive it."""
    ready: bool = False
    """Whether its class can be used."""
    kubernetes: str = ""
    """Kubernetes version that it is made for; empty if it is not known."""
    clusters: tuple[ClusterSummary, ...] = ()
    """Clusters whose addons come from it or, without addons, that ask for its class; sorted by key."""
    newer: tuple[ReleaseName, ...] = field(default=())
    """Newest ready releases of the same channel, of this and the next minor; ``csctl why`` decides about a move."""

    def newer_versions(self) -> list[str]:
        """Return the versions of the newer releases; those of another Kubernetes minor have the minor: ``1.36-v1``."""
        return [
            str(release.version)
            if release.kubernetes == self.name.kubernetes
            else f"{release.kubernetes}-{release.version}"
            for release in self.newer
        ]

    def document(self) -> Manifest:
        """Return the release and its Clusters as JSON."""
        return {
            "namespace": self.namespace,
            "release": self.name.release,
            "exists": self.exists,
            "ready": self.ready,
            "kubernetes": self.kubernetes,
            "newer": [release.release for release in self.newer],
            "clusters": [
                {
                    "namespace": cluster.key.namespace,
                    "name": cluster.key.name,
                    "class": cluster.class_name,
                    "delivered": cluster.delivered,
                }
                for cluster in self.clusters
            ],
        }


def group_by_release(releases: Iterable[Manifest], clusters: Iterable[ClusterSummary]) -> list[ReleaseGroup]:
    """Return each ClusterStackRelease with its Clusters, sorted by namespace, stack, Kubernetes minor and version.

    Clusters without a class of a cluster stack are left out.
    """
    known = {
        (text(release, "metadata", "namespace"), name): release
        for release in releases
        if (name := release_named(text(release, "metadata", "name"))) is not None
    }
    users: dict[tuple[str, ReleaseName], list[ClusterSummary]] = {key: [] for key in known}
    for cluster in clusters:
        if (name := _release(cluster.delivered or cluster.class_name)) is not None:
            users.setdefault((cluster.class_namespace, name), []).append(cluster)
    ready = {key for key, release in known.items() if at(release, "status", "ready") is True}
    return [
        ReleaseGroup(
            namespace=namespace,
            name=name,
            exists=(namespace, name) in known,
            ready=(namespace, name) in ready,
            kubernetes=text(known.get((namespace, name), {}), "status", "kubernetesVersion"),
            clusters=tuple(sorted(users[namespace, name], key=lambda cluster: cluster.key)),
            newer=newer_releases(name, [other for place, other in ready if place == namespace]),
        )
        for namespace, name in sorted(users)
    ]


def newer_releases(own: ReleaseName, ready: Sequence[ReleaseName]) -> tuple[ReleaseName, ...]:
    """Return the newest release of the same Kubernetes minor and that of the next one, if there are newer ones."""
    newest = []
    for step in (0, 1):
        same = [
            release
            for release in ready
            if release.same_stack(own)
            and release.version.channel == own.version.channel
            and (release.kubernetes.major, release.kubernetes.minor)
            == (own.kubernetes.major, own.kubernetes.minor + step)
            and (step or release.version > own.version)
        ]
        newest += [max(same)] if same else []
    return tuple(newest)


def _release(class_name: str) -> ReleaseName | None:
    try:
        return parse_class(class_name)
    except InvalidName:
        return None
