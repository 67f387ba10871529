"""Holds the first reports about waiting objects back, so that quick changes cause one write."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import READY_CONDITION
from clusterstacks.model.outcomes import Outcome, Waiting

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.clock import Clock

HOLD = timedelta(seconds=1)
"""Time for which a report is held back. Arbitrary."""
FORGET = timedelta(minutes=1)
"""Age of an entry after which its object is taken as deleted. Arbitrary, but much longer than a report is held back."""


@dataclass(frozen=True, slots=True)
class HeldReports:
    """Holds the first report about an object that waits back for a second: until then it changes several times.

    Cluster API, for example, writes a new Cluster some ten times in its first second. ``left`` holds back only reports
    about objects that are not ready and have no failure.
    """

    clock: Clock
    _since: dict[ObjectKey, float] = field(default_factory=dict)

    def left(self, patch: StatusPatch, outcome: Outcome, reasons: Collection[str]) -> timedelta | None:
        """Return when to reconcile again instead of reporting now; None to report.

        Args:
            patch: The object.
            outcome: What would be reported.
            reasons: The reasons of a wait that is held back.
        """
        was_ready = condition_view(patch.manifest, READY_CONDITION).true
        if isinstance(outcome, Waiting) and outcome.reason in reasons and not was_ready:
            return self.delay(patch.key)
        self._since.pop(patch.key, None)
        return None

    def delay(self, key: ObjectKey) -> timedelta | None:
        """Return when to look again at an object whose report is held back; None once that took a second."""
        now = self.clock.monotonic()
        self._forget_deleted(now)
        left = self._since.setdefault(key, now) + HOLD.total_seconds() - now
        if left > 0:
            return timedelta(seconds=left)
        del self._since[key]
        return None

    def _forget_deleted(self, now: float) -> None:
        """Drop entries that are over: an object that is deleted while its report is held back never comes again."""
        for key in [key for key, since in self._since.items() if since + FORGET.total_seconds() < now]:
            del self._since[key]
