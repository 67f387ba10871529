"""Frame of every reconciler: reads the object, collects its status, writes it once, and records events.

A reconcile begins with the object in the informer's cache. If it has more to do than to write the status, it starts
again with the object as the API server has it, so that nothing is done because a cache lags behind.

An event is recorded when a condition turns False, when its reason changes, and when the object becomes ready. Events
follow from the status before and after a write, so a retry or restart does not repeat them.
"""

from __future__ import annotations

import copy
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.model.conditions import Condition, Severity, from_documents, ready_summary, to_documents, updated
from clusterstacks.model.errors import ClusterStacksError, DependencyError, outcome_of
from clusterstacks.model.kinds.names import (
    PAUSED_ANNOTATION,
    READY_CONDITION,
    EventReason,
    Kind,
    OpenStackKind,
    Reason,
    StackCondition,
)
from clusterstacks.model.objects import Manifest, ObjectKey, merge_diff, split_api_version
from clusterstacks.model.outcomes import Outcome, Settled, Stalled, Waiting
from clusterstacks.net.kube.errors import Conflict, NotFound
from clusterstacks.operator.controllers.object_reader import LiveReader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder, EventType
    from clusterstacks.runtime.informer import Informer

_USUAL = frozenset({Reason.PROCESS_ONGOING, Reason.CONTROL_PLANE_NOT_READY})
"""Reasons that every new object passes through; they cause no events."""

_NOT_ANNOUNCED = frozenset({Kind.CLUSTER_RESOURCE_SYNC, Kind.CLUSTER_RESOURCE_SYNC_BINDING, *OpenStackKind})
"""Kinds whose objects become ready without this event: syncs may be thousands, and their status says it; those of a
provider have events of their own."""

_KNOWN_AS: dict[tuple[str, str], str] = {
    (StackCondition.RELEASE_OBJECTS_SYNCED, Reason.FAILED_TO_CREATE_OR_UPDATE): EventReason.FAILED_TO_CREATE
}
"""Conditions for which the Go operator's event has another reason."""


@dataclass(frozen=True, slots=True)
class ConditionEvent:
    """An event that a change of a condition causes."""

    type: EventType
    reason: str
    message: str


def condition_events(before: Manifest, after: Manifest) -> list[ConditionEvent]:
    """Return the events for the changes between two states of an object's conditions."""
    known = {condition.type: condition for condition in _conditions(before)}
    events = []
    for condition in _conditions(after):
        last = known.get(condition.type)
        if condition.type == READY_CONDITION:
            is_news = condition.status == "True" and (last is None or last.status != "True")
            if is_news and after["kind"] not in _NOT_ANNOUNCED:
                events.append(ConditionEvent("Normal", EventReason.READY, f"{after['kind']} is ready"))
        elif _is_trouble(condition) and (last is None or (last.status, last.reason) != ("False", condition.reason)):
            reason = _KNOWN_AS.get((condition.type, condition.reason), condition.reason)
            events.append(ConditionEvent("Warning", reason, condition.message))
    return events


async def record_events(events: EventRecorder, before: Manifest, after: Manifest) -> None:
    """Record the events for the changes between two states of an object's conditions."""
    for event in condition_events(before, after):
        await events.record(after, event.type, event.reason, event.message)


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    return from_documents((manifest.get("status") or {}).get("conditions"))


def _is_trouble(condition: Condition) -> bool:
    return (
        condition.status == "False"
        and condition.severity is not Severity.INFO
        and condition.reason not in tuple(_USUAL)
    )


log = logging.getLogger(__name__)


class LiveReadNeededError(Exception):
    """The reconcile has something to do, so it must not depend on caches: it starts again with a live read.

    ``news`` are events about other objects that are still to be recorded.
    """

    def __init__(self, news: list[tuple[Manifest, ConditionEvent]]) -> None:
        super().__init__()
        self.news = news


