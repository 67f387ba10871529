"""Delays the first reports about waiting objects, so that quick changes cause one write."""

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
"""Time by which a report is delayed. Arbitrary."""
FORGET = timedelta(minutes=1)
"""Age of an entry after which its object counts as deleted. Arbitrary, but much longer than ``HOLD``."""


@dataclass(frozen=True, slots=True)
class HeldReports:
    """Delays the first report about a waiting object by a second: until then it changes several times.

    Cluster API, for example, writes a new Cluster some ten times in its first second. ``left`` delays only reports
    about objects that are not ready and have no failure.
    """

    clock: Clock
    _since: dict[ObjectKey, float] = field(default_factory=dict)

    def left(self, patch: StatusPatch, outcome: Outcome, reasons: Collection[str]) -> timedelta | None:
        """Return when to reconcile again instead of reporting now; None to report. ``reasons`` are those to delay."""
        was_ready = condition_view(patch.manifest, READY_CONDITION).true
        if isinstance(outcome, Waiting) and outcome.reason in reasons and not was_ready:
            return self.delay(patch.key)
        self._since.pop(patch.key, None)
        return None

    def delay(self, key: ObjectKey) -> timedelta | None:
        """Return when to look again at an object whose report is delayed; None after ``HOLD``."""
        now = self.clock.monotonic()
        self._forget_deleted(now)
        remaining = self._since.setdefault(key, now) + HOLD.total_seconds() - now
        if remaining > 0:
            return timedelta(seconds=remaining)
        del self._since[key]
        return None

    def _forget_deleted(self, now: float) -> None:
        """Drop expired entries: an object that is deleted while its report is delayed never comes again."""
        for key in [key for key, since in self._since.items() if since + FORGET.total_seconds() < now]:
            del self._since[key]
