"""What was delivered to a cluster, and what follows from it: what to apply, leave alone, hand over and prune.

A delivery goes through its record: *begin* lists new and old objects before the first apply, *finish* notes what the
server answered, *prune* forgets what is gone. A crash between any two of them leaves a record from which the next run
goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.domain.objects import ObjectId

MAX_KEPT = 1024
"""Characters of a reason that a record keeps (arbitrary: a few names of objects)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells cheaply that somebody changed an object.

    Args:
        generation: Counts the changes of its specification; 0 for kinds that do not count.
        resource_version: Only for those kinds: changes with every write, so a changed one may be a false alarm.
        texts: Digest of the labels and annotations we sent, as they were seen back.
    """

    generation: int
    resource_version: str
    texts: str


@dataclass(frozen=True, slots=True)
class RecordedObject:
    """One object as a record remembers it.

    Args:
        id: The object.
        version: API version it was last applied in.
        uid: Empty while the object is only planned.
        digest: Of what we sent; empty while planned.
        mark: Seen right after the apply.
        kept: Why an object that is rendered no longer is not deleted, one line of at most ``MAX_KEPT`` characters; else
            empty.
    """

    id: ObjectId
    version: str
    uid: str = ""
    digest: str = ""
    mark: Mark | None = None
    kept: str = ""


class DeliveryState(StrEnum):
    """How far a delivery is."""

    DELIVERING = "delivering"
    DELIVERED = "delivered"
    """Every object of the revision is in place; objects of earlier ones may be left."""
    PRUNED = "pruned"
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """The memory of an addon's deliveries to one cluster.

    Args:
        addon: Its name in the release.
        digest: Of the rendered revision.
        inputs: Digest of everything the revision was rendered from.
        state: How far the delivery is.
        objects: What the revision holds.
        stale: What earlier revisions left behind.
        truncated: The revision itself did not fit into the record.
        cluster: Namespace and name of the Cluster whose addons these are, ``team/prod``; empty in records of versions
            that did not note it.
    """

    addon: str
    digest: str
    inputs: str
    state: DeliveryState
    objects: tuple[RecordedObject, ...] = ()
    stale: tuple[RecordedObject, ...] = ()
    truncated: bool = False
    cluster: str = ""

    @property
    def members(self) -> tuple[RecordedObject, ...]:
        """Everything the record lists."""
        return self.objects + self.stale

    def holds(self, digest: str, inputs: str) -> bool:
        """Tell whether exactly this revision is in place."""
        return self.state is not DeliveryState.DELIVERING and (self.digest, self.inputs) == (digest, inputs)


def foreign_owners(records: Iterable[DeliveryRecord], cluster: str) -> dict[str, tuple[str, ...]]:
    """Find the records of other Clusters: the addons by the Cluster (``team/prod``) that delivered them.

    A record that names no Cluster belongs to the one that reads it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for record in records:
        if record.cluster not in {"", cluster}:
            found[record.cluster] = (*found.get(record.cluster, ()), record.addon)
    return found


@dataclass(frozen=True, slots=True)
class WantedObject:
    """One object of a revision: the digest is that of what will be sent."""

    id: ObjectId
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A live member of the addon's ApplySet; the mark counts the texts of the manifest that is to be sent."""

    uid: str
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """What a delivery starts with: the record to write first, and the objects that need no request."""

    record: DeliveryRecord
    unchanged: frozenset[ObjectId]


def is_taken(addon: str, records: Mapping[str, DeliveryRecord]) -> bool:
    """Tell whether another addon delivered an object of this one, too, perhaps later.

    An upgrade that moves objects between addons and is called off half-way leaves two such records.
    """
    mine = {known.id for known in records[addon].objects}
    return any(known.id in mine for name, record in records.items() if name != addon for known in record.objects)


def worth_a_look(record: DeliveryRecord, wanted: Iterable[WantedObject]) -> set[ObjectId]:
    """Choose the objects whose live state decides something.

    Those that may be unchanged, and those a killed delivery may have applied without noting it.
    """
    remembered = {known.id: known for known in record.members}
    looked = {item.id for item in wanted if item.id in remembered and remembered[item.id].digest == item.digest}
    return looked | {known.id for known in record.members if not known.uid}


def begin(
    record: DeliveryRecord | None,
    target: DeliveryRecord,
    wanted: Sequence[WantedObject],
    seen: Mapping[ObjectId, LiveMember],
) -> DeliveryPlan:
    """Plan the delivery of a revision.

    Args:
        record: What the cluster holds; None before the first delivery.
        target: Names addon, digest and inputs of the revision; its lists do not count.
        wanted: The objects of the revision.
        seen: Live members among the objects ``worth_a_look``.
    """
    left = {known.id: known for known in (record.members if record else ())}
    objects = [_adopted(left.pop(item.id, RecordedObject(item.id, item.version)), seen) for item in wanted]
    unchanged = frozenset(
        item.id for item, known in zip(wanted, objects, strict=True) if _is_unchanged(item, known, seen.get(item.id))
    )
    stale = [replace(_adopted(known, seen), kept="") for known in left.values()]
    planned = replace(
        target,
        state=DeliveryState.DELIVERING,
        objects=tuple(objects),
        # What was planned, never applied and is wanted no more has left no trace.
        stale=tuple(known for known in stale if known.uid),
    )
    return DeliveryPlan(planned, unchanged)


def finish(plan: DeliveryPlan, delivered: Mapping[ObjectId, RecordedObject]) -> DeliveryRecord:
    """Note what the server answered.

    Args:
        plan: As ``begin`` made it.
        delivered: The objects that were applied, as they were seen back. An object that is missing here and is not
            unchanged has failed: it keeps what the record knew of it, and the state stays ``delivering``.
    """
    record = plan.record
    objects = tuple(delivered.get(known.id, known) for known in record.objects)
    if any(known.id not in delivered and known.id not in plan.unchanged for known in objects):
        return replace(record, objects=objects)
    state = DeliveryState.DELIVERED if record.stale else DeliveryState.PRUNED
    return replace(record, objects=objects, state=state)


def _adopted(known: RecordedObject, seen: Mapping[ObjectId, LiveMember]) -> RecordedObject:
    """A killed delivery applied it: it is a member and nothing else could have made it one."""
    if known.uid or known.id not in seen:
        return known
    return replace(known, uid=seen[known.id].uid)


def _is_unchanged(item: WantedObject, known: RecordedObject, live: LiveMember | None) -> bool:
    return (
        live is not None
        and known.mark is not None
        and (known.digest, known.uid, known.mark) == (item.digest, live.uid, live.mark)
    )
