"""The releases a cluster could use, and the versions it has or asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.plan.compat.verdicts import NOTHING_KNOWN, Upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.files.compatibility import Compatibility, Component, Rule
    from clusterstacks.model.names import ReleaseName

SHOWN_VERSIONS = 10
"""Known versions in a message (arbitrary)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A release the cluster could use."""

    name: ReleaseName
    kubernetes: KubernetesVersion
    """The version in its metadata.yaml."""
    compatibility: Compatibility | None = None
    """Its ranges; None for a bundle, whose class, addons and exact Kubernetes version belong together."""
    class_versions: tuple[KubernetesVersion, ...] = ()
    """``spec.kubernetesVersions`` of its ClusterClass, oldest first: Cluster API accepts no other versions, and walks
    several minors over them at once. Empty where the class names none, and where it is not known to exist."""

    @property
    def is_bundle(self) -> bool:
        """True if it states no ranges."""
        return self.compatibility is None

    @property
    def addons(self) -> tuple[str, ...]:
        """The addons whose versions it states; none for a bundle."""
        return self.compatibility.addons() if self.compatibility is not None else ()


@dataclass(frozen=True, slots=True)
class ClusterVersions:
    """The versions of a cluster: those it has, or those its Cluster asks for."""

    release: Candidate
    """The release of its class."""
    kubernetes: KubernetesVersion
    """The version of its control plane."""
    addons: Mapping[str, tuple[Component, ...]] = field(default_factory=dict)
    """The components of each addon."""
    workers: tuple[KubernetesVersion, ...] = ()
    """The versions of its workers, as far as they are known."""

    def components(self) -> list[Component]:
        """Return all components, those of the class included."""
        stated = self.release.compatibility
        own = stated.of_addon("") if stated is not None else ()
        return [*own, *(component for components in self.addons.values() for component in components)]

    def addon_version(self, addon: str) -> str:
        """Return the version of an addon's software; empty for an addon that the cluster does not have."""
        components = self.addons.get(addon)
        return leading(addon, components).text if components else ""

    def state(
        self,
        labels: Mapping[str, str],
        variables: Mapping[str, object],
        annotations: Mapping[str, str] | None = None,
    ) -> ClusterState:
        """Return the start of a plan for a Cluster with these versions, labels, variables and annotations."""
        return ClusterState(
            kubernetes=self.kubernetes,
            workers=min(self.workers, default=self.kubernetes),
            release=self.release.name,
            addons=None if self.release.is_bundle else {addon: self.addon_version(addon) for addon in self.addons},
            labels=labels,
            variables=variables,
            annotations=annotations,
        )


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The versions with which a plan starts."""

    kubernetes: KubernetesVersion
    """Version of the control plane."""
    workers: KubernetesVersion
    """Version of the oldest worker, at most that of the control plane."""
    release: ReleaseName
    addons: Mapping[str, str] | None = None
    """Version of the software of each addon that is installed; None for those of the class's release."""
    labels: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, str] | None = None
    """Of the Cluster; None where those about addons are what these addons need."""


@dataclass(frozen=True, slots=True)
class World:
    """The releases and the provider's rules by which plans are made; releases of other stacks are ignored."""

    candidates: tuple[Candidate, ...]
    rules: tuple[Rule, ...] = ()
    upstream: Upstream = NOTHING_KNOWN
    """Facts of upstream projects, for components whose release states none."""

    def target(self, goal: ReleaseName | KubernetesVersion | KubernetesMinor) -> ReleaseName | KubernetesVersion:
        """Return a target of a plan; for a Kubernetes minor, the newest version of it that a release is made for.

        Raises:
            SpecError: No known release has this minor.
        """
        if not isinstance(goal, KubernetesMinor):
            return goal
        versions = sorted({candidate.kubernetes for candidate in self.candidates})
        try:
            return max(version for version in versions if version.series == goal)
        except ValueError:
            known = and_more([version.text for version in versions], SHOWN_VERSIONS) or "none"
            problem = f"no known release is made for Kubernetes {goal}: the known ones have {known}"
            raise SpecError("TargetUnknown", problem) from None
