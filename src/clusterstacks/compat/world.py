"""What the planner is asked about: the releases there are, where the cluster is, where it is to go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.compat.verdicts import NOTHING_KNOWN, Upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.compatibility import Compatibility, Rule
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.versions import KubernetesVersion


@dataclass(frozen=True, slots=True)
class Candidate:
    """A release the cluster could use.

    Args:
        name: Its name.
        kubernetes: The version in its metadata.yaml.
        compatibility: What it states about versions; None makes it a bundle, whose class, addons and exact Kubernetes
            version belong together.
    """

    name: ReleaseName
    kubernetes: KubernetesVersion
    compatibility: Compatibility | None = None

    @property
    def is_bundle(self) -> bool:
        """Whether it states no ranges."""
        return self.compatibility is None

    @property
    def addons(self) -> tuple[str, ...]:
        """The addons whose versions it states; none for a bundle."""
        return self.compatibility.addons() if self.compatibility is not None else ()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Where a cluster is.

    Args:
        kubernetes: Of its control plane.
        workers: Of its oldest worker, at most that of the control plane.
        release: Whose class it has.
        addons: Version of the software of each addon that is installed; None for those of the class's release.
        labels: Of the Cluster.
        variables: Of its topology.
        annotations: Of the Cluster; None where those about addons are what these addons need.
    """

    kubernetes: KubernetesVersion
    workers: KubernetesVersion
    release: ReleaseName
    addons: Mapping[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Everything that decides.

    Args:
        candidates: The releases; those of other stacks are not looked at.
        rules: The provider's own.
        upstream: What upstream projects state, where a release does not.
    """

    candidates: tuple[Candidate, ...]
    rules: tuple[Rule, ...] = ()
    upstream: Upstream = NOTHING_KNOWN
