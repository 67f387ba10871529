"""Applies one object: server-side apply, conflicts, takeover from the Go operator, re-creation.

Costs one request, unless another manager owns fields of the object.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.messages import FieldsOwnedByOthers, explain, immutable_fields, raise_outage
from clusterstacks.deliver.apply.ownership import (
    FIELD_MANAGER,
    Owner,
    has_other_managers,
    held_by_predecessor,
    holds_string_data,
    inherited_fields,
    owner_of,
)
from clusterstacks.deliver.apply.policy import wants_recreation
from clusterstacks.deliver.apply.results import Deadlines, ObjectResult
from clusterstacks.deliver.apply.targets import mark_of
from clusterstacks.deliver.apply.waiting import pauses, until_gone
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.kube.errors import Conflict, FieldConflict, Invalid, KindNotServed, WebhookFailed

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.ownership import FieldWriter
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

SECRET_KIND = ("", "Secret")

ATTEMPTS = 3
"""Attempts of a change that fails when another writer changes the object at the same time (arbitrary)."""


@dataclass(frozen=True, slots=True)
class ObjectStep:
    """One object to apply.

    Args:
        target: The object.
        known: Its entry in the delivery record.
        ours: It was just read and is ours: a conflict is resolved by force without reading it again.
        before: The object as it was just read, in the API version of the target. It tells whether the apply changed
            anything, which the generation does not: the API server may raise that of a converted object at any write.
    """

    target: ApplyTarget
    known: RecordedObject | None = None
    ours: bool = False
    before: Manifest | None = None

    @property
    def first(self) -> bool:
        """True if the object was never delivered completely."""
        return self.known is None or not self.known.digest

    @property
    def uid(self) -> str:
        """The recorded uid, or empty."""
        return self.known.uid if self.known else ""


@dataclass(frozen=True, slots=True)
class Applied:
    """A result, and the object as the server returned it; None when it was not synced."""

    result: ObjectResult
    live: Manifest | None


@dataclass(frozen=True, slots=True)
class _Response:
    live: Manifest
    conflicts: tuple[FieldConflict, ...] = ()
    created: bool = False


class ObjectApplier:
    """Applies single objects.

    Args:
        client: The cluster.
        sets: Ids of the ApplySets whose members are ours.
        inherits: Writers whose fields become ours at any apply. If there are any, all objects are ours.
    """

    def __init__(
        self, client: Client, sets: Collection[str], deadlines: Deadlines, inherits: Collection[FieldWriter] = ()
    ) -> None:
        self._client = client
        self._sets = sets
        self._inherits = inherits
        self._deadlines = deadlines

    async def apply_object(self, step: ObjectStep) -> Applied:
        """Apply one object; an error that concerns only this object is its result.

        Raises:
            DependencyError: The server is not available, or rejects our credentials.
        """
        try:
            response = await self._apply_or_recreate(step)
        except ClusterStacksError as error:
            await raise_outage(self._client, error)
            result = failed(step.target, error.code, explain(error, step.target), uid=step.uid)
            webhook = error.webhook if isinstance(error, WebhookFailed) else ""
            return Applied(replace(result, webhook=webhook), None)
        if response.live["metadata"].get("deletionTimestamp"):
            return Applied(_leaving(step.target, response.live), None)
        return Applied(_synced(step, response), response.live)

    async def _apply_or_recreate(self, step: ObjectStep) -> _Response:
        try:
            return await self._apply(step)
        except Invalid as refusal:
            if not wants_recreation(step.target.manifest) or not immutable_fields(refusal, step.target):
                raise
            return _Response(await self._recreate(step, refusal))

    async def _apply(self, step: ObjectStep) -> _Response:
        """Apply without force; read the object only after a conflict, and Secrets that exist."""
        if (step.target.id.group, step.target.id.kind) == SECRET_KIND and (step.ours or not step.first):
            before = await self._find(step.target)
            if before is not None and holds_string_data(before):
                return await self._take_over(step.target, before)
        try:
            live = await self._send(step.target)
        except Conflict as conflict:
            if not conflict.conflicts:
                raise
            return await self._resolve_conflict(step, conflict)
        if (step.first or self._inherits) and held_by_predecessor(live, self._inherits):
            return await self._take_over(step.target, live)
        is_new = live["metadata"]["uid"] != step.uid
        return _Response(live, created=is_new and not has_other_managers(live))

    async def _resolve_conflict(self, step: ObjectStep, conflict: Conflict) -> _Response:
        """Resolve a conflict: override other managers on an object that is ours, reject an object of others."""
        target = step.target
        live = await self._find(target) if self._inherits or not step.ours else None
        if live is not None:
            owner = Owner.PREDECESSOR if self._inherits else owner_of(live, sets=self._sets, uid=step.uid)
            if owner is Owner.FOREIGN:
                raise FieldsOwnedByOthers(target, conflict.conflicts)
            if owner is Owner.PREDECESSOR:
                return await self._take_over(target, live)
        return _Response(await self._send(target, force=True), conflict.conflicts)

    async def _take_over(self, target: ApplyTarget, live: Manifest) -> _Response:
        """Take over inherited fields, then apply; fields that the manifest lacks are removed."""
        resource = target.place
        for attempt in range(1, ATTEMPTS + 1):
            operations = [
                {"op": "replace", "path": "/metadata/managedFields", "value": inherited_fields(live, self._inherits)},
                # If the object changed, this leads to 409, a test operation to 422.
                {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            ]
            try:
                await self._client.json_patch(resource, target.id.name, operations, target.id.namespace)
                break
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                live = await self._client.get(resource, target.id.name, target.id.namespace)
        try:
            return _Response(await self._send(target))
        except Conflict as conflict:
            return _Response(await self._send(target, force=True), conflict.conflicts)

    async def _recreate(self, step: ObjectStep, refusal: Invalid) -> Manifest:
        """Delete an object that is ours and create it again; its annotation allows that."""
        resource, identity = step.target.place, step.target.id
        live = await self._find(step.target)
        if live is not None:
            if owner_of(live, sets=self._sets, uid=step.uid) is Owner.FOREIGN:
                raise refusal
            uid = live["metadata"]["uid"]
            await self._client.delete(resource, identity.name, identity.namespace, uid=uid)
            await until_gone(self._client, resource, identity, uid, self._deadlines.gone)
        return await self._send(step.target)

    async def _find(self, target: ApplyTarget) -> Manifest | None:
        return await self._client.find(target.place, target.id.name, target.id.namespace)

    async def _send(self, target: ApplyTarget, *, force: bool = False) -> Manifest:
        for pause in pauses(self._deadlines.served if target.new_kind else timedelta(0)):
            try:
                return await self._client.apply(target.place, target.manifest, manager=FIELD_MANAGER, force=force)
            except KindNotServed:
                await asyncio.sleep(pause)
        return await self._client.apply(target.place, target.manifest, manager=FIELD_MANAGER, force=force)


def failed(target: ApplyTarget, code: str, error: str, *, uid: str = "") -> ObjectResult:
    """Return the result of an object that is not synced."""
    return ObjectResult(target.id, target.version, synced=False, error=error, code=code, uid=uid, digest=target.digest)


def _synced(step: ObjectStep, response: _Response) -> ObjectResult:
    mark = mark_of(response.live, step.target.manifest)
    if step.before is not None:
        changed = _content(step.before) != _content(response.live)
    else:
        changed = step.known is None or step.known.mark != mark
    return ObjectResult(
        step.target.id,
        step.target.version,
        synced=True,
        uid=response.live["metadata"]["uid"],
        digest=step.target.digest,
        mark=mark,
        changed=changed,
        created=response.created,
        conflicts=response.conflicts,
    )


def _content(manifest: Manifest) -> tuple[object, ...]:
    """Return what writers set in an object."""
    metadata = manifest["metadata"]
    body = {key: value for key, value in manifest.items() if key not in {"metadata", "status"}}
    return metadata["uid"], metadata.get("labels"), metadata.get("annotations"), body


def _leaving(target: ApplyTarget, live: Manifest) -> ObjectResult:
    """Return the result of an object that another writer has deleted and that waits for finalizers."""
    finalizers = ", ".join(live["metadata"].get("finalizers") or ()) or "its content"
    error = f"{target.id} is being deleted and waits for {finalizers}; it is created again afterwards"
    return failed(target, "Terminating", error, uid=live["metadata"]["uid"])
