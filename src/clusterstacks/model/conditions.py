"""Conditions of Cluster API's v1beta1 type, as in the kinds of the Go operator.

Source of the summary's rules: merge.go of Cluster API's deprecated v1beta1 conditions. Times are passed in; they are
whole seconds in UTC, as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.model.objects import rfc3339
from clusterstacks.model.outcomes import Outcome, Settled, Stalled, Waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from clusterstacks.model.objects import Manifest

READY = "Ready"
"""The condition that summarizes all others of its object."""


class Severity(StrEnum):
    """Severity of a False condition; other conditions have none."""

    NONE = ""
    ERROR = "Error"
    WARNING = "Warning"
    INFO = "Info"


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of an object's state; an object has at most one condition of a type."""

    type: str
    status: str
    """``True``, ``False`` or ``Unknown``, as text."""
    reason: str = ""
    """CamelCase, for programs; :func:`updated` replaces an empty one by the type."""
    message: str = ""
    severity: Severity = Severity.NONE
    last_transition_time: str = ""
    """When the status last changed (RFC 3339); empty until :func:`updated` sets it."""

    def document(self) -> Manifest:
        """Return the entry of ``status.conditions``, without empty fields."""
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
    """Parse ``status.conditions``; entries without type or status, which API servers do not store, are skipped."""
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
    """Return ``status.conditions`` for the conditions, in the given order."""
    return [condition.document() for condition in conditions]


def updated(
    existing: Iterable[Condition], changes: Mapping[str, Condition | None], now: datetime
) -> tuple[Condition, ...]:
    """Set conditions by type, or remove them (None); those of other writers are kept.

    ``now`` is the transition time of new conditions and of those with a changed status; a time in ``changes`` is
    ignored. The result has Cluster API's order: Ready, then by type. It equals ``existing`` if nothing changes.
    """
    conditions = {condition.type: condition for condition in existing}
    for kind, change in changes.items():
        if change is None:
            conditions.pop(kind, None)
        else:
            conditions[kind] = _dated(change, conditions.get(kind), now)
    return tuple(sorted(conditions.values(), key=lambda condition: (condition.type != READY, condition.type)))


def _dated(condition: Condition, before: Condition | None, now: datetime) -> Condition:
    since = rfc3339(now)
    if before is not None and before.status == condition.status and before.last_transition_time:
        since = before.last_transition_time
    return replace(condition, reason=condition.reason or condition.type, last_transition_time=since)


def ready_summary(
    existing: Sequence[Condition],
    outcome: Outcome,
    now: datetime,
    *,
    advisory: Collection[str] = (),
    message: str = "",
) -> tuple[Condition, ...]:
    """Set Ready to the summary of all other conditions and of the outcome.

    The worst condition decides, the first by type among equals: False by severity, then True, then Unknown. Without a
    False condition, an outcome other than settled makes Ready False, so unfinished work never looks ready. ``advisory``
    types do not count, because the object works in spite of them. ``message`` is that of Ready when it is True.
    """
    others = [condition for condition in existing if condition.type != READY and condition.type not in advisory]
    return updated(existing, {READY: _summary(others, outcome, message)}, now)


def _summary(others: Sequence[Condition], outcome: Outcome, message: str) -> Condition:
    worst = min(others, key=lambda condition: (_rank(condition), condition.type), default=None)
    if worst is not None and worst.status == "False":
        return replace(worst, type=READY)
    match outcome:
        case Waiting(reason, message):
            return Condition(READY, "False", reason, message, Severity.INFO)
        case Stalled(reason, message):
            return Condition(READY, "False", reason, message, Severity.ERROR)
        case Settled():
            if worst is None or worst.status == "True":
                return Condition(READY, "True", message=message)
            return replace(worst, type=READY)


def _rank(condition: Condition) -> int:
    if condition.status == "False":
        # A False condition without severity violates Cluster API's rules: it counts as an error.
        return {Severity.WARNING: 1, Severity.INFO: 2}.get(condition.severity, 0)
    return 3 if condition.status == "True" else 4
