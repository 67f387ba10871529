"""Plans a delivery from its record: what to apply and what to leave alone.

A delivery goes through its record. ``plan_delivery`` lists new and old objects before the first apply,
``record_results`` notes the answers of the server, ``prune_plan.record_after_prune`` drops what is gone. A crash
between any two of them leaves a record from which the next run continues.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from clusterstacks.model.drift_settings import SyncStrategy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from clusterstacks.model.objects import ObjectId


class Mark(NamedTuple):
    """State of a live object, by which a later change is detected cheaply.

    Args:
        generation: Counts changes of the spec; 0 for kinds without generation.
        resource_version: Only for kinds without generation; it changes with every write, also of other fields.
        texts: Digest of the labels and annotations that we sent, as the server returned them.
    """

    generation: int
    resource_version: str
    texts: str


@dataclass(frozen=True, slots=True)
class RecordedObject:
    """Entry of one object in a delivery record.

    Args:
        id: The object.
        version: API version in which it was last applied.
        uid: Empty while the object is only planned.
        digest: Digest of the manifest that was sent; empty while planned.
        mark: State right after the apply.
        kept: Why an object that is no longer rendered is not deleted, in one line of at most ``MAX_KEPT`` characters;
            otherwise empty.
        protected: An annotation of the manifest that was sent forbids its deletion.
    """

    id: ObjectId
    version: str
    uid: str = ""
    digest: str = ""
    mark: Mark | None = None
    kept: str = ""
    protected: bool = False


class DeliveryState(StrEnum):
    """State of a delivery."""

    DELIVERING = "delivering"
    DELIVERED = "delivered"
    """All objects of the revision are in place; objects of earlier revisions may remain."""
    PRUNED = "pruned"
    """Nothing remains to be done."""


@dataclass(frozen=True, slots=True)
class AbandonedRevision:
    """A revision that did not become healthy in time, so that its addon was rolled back.

    Args:
        inputs: Digest of everything that it was rendered from; as long as this is wanted, the addon stays rolled back.
        release: The release it came from.
        returned_to: The release of the healthy revision.
        reason: Why it was abandoned, in one line of at most ``MAX_KEPT`` characters.
    """

    inputs: str
    release: str
    returned_to: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """Record of an addon's delivery to one cluster.

    Args:
        addon: Its name in the release.
        digest: Digest of the rendered revision.
        inputs: Digest of everything that the revision was rendered from.
        state: The state of the delivery.
        objects: The objects of the revision.
        stale: Remaining objects of earlier revisions.
        truncated: The revision itself did not fit into the record.
        cluster: Namespace and name of the Cluster, ``team/prod``; empty in records of early versions.
        abandoned: The revision that this one, which is older, replaced again; None without a rollback.
        basis: Digest of the part of the inputs that only an upgrade changes; empty in records of early versions, and
            after a rollback.
    """

    addon: str
    digest: str
    inputs: str
    state: DeliveryState
    objects: tuple[RecordedObject, ...] = ()
    stale: tuple[RecordedObject, ...] = ()
    truncated: bool = False
    cluster: str = ""
    abandoned: AbandonedRevision | None = None
    basis: str = ""

    @property
    def members(self) -> tuple[RecordedObject, ...]:
        """All objects of the record."""
        return self.objects + self.stale

    def holds(self, digest: str, inputs: str) -> bool:
        """Return whether exactly this revision is in place."""
        return self.state is not DeliveryState.DELIVERING and (self.digest, self.inputs) == (digest, inputs)


def foreign_owners(records: Iterable[DeliveryRecord], cluster: str) -> dict[str, tuple[str, ...]]:
    """Return the addons of other Clusters, by Cluster (``team/prod``).

    A record without a Cluster belongs to the Cluster that reads it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for record in records:
        if record.cluster not in {"", cluster}:
            found[record.cluster] = (*found.get(record.cluster, ()), record.addon)
    return found


