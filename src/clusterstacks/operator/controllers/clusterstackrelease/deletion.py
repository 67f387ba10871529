"""Deletes a release: not while a cluster uses it, and not before all of its objects are gone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND, deletion_fault
from clusterstacks.deliver.apply.ownership import is_marked
from clusterstacks.deliver.apply.prune import PruneCandidate, Remover, without_delete
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, PruneResult
from clusterstacks.deliver.apply.results import Deadlines
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    DELETE_FOR_MOVE_ANNOTATION,
    GROUP,
    RELEASE_FINALIZER,
    EventReason,
    Kind,
    Reason,
    ReleaseCondition,
)
from clusterstacks.model.names import parse_class, release_named
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.class_usage import may_have_left, releases_used
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import recorded_objects
from clusterstacks.operator.controllers.status_reconciler import remove_finalizer
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from clusterstacks.deliver.apply.class_object_rules import GroupKind
    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.events import EventRecorder

USERS_SHOWN = 3
"""Clusters that a message names; arbitrary."""

KEPT_SHOWN = 5
"""Objects that an event names, which has room for 1024 characters; arbitrary."""


async def delete_release(
    patch: StatusPatch,
    client: Client,
    access: ClassAccess,
    events: EventRecorder,
    extra_kinds: Collection[GroupKind] = (),
) -> Outcome:
    """Delete the objects of the release and remove its finalizer; an event names objects that are kept.

    ``clusterctl move`` has copied all objects of the release and deletes them itself.
    """
    if RELEASE_FINALIZER not in patch.manifest["metadata"].get("finalizers", []):
        return Settled()
    if not patch.annotation(DELETE_FOR_MOVE_ANNOTATION):
        # An object without the name of a release has no class, so no Cluster uses it.
        name = release_named(patch.key.name)
        users = await _users(patch.manifest, client, access, name) if name else []
        if name and users:
            return Waiting("ClassInUse", _in_use(name, users), timedelta(minutes=1))
        with patch.failing_condition(ReleaseCondition.CHART_APPLIED, Reason.FAILED_TO_DELETE_OBJECTS):
            shared = await _held_by_others(patch.key, client, access)
            listed = recorded_objects(patch.status, patch.key.namespace)
            leaving = [one for one in listed if one.id not in shared]
            results = await delete_class_objects(client, leaving, patch.key.namespace, extra_kinds)
        pending = [
            f"{identity} ({one.reason})" for identity, one in results.items() if one.outcome is PruneOutcome.PENDING
        ]
        if pending:
            patch.status["ready"] = False
            message = f"waiting for {', '.join(pending[:USERS_SHOWN])} to be deleted"
            return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message, timedelta(seconds=2))
        kept = [f"{identity}: {one.reason}" for identity, one in results.items() if one.outcome is PruneOutcome.KEPT]
        if kept:
            await events.record(patch.manifest, "Warning", EventReason.OBJECTS_KEPT, _kept(kept))
    await remove_finalizer(patch, RELEASE_FINALIZER, client)
    return Settled()


async def delete_class_objects(
    client: Client,
    objects: Sequence[RecordedObject],
    namespace: str,
    extra_kinds: Collection[GroupKind] = (),
    deadlines: Deadlines | None = None,
) -> dict[ObjectId, PruneResult]:
    """Delete objects of a class, the ClusterClass first, and wait until they are gone; call again while one is pending.

    The status of a release is only a hint: users who may write it can list any object there. An object is deleted if a
    class in the namespace may contain it and its metadata shows that this operator or the Go operator applied it.

    Raises:
        DependencyError: The server is not available, or rejects our credentials.
    """

    async def look(known: RecordedObject) -> PruneCandidate | PruneResult:
        fault = deletion_fault(known.id, namespace=namespace, extra_kinds=extra_kinds)
        try:
            return PruneResult(PruneOutcome.KEPT, fault) if fault else await _look(client, known)
        except KindNotServed:
            return PruneResult(PruneOutcome.GONE)
        except SpecError as error:
            # No object can have this name; the entry must not block the deletion of the release.
            return PruneResult(PruneOutcome.KEPT, error.message)

    found = await gather(look, objects)
    settled = {known.id: one for known, one in zip(objects, found, strict=True) if isinstance(one, PruneResult)}
    candidates = [one for one in found if isinstance(one, PruneCandidate)]
    return settled | await Remover(client, deadlines or Deadlines()).remove(candidates)


async def _look(client: Client, known: RecordedObject) -> PruneCandidate | PruneResult:
    place = await client.resource(known.id.group, known.id.kind)
    if not place.namespaced:
        return PruneResult(PruneOutcome.KEPT, "its kind is cluster-scoped, which is not allowed in a cluster class")
    live = await client.find(place, known.id.name, known.id.namespace)
    if live is None:
        return PruneResult(PruneOutcome.GONE)
    if settled := without_delete(known, live):
        return settled
    if not is_marked(live):
        reason = "its metadata does not show that this operator or the Go operator applied it"
        return PruneResult(PruneOutcome.KEPT, reason)
    leaving = bool(live["metadata"].get("deletionTimestamp"))
    return PruneCandidate(known.id, place, live["metadata"]["uid"], awaited=True, leaving=leaving)


async def _users(release: Manifest, client: Client, access: ClassAccess, name: ReleaseName) -> list[str]:
    namespace = release["metadata"]["namespace"]
    listed = recorded_objects(release.get("status") or {}, namespace)
    has_images = any((one.id.group, one.id.kind) == IMAGE_KIND for one in listed)
    return await clusters_using(client, name, namespace, access, has_images=has_images)


async def clusters_using(
    client: Client,
    name: ReleaseName,
    namespace: str,
    access: ClassAccess | None = None,
    *,
    has_images: bool = False,
) -> list[str]:
    """Return the Clusters of all namespaces that use the release's class or addons, as ``namespace/name``; read live.

    A Cluster whose class cannot be read is included.

    Args:
        client: The management cluster.
        name: The release.
        namespace: Its namespace.
        access: Leaves out Clusters that were neither admitted with the class nor are offered the release.
        has_images: The release has node images: adds Clusters that may have Machines of it, see ``may_have_left``.
    """
    release = ObjectKey(namespace, name.release)
    clusters = await client.list_readable(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND))
    partial = [one for one in clusters.unreadable if isinstance(one.object.get("spec"), dict)]
    views = [cluster_view(one) for one in (*clusters.items, *(one.object for one in partial))]
    using = [
        str(view.key)
        for view in views
        if release in releases_used(view) and (access is None or await access.counts(view, name))
    ]
    unread = [one for one in clusters.unreadable if one not in partial]
    counted = [one for one in unread if access is None or access.had_class(one.key, release)]
    using += [f"{one.key} (which {one.why})" for one in counted]
    for view in views if has_images else ():
        if may_have_left(view, release) and (access is None or await access.counts(view, parse_class(view.class_name))):
            using.append(f"{view.key} (which still replaces Machines)")
    return using


async def _held_by_others(key: ObjectKey, client: Client, access: ClassAccess) -> set[ObjectId]:
    """Return objects that other releases of the namespace list as well, for example a shared node image.

    Of several releases that are deleted at the same time, the last by name deletes the shared objects.
    """
    releases = await client.list(await client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE), key.namespace)
    held: set[ObjectId] = set()
    for release in releases.items:
        metadata = release["metadata"]
        if metadata["name"] != key.name and (
            "deletionTimestamp" not in metadata
            or metadata["name"] > key.name
            or await _in_use_still(release, client, access)
        ):
            held |= {one.id for one in recorded_objects(release.get("status") or {}, key.namespace)}
    return held


async def _in_use_still(release: Manifest, client: Client, access: ClassAccess) -> bool:
    name = release_named(release["metadata"]["name"])
    return name is not None and bool(await _users(release, client, access, name))


def _kept(objects: list[str]) -> str:
    kept = and_more(objects, KEPT_SHOWN, separator="; ")
    return f"listed in status.resources, but not deleted with the release: {kept}"


def _in_use(name: ReleaseName, users: list[str]) -> str:
    shown = and_more(users, USERS_SHOWN)
    return (
        f"class, addons or images of {name} are still used by Cluster {shown}; the release is deleted when no Cluster "
        "uses them"
    )
