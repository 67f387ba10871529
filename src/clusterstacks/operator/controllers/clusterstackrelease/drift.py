"""Detects objects of a cluster class that were deleted or changed after they were applied."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import deletion_fault
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.deliver.apply.waves import CLASS_KIND
from clusterstacks.model.documents import and_more, mapping, mappings, shown, text
from clusterstacks.model.kinds.clusterapi import is_moving, is_paused
from clusterstacks.model.kinds.names import DELETE_FOR_MOVE_ANNOTATION
from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import known_objects
from clusterstacks.operator.controllers.repair_pauses import RepairPauses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from clusterstacks.deliver.apply.class_object_rules import GroupKind
    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.informer import CacheChange, Informer

MAX_KINDS = 32
"""Kinds that are watched. Arbitrary: a class has about five, and all providers of one installation a few more. Objects
of further kinds are read at each resync."""

SYNC_WAIT = timedelta(seconds=2)
"""Time limit for the first list of a kind, which takes some milliseconds; afterwards objects are read one by one.
Arbitrary."""

SHOWN_WRITERS = 3
"""Field managers that a message names; arbitrary."""


@dataclass(slots=True, kw_only=True)
class DriftDetector:
    """Compares the objects that the status of a release lists with those in the management cluster.

    The kinds are watched (metadata only), so that a settled release costs no request. An object that seems changed in
    the store of an informer is read live, because the store may lag behind our own writes.

    Args:
        client: The management cluster.
        classes: The informer of ClusterClasses.
        informer: Builds an informer of the metadata of a group and kind.
        start: Starts a new informer; called once per kind.
        enqueue: Enqueues the ClusterStackRelease that lists a changed object.
        clock: The clock.
        extra_kinds: Kinds that a class may contain besides Cluster API's, from ``--class-kinds``.
    """

    client: Client
    classes: Informer
    informer: Callable[[str, str], Informer]
    start: Callable[[Informer], None]
    enqueue: Callable[[ObjectKey], None]
    clock: Clock
    extra_kinds: Collection[GroupKind] = ()
    _informers: dict[tuple[str, str], Informer] = field(default_factory=dict)
    _releases: dict[ObjectId, ObjectKey] = field(default_factory=dict)
    _listed: dict[ObjectKey, set[ObjectId]] = field(default_factory=dict)
    _generations: dict[ObjectKey, dict[ObjectId, int]] = field(default_factory=dict)
    """By release, the generation of each object right after the apply, or when it was first read."""
    _repairs: RepairPauses[ObjectKey] = field(init=False)
    _moved: set[ObjectId] = field(default_factory=set)
    """Objects that ``clusterctl move`` has deleted."""

    def __post_init__(self) -> None:
        """Subscribe to changes of classes."""
        self._repairs = RepairPauses(self.clock)
        self.classes.subscribe(lambda change: self._changed(CLASS_KIND, change))

    async def find_changed(self, patch: StatusPatch) -> list[str] | None:
        """Return the objects that differ from what was applied, with what happened to each.

        Returns:
            None while ``clusterctl move`` moves them.

        Raises:
            DependencyError: The API server is not available.
        """
        objects = [one for one in known_objects(patch.status) if self.may_hold(patch.key, one.id)]
        self._follow(patch.key, {self._in(one.id, patch.key) for one in objects})
        recorded = _recorded(patch.status)
        suspects = [one for one in objects if await self._suspect(one, patch.key, recorded.get(one.id, 0))]
        if suspects and await self._is_moved(patch.key):
            return None
        baseline = self._generations.get(patch.key, {})
        found = []
        for one in suspects:
            identity = self._in(one.id, patch.key)
            live = await self._read(identity)
            if difference := difference_of(one.uid, baseline.get(identity, 0), live):
                found.append(f"{identity} {difference}{writers_of(live)}")
        return found

    def cached_class(self, patch: StatusPatch, name: str) -> Manifest | None:
        """Return a class from the cache; None unless the cache has it as it was applied, or newer."""
        key = ObjectKey(patch.key.namespace, name)
        cached = self.classes.cache.get(key) if self.classes.follows(key) else None
        if cached is None:
            return None
        identity = ObjectId(*CLASS_KIND, key.namespace, key.name)
        uids = {one.uid for one in known_objects(patch.status) if self._in(one.id, patch.key) == identity}
        applied = self._generations.get(patch.key, {}).get(identity, 0)
        metadata = cached["metadata"]
        return cached if metadata["uid"] in uids and metadata.get("generation", 0) >= applied else None

    def pause(self, key: ObjectKey) -> timedelta:
        """Return the pause before a release is repaired; zero unless it was repaired recently."""
        return self._repairs.pause(key)

    def repaired(self, key: ObjectKey) -> None:
        """Record a repair of a release."""
        self._repairs.repaired(key)

    def applied(self, key: ObjectKey, results: Iterable[ObjectResult]) -> None:
        """Record the generations of applied objects."""
        self._generations[key] = {
            self._in(one.id, key): one.mark.generation for one in results if one.mark and one.mark.generation
        }

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted release."""
        self._follow(key, set())
        self._listed.pop(key, None)
        self._generations.pop(key, None)
        self._repairs.forget(key)

    def may_hold(self, key: ObjectKey, identity: ObjectId) -> bool:
        """Return whether a class may contain the object: users who may write the status can list any object."""
        return not deletion_fault(identity, namespace=key.namespace, extra_kinds=self.extra_kinds)

    @staticmethod
    def _in(identity: ObjectId, key: ObjectKey) -> ObjectId:
        return replace(identity, namespace=key.namespace)

    def _follow(self, key: ObjectKey, objects: set[ObjectId]) -> None:
        for gone in self._listed.get(key, set()) - objects:
            if self._releases.get(gone) == key:
                del self._releases[gone]
            self._moved.discard(gone)
        for identity in objects:
            self._releases[identity] = key
        self._listed[key] = objects

    async def _suspect(self, known: RecordedObject, key: ObjectKey, recorded: int) -> bool:
        """Return whether an object seems to have changed; the first read is the baseline of later ones."""
        identity = self._in(known.id, key)
        live = await self._known_of(identity)
        baseline = self._generations.setdefault(key, {})
        if live is not None and identity not in baseline:
            baseline[identity] = recorded or live["metadata"].get("generation", 0)
        return bool(difference_of(known.uid, baseline.get(identity, 0), live))

    async def _known_of(self, identity: ObjectId) -> Manifest | None:
        informer = self._informer(identity)
        if informer is not None and not informer.is_synced and not informer.health.is_failing:
            with suppress(TimeoutError):
                await asyncio.wait_for(informer.synced(), SYNC_WAIT.total_seconds())
        if informer is not None and informer.is_synced:
            return informer.cache.get(ObjectKey(identity.namespace, identity.name))
        return await self._read(identity)

    async def _read(self, identity: ObjectId) -> Manifest | None:
        try:
            resource = await self.client.resource(identity.group, identity.kind)
        except KindNotServed:
            return None
        return await self.client.find_metadata(resource, identity.name, identity.namespace)

    async def _is_moved(self, key: ObjectKey) -> bool:
        """Return whether ``clusterctl move`` moves the objects: it pauses the class and marks deleted objects."""
        if self._moved & self._listed[key]:
            return True
        for identity in self._listed[key]:
            if (identity.group, identity.kind) == CLASS_KIND:
                found = await self._read(identity)
                if found is not None and (is_paused(found) or is_moving(found)):
                    return True
        return False

    def _informer(self, identity: ObjectId) -> Informer | None:
        kind = (identity.group, identity.kind)
        if kind == CLASS_KIND:
            return self.classes
        if kind not in self._informers:
            if len(self._informers) >= MAX_KINDS:
                return None
            informer = self._informers[kind] = self.informer(*kind)
            informer.subscribe(lambda change: self._changed(kind, change))
            self.start(informer)
        return self._informers[kind]

    def _changed(self, kind: tuple[str, str], change: CacheChange) -> None:
        identity = ObjectId(*kind, change.key.namespace, change.key.name)
        release = self._releases.get(identity)
        if release is None or change.old is None:
            return
        if change.new is not None:
            self._moved.discard(identity)
        elif is_moving(change.old):
            self._moved.add(identity)
        if change.new is None or _state(change.old) != _state(change.new):
            self.enqueue(release)