@dataclass(frozen=True, slots=True)
class WantedObject:
    """One object of a revision, with the digest of the manifest to send, and whether it forbids its deletion."""

    id: ObjectId
    version: str
    digest: str
    protected: bool = False


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A live member of the addon's ApplySet.

    Args:
        uid: Its uid.
        mark: Its mark, which covers the labels and annotations of the manifest to send.
        applied: Whether an interrupted delivery applied it as it is wanted.
    """

    uid: str
    mark: Mark | None = None
    applied: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """Plan of a delivery: the record to write first, and the objects that need no request."""

    record: DeliveryRecord
    unchanged: frozenset[ObjectId]


def shares_objects(addon: str, records: Mapping[str, DeliveryRecord]) -> bool:
    """Return whether another addon has delivered an object of this one as well, perhaps later.

    An upgrade that moves objects between addons and is reverted half-way leaves two such records.
    """
    mine = {known.id for known in records[addon].objects}
    return any(known.id in mine for name, record in records.items() if name != addon for known in record.objects)


def unrecorded_objects(record: DeliveryRecord, revision: str, wanted: Iterable[WantedObject]) -> set[ObjectId]:
    """Return the objects that an interrupted delivery of the same revision may have applied without a note."""
    if record.state is not DeliveryState.DELIVERING or record.digest != revision:
        return set()
    noted = {(known.id, known.digest) for known in record.objects}
    return {item.id for item in wanted if (item.id, item.digest) not in noted}


def objects_to_read(record: DeliveryRecord, wanted: Iterable[WantedObject]) -> set[ObjectId]:
    """Return the objects whose live state must be read.

    These may be unchanged, or an interrupted delivery may have applied them without a note in the record.
    """
    remembered = {known.id: known for known in record.members}
    looked = {item.id for item in wanted if item.id in remembered and remembered[item.id].digest == item.digest}
    return looked | {known.id for known in record.members if not known.uid}


def plan_delivery(
    record: DeliveryRecord | None,
    target: DeliveryRecord,
    wanted: Sequence[WantedObject],
    seen: Mapping[ObjectId, LiveMember],
    strategy: SyncStrategy = SyncStrategy.CONTINUOUS,
) -> DeliveryPlan:
    """Plan the delivery of a revision.

    Args:
        record: The record of the cluster; None before the first delivery.
        target: Addon, digest and inputs of the revision; its lists are ignored.
        wanted: The objects of the revision.
        seen: Live members among the ``objects_to_read``.
        strategy: When an object that was delivered is written again.
    """
    left = {known.id: known for known in (record.members if record else ())}
    objects = [_continued(left.pop(item.id, RecordedObject(item.id, item.version)), item, seen) for item in wanted]
    unchanged = frozenset(
        item.id
        for item, known in zip(wanted, objects, strict=True)
        if _is_unchanged(item, known, seen.get(item.id), strategy)
    )
    stale = [replace(_adopted(known, seen), kept="") for known in left.values()]
    planned = replace(
        target,
        state=DeliveryState.DELIVERING,
        objects=tuple(objects),
        # An object that was planned but never applied, and is no longer wanted, does not exist.
        stale=tuple(known for known in stale if known.uid),
    )
    return DeliveryPlan(planned, unchanged)


def record_results(plan: DeliveryPlan, delivered: Mapping[ObjectId, RecordedObject]) -> DeliveryRecord:
    """Return the record with the results of the apply.

    Args:
        plan: The plan of the delivery.
        delivered: The applied objects, as the server returned them. An object that is neither here nor unchanged has
            failed: its entry does not change, and the state remains ``delivering``.
    """
    record = plan.record
    objects = with_results(record.objects, delivered)
    if any(known.id not in delivered and known.id not in plan.unchanged for known in objects):
        return replace(record, objects=objects)
    state = DeliveryState.DELIVERED if record.stale else DeliveryState.PRUNED
    return replace(record, objects=objects, state=state)


def with_results(
    objects: Iterable[RecordedObject], delivered: Mapping[ObjectId, RecordedObject]
) -> tuple[RecordedObject, ...]:
    """Return entries of a record with the results of an apply, where there are any."""
    return tuple(replace(delivered.get(known.id, known), protected=known.protected) for known in objects)


def _continued(known: RecordedObject, item: WantedObject, seen: Mapping[ObjectId, LiveMember]) -> RecordedObject:
    """Add what an interrupted delivery did not note in the record."""
    live = seen.get(known.id)
    if live is not None and live.applied:
        return RecordedObject(item.id, item.version, live.uid, item.digest, live.mark, protected=item.protected)
    return replace(_adopted(known, seen), protected=item.protected)


def _adopted(known: RecordedObject, seen: Mapping[ObjectId, LiveMember]) -> RecordedObject:
    """Add the uid of an object that an interrupted delivery applied: only a delivery makes it a member."""
    if known.uid or known.id not in seen:
        return known
    return replace(known, uid=seen[known.id].uid)


def _is_unchanged(item: WantedObject, known: RecordedObject, live: LiveMember | None, strategy: SyncStrategy) -> bool:
    if strategy is SyncStrategy.APPLY_ONCE:
        return known.uid != ""
    if strategy is SyncStrategy.RECONCILE:
        return known.uid != "" and known.digest == item.digest
    return (
        live is not None
        and known.mark is not None
        and (known.digest, known.uid, known.mark) == (item.digest, live.uid, live.mark)
    )


def shared_objects(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> dict[ObjectId, tuple[str, ...]]:
    """Return objects that several addons of the release render; the last delivery wins each time."""
    return {identity: addons for identity, addons in rendering_addons(records, keep).items() if len(addons) > 1}


def record_before_removal(record: DeliveryRecord) -> DeliveryRecord:
    """Return the record to write before an addon is removed: if the addon returns, none of it counts as delivered."""
    return replace(
        record,
        digest="",
        inputs="",
        objects=(),
        stale=record.members,
        state=DeliveryState.DELIVERED,
        truncated=False,
        abandoned=None,
        basis="",
    )


def rendering_addons(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> dict[ObjectId, tuple[str, ...]]:
    """Return the addons of the release that render each object."""
    found: dict[ObjectId, tuple[str, ...]] = defaultdict(tuple)
    for addon, record in sorted(records.items()):
        if addon in keep:
            for known in record.objects:
                found[known.id] += (addon,)
    return dict(found)
