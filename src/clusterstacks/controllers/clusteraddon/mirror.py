"""The addons' state on the user's one object: condition ClusterStackAddonsReady of the Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.clusterconditions import with_cluster_condition
from clusterstacks.api.names import ADDONS_READY_CONDITION, CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.domain.outcomes import Outcome, Settled, Stalled, Waiting
from clusterstacks.kube.errors import Conflict

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client


async def mirror(client: Client, cluster: Manifest, outcome: Outcome, now: datetime) -> None:
    """Write how the addons are doing into the Cluster's conditions, if that is news."""
    status, reason, message = _state(outcome)
    patch = with_cluster_condition(cluster, ADDONS_READY_CONDITION, status, reason, message, now)
    if patch is None:
        return
    await _write(client, cluster, patch)


async def withdraw(client: Client, cluster: Manifest) -> None:
    """Take the condition off a Cluster whose ClusterAddon goes."""
    conditions = (cluster.get("status") or {}).get("conditions") or []
    left = [condition for condition in conditions if condition.get("type") != ADDONS_READY_CONDITION]
    if len(left) < len(conditions):
        revision = cluster["metadata"]["resourceVersion"]
        await _write(client, cluster, {"metadata": {"resourceVersion": revision}, "status": {"conditions": left}})


async def _write(client: Client, cluster: Manifest, patch: Manifest) -> None:
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    metadata = cluster["metadata"]
    try:
        await client.merge_patch(resource, metadata["name"], patch, metadata["namespace"], subresource="status")
    except Conflict:
        # The Cluster changed since it was read: that change wakes the reconciler, which then sees it.
        return


def _state(outcome: Outcome) -> tuple[str, str, str]:
    match outcome:
        case Settled():
            return "True", "AddonsDelivered", ""
        case Waiting(reason=reason, message=message) | Stalled(reason=reason, message=message):
            return "False", reason, message
