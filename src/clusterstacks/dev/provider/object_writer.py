"""Writes provider objects: finalizers, which others also edit, and status only when it changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clusterstacks.dev.provider.kinds import FINALIZER
from clusterstacks.model.objects import merge_diff
from clusterstacks.net.kube.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource

MANAGER = "local-cluster-api-provider"
CONFLICT_ATTEMPTS = 5
"""Attempts on a conflict: Cluster API writes finalizers and labels at the same time; two have always sufficed."""


async def add_finalizer(client: Client, resource: Resource, manifest: Manifest) -> None:
    """Add our finalizer to an object unless it has it."""
    await _edit_finalizers(client, resource, manifest, lambda names: [*names, FINALIZER], want=True)


async def remove_finalizer(client: Client, resource: Resource, manifest: Manifest) -> None:
    """Remove our finalizer; a deleted object is ignored."""
    await _edit_finalizers(
        client, resource, manifest, lambda names: [name for name in names if name != FINALIZER], want=False
    )


async def write_status(client: Client, resource: Resource, manifest: Manifest, status: Manifest) -> None:
    """Write the fields of ``status`` that differ from the object's; without a difference send nothing."""
    before = manifest.get("status") or {}
    patch = merge_diff(before, {**before, **status})
    if patch:
        metadata = manifest["metadata"]
        await client.merge_patch(
            resource, metadata["name"], {"status": patch}, metadata["namespace"], subresource="status", manager=MANAGER
        )


def conditions(manifest: Manifest, *wanted: tuple[str, bool, str, str]) -> list[Manifest]:
    """Return the object's conditions updated with the wanted ones (type, true, reason, message).

    The transition time changes only with the status.
    """
    existing = {found["type"]: found for found in (manifest.get("status") or {}).get("conditions") or []}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for kind, holds, reason, message in wanted:
        status = "True" if holds else "False"
        before = existing.get(kind, {})
        since = before["lastTransitionTime"] if before.get("status") == status else now
        existing[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            "observedGeneration": manifest["metadata"].get("generation", 1),
        }
    return list(existing.values())


def owner_reference(owner: Manifest) -> Manifest:
    """Return the reference of an object that its controller ``owner`` created."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def _edit_finalizers(
    client: Client, resource: Resource, manifest: Manifest, edit: Callable[[list[str]], list[str]], *, want: bool
) -> None:
    for attempt in range(1, CONFLICT_ATTEMPTS + 1):
        metadata = manifest["metadata"]
        names = metadata.get("finalizers") or []
        if (FINALIZER in names) == want:
            return
        patch = {"metadata": {"finalizers": edit(names), "resourceVersion": metadata["resourceVersion"]}}
        try:
            await client.merge_patch(resource, metadata["name"], patch, metadata["namespace"], manager=MANAGER)
        except NotFound:
            return
        except Conflict:
            if attempt == CONFLICT_ATTEMPTS:
                raise
            fresh = await client.find(resource, metadata["name"], metadata["namespace"])
            if fresh is None:
                return
            manifest = fresh
        else:
            return
