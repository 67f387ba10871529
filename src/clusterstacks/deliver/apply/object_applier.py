"""Applies one object: server-side apply, conflicts, takeover from the Go operator, re-creation.

Costs one request, unless another manager owns fields of the object.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.autoscalers import Autoscalers
from clusterstacks.deliver.apply.field_paths import managers_of, value_of
from clusterstacks.deliver.apply.foreign_fields import (
    REPLICAS,
    foreign_fields,
    may_be_foreign,
    nothing_ignored,
    with_foreign_fields,
)
from clusterstacks.deliver.apply.live_fields import ABSENT
from clusterstacks.deliver.apply.messages import (
    MATCHED_CAUSES,
    FieldsOwnedByOthers,
    explain,
    immutable_fields,
    raise_outage,
)
from clusterstacks.deliver.apply.ownership import (
    FIELD_MANAGER,
    Owner,
    authors_of,
    has_applied,
    has_other_managers,
    held_by_predecessor,
    holds_string_data,
    inherited_fields,
    overridden_authors,
    owner_of,
)
from clusterstacks.deliver.apply.policy import wants_recreation
from clusterstacks.deliver.apply.results import Deadlines, ObjectResult
from clusterstacks.deliver.apply.targets import mark_of
from clusterstacks.deliver.apply.waiting import describe_deletion, pauses, until_gone
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.kube.errors import AlreadyExists, Conflict, FieldConflict, Invalid, KindNotServed, WebhookFailed

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.foreign_fields import IgnoredFields
    from clusterstacks.deliver.apply.ownership import FieldWriter
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.drift_settings import FieldPath
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
    """An answer of the server.

    Args:
        before: The resource version before the apply if fields of others kept their values; None if all of the manifest
            was sent.
    """

    live: Manifest
    conflicts: tuple[FieldConflict, ...] = ()
    created: bool = False
    before: str | None = None


class ObjectApplier:
    """Applies single objects.

    Args:
        client: The cluster.
        sets: Ids of the ApplySets whose members are ours.
        inherits: Writers whose fields become ours at any apply. If there are any, all objects are ours.
        ignored: The fields of an object that belong to other writers by a setting.
    """

    def __init__(
        self,
        client: Client,
        sets: Collection[str],
        deadlines: Deadlines,
        inherits: Collection[FieldWriter] = (),
        ignored: IgnoredFields = nothing_ignored,
    ) -> None:
        self._client = client
        self._sets = sets
        self._inherits = inherits
        self._ignored = ignored
        self._deadlines = deadlines
        self._autoscalers = Autoscalers(client)

    async def apply_object(self, step: ObjectStep) -> Applied:
        """Apply one object; an error that concerns only this object is its result.

        Raises:
            DependencyError: The server is not available, or rejects our credentials.
        """
        try:
            response = await self._apply_or_recreate(step)
        except ClusterStacksError as error:
            await raise_outage(self._client, error)
            is_change = isinstance(error, Invalid) and await self._refuses_change(error, step)
            result = failed(step.target, error.code, explain(error, step.target, is_change=is_change), uid=step.uid)
            webhook = error.webhook if isinstance(error, WebhookFailed) else ""
            return Applied(replace(result, webhook=webhook), None)
        if response.live["metadata"].get("deletionTimestamp"):
            return Applied(_leaving(step.target, response.live), None)
        return Applied(_synced(step, response), response.live)

    async def _apply_or_recreate(self, step: ObjectStep) -> _Response:
        try:
            return await self._apply(step)
        except Invalid as refusal:
            if (response := await self._apply_without_default(step, refusal)) is not None:
                return response
            if not wants_recreation(step.target.manifest) or not await self._refuses_change(refusal, step):
                raise
            return await self._recreate(step, refusal)

    async def _refuses_change(self, refusal: Invalid, step: ObjectStep) -> bool:
        """Return whether the server refuses only the change of an object: it would create what the manifest says."""
        target = step.target
        if immutable_fields(refusal, target):
            return True
        if not step.uid:
            return False  # it was never delivered
        try:
            await self._client.create(target.place, target.manifest, target.id.namespace, dry_run=True)
        except AlreadyExists:
            return True  # the server looks for the name after all other checks
        except ClusterStacksError:
            return False
        return False

    async def _apply_without_default(self, step: ObjectStep, refusal: Invalid) -> _Response | None:
        """Remove a default that contradicts the manifest, and apply again; None if no default does.

        The server refuses ``strategy: {type: Recreate}`` while an object has the default ``rollingUpdate``, which no
        manager owns, so that no apply removes it.
        """
        target, sent = step.target, step.target.manifest
        if immutable_fields(refusal, target):
            return None
        refused = [tuple(cause.field.split(".")) for cause in refusal.causes[:MATCHED_CAUSES] if cause.field]
        lacking = [
            path for path in refused if isinstance(beside := value_of(sent, path[:-1]), dict) and path[-1] not in beside
        ]
        live = await self._find(target) if lacking else None
        if live is None or not has_applied(live):
            return None
        defaults = [path for path in lacking if value_of(live, path) is not ABSENT and not managers_of(live, path)]
        if not defaults:
            return None
        patch = _patch_of_default(sent, live, defaults[0])
        try:
            live = await self._client.merge_patch(
                target.place, target.id.name, patch, target.id.namespace, manager=FIELD_MANAGER
            )
        except Invalid:
            return None
        # The patch made the fields ours in another way than an apply does.
        return await self._take_over(step, live, {(FIELD_MANAGER, "Update")}, beside=bool(self._ignored(target.id)))

    async def _apply(self, step: ObjectStep) -> _Response:
        """Apply an object, again if another writer changed it between a read and a write of it."""
        for _ in range(1, ATTEMPTS):
            try:
                return await self._try_apply(step, beside=bool(self._ignored(step.target.id)))
            except Conflict:
                continue
        return await self._try_apply(step, beside=bool(self._ignored(step.target.id)))

    async def _try_apply(self, step: ObjectStep, *, beside: bool) -> _Response:
        """Apply without force; read the object only after a conflict, and Secrets that exist.

        With ``beside``, fields may belong to other writers: their live values are sent.
        """
        if (step.target.id.group, step.target.id.kind) == SECRET_KIND and (step.ours or not step.first):
            before = await self._find(step.target)
            if before is not None and holds_string_data(before):
                return await self._take_over(step, before, self._inherits, beside=beside)
        target = await self._beside_others(step.target) if beside else step.target
        try:
            live = await self._send(target)
        except Conflict as conflict:
            if not conflict.conflicts:
                raise
            if not beside and any(may_be_foreign(one.field) for one in conflict.conflicts):
                return await self._try_apply(step, beside=True)
            return await self._resolve_conflict(step, target, conflict, beside=beside)
        is_new = live["metadata"]["uid"] != step.uid
        authors = self._inherits or (authors_of(live) if step.first or is_new else ())
        if (step.first or authors) and held_by_predecessor(live, authors):
            return replace(await self._take_over(step, live, authors, beside=beside), created=False)
        return _Response(live, created=is_new and not has_other_managers(live), before=_version_of(target))

    async def _resolve_conflict(
        self, step: ObjectStep, target: ApplyTarget, conflict: Conflict, *, beside: bool
    ) -> _Response:
        """Resolve a conflict: override other managers on an object that is ours, reject an object of others.

        ``target`` is the object of the step as it was sent.
        """
        live = await self._find(step.target) if self._inherits or step.first or not step.ours else None
        if live is not None:
            owner = Owner.PREDECESSOR if self._inherits else owner_of(live, sets=self._sets, uid=step.uid)
            if owner is Owner.FOREIGN:
                raise FieldsOwnedByOthers(target, conflict.conflicts)
            authors = self._inherits or overridden_authors(live, conflict.conflicts)
            if held_by_predecessor(live, authors):
                response = await self._take_over(step, live, authors, beside=beside)
                overridden = conflict.conflicts if owner is Owner.OURS else ()
                return replace(response, conflicts=(*overridden, *response.conflicts))
        return _Response(await self._send(target, force=True), conflict.conflicts, before=_version_of(target))

    async def _take_over(
        self, step: ObjectStep, live: Manifest, inherits: Collection[FieldWriter], *, beside: bool
    ) -> _Response:
        """Take over inherited fields, then apply; fields that the manifest lacks are removed."""
        target = step.target
        operations = [
            {"op": "replace", "path": "/metadata/managedFields", "value": inherited_fields(live, inherits)},
            # If the object changed, this leads to 409, a test operation to 422.
            {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
        ]
        await self._client.json_patch(target.place, target.id.name, operations, target.id.namespace)
        return await self._try_apply(step, beside=beside)

    async def _beside_others(self, target: ApplyTarget) -> ApplyTarget:
        """Return an object with the live values of the fields of others, to be applied only while these are current."""
        live = await self._find(target)
        if live is None:
            return target
        manifest = await self._with_foreign_fields(target, live)
        if manifest is not target.manifest:
            version = live["metadata"]["resourceVersion"]
            manifest = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": version}}
        return replace(target, manifest=manifest)

    async def _with_foreign_fields(self, target: ApplyTarget, live: Manifest) -> Manifest:
        sent, ignored = target.manifest, self._ignored(target.id)
        is_scalable = value_of(sent, REPLICAS) not in (ABSENT, value_of(live, REPLICAS))
        scaled = is_scalable and await self._autoscalers.scale(target.id)
        return with_foreign_fields(sent, live, foreign_fields(sent, live, ignored=ignored, scaled=scaled))

    async def _recreate(self, step: ObjectStep, refusal: Invalid) -> _Response:
        """Delete an object that is ours and create it again; its annotation allows that."""
        resource, identity = step.target.place, step.target.id
        live = await self._find(step.target)
        if live is not None:
            if owner_of(live, sets=self._sets, uid=step.uid) is Owner.FOREIGN:
                raise refusal
            uid = live["metadata"]["uid"]
            await self._client.delete(resource, identity.name, identity.namespace, uid=uid)
            await until_gone(self._client, resource, identity, uid, self._deadlines.gone)
            manifest = await self._with_foreign_fields(step.target, live)
            before = None if manifest is step.target.manifest else ""
            return _Response(await self._send(replace(step.target, manifest=manifest)), before=before)
        return _Response(await self._send(step.target))

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


def _patch_of_default(sent: Manifest, live: Manifest, path: FieldPath) -> Manifest:
    """Return the merge patch that removes a field of a live object.

    It sets the texts and numbers beside the field in the manifest as well, which decide whether there is a default.
    """
    beside = value_of(sent, path[:-1])
    patch = {key: value for key, value in beside.items() if not isinstance(value, (dict, list))} | {path[-1]: None}
    for step in reversed(path[:-1]):
        patch = {step: patch}
    return {**patch, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}}


def _version_of(target: ApplyTarget) -> str | None:
    version: str | None = target.manifest["metadata"].get("resourceVersion")
    return version


def _synced(step: ObjectStep, response: _Response) -> ObjectResult:
    """Return the result of an object; without a mark, it is compared and sent again even if nobody changes it.

    It has no mark while fields have other values than in the manifest, because their writers may be removed later.
    """
    mark = mark_of(response.live, step.target.manifest) if response.before is None else None
    if step.before is not None:
        changed = _content(step.before) != _content(response.live)
    elif mark is None:
        changed = response.before != response.live["metadata"]["resourceVersion"]
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
    error = f"{target.id} {describe_deletion(live)}; it is created again afterwards"
    return failed(target, "Terminating", error, uid=live["metadata"]["uid"])
