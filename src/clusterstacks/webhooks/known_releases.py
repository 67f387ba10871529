"""What admission has to know of releases: the port that the operator's wiring fills."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from clusterstacks.api.compatibility_policy import CompatibilityPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import ObjectKey


@dataclass(frozen=True, slots=True)
class ClassOffer:
    """What the ClusterStack of a class can serve.

    Args:
        made_for: The Kubernetes version the class's release states in its status; empty where it is not known yet.
        policy: ``spec.compatibility``.
        candidates: Releases of the class's provider and stack whose facts are known, by name.
        listed: Further ones that the source of a ClusterStack has: for advice, nothing is decided by them.
        lacking: Releases that were asked for and cannot be served, or not yet, and why.
    """

    made_for: str
    policy: CompatibilityPolicy = CompatibilityPolicy.RANGE
    candidates: Mapping[ReleaseName, Candidate] = field(default_factory=dict)
    listed: Mapping[ReleaseName, Candidate] = field(default_factory=dict)
    lacking: Mapping[ReleaseName, str] = field(default_factory=dict)


class KnownReleases(Protocol):
    """Who knows the releases."""

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        """Return what can be served to a Cluster; None where no ClusterStack has or could have the release.

        A release of the class that is not among the candidates is in ``lacking``: its facts are not known yet.

        Args:
            namespace: Of the class.
            release: Of the class.
            wanted: Further releases the Cluster asks for or has.

        Raises:
            ClusterStacksError: The API server does not answer.
        """
        ...

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:
        """Say why a Cluster's namespace may not use one of the releases; empty when it may, or none of them is known.

        Args:
            cluster: As it is to be.
            releases: Of its class's namespace: that of the class, and others that its annotations name.

        Raises:
            ClusterStacksError: The API server does not answer.
        """
        ...

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:
        """Return, by addon, the release of what a cluster has completely; empty where nothing is complete yet."""
        ...
