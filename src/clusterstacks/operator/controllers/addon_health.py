"""Reports the health of the delivered addons in the condition Healthy, and in Ready where a stage waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.kinds.names import READY_CONDITION, AddonCondition, Reason
from clusterstacks.model.objects import rfc3339
from clusterstacks.model.outcomes import Outcome, Settled, Waiting

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.deliver.apply.health import HealthReport
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch


def report_health(patch: StatusPatch, report: HealthReport) -> None:
    """Set the condition Healthy; objects in progress cause no event."""
    if not report.unhealthy:
        patch.true(AddonCondition.HEALTHY)
        return
    reason = Reason.OBJECTS_FAILED if report.failed else Reason.OBJECTS_IN_PROGRESS
    count = f"{len(report.unhealthy)} of {report.objects} objects are not healthy"
    # Every new object is in progress at first, which is not worth an event.
    severity = Severity.WARNING if report.failed else Severity.INFO
    patch.false(AddonCondition.HEALTHY, reason, f"{count}: {report.message}", severity)


def report_unread(patch: StatusPatch, why: str, now: datetime, *conditions: AddonCondition) -> None:
    """Set Healthy and InSync, or one of them, to Unknown, because nothing reads or compares the objects any more.

    The message says since when; a condition that the ClusterAddon does not have is not set.
    """
    for condition in conditions or (AddonCondition.HEALTHY, AddonCondition.IN_SYNC):
        before = patch.condition(condition)
        if before is not None:
            since = before.last_transition_time if before.status == "Unknown" else ""
            reason = Reason.HEALTH_UNKNOWN if condition is AddonCondition.HEALTHY else Reason.DRIFT_UNKNOWN
            patch.unknown(condition, reason, f"not compared since {since or rfc3339(now)}: {why}")


def outcome_of_health(patch: StatusPatch, outcome: Outcome, report: HealthReport | None) -> Outcome:
    """Return the outcome of a settled cluster with the health that its class asks for.

    Only addons with ``waitFor: Healthy`` count. ``patch`` has the condition Healthy; ``report`` is the health of all
    addons, None before the first report: then nothing changes.
    """
    waited = {text(addon, "name") for addon in mappings(patch.status, "addons") if text(addon, "waitFor")}
    if not waited or not isinstance(outcome, Settled):
        return outcome
    if report is None:
        if at(patch.manifest, "status", "ready") is True:
            return outcome
        before = patch.condition(READY_CONDITION)
        if before is not None and before.reason in _HEALTH_REASONS:
            return Waiting(before.reason, before.message, None)
        return Waiting(Reason.HEALTH_UNKNOWN, "the health of the addons has not been read yet", None)
    unhealthy = report.of_addons(waited)
    if not unhealthy.unhealthy:
        return outcome
    reason = Reason.OBJECTS_FAILED if unhealthy.failed else Reason.OBJECTS_IN_PROGRESS
    return Waiting(reason, f"addons of a stage with waitFor: Healthy are not healthy: {unhealthy.message}", None)


_HEALTH_REASONS: Final = frozenset(
    {Reason.HEALTH_TIMEOUT, Reason.HEALTH_UNKNOWN, Reason.OBJECTS_FAILED, Reason.OBJECTS_IN_PROGRESS}
)
