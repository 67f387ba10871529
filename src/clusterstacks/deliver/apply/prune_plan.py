"""Plans which objects of a delivery record to delete, hand over or keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.model.objects import ObjectId
from clusterstacks.deliver.apply.delivery_plan import (
    DeliveryRecord,
    DeliveryState,
    RecordedObject,
    record_before_removal,
    rendering_addons,
)

MAX_KEPT = 1024
"""Characters of a reason in a record (arbitrary: a few names of objects)."""


class PruneOutcome(Enum):
    """Outcome of pruning one object."""

    GONE = "gone"
    """Deleted, or no longer there as our object."""
    HANDED_OVER = "handed over"
    KEPT = "kept"
    """Kept in the cluster on purpose."""
    PENDING = "pending"
    """Not deleted yet: rejected, or waiting for a finalizer."""


@dataclass(frozen=True, slots=True)
class PruneResult:
    """Outcome of one object with the reason, which is empty for a plain deletion."""

    outcome: PruneOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """Plan of the prune of one record.

    Args:
        candidates: Objects to delete if they are still ours.
        handed_over: Objects that another addon renders now, with its name.
        whole: The release no longer has the addon: its record is deleted as well.
    """

    record: DeliveryRecord
    candidates: tuple[RecordedObject, ...]
    handed_over: Mapping[ObjectId, str]
    whole: bool


def plan_pruning(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> list[PrunePlan]:
    """Plan the prune of each addon. Only objects in a record are deleted; those of another addon are handed over to it.

    Args:
        records: All readable records of the cluster, by addon.
        keep: The addons of the release. An addon whose delivery is not complete is not pruned: perhaps only its old
            objects work.
    """
    renderers = rendering_addons(records, keep)
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


def record_after_prune(plan: PrunePlan, results: Mapping[ObjectId, PruneResult]) -> DeliveryRecord | None:
    """Return the record after the prune, or None when it is empty.

    A candidate that is missing in ``results`` still exists.
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
    """Shorten a reason to one line for a record; names in it come from the cluster."""
    return "".join(sign if sign.isprintable() else " " for sign in reason[:MAX_KEPT])
