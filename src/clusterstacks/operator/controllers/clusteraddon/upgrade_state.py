"""Decides which point of an upgrade a cluster has reached, and what it waits for: control plane, workers, the rest.

The points are those of Cluster API's lifecycle hooks. They are observed in the status of the Cluster, so they count
without the hooks, which need a feature gate, and for every version of Cluster API.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.files.addon_config import LifecycleHook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.model.versions import KubernetesVersion


class Milestone(IntEnum):
    """A point of an upgrade; each one includes those before it."""

    BEGUN = 0
    """The Cluster has another class or Kubernetes version."""
    CONTROL_PLANE = 1
    WORKERS = 2
    CLUSTER = 3
    """Cluster API has nothing left to do."""


_MILESTONES: Final[Mapping[LifecycleHook | str | None, Milestone]] = {
    LifecycleHook.BEFORE_CLUSTER_UPGRADE: Milestone.BEGUN,
    LifecycleHook.AFTER_CONTROL_PLANE_UPGRADE: Milestone.CONTROL_PLANE,
    LifecycleHook.AFTER_WORKERS_UPGRADE: Milestone.WORKERS,
}


def milestone_of(hook: LifecycleHook | str | None) -> Milestone:
    """Return the point of an upgrade from which the stages of a hook run; stages of other hooks come last."""
    return _MILESTONES.get(hook, Milestone.CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeState:
    """State of a cluster's upgrade, as Cluster API reports it."""

    control_plane: tuple[KubernetesVersion, ...]
    """The versions that the control plane reports: several during its rollout, none before its first report."""
    wanted: KubernetesVersion
    topology_reconciled: bool
    """True if the Cluster's condition TopologyReconciled is True for its newest generation."""
    workers: tuple[KubernetesVersion, ...] = ()
    """The versions that the workers report; none without workers, and before Cluster API 1.14."""
    outdated: int = 0
    """Workers without the current template of their pool; 0 if Cluster API does not count them."""
    deferred: bool = False
    """True if Cluster API defers the upgrade of a pool because of an annotation of its topology."""

    @property
    def has_versions(self) -> bool:
        """True if control plane and workers report the wanted version, as always after a change of the class alone."""
        return bool(self.control_plane) and not self._behind((*self.control_plane, *self.workers))

    def missing(self, milestone: Milestone) -> str:
        """Return what the cluster waits for before it reaches a point; empty when it has reached it."""
        if milestone is Milestone.BEGUN:
            return ""
        if self._behind(self.control_plane) or not self.control_plane:
            now = _listed(self._behind(self.control_plane)) or "no version"
            return f"waiting for the control plane to report {self.wanted}; it reports {now}"
        if milestone is Milestone.CONTROL_PLANE:
            return ""
        return self._missing_after_control_plane(milestone)

    def _missing_after_control_plane(self, milestone: Milestone) -> str:
        """Return what is missing according to Cluster API's report about the workers.

        Once the topology is reconciled, versions of workers do not count: a pool that is not part of the topology may
        keep an older one. Before Cluster API 1.12 the topology is reconciled as soon as the pools have their new
        template, and so the workers that do not have it yet are counted.
        """
        if self.topology_reconciled:
            if self.workers or not self.outdated:
                return ""
            return f"waiting for the workers to be replaced by workers with {self.wanted}"
        behind = self._behind(self.workers)
        if behind:
            deferral = "; Cluster API defers the upgrade of a pool because of an annotation" if self.deferred else ""
            return f"waiting for the workers to report {self.wanted}; some report {_listed(behind)}{deferral}"
        if self.workers and milestone is Milestone.WORKERS:
            return ""
        return "waiting for the Cluster's condition TopologyReconciled to be True for its newest generation"

    def _behind(self, versions: Iterable[KubernetesVersion]) -> list[KubernetesVersion]:
        return sorted(version for version in versions if not version.reaches(self.wanted))


def _listed(versions: Iterable[KubernetesVersion]) -> str:
    return ", ".join(version.text for version in versions)
