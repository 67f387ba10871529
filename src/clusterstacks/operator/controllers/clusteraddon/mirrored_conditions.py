"""Writes the state of the addons to the Cluster: ClusterStackAddonsReady, and other conditions that are not True."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.model.documents import mappings
from clusterstacks.model.kinds.cluster_conditions import served_version, with_cluster_condition
from clusterstacks.model.kinds.names import (
    ADDONS_HEALTHY_CONDITION,
    ADDONS_IN_SYNC_CONDITION,
    ADDONS_READY_CONDITION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    WITHIN_RANGES_CONDITION,
)
from clusterstacks.model.outcomes import Outcome, Settled, Stalled, Waiting
from clusterstacks.net.kube.errors import Conflict, Invalid
from clusterstacks.operator.controllers.class_access import CLASS_NOT_OFFERED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from clusterstacks.model.conditions import Condition
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

ATTEMPTS = 5
"""Attempts when Cluster API writes its conditions, which are in the same list, concurrently. Arbitrary."""

WARNINGS: Final = (ADDONS_HEALTHY_CONDITION, ADDONS_IN_SYNC_CONDITION, WITHIN_RANGES_CONDITION)
"""Conditions that a Cluster has only while those of its ClusterAddon are False or Unknown."""

PatchOf: TypeAlias = "Callable[[Manifest], Manifest | None]"
"""Returns the patch for a Cluster as it was read; None when there is nothing to write."""


async def mirror(
    client: Client,
    cluster: Manifest,
    outcome: Outcome,
    now: datetime,
    warnings: Mapping[str, Condition | None] | None = None,
) -> tuple[Manifest, bool]:
    """Write the state of the addons to the Cluster's conditions, if it changed.

    ``cluster`` is the Cluster as it was read, or as this function returned it; ``warnings`` has, by condition of the
    Cluster, the one of the ClusterAddon: only those that are not True are written. Returns the Cluster with its new
    conditions, and whether ``ClusterStackAddonsReady`` has another status or reason, which causes an event.
    """
    status, reason, message = _state(outcome)
    conditions = mappings(cluster, "status", "conditions")
    before = next((condition for condition in conditions if _is_addons_ready(condition)), {})
    is_news = (before.get("status"), before.get("reason")) != (status, reason)

    def patch_of(read: Manifest) -> Manifest | None:
        patch = with_cluster_condition(read, ADDONS_READY_CONDITION, status, reason, message, now)
        for kind in WARNINGS:
            warning = (warnings or {}).get(kind)
            after = {**read, "status": {**(read.get("status") or {}), **patch["status"]}} if patch else read
            if warning is None or warning.status == "True":
                patch = _without(after, kind) or patch
            else:
                written = with_cluster_condition(after, kind, warning.status, warning.reason, warning.message, now)
                patch = written or patch
        return patch

    written = await _write(client, cluster, patch_of)
    return (cluster, False) if written is None else (written, is_news)


async def withdraw(client: Client, cluster: Manifest) -> None:
    """Remove the conditions from a Cluster whose ClusterAddon is deleted."""

    def patch_of(read: Manifest) -> Manifest | None:
        return _without(read, ADDONS_READY_CONDITION, *WARNINGS)

    await _write(client, cluster, patch_of)


async def withdraw_refusal(client: Client, cluster: Manifest) -> None:
    """Remove the condition that a class is not offered; a condition that a ClusterAddon set is kept."""

    def patch_of(read: Manifest) -> Manifest | None:
        refused = any(
            _is_addons_ready(condition) and condition.get("reason") == CLASS_NOT_OFFERED
            for condition in mappings(read, "status", "conditions")
        )
        return _without(read, ADDONS_READY_CONDITION) if refused else None

    await _write(client, cluster, patch_of)


async def _write(client: Client, cluster: Manifest, patch_of: PatchOf) -> Manifest | None:
    """Write the patch and return the new Cluster; None when nothing was written."""
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    metadata = cluster["metadata"]
    name, namespace, generation = metadata["name"], metadata["namespace"], metadata.get("generation")
    for attempt in range(1, ATTEMPTS + 1):
        patch = patch_of(cluster)
        if patch is None:
            return None
        operations = replacements(cluster, patch)
        try:
            if operations:
                return await client.json_patch(resource, name, operations, namespace, subresource="status")
            return await client.merge_patch(resource, name, patch, namespace, subresource="status")
        except (Conflict, Invalid):  # Invalid: the test of an operation failed
            if attempt == ATTEMPTS:
                raise
            changed = await client.find(resource, name, namespace)
            if changed is None or changed["metadata"].get("generation") != generation:
                return None  # the outcome is about an older spec; the change enqueues the object
            cluster = changed
    raise AssertionError("the last attempt returns or raises")


def replacements(cluster: Manifest, patch: Manifest) -> list[Manifest]:
    """Return a merge patch of the conditions as JSON patch operations; empty where that is not safe.

    Cluster API writes the same list during an installation or upgrade. The operations replace or append single
    conditions, and test their position, and the uid and generation of the Cluster: so they do not conflict with writes
    of others. The schema of v1beta2 refuses a second condition of a type; that of v1beta1 does not.
    """
    before, after = (cluster.get("status") or {}).get("conditions") or [], patch["status"]["conditions"]
    added = after[len(before) :]
    if [condition.get("type") for condition in before] != [condition.get("type") for condition in after[: len(before)]]:
        return []
    if added and (not before or served_version(cluster) != "v1beta2"):
        return []
    metadata = cluster["metadata"]
    same = [field for field in ("uid", "generation") if field in metadata]
    operations = [{"op": "test", "path": f"/metadata/{field}", "value": metadata[field]} for field in same]
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            path = f"/status/conditions/{index}"
            operations.append({"op": "test", "path": f"{path}/type", "value": new["type"]})
            operations.append({"op": "replace", "path": path, "value": new})
    operations += [{"op": "add", "path": "/status/conditions/-", "value": condition} for condition in added]
    return operations


def _is_addons_ready(condition: Manifest) -> bool:
    return condition.get("type") == ADDONS_READY_CONDITION


def _without(cluster: Manifest, *types: str) -> Manifest | None:
    conditions = (cluster.get("status") or {}).get("conditions") or []
    remaining = [condition for condition in conditions if condition.get("type") not in types]
    if len(remaining) == len(conditions):
        return None
    revision = cluster["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": revision}, "status": {"conditions": remaining}}


def _state(outcome: Outcome) -> tuple[str, str, str]:
    match outcome:
        case Settled():
            return "True", "AddonsDelivered", ""
        case Waiting(reason=reason, message=message) | Stalled(reason=reason, message=message):
            return "False", reason, message
