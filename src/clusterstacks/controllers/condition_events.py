"""Events about an object's conditions: one when a condition turns False or its reason changes, one when all is well.

They follow from the status before and after a write, so neither a retry nor a restart repeats any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.names import READY_CONDITION, EventReason, Reason, StackCondition
from clusterstacks.domain.conditions import Condition, Severity, from_documents

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.runtime.events import EventRecorder, EventType

_USUAL = frozenset({Reason.PROCESS_ONGOING, Reason.CONTROL_PLANE_NOT_READY})
"""Reasons every new object passes through: nothing to call anybody for."""

_KNOWN_AS: dict[tuple[str, str], str] = {
    (StackCondition.RELEASE_OBJECTS_SYNCED, Reason.FAILED_TO_CREATE_OR_UPDATE): EventReason.FAILED_TO_CREATE
}
"""Where the Go operator's event has another reason than its condition (INCUMBENT 1.1)."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event to record."""

    type: EventType
    reason: str
    message: str


def announcements(before: Manifest, after: Manifest) -> list[Announcement]:
    """Say what is news in the conditions of an object, as it was read and as it was written."""
    known = {condition.type: condition for condition in _conditions(before)}
    found = []
    for condition in _conditions(after):
        last = known.get(condition.type)
        if condition.type == READY_CONDITION:
            if condition.status == "True" and (last is None or last.status != "True"):
                found.append(Announcement("Normal", EventReason.READY, f"{after['kind']} is ready"))
        elif _is_trouble(condition) and (last is None or (last.status, last.reason) != ("False", condition.reason)):
            reason = _KNOWN_AS.get((condition.type, condition.reason), condition.reason)
            found.append(Announcement("Warning", reason, condition.message))
    return found


async def announce(events: EventRecorder, before: Manifest, after: Manifest) -> None:
    """Record what is news in the conditions."""
    for one in announcements(before, after):
        await events.record(after, one.type, one.reason, one.message)


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    return from_documents((manifest.get("status") or {}).get("conditions"))


def _is_trouble(condition: Condition) -> bool:
    return (
        condition.status == "False"
        and condition.severity is not Severity.INFO
        and condition.reason not in tuple(_USUAL)
    )
