"""Finalizers, set and removed without overwriting what others write to the same list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.objects import split_api_version

if TYPE_CHECKING:
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.kube.client import Client


async def hold(draft: StatusPatch, finalizer: str, client: Client) -> None:
    """Keep the object from disappearing before its end was dealt with.

    Raises:
        Conflict: Somebody wrote the object since it was read.
    """
    finalizers = draft.manifest["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        await _write(draft, [*finalizers, finalizer], client)


async def let_go(draft: StatusPatch, finalizer: str, client: Client) -> None:
    """Let the object go; nothing is written to it afterwards.

    Raises:
        Conflict: Somebody wrote the object since it was read.
    """
    finalizers = draft.manifest["metadata"].get("finalizers") or []
    if finalizer in finalizers:
        await _write(draft, [name for name in finalizers if name != finalizer], client)
    draft.released = True


async def _write(draft: StatusPatch, finalizers: list[str], client: Client) -> None:
    manifest = draft.manifest
    group, version = split_api_version(manifest["apiVersion"])
    resource = await client.resource(group, manifest["kind"], version)
    revision = manifest["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": revision, "finalizers": finalizers}}
    draft.manifest = await client.merge_patch(resource, draft.key.name, patch, draft.key.namespace)
