"""Keeps the entry of the running delivery in ``status.history`` during a reconcile."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.documents import mappings
from clusterstacks.model.errors import ClusterStacksError, outcome_of
from clusterstacks.model.kinds.names import Reason
from clusterstacks.model.objects import rfc3339
from clusterstacks.model.outcomes import Outcome, Settled, Stalled
from clusterstacks.operator.controllers.clusteraddon.compat_check import ADVISORY
from clusterstacks.operator.controllers.clusteraddon.delivery_history import (
    CurrentDelivery,
    DeliveryResult,
    removals,
    updated_history,
)
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Occasion, RolloutPlan
from clusterstacks.operator.controllers.resource_list import describe_remaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.deliver.apply.results import PruneReport
    from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.clock import Clock

HISTORY: Final = "history"

_FAILURES: Final = frozenset({Reason.HEALTH_TIMEOUT, Reason.OBJECTS_APPLYING_ONGOING, Reason.WEBHOOK_FAILED})
"""Reasons of a wait that show in the history as a failure."""


@dataclass(slots=True)
class RolloutJournal:
    """Notes what a rollout has changed so far, and its result."""

    installer: AddonInstaller
    before: Target
    """The class and Kubernetes version whose addons the cluster has completely."""
    clock: Clock
    plan: RolloutPlan
    _began: str = field(init=False)
    _history: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        patch = self.installer.patch
        self._began = rfc3339(self.clock.now())
        self._history = _known(patch)

    def reached(self, plan: RolloutPlan) -> None:
        """Note the progress of the stages, from which the next reconcile continues."""
        self.plan = plan
        self.installer.patch.status |= plan.progress.document()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Note an error that the block raises as the result."""
        try:
            yield
        except ClusterStacksError as error:
            self.note(error)
            raise

    def note(self, outcome: Outcome | ClusterStacksError | None = None) -> None:
        """Note the outcome, None while the rollout continues; it is written with the rest of the status."""
        patch, now = self.installer.patch, self.clock.now()
        result, reason, message = DeliveryResult.RUNNING, "", ""
        if isinstance(outcome, Settled):
            result = DeliveryResult.DELIVERED
        elif outcome is not None:
            failed = isinstance(outcome, (ClusterStacksError, Stalled)) or outcome.reason in _FAILURES
            waiting = outcome_of(outcome) if isinstance(outcome, ClusterStacksError) else outcome
            # The same words as in the condition Ready: the entry changes only when Ready does.
            reported = patch.reported(waiting, now, ADVISORY)
            is_rolled_back = not isinstance(waiting, Settled) and waiting.reason == Reason.ROLLED_BACK
            if (failed or is_rolled_back) and not isinstance(reported, Settled):
                result = DeliveryResult.ROLLED_BACK if is_rolled_back else DeliveryResult.FAILED
                reason, message = reported.reason, reported.message
        current = CurrentDelivery(
            plan=self.plan,
            before=self.before,
            began=self._began,
            changes=self.installer.changes,
            objects=sum(self.installer.counts().values()),
            result=result,
            reason=reason,
            message=message,
        )
        updated = updated_history(self._history, current, rfc3339(now))
        if updated != self._history or HISTORY in patch.status:
            patch.status[HISTORY] = updated


def _known(patch: StatusPatch) -> list[dict[str, Any]]:
    """Return the history; while the API server drops the field, an entry must not begin again in each reconcile."""
    return mappings(patch.status if HISTORY in patch.status else patch.pruned, HISTORY)


def note_deletion(patch: StatusPatch, deleted: Target, report: PruneReport, began: str, clock: Clock) -> None:
    """Note that the addons of a Cluster are deleted, or why some of their objects are left."""
    delivery = CurrentDelivery(
        plan=RolloutPlan(Occasion.DELETE, deleted),
        before=deleted,
        began=began,
        changes=removals(report),
        result=DeliveryResult.DELETED if report.complete else DeliveryResult.FAILED,
        reason="" if report.complete else Reason.FAILED_TO_DELETE_OBJECTS,
        message="" if report.complete else describe_remaining(report),
    )
    patch.status[HISTORY] = updated_history(_known(patch), delivery, rfc3339(clock.now()))
