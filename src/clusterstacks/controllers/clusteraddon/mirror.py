"""The addons' state on the user's one object: condition ClusterStackAddonsReady of the Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.api.clusterconditions import with_cluster_condition
from clusterstacks.api.names import ADDONS_READY_CONDITION, CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.domain.outcomes import Outcome, Settled, Stalled, Waiting
from clusterstacks.kube.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

ATTEMPTS = 5
"""Tries when Cluster API, whose conditions are in the same list, writes at the same moment. Arbitrary."""

PatchOf: TypeAlias = "Callable[[Manifest], Manifest | None]"
"""Makes the patch for a Cluster as it was read; None when there is nothing to write."""


async def mirror(client: Client, cluster: Manifest, outcome: Outcome, now: datetime) -> None:
    """Write how the addons are doing into the Cluster's conditions, if that is news."""
    status, reason, message = _state(outcome)

    def patch_of(read: Manifest) -> Manifest | None:
        return with_cluster_condition(read, ADDONS_READY_CONDITION, status, reason, message, now)

    await _write(client, cluster, patch_of)


async def withdraw(client: Client, cluster: Manifest) -> None:
    """Take the condition off a Cluster whose ClusterAddon goes."""
    await _write(client, cluster, _without_condition)


async def _write(client: Client, cluster: Manifest, patch_of: PatchOf) -> None:
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    metadata = cluster["metadata"]
    name, namespace, generation = metadata["name"], metadata["namespace"], metadata.get("generation")
    for attempt in range(1, ATTEMPTS + 1):
        patch = patch_of(cluster)
        if patch is None:
            return
        try:
            await client.merge_patch(resource, name, patch, namespace, subresource="status")
        except Conflict:
            if attempt == ATTEMPTS:
                raise
            changed = await client.find(resource, name, namespace)
            if changed is None or changed["metadata"].get("generation") != generation:
                return  # what is known is about another specification; the change wakes the reconciler
            cluster = changed
        else:
            return


def _without_condition(cluster: Manifest) -> Manifest | None:
    conditions = (cluster.get("status") or {}).get("conditions") or []
    left = [condition for condition in conditions if condition.get("type") != ADDONS_READY_CONDITION]
    if len(left) == len(conditions):
        return None
    revision = cluster["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": revision}, "status": {"conditions": left}}


def _state(outcome: Outcome) -> tuple[str, str, str]:
    match outcome:
        case Settled():
            return "True", "AddonsDelivered", ""
        case Waiting(reason=reason, message=message) | Stalled(reason=reason, message=message):
            return "False", reason, message
