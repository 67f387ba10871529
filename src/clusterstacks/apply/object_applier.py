"""One object into a cluster: server-side apply, conflicts, the Go operator's inheritance, re-creation.

Costs one request, unless somebody else has a say in the object.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.apply.messages import FieldsOwnedByOthers, explain, immutable_fields, raise_outage
from clusterstacks.apply.ownership import FIELD_MANAGER, Owner, held_by_predecessor, inherited_fields, owner_of
from clusterstacks.apply.policy import wants_recreation
from clusterstacks.apply.results import Deadlines, ObjectResult
from clusterstacks.apply.targets import mark_of
from clusterstacks.apply.waiting import pauses, until_gone
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.kube.errors import Conflict, FieldConflict, Invalid, KindNotServed, WebhookFailed

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.apply.delivery_plan import RecordedObject
    from clusterstacks.apply.targets import ApplyTarget
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

ATTEMPTS = 3
"""Tries of a change that fails when somebody else writes at the same time (arbitrary)."""


@dataclass(frozen=True, slots=True)
class ObjectStep:
    """One object to bring into a cluster.

    Args:
        target: The object.
        known: What we remember of it.
        ours: It was just seen to be ours: a conflict is settled by force without another look.
    """

    target: ApplyTarget
    known: RecordedObject | None = None
    ours: bool = False

    @property
    def first(self) -> bool:
        """Whether no delivery of the object was ever completed."""
        return self.known is None or not self.known.digest

    @property
    def uid(self) -> str:
        """The remembered uid, or empty."""
        return self.known.uid if self.known else ""


@dataclass(frozen=True, slots=True)
class Applied:
    """A result, and the object as the server answered it; None when it was not synced."""

    result: ObjectResult
    live: Manifest | None


@dataclass(frozen=True, slots=True)
class _Brought:
    live: Manifest
    conflicts: tuple[FieldConflict, ...] = ()


class ObjectApplier:
    """Applies single objects.

    Args:
        client: The cluster.
        sets: Ids of the ApplySets whose members are ours.
        deadlines: How long to wait for the server.
    """

    def __init__(self, client: Client, sets: Collection[str], deadlines: Deadlines) -> None:
        self._client = client
        self._sets = sets
        self._deadlines = deadlines

    async def apply_object(self, step: ObjectStep) -> Applied:
        """Apply one object; what is wrong with it alone is its result.

        Raises:
            DependencyError: The server answers nobody, or does not know us.
        """
        try:
            brought = await self._bring(step)
        except ClusterStacksError as error:
            await raise_outage(self._client, error)
            result = failed(step.target, error.code, explain(error, step.target), uid=step.uid)
            webhook = error.webhook if isinstance(error, WebhookFailed) else ""
            return Applied(replace(result, webhook=webhook), None)
        if brought.live["metadata"].get("deletionTimestamp"):
            return Applied(_leaving(step.target, brought.live), None)
        return Applied(_synced(step, brought), brought.live)

    async def _bring(self, step: ObjectStep) -> _Brought:
        try:
            return await self._claim(step)
        except Invalid as refusal:
            if not wants_recreation(step.target.manifest) or not immutable_fields(refusal, step.target):
                raise
            return _Brought(await self._recreate(step, refusal))

    async def _claim(self, step: ObjectStep) -> _Brought:
        """Apply without force; look at the object only when that does not settle it."""
        try:
            live = await self._send(step.target)
        except Conflict as conflict:
            if not conflict.conflicts:
                raise
            return await self._settle(step, conflict)
        if step.first and held_by_predecessor(live):
            return await self._inherit(step.target, live)
        return _Brought(live)

    async def _settle(self, step: ObjectStep, conflict: Conflict) -> _Brought:
        """Overrule whoever set fields of an object that is ours; leave other people's objects alone."""
        target = step.target
        live = None if step.ours else await self._client.find(target.place, target.id.name, target.id.namespace)
        if live is not None:
            whose = owner_of(live, sets=self._sets, uid=step.uid)
            if whose is Owner.FOREIGN:
                raise FieldsOwnedByOthers(target, conflict.conflicts)
            if whose is Owner.PREDECESSOR:
                return await self._inherit(target, live)
        return _Brought(await self._send(target, force=True), conflict.conflicts)

    async def _inherit(self, target: ApplyTarget, live: Manifest) -> _Brought:
        """Take the Go operator's fields over, then apply: what the manifest lacks of them goes."""
        resource, metadata = target.place, live["metadata"]
        for attempt in range(1, ATTEMPTS + 1):
            fields = inherited_fields(metadata.get("managedFields") or [])
            operations = [
                {"op": "replace", "path": "/metadata/managedFields", "value": fields},
                # A changed object answers 409 to this, and 422 to a test operation.
                {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            ]
            try:
                await self._client.json_patch(resource, target.id.name, operations, target.id.namespace)
                break
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                metadata = (await self._client.get(resource, target.id.name, target.id.namespace))["metadata"]
        try:
            return _Brought(await self._send(target))
        except Conflict as conflict:
            return _Brought(await self._send(target, force=True), conflict.conflicts)

    async def _recreate(self, step: ObjectStep, refusal: Invalid) -> Manifest:
        """Delete an object that is ours and create it anew, as it opted in to."""
        resource, identity = step.target.place, step.target.id
        live = await self._client.find(resource, identity.name, identity.namespace)
        if live is not None:
            if owner_of(live, sets=self._sets, uid=step.uid) is Owner.FOREIGN:
                raise refusal
            uid = live["metadata"]["uid"]
            await self._client.delete(resource, identity.name, identity.namespace, uid=uid)
            await until_gone(self._client, resource, identity, uid, self._deadlines.gone)
        return await self._send(step.target)

    async def _send(self, target: ApplyTarget, *, force: bool = False) -> Manifest:
        for pause in pauses(self._deadlines.served if target.new_kind else timedelta(0)):
            try:
                return await self._client.apply(target.place, target.manifest, manager=FIELD_MANAGER, force=force)
            except KindNotServed:
                await asyncio.sleep(pause)
        return await self._client.apply(target.place, target.manifest, manager=FIELD_MANAGER, force=force)


def failed(target: ApplyTarget, code: str, error: str, *, uid: str = "") -> ObjectResult:
    """Report an object that is not as it should be."""
    return ObjectResult(target.id, target.version, synced=False, error=error, code=code, uid=uid, digest=target.digest)


def _synced(step: ObjectStep, brought: _Brought) -> ObjectResult:
    mark = mark_of(brought.live, step.target.manifest)
    return ObjectResult(
        step.target.id,
        step.target.version,
        synced=True,
        uid=brought.live["metadata"]["uid"],
        digest=step.target.digest,
        mark=mark,
        changed=step.known is None or step.known.mark != mark,
        conflicts=brought.conflicts,
    )


def _leaving(target: ApplyTarget, live: Manifest) -> ObjectResult:
    """Somebody deleted the object: what was applied goes with it."""
    finalizers = ", ".join(live["metadata"].get("finalizers") or ()) or "its content"
    error = f"{target.id} is being deleted and waits for {finalizers}; it is applied again once it is gone"
    return failed(target, "Terminating", error, uid=live["metadata"]["uid"])
