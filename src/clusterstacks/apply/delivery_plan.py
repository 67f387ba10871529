"""Plans a delivery from its record: what to apply, leave alone, hand over and prune.

A delivery goes through its record. ``plan_delivery`` lists new and old objects before the first apply,
``record_results`` notes the answers of the server, ``record_after_prune`` drops what is gone. A crash between any two
of them leaves a record from which the next run continues.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

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


def shares_objects(addon: str, records: Mapping[str, DeliveryRecord]) -> bool:
    """Tell whether another addon delivered an object of this one, too, perhaps later.

    An upgrade that moves objects between addons and is called off half-way leaves two such records.
    """
    mine = {known.id for known in records[addon].objects}
    return any(known.id in mine for name, record in records.items() if name != addon for known in record.objects)


def objects_to_read(record: DeliveryRecord, wanted: Iterable[WantedObject]) -> set[ObjectId]:
    """Choose the objects whose live state decides something.

    Those that may be unchanged, and those a killed delivery may have applied without noting it.
    """
    remembered = {known.id: known for known in record.members}
    looked = {item.id for item in wanted if item.id in remembered and remembered[item.id].digest == item.digest}
    return looked | {known.id for known in record.members if not known.uid}


def plan_delivery(
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
        seen: Live members among the objects ``objects_to_read``.
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


def record_results(plan: DeliveryPlan, delivered: Mapping[ObjectId, RecordedObject]) -> DeliveryRecord:
    """Note what the server answered.

    Args:
        plan: As ``plan_delivery`` made it.
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


class PruneOutcome(Enum):
    """What became of an object that should go."""

    GONE = "gone"
    """Deleted, or not there (as ours) any more."""
    HANDED_OVER = "handed over"
    KEPT = "kept"
    """Left in the cluster on purpose."""
    PENDING = "pending"
    """Not gone yet: refused, or waiting for a finalizer."""


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The fate of one object, and why; ``reason`` is empty where it was plainly deleted."""

    outcome: PruneOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What to do about one record.

    Args:
        record: The record.
        candidates: Objects to delete if they turn out to be ours still.
        handed_over: Objects that another addon renders now, with its name.
        whole: The release has no such addon any more: the record goes, too.
    """

    record: DeliveryRecord
    candidates: tuple[RecordedObject, ...]
    handed_over: Mapping[ObjectId, str]
    whole: bool


def plan_pruning(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> list[PrunePlan]:
    """Plan what goes, by addon.

    Args:
        records: All readable records of the cluster by addon.
        keep: Addons the release has. One of them that is still being delivered is left out: its old objects may be
            all that works.
    """
    renderers = _renderers(records, keep)
    plans = []
    for addon, record in sorted(records.items()):
        whole = addon not in keep
        if not whole and (record.state is DeliveryState.DELIVERING or not record.stale):
            continue
        leaving = record.members if whole else record.stale
        handed_over = {known.id: renderers[known.id][0] for known in leaving if known.id in renderers}
        candidates = tuple(known for known in leaving if known.id not in handed_over)
        plans.append(PrunePlan(record, candidates, handed_over, whole))
    return plans


def shared_objects(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> dict[ObjectId, tuple[str, ...]]:
    """Find objects that several addons of the release render; the last one to be delivered wins each time."""
    return {identity: addons for identity, addons in _renderers(records, keep).items() if len(addons) > 1}


def record_before_removal(record: DeliveryRecord) -> DeliveryRecord:
    """Return the record of an addon that goes: should the addon come back, nothing of it counts as delivered."""
    return replace(
        record, digest="", inputs="", objects=(), stale=record.members, state=DeliveryState.DELIVERED, truncated=False
    )


def record_after_prune(plan: PrunePlan, results: Mapping[ObjectId, PruneResult]) -> DeliveryRecord | None:
    """Return the record after the prune, or None where nothing is left for it to remember.

    A candidate that ``results`` does not name is still there.
    """
    left = []
    for known in plan.candidates:
        result = results.get(known.id, PruneResult(PruneOutcome.PENDING))
        if result.outcome is PruneOutcome.KEPT:
            left.append(replace(known, kept=_one_line(result.reason)))
        elif result.outcome is PruneOutcome.PENDING:
            left.append(replace(known, kept=""))
    if plan.whole and not left:
        return None
    done = all(known.kept for known in left)
    return replace(
        record_before_removal(plan.record) if plan.whole else plan.record,
        stale=tuple(left),
        state=DeliveryState.PRUNED if done else DeliveryState.DELIVERED,
    )


def _one_line(reason: str) -> str:
    """Shorten a reason to what a record holds; names in it come from the cluster."""
    return "".join(sign if sign.isprintable() else " " for sign in reason[:MAX_KEPT])


def _renderers(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> dict[ObjectId, tuple[str, ...]]:
    found: dict[ObjectId, tuple[str, ...]] = defaultdict(tuple)
    for addon, record in sorted(records.items()):
        if addon in keep:
            for known in record.objects:
                found[known.id] += (addon,)
    return dict(found)
