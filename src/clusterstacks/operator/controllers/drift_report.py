"""Reports drifted objects in the condition InSync, in ``status.drift`` and in events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from clusterstacks.deliver.apply.live_fields import one_line
from clusterstacks.model.documents import and_more, mappings
from clusterstacks.model.drift_settings import DriftMode
from clusterstacks.model.kinds.clusteraddon import DriftEntry
from clusterstacks.model.kinds.names import AddonCondition, EventReason, Reason
from clusterstacks.model.objects import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.deliver.apply.drift_rules import DriftedObject
    from clusterstacks.model.drift_settings import DriftSettings
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch

SHOWN_OBJECTS: Final = 3
"""Objects that a message names (arbitrary)."""

LISTED: Final = 20
"""Entries of ``status.drift`` (arbitrary: the message of the condition has the number of all)."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A restored object, and the time (RFC 3339)."""

    object: DriftedObject
    at: str


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Drift of the objects of a cluster."""

    REMEMBERED: ClassVar[int] = LISTED

    open: tuple[DriftedObject, ...]
    """Objects that differ now, and those whose corrections another writer reverts."""
    corrections: tuple[Correction, ...] = ()
    """The last corrections, newest first."""
    contested: frozenset[ObjectId] = frozenset()
    """The objects whose corrections another writer reverts."""
    lost: tuple[str, ...] = ()
    """Why addons are delivered again: without the records of their deliveries nothing is known about their objects."""


def report_drift(
    patch: StatusPatch, settings: DriftSettings, report: DriftReport | None, failure: str, now: datetime
) -> None:
    """Set the condition InSync and ``status.drift``, and announce corrections.

    ``report`` is None before the first comparison; ``failure`` says why the objects were not compared, empty when they
    were.
    """
    if settings.interval is None and report is None:
        patch.drop(AddonCondition.IN_SYNC)
        return
    if failure:
        patch.unknown(AddonCondition.IN_SYNC, Reason.DRIFT_UNKNOWN, failure)
        return
    if report is None:
        return
    if report.lost:
        patch.false(AddonCondition.IN_SYNC, Reason.RECORD_MISSING, and_more(report.lost, SHOWN_OBJECTS, separator="; "))
    elif report.open:
        reason = Reason.CORRECTIONS_REVERTED if report.contested else Reason.OBJECTS_CHANGED
        message = "; ".join(filter(None, (_described(report, settings), settings.complaint)))
        patch.false(AddonCondition.IN_SYNC, reason, message)
    elif settings.complaint:
        patch.true(AddonCondition.IN_SYNC, Reason.INVALID_INTERVAL, settings.complaint)
    else:
        patch.true(AddonCondition.IN_SYNC)
    before = mappings(patch.manifest, "status", "drift")
    entries = drift_entries(before, report, rfc3339(now))
    if entries or "drift" in patch.status:
        patch.status["drift"] = entries
    # A time has seconds only: within one, an object may be changed, corrected, deleted and corrected again.
    known = [(_key(entry), entry.get("change"), entry.get("correctedAt")) for entry in before]
    news = [
        correction
        for correction in report.corrections
        if (_key(_entry(correction.object, "", correction.at)), correction.object.change, correction.at) not in known
    ]
    if news:
        listed = and_more(
            [str(correction.object) for correction in news], SHOWN_OBJECTS, separator="; ", noun="objects"
        )
        patch.announce(patch.manifest, "Normal", EventReason.DRIFT_CORRECTED, f"corrected: {listed}")


def drift_entries(before: list[Manifest], report: DriftReport, now: str) -> list[Manifest]:
    """Return ``status.drift``: objects that differ now, then the last corrections.

    Entries of ``before`` keep their times, and corrections before a restart stay; ``now`` is for new entries.
    """
    since = {_key(entry): str(entry.get("since", now)) for entry in before if not entry.get("correctedAt")}
    still_open = [_entry(drifted, "", "") for drifted in report.open]
    entries = [{**entry, "since": since.get(_key(entry), now)} for entry in still_open]
    corrected = [_entry(correction.object, correction.at, correction.at) for correction in report.corrections]
    known = {(_key(entry), entry["correctedAt"]) for entry in corrected}
    older = [entry for entry in before if entry.get("correctedAt") and (_key(entry), entry["correctedAt"]) not in known]
    return [*entries, *corrected, *older][:LISTED]


def _described(report: DriftReport, settings: DriftSettings) -> str:
    first = sorted(report.open, key=lambda drifted: (drifted.id not in report.contested, drifted.id))
    named = and_more([str(drifted) for drifted in first], SHOWN_OBJECTS, separator="; ", noun="objects")
    message = f"{len(report.open)} objects differ from what was delivered: {named}"
    if report.contested:
        return (
            f"{message}; another writer reverts the corrections, which are repeated at growing intervals up to 1 h: "
            "stop it, remove the fields from what is delivered, or add them to spec.drift.ignoreDifferences of "
            f"{settings.owner}"
        )
    if settings.mode is DriftMode.WARN:
        why = settings.warns_because or f"spec.drift.mode of {settings.owner} is Warn"
        return f"{message}; {why}, so they are not corrected"
    return message


def _entry(drifted: DriftedObject, since: str, corrected: str) -> Manifest:
    managers = sorted({manager for changed in drifted.fields for manager in changed.managers})
    return DriftEntry(
        group=drifted.id.group,
        kind=drifted.id.kind,
        namespace=drifted.id.namespace,
        name=drifted.id.name,
        addon=drifted.addon,
        change=drifted.change,
        fields=tuple(changed.path for changed in drifted.fields),
        managers=tuple(managers),
        since=since,
        corrected_at=corrected,
        error=one_line(drifted.error),
    ).document()


def _key(entry: Manifest) -> tuple[object, ...]:
    return tuple(entry.get(part, "") for part in ("group", "kind", "namespace", "name"))
