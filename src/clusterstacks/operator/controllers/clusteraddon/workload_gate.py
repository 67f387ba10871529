"""Decides when a workload cluster is ready for addons, and connects to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.documents import text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.model.outcomes import Waiting

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.clock import Clock

RETRY = timedelta(seconds=10)
"""Interval at which a missing control plane is checked, as in the Go operator."""

REPORTED_WITHIN = timedelta(minutes=2)
"""Age of a Cluster from which its kubeconfig and a response of its API server suffice, as in the Go operator: some
providers never report their control plane or infrastructure. Arbitrary."""


@dataclass(frozen=True, slots=True)
class WorkloadGate:
    """Admits addons to a cluster when Cluster API reports it, or when it responds without a report."""

    workloads: Workloads
    clock: Clock

    def is_closed(self, cluster: ClusterView) -> bool:
        """Return whether the reports of Cluster API are awaited, so that no connection is tried."""
        if not unreported(cluster):
            return False
        created = text(cluster.raw, "metadata", "creationTimestamp")
        return not created or self.clock.now() - datetime.fromisoformat(created) < REPORTED_WITHIN

    async def connect(self, patch: StatusPatch, cluster: ClusterView) -> Client | Waiting:
        """Connect to the workload cluster, and set the condition ClusterReady.

        Raises SpecError if the kubeconfig cannot be used, and DependencyError if a reported cluster does not respond.
        """
        missing = unreported(cluster)
        message = f"the {missing} of Cluster {cluster.key} is not ready yet"
        try:
            if not self.is_closed(cluster):
                with patch.failing_condition(AddonCondition.CLUSTER_READY):
                    client = await self.workloads.connect(cluster.key)
                patch.true(AddonCondition.CLUSTER_READY)
                return client
        except DependencyError as error:
            if not missing:
                raise
            message = f"{message}: {error.message}"
        patch.false(AddonCondition.CLUSTER_READY, Reason.CONTROL_PLANE_NOT_READY, message)
        return Waiting(Reason.CONTROL_PLANE_NOT_READY, message, RETRY)


def unreported(cluster: ClusterView) -> str:
    """Return what Cluster API has not finished; templates need the endpoint, which the infrastructure provides."""
    if not cluster.control_plane_initialized:
        return "control plane"
    return "" if cluster.infrastructure_provisioned else "infrastructure"
