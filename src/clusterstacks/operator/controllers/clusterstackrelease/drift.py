"""Detects objects of a cluster class that were deleted or changed after they were applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import deletion_fault
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.deliver.apply.waves import CLASS_KIND
from clusterstacks.model.documents import and_more, at, mapping, mappings, shown, text
from clusterstacks.model.kinds.clusterapi import is_moving, is_paused
from clusterstacks.model.kinds.names import DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION
from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey, object_id
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import recorded_objects
from clusterstacks.operator.controllers.object_reader import CachedReader
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from clusterstacks.deliver.apply.class_object_rules import GroupKind
    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.repair_pauses import RepairPauses
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.cache import CacheChange, ObjectCache
    from clusterstacks.runtime.informer import Informer

SHOWN_WRITERS = 3
"""Field managers that a message names; arbitrary."""

OBJECT_INDEX = "class object"
"""Index of ClusterStackReleases by the objects that their status lists."""


def listed_objects(release: Manifest) -> list[str]:
    """Return the values of ``OBJECT_INDEX``."""
    return [str(one.id) for one in recorded_objects(release.get("status") or {}, release["metadata"]["namespace"])]


@dataclass(slots=True, kw_only=True)
class DriftDetector:
    """Compares the objects that the status of a release lists with those in the management cluster.

    The kinds are watched (metadata only), so that a settled release costs no request. An object that seems changed in
    the store of an informer is read live, because the store may lag behind our own writes.

    Args:
        client: The management cluster.
        classes: The informer of ClusterClasses.
        releases: The ClusterStackReleases with ``OBJECT_INDEX``.
        watch_kind: Builds and starts an informer of the metadata of a group and kind; called once per kind.
        enqueue: Enqueues a ClusterStackRelease that lists a changed object.
        repairs: The pauses between the repairs of a release.
        extra_kinds: Kinds that a class may contain besides Cluster API's, from ``--class-kinds``.
    """

    client: Client
    classes: Informer
    releases: ObjectCache
    watch_kind: Callable[[str, str], Informer]
    enqueue: Callable[[ObjectKey], None]
    repairs: RepairPauses[ObjectKey]
    extra_kinds: Collection[GroupKind] = ()
    _reader: CachedReader = field(init=False)
    _generations: dict[ObjectKey, dict[ObjectId, int]] = field(default_factory=dict)
    """By release, the generation of each object right after the apply, or when it was first read."""
    _moved: set[ObjectId] = field(default_factory=set)
    """Objects that ``clusterctl move`` has deleted."""

    def __post_init__(self) -> None:
        """Subscribe to changes of classes."""
        self._reader = CachedReader(
            client=self.client,
            informers={CLASS_KIND: self.classes},
            watch_kind=self.watch_kind,
            changed=self._changed,
        )
        self.classes.subscribe(self._changed)

    async def find_changed(self, patch: StatusPatch) -> list[str] | None:
        """Return the objects that differ from what was applied, with what happened to each.

        Returns:
            None while ``clusterctl move`` moves them.

        Raises:
            DependencyError: The API server is not available.
        """
        key = patch.key
        objects = [one for one in recorded_objects(patch.status, key.namespace) if self.may_hold(key, one.id)]
        suspects = [one for one in objects if self._difference(key, one, await self._cached(one.id))]
        if suspects and await self._is_moved({one.id for one in objects}):
            return None
        found = []
        for one in suspects:
            live = await self._read(one.id)
            if difference := self._difference(key, one, live):
                found.append(f"{one.id} {difference}{writers_of(live)}")
        return found

    def cached_class(self, patch: StatusPatch, name: str) -> Manifest | None:
        """Return a class from the cache; None unless the cache has it as it was applied, or newer."""
        key = ObjectKey(patch.key.namespace, name)
        cached = self.classes.cache.get(key) if self.classes.follows(key) else None
        if cached is None:
            return None
        identity = ObjectId(*CLASS_KIND, *key)
        uids = {one.uid for one in recorded_objects(patch.status, key.namespace) if one.id == identity}
        applied = self._generations.get(patch.key, {}).get(identity, 0)
        metadata = cached["metadata"]
        return cached if metadata["uid"] in uids and metadata.get("generation", 0) >= applied else None

    def applied(self, key: ObjectKey, results: Iterable[ObjectResult]) -> None:
        """Record the generations of applied objects."""
        self._generations[key] = {one.id: one.mark.generation for one in results if one.mark and one.mark.generation}

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted release."""
        self._generations.pop(key, None)
        self.repairs.forget(key)
        self._moved = {one for one in self._moved if self.releases.by_index(OBJECT_INDEX, str(one))}

    def may_hold(self, key: ObjectKey, identity: ObjectId) -> bool:
        """Return whether a class may contain the object: users who may write the status can list any object."""
        return not deletion_fault(identity, namespace=key.namespace, extra_kinds=self.extra_kinds)

    def _difference(self, key: ObjectKey, known: RecordedObject, live: Manifest | None) -> str:
        """Return how an object differs from what was applied; without a mark, its first read is the baseline."""
        generations = self._generations.setdefault(key, {})
        if live is not None and known.id not in generations:
            generations[known.id] = known.mark.generation if known.mark else live["metadata"].get("generation", 0)
        return difference_of(known.uid, generations.get(known.id, 0), live)

    async def find_image(self, identity: ObjectId) -> Manifest | None:
        """Return an Image with its status; None if it does not exist, or its kind is not served."""
        try:
            resource = await self.client.resource(identity.group, identity.kind)
        except KindNotServed:
            return None
        return await self._reader.find(resource, identity.name, identity.namespace)

    async def _cached(self, identity: ObjectId) -> Manifest | None:
        informer = await self._reader.informer(identity.group, identity.kind)
        if informer is None:
            return await self._read(identity)
        return informer.cache.get(ObjectKey(identity.namespace, identity.name))

    async def _read(self, identity: ObjectId) -> Manifest | None:
        try:
            resource = await self.client.resource(identity.group, identity.kind)
        except KindNotServed:
            return None
        return await self.client.find_metadata(resource, identity.name, identity.namespace)

    async def _is_moved(self, objects: Collection[ObjectId]) -> bool:
        """Return whether ``clusterctl move`` moves the objects: it pauses the class and marks deleted objects."""
        classes = [one for one in objects if (one.group, one.kind) == CLASS_KIND]
        live = [await self._read(one) for one in classes]
        # A class that is gone was paused as long as the cache has it, and is in _moved afterwards.
        cached = [self.classes.cache.get(ObjectKey(one.namespace, one.name)) for one in classes]
        return not self._moved.isdisjoint(objects) or any(
            one is not None and (is_paused(one) or is_moving(one)) for one in (*live, *cached)
        )

    def _changed(self, change: CacheChange) -> None:
        identity = object_id(change.new or change.old or {})
        if change.new is not None:
            self._moved.discard(identity)
        if change.old is None or (change.new is not None and _state(change.old) == _state(change.new)):
            return
        releases = self.releases.by_index(OBJECT_INDEX, str(identity))
        if releases and change.new is None and is_moving(change.old):
            self._moved.add(identity)
        for release in releases:
            self.enqueue(key_of(release))


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
    annotations = mapping(metadata, "annotations")
    if states := {key: "" for key in (PAUSED_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION) if key in annotations}:
        kept["annotations"] = states
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": kept}


def class_metadata_and_status(manifest: Manifest) -> Manifest:
    """Return also the status, and the Kubernetes versions that a ClusterClass lists.

    The status says whether Cluster API accepts a ClusterClass, and whether an Image is available.
    """
    listed = at(manifest, "spec", "kubernetesVersions")
    spec = {"spec": {"kubernetesVersions": listed}} if listed else {}
    status = {key: value for key, value in (manifest.get("status") or {}).items() if key != "variables"}
    return {**class_metadata(manifest), **spec, "status": status}


def _state(manifest: Manifest) -> tuple[object, ...]:
    """Return what is watched of an object; the status only where it is read, see ``class_metadata_and_status``."""
    return manifest["metadata"].get("uid"), manifest["metadata"].get("generation"), manifest.get("status")
