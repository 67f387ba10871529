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
    """An object that was restored, and when (RFC 3339)."""

    object: DriftedObject
    at: str


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Drift of the objects of a cluster.

    Args:
        open: Objects that differ now, and those whose corrections another writer reverts.
        corrections: The last corrections, newest first.
        contested: The objects whose corrections another writer reverts.
    """

    REMEMBERED: ClassVar[int] = LISTED

    open: tuple[DriftedObject, ...]
    corrections: tuple[Correction, ...] = ()
    contested: frozenset[ObjectId] = frozenset()


def report_drift(
    patch: StatusPatch, settings: DriftSettings, report: DriftReport | None, failure: str, now: datetime
) -> None:
    """Set the condition InSync and ``status.drift``, and announce corrections.

    Args:
        patch: The ClusterAddon.
        settings: The settings of its cluster.
        report: The last report; None before the first one.
        failure: Why the objects were not compared; empty when they were.
        now: Time of the reconcile.
    """
    if settings.interval is None and report is None:
        patch.drop(AddonCondition.IN_SYNC)
        return
    if failure:
        patch.unknown(AddonCondition.IN_SYNC, Reason.DRIFT_UNKNOWN, failure)
        return
    if report is None:
        return
    if report.open:
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
    known = [(_key(one), one.get("change"), one.get("correctedAt")) for one in before]
    news = [
        one
        for one in report.corrections
        if (_key(_entry(one.object, "", one.at)), one.object.change, one.at) not in known
    ]
    if news:
        listed = and_more([str(one.object) for one in news], SHOWN_OBJECTS, separator="; ", noun="objects")
        patch.announce(patch.manifest, "Normal", EventReason.DRIFT_CORRECTED, f"corrected: {listed}")


def drift_entries(before: list[Manifest], report: DriftReport, now: str) -> list[Manifest]:
    """Return ``status.drift``: objects that differ now, then the last corrections.

    Args:
        before: The entries as they were read; corrections before a restart stay, also the times of open entries.
        report: The report.
        now: Time of new entries.
    """
    since = {_key(one): str(one.get("since", now)) for one in before if not one.get("correctedAt")}
    still_open = [_entry(one, "", "") for one in report.open]
    entries = [{**one, "since": since.get(_key(one), now)} for one in still_open]
    corrected = [_entry(one.object, one.at, one.at) for one in report.corrections]
    known = {(_key(one), one["correctedAt"]) for one in corrected}
    older = [one for one in before if one.get("correctedAt") and (_key(one), one["correctedAt"]) not in known]
    return [*entries, *corrected, *older][:LISTED]


def _described(report: DriftReport, settings: DriftSettings) -> str:
    first = sorted(report.open, key=lambda one: (one.id not in report.contested, one.id))
    named = and_more([str(one) for one in first], SHOWN_OBJECTS, separator="; ", noun="objects")
    message = f"{len(report.open)} objects differ from what was delivered: {named}"
    if report.contested:
        return (
            f"{message}; another writer reverts the corrections, which are repeated at growing intervals up to 1 h: "
            "stop it, remove the fields from the chart, or add them to spec.drift.ignoreDifferences of the ClusterStack"
        )
    if settings.mode is DriftMode.WARN:
        return f"{message}; spec.drift.mode of the ClusterStack is Warn, so they are not corrected"
    return message


def _entry(one: DriftedObject, since: str, corrected: str) -> Manifest:
    managers = sorted({manager for changed in one.fields for manager in changed.managers})
    return DriftEntry(
        group=one.id.group,
        kind=one.id.kind,
        namespace=one.id.namespace,
        name=one.id.name,
        addon=one.addon,
        change=one.change,
        fields=tuple(changed.path for changed in one.fields),
        managers=tuple(managers),
        since=since,
        corrected_at=corrected,
        error=one_line(one.error),
    ).document()


def _key(entry: Manifest) -> tuple[object, ...]:
    return tuple(entry.get(part, "") for part in ("group", "kind", "namespace", "name"))
