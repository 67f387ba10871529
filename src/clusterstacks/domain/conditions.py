"""Conditions of Cluster API's v1beta1 type, which all our kinds carry as the Go operator's do.

Source of the summary's rule: merge.go of Cluster API's deprecated v1beta1 conditions. Times are passed in; they are
whole seconds in UTC, as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.domain.outcomes import Outcome, Settled, Stalled, Waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from clusterstacks.domain.objects import Manifest

READY = "Ready"
"""The condition that sums up all others of its object."""


class Severity(StrEnum):
    """How bad a False condition is; every other condition has none."""

    NONE = ""
    ERROR = "Error"
    WARNING = "Warning"
    INFO = "Info"


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of an object's state.

    Args:
        type: What it is about, CamelCase; an object has at most one condition of a type.
        status: ``True``, ``False`` or ``Unknown``, as text.
        reason: One CamelCase word for programs; empty when True.
        message: A sentence for people; empty when True.
        severity: Only of a False condition.
        last_transition_time: When the status last changed (RFC 3339); empty until :func:`updated` sets it.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    severity: Severity = Severity.NONE
    last_transition_time: str = ""

    def document(self) -> Manifest:
        """Return the condition as it stands in ``status.conditions``; empty fields are left out."""
        written = {
            "type": self.type,
            "status": self.status,
            "severity": self.severity.value,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.last_transition_time,
        }
        return {key: value for key, value in written.items() if value}


def from_documents(documents: object) -> tuple[Condition, ...]:
    """Read ``status.conditions``; entries without type and status, which no API server stores, are left out."""
    if not isinstance(documents, (list, tuple)):
        return ()
    return tuple(
        _from_document(document)
        for document in documents
        if isinstance(document, Mapping) and _text(document, "type") and _text(document, "status")
    )


def _from_document(document: Mapping[str, object]) -> Condition:
    severity = _text(document, "severity")
    return Condition(
        type=_text(document, "type"),
        status=_text(document, "status"),
        reason=_text(document, "reason"),
        message=_text(document, "message"),
        severity=Severity(severity) if severity in tuple(Severity) else Severity.NONE,
        last_transition_time=_text(document, "lastTransitionTime"),
    )


def _text(document: Mapping[str, object], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def to_documents(conditions: Iterable[Condition]) -> list[Manifest]:
    """Return ``status.conditions`` for the conditions, in their order."""
    return [condition.document() for condition in conditions]


def updated(
    existing: Iterable[Condition], changes: Mapping[str, Condition | None], now: datetime
) -> tuple[Condition, ...]:
    """Set and remove conditions; those of other writers stay as they are.

    Args:
        existing: What the object has.
        changes: The new condition by its type, or None to remove it. Its own transition time does not matter.
        now: The transition time of conditions that are new or whose status changed; others keep theirs.

    Returns:
        The conditions in Cluster API's order: Ready, then by type. An update that changes nothing returns equal ones.
    """
    conditions = {condition.type: condition for condition in existing}
    for kind, change in changes.items():
        if change is None:
            conditions.pop(kind, None)
        else:
            conditions[kind] = _dated(change, conditions.get(kind), now)
    return tuple(sorted(conditions.values(), key=lambda condition: (condition.type != READY, condition.type)))


def _dated(condition: Condition, before: Condition | None, now: datetime) -> Condition:
    if before is not None and before.status == condition.status and before.last_transition_time:
        return replace(condition, last_transition_time=before.last_transition_time)
    return replace(condition, last_transition_time=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def ready_summary(
    existing: Sequence[Condition], outcome: Outcome, now: datetime, *, advisory: Collection[str] = ()
) -> tuple[Condition, ...]:
    """Set Ready to the summary of all other conditions and of what the reconcile ended with.

    The worst condition decides, the first by type among equals: False by severity, then True, then Unknown. Where no
    condition is False an outcome other than settled still makes Ready False, so nothing unfinished looks ready.

    Args:
        existing: All conditions.
        outcome: What the reconcile ended with.
        now: When it ended.
        advisory: Types that do not count: somebody should look at them, and the object works all the same.
    """
    others = [condition for condition in existing if condition.type != READY and condition.type not in advisory]
    return updated(existing, {READY: _summary(others, outcome)}, now)


def _summary(others: Sequence[Condition], outcome: Outcome) -> Condition:
    worst = min(others, key=lambda condition: (_rank(condition), condition.type), default=None)
    if worst is not None and worst.status == "False":
        return replace(worst, type=READY)
    match outcome:
        case Waiting(reason, message):
            return Condition(READY, "False", reason, message, Severity.INFO)
        case Stalled(reason, message):
            return Condition(READY, "False", reason, message, Severity.ERROR)
        case Settled():
            return Condition(READY, "True") if worst is None or worst.status == "True" else replace(worst, type=READY)


def _rank(condition: Condition) -> int:
    if condition.status == "False":
        # A False condition without severity breaks Cluster API's rule: count it among the errors.
        return {Severity.WARNING: 1, Severity.INFO: 2}.get(condition.severity, 0)
    return 3 if condition.status == "True" else 4