def difference_of(uid: str, generation: int, live: Manifest | None) -> str:
    """Return how an object differs from what was applied; empty when it does not.

    Args:
        uid: The uid of the applied object; empty when unknown, as in entries of the Go operator.
        generation: Its generation; 0 when unknown, or for kinds without generation.
        live: Its metadata; None when it does not exist.
    """
    if live is None:
        return "was deleted"
    metadata = live["metadata"]
    if uid and metadata["uid"] != uid:
        return "was deleted and created again by another writer"
    if generation and metadata.get("generation", 0) > generation:
        return "was changed"
    return ""


def writers_of(live: Manifest | None) -> str:
    """Name other field managers that own fields of the object, except metadata and subresources."""
    entries = mappings(live, "metadata", "managedFields") if live is not None else []
    others = {
        text(one, "manager")
        for one in entries
        if mapping(one, "fieldsV1").keys() - {"f:metadata"} and not text(one, "subresource")
    }
    names = [shown(name) for name in sorted(others - {FIELD_MANAGER})]
    return f" (fields of field manager {and_more(names, SHOWN_WRITERS)})" if names else ""


def class_metadata(manifest: Manifest) -> Manifest:
    """Return the metadata by which changes of a class object are detected."""
    metadata = manifest["metadata"]
    kept = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")
        if key in metadata
    }
    if is_moving(manifest):
        kept["annotations"] = {DELETE_FOR_MOVE_ANNOTATION: ""}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": kept}


def class_metadata_and_status(manifest: Manifest) -> Manifest:
    """Return of a ClusterClass also what decides whether Cluster API accepts it."""
    status = {key: value for key, value in (manifest.get("status") or {}).items() if key != "variables"}
    return {**class_metadata(manifest), "status": status}


def _state(manifest: Manifest) -> tuple[object, object]:
    return manifest["metadata"].get("uid"), manifest["metadata"].get("generation")


def _recorded(status: Manifest) -> dict[ObjectId, int]:
    """Return the generations in the status."""
    entries = [one for one in status.get("resources") or [] if isinstance(one, dict)]
    return {
        ObjectId(*(str(one.get(part, "")) for part in ("group", "kind", "namespace", "name"))): one["generation"]
        for one in entries
        if isinstance(one.get("generation"), int)
    }
