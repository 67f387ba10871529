"""Finds the objects that need attention, for metrics and alerts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import HoldState, read_hold
from clusterstacks.runtime.object_problem_metrics import NOT_READY, ObjectProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.model.objects import Manifest

UPGRADE_HELD: Final = "UpgradeHeld"
"""The problem of a ClusterAddon that holds the upgrade of its Cluster."""

_CONDITIONS: Final = (NOT_READY, AddonCondition.HEALTHY, AddonCondition.IN_SYNC, AddonCondition.WITHIN_RANGES)

_LEFT: Final = (Reason.ADDONS_DELETED, Reason.ADDONS_ORPHANED)
"""Reasons of ClusterAddons whose Clusters left their cluster stack: no action is needed."""

PROBLEMS: Final = (*_CONDITIONS, UPGRADE_HELD)


def find_problems(objects: Iterable[Manifest]) -> Iterator[ObjectProblem]:
    """Yield the problems of objects; an object without the condition Ready is not ready since its creation."""
    for manifest in objects:
        status = mapping(manifest, "status")
        conditions = {
            condition["type"]: condition
            for condition in mappings(status, "conditions")
            if condition.get("type") in _CONDITIONS
        }
        if text(conditions.get(NOT_READY, {}), "reason") in _LEFT:
            continue
        if NOT_READY not in conditions:
            yield _problem(manifest, NOT_READY, "NoStatus", at(manifest, "metadata", "creationTimestamp"))
        for kind in _CONDITIONS:
            condition = conditions.get(kind)
            if condition is not None and condition.get("status") != "True":
                yield _problem(manifest, kind, text(condition, "reason"), condition.get("lastTransitionTime"))
        hold = read_hold(status)
        if hold is not None and hold.state is HoldState.HELD:
            yield _problem(manifest, UPGRADE_HELD, hold.state, hold.since)


def _problem(manifest: Manifest, problem: str, reason: str, since: object) -> ObjectProblem:
    metadata = mapping(manifest, "metadata")
    return ObjectProblem(text(metadata, "namespace"), text(metadata, "name"), problem, reason, _seconds(since))


def _seconds(timestamp: object) -> float:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return 0.0