@dataclass(slots=True)
class StatusPatch:
    """An object as it was read, and its new status."""

    manifest: Manifest
    status: dict[str, Any] = field(init=False)
    cached: bool = False
    """The object is from the informer's cache, which may lag behind the server."""
    pruned: Manifest = field(default_factory=dict)
    """Fields of the status that the API server drops, as they were last sent."""
    released: bool = False
    """Our finalizer was removed, or the object is gone: its status can no longer be written."""
    writer: Callable[[StatusPatch, Outcome], Awaitable[None]] | None = None
    """Writes the status; set by the StatusReconciler."""
    news: list[tuple[Manifest, ConditionEvent]] = field(init=False, default_factory=list)
    _changes: dict[str, Condition | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.status = copy.deepcopy(self.manifest.get("status") or {})

    @property
    def key(self) -> ObjectKey:
        """Key of the object, e.g. for work queues."""
        metadata = self.manifest["metadata"]
        return ObjectKey(metadata.get("namespace", ""), metadata["name"])

    @property
    def deleting(self) -> bool:
        """True once the object has a deletion timestamp."""
        return "deletionTimestamp" in self.manifest["metadata"]

    def require_live(self) -> None:
        """Start the reconcile again with a live read if the object is from a cache (LiveReadNeededError).

        Call it before anything but the status is written.
        """
        if self.cached:
            raise LiveReadNeededError(self.news)

    def annotation(self, name: str) -> str:
        """Return the value of an annotation; empty without it."""
        return str((self.manifest["metadata"].get("annotations") or {}).get(name, ""))

    def true(self, condition: str, reason: str = "", message: str = "") -> None:
        """Set ``condition`` to True; call it only after the result was read back."""
        self._changes[condition] = Condition(condition, "True", reason, message)

    def false(self, condition: str, reason: str, message: str, severity: Severity = Severity.WARNING) -> None:
        """Set ``condition`` to False; INFO causes no event."""
        self._changes[condition] = Condition(condition, "False", reason=reason, message=message, severity=severity)

    def unknown(self, condition: str, reason: str, message: str) -> None:
        """Set ``condition`` to Unknown, e.g. after a failed read."""
        self._changes[condition] = Condition(condition, "Unknown", reason, message)

    def drop(self, condition: str) -> None:
        """Remove a condition that no longer applies."""
        self._changes[condition] = None

    def announce(self, regarding: Manifest, type_: EventType, reason: str, message: str) -> None:
        """Record an event about another object after the status is written."""
        self.news.append((regarding, ConditionEvent(type_, reason, message)))

    def reached(self, condition: str, message: str) -> None:
        """Set ``condition`` to True; if it was not, record an event with its type as reason."""
        if not self.holds(condition):
            self.announce(self.manifest, "Normal", condition, message)
        self.true(condition)

    def reconsider(self, conditions: Iterable[str]) -> None:
        """Remove the conditions that are False: the rest of the reconcile reports again what still fails."""
        for condition in conditions:
            if not self.holds(condition):
                self.drop(condition)

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type, as read or as changed since."""
        if kind in self._changes:
            return self._changes[kind]
        known = from_documents(self.status.get("conditions") or [])
        return next((condition for condition in known if condition.type == kind), None)

    def holds(self, condition: str) -> bool:
        """Return whether ``condition`` is True, as read or as changed since."""
        current = self.condition(condition)
        return current is not None and current.status == "True"

    @contextmanager
    def failing_condition(self, condition: str, reason: str = "") -> Iterator[None]:
        """Set ``condition`` to False with the message of an error that the block raises."""
        try:
            yield
        except ClusterStacksError as error:
            severity = Severity.WARNING if isinstance(error, DependencyError) else Severity.ERROR
            self.false(condition, reason or error.code, error.message, severity)
            raise

    def reported(self, outcome: Outcome, now: datetime, advisory: Collection[str] = ()) -> Outcome:
        """Return the outcome with the reason and message of the condition Ready, for use in other objects."""
        if isinstance(outcome, Settled):
            return outcome
        ready = self._conditions(outcome, now, advisory)[0]
        return replace(outcome, reason=ready.reason, message=ready.message)

    async def checkpoint(self, outcome: Outcome) -> None:
        """Write the status during a long operation, so that progress is visible and survives a crash."""
        if self.writer is not None:
            await self.writer(self, outcome)

    def body(
        self, outcome: Outcome, now: datetime, advisory: Collection[str] = (), ready_message: str = ""
    ) -> Manifest:
        """Return the merge patch from the old status to the new one; empty when nothing changed."""
        conditions = self._conditions(outcome, now, advisory, ready_message)
        after = {**self.status, "conditions": to_documents(conditions)}
        if "generation" in self.manifest["metadata"]:
            after["observedGeneration"] = self.manifest["metadata"]["generation"]
        return merge_diff(self.manifest.get("status") or {}, after)

    def _conditions(
        self, outcome: Outcome, now: datetime, advisory: Collection[str], ready_message: str = ""
    ) -> tuple[Condition, ...]:
        """Return the new conditions, Ready first."""
        conditions = updated(from_documents(self.status.get("conditions") or []), self._changes, now)
        return ready_summary(conditions, outcome, now, advisory=advisory, message=ready_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReconciler:
    """Reads an object, calls ``work``, writes the status once, and returns when to reconcile again.

    When ``work`` returns None or a time, nothing is written. ``advisory`` names the conditions that do not count for
    Ready. ``ready_message`` returns the message of Ready, while it is True, from the status. Fields that the API server
    drops because the CRD does not have them (as the Go operator's CRD lacks ours) are reported once, and cause no
    further write while their content is the same.
    """

    group: str
    kind: str
    client: Client
    clock: Clock
    events: EventRecorder
    work: Callable[[StatusPatch], Awaitable[Outcome | timedelta | None]]
    advisory: frozenset[str] = frozenset()
    ready_message: Callable[[Manifest], str] = lambda _: ""
    informer: Informer | None = None
    """Informer of the kind; None reads every object from the API server."""
    _pruned: dict[ObjectKey, Manifest] = field(default_factory=dict, init=False)
    """By object, the status fields that the API server drops, as they were last sent."""
    _reported: set[str] = field(default_factory=set, init=False)

    async def reconcile(self, key: ObjectKey) -> timedelta | Stalled | None:
        """Reconcile one object; return when to reconcile again, None for the next change, or Stalled.

        A DependencyError, which the controller retries with back-off, is raised after the status was written, or when
        the API server returned an earlier version of the object than before.
        """
        informer = self.informer
        news: list[tuple[Manifest, ConditionEvent]] = []
        if informer is not None and informer.follows(key):
            try:
                return await self._attempt(key, informer.cache.get(key), cached=True)
            except LiveReadNeededError as error:
                news = error.news
        resource = await self.client.resource(self.group, self.kind)
        live = LiveReader(self.client, {} if informer is None else {(self.group, self.kind): informer})
        return await self._attempt(key, await live.find(resource, key.name, key.namespace), news)

    async def _attempt(
        self,
        key: ObjectKey,
        manifest: Manifest | None,
        news: Iterable[tuple[Manifest, ConditionEvent]] = (),
        *,
        cached: bool = False,
    ) -> timedelta | Stalled | None:
        if manifest is None:
            self._pruned.pop(key, None)
        if manifest is None or PAUSED_ANNOTATION in (manifest["metadata"].get("annotations") or {}):
            return None
        pruned = self._pruned.get(key, {})
        patch = StatusPatch(manifest, cached=cached, pruned=pruned, writer=self.write_status)
        patch.news += news
        failure: ClusterStacksError | None = None
        try:
            outcome = await self.work(patch)
        except ClusterStacksError as error:
            outcome, failure = outcome_of(error), error
        finally:
            self._note_written(patch, manifest)
        if outcome is None or isinstance(outcome, timedelta):
            return outcome
        await self.write_status(patch, outcome)
        for regarding, event in patch.news:
            await self.events.record(regarding, event.type, event.reason, event.message)
        if isinstance(failure, DependencyError):
            raise failure
        return requeue_of(outcome)

    def _note_written(self, patch: StatusPatch, read: Manifest) -> None:
        if self.informer is not None and patch.manifest is not read:
            self.informer.written(patch.manifest)

    async def write_status(self, patch: StatusPatch, outcome: Outcome) -> None:
        """Write the changes of the status, unless only fields differ that the API server drops."""
        changes = patch.body(outcome, self.clock.now(), self.advisory, self.ready_message(patch.status))
        known = self._pruned.get(patch.key, {})
        if patch.released or all(name in known and known[name] == value for name, value in changes.items()):
            return
        before = patch.manifest
        written = await self._patch_status(patch, changes)
        if written is None:
            patch.released = True  # the object was deleted in the meantime
            return
        current, after = written
        unchanged = after["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        dropped = set(changes) if unchanged else pruned_fields(changes, after)
        if dropped:
            self._pruned[patch.key] = (known if unchanged else {}) | {name: changes[name] for name in dropped}
        elif known:
            del self._pruned[patch.key]
        patch.manifest = after
        self._note_written(patch, before)
        await record_events(self.events, before, after)
        await self._report_pruned(after, dropped)

    async def _report_pruned(self, manifest: Manifest, fields: set[str]) -> None:
        """Report fields that the API server prunes, once each: their content is lost until the CRD contains them."""
        if not fields - self._reported or self.kind in tuple(OpenStackKind):  # definitions of Go are good enough
            return
        self._reported.update(fields)
        names = ", ".join(f"status.{name}" for name in sorted(fields))
        message = (
            f"the CustomResourceDefinition of {self.kind} does not have all fields of {names}, so the API server drops "
            "them: run 'csctl crds | kubectl apply --server-side --force-conflicts -f -'"
        )
        log.warning("%s", message)
        await self.events.record(manifest, "Warning", EventReason.STATUS_PRUNED, message)

    async def _patch_status(self, patch: StatusPatch, changes: Manifest) -> tuple[Manifest, Manifest] | None:
        """Write the status; return the object before and after the write, None if it or its uid is gone.

        An outdated object from the cache raises LiveReadNeededError.
        """
        manifest = patch.manifest
        resource = await self.client.resource(self.group, self.kind)
        metadata = manifest["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        current: Manifest | None = manifest
        while current is not None and current["metadata"]["uid"] == metadata["uid"]:
            guard = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}}
            body = {**guard, "status": changes}
            try:
                return current, await self.client.merge_patch(resource, name, body, namespace, subresource="status")
            except NotFound:
                return None
            except Conflict:
                patch.require_live()
                # Spec or metadata changed; only we write the status, so it is still correct.
                current = await self.client.find(resource, name, namespace)
        return None


def pruned_fields(changes: Manifest, after: Manifest) -> set[str]:
    """Return the fields of a status that were sent and that the API server did not return."""
    kept = after.get("status") or {}
    return {name for name, value in changes.items() if value is not None and name not in kept}


def requeue_of(outcome: Outcome) -> timedelta | Stalled | None:
    """Return when to reconcile again; None for the next change. The controller handles Stalled."""
    match outcome:
        case Settled(recheck=recheck):
            return recheck
        case Waiting(retry=retry):
            return retry
        case Stalled():
            return outcome


async def add_finalizer(patch: StatusPatch, finalizer: str, client: Client) -> None:
    """Add a finalizer and keep the others; a Conflict means that the object changed since it was read.

    An object from the cache is not read before: the write fails if it is outdated.
    """
    finalizers = patch.manifest["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        try:
            await _write_finalizers(patch, [*finalizers, finalizer], client)
        except (Conflict, NotFound):
            patch.require_live()
            raise


async def remove_finalizer(patch: StatusPatch, finalizer: str, client: Client) -> None:
    """Remove a finalizer; nothing is written to the object afterwards. A Conflict as in ``add_finalizer``."""
    finalizers = patch.manifest["metadata"].get("finalizers") or []
    if finalizer in finalizers:
        await _write_finalizers(patch, [name for name in finalizers if name != finalizer], client)
    patch.released = True


async def _write_finalizers(patch: StatusPatch, finalizers: list[str], client: Client) -> None:
    manifest = patch.manifest
    group, version = split_api_version(manifest["apiVersion"])
    resource = await client.resource(group, manifest["kind"], version)
    revision = manifest["metadata"]["resourceVersion"]
    metadata = {"metadata": {"resourceVersion": revision, "finalizers": finalizers}}
    patch.manifest = await client.merge_patch(resource, patch.key.name, metadata, patch.key.namespace)
