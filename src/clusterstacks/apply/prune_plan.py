"""What leaves a cluster after a delivery: what no addon renders any more, and nothing else.

Only what a record lists is considered; what another addon renders now is handed over to it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from clusterstacks.apply.delivery_plan import MAX_KEPT, DeliveryRecord, DeliveryState, RecordedObject

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.domain.objects import ObjectId


class Fate(Enum):
    """What became of an object that should go."""

    GONE = "gone"
    """Deleted, or not there (as ours) any more."""
    HANDED_OVER = "handed over"
    KEPT = "kept"
    """Left in the cluster on purpose."""
    PENDING = "pending"
    """Not gone yet: refused, or waiting for a finalizer."""


@dataclass(frozen=True, slots=True)
class Departure:
    """The fate of one object, and why; ``reason`` is empty where it was plainly deleted."""

    fate: Fate
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


def withdrawn(record: DeliveryRecord) -> DeliveryRecord:
    """Return the record of an addon that goes: should the addon come back, nothing of it counts as delivered."""
    return replace(
        record, digest="", inputs="", objects=(), stale=record.members, state=DeliveryState.DELIVERED, truncated=False
    )


def pruned(plan: PrunePlan, departures: Mapping[ObjectId, Departure]) -> DeliveryRecord | None:
    """Return the record after the prune, or None where nothing is left for it to remember.

    A candidate that ``departures`` does not name is still there.
    """
    left = []
    for known in plan.candidates:
        departure = departures.get(known.id, Departure(Fate.PENDING))
        if departure.fate is Fate.KEPT:
            left.append(replace(known, kept=_one_line(departure.reason)))
        elif departure.fate is Fate.PENDING:
            left.append(replace(known, kept=""))
    if plan.whole and not left:
        return None
    done = all(known.kept for known in left)
    return replace(
        withdrawn(plan.record) if plan.whole else plan.record,
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
