"""Checks whether a prune would find work, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.prune_plan import plan_pruning

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord


def needs_pruning(records: Mapping[str, DeliveryRecord], keep: Collection[str]) -> bool:
    """Return whether a prune would find objects that are neither rendered nor kept on purpose."""
    for plan in plan_pruning(records, keep):
        if plan.handed_over or not plan.candidates or any(not known.kept for known in plan.candidates):
            return True
    return False
