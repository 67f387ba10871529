"""Reports the state of the addons during one reconcile: on the Cluster, and in the conditions that go with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import at
from clusterstacks.model.errors import outcome_of
from clusterstacks.model.kinds.addon_annotations import annotations_digest
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import (
    ADDONS_HEALTHY_CONDITION,
    ADDONS_IN_SYNC_CONDITION,
    ADDONS_READY_CONDITION,
    CLUSTER_API_GROUP,
    WITHIN_RANGES_CONDITION,
    AddonCondition,
    EventReason,
    Reason,
)
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.clusteraddon.compat_check import ADVISORY
from clusterstacks.operator.controllers.clusteraddon.hold_review import recorded_target, wanted_target
from clusterstacks.operator.controllers.clusteraddon.mirrored_conditions import mirror
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import NO_TARGET, read_progress
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import HoldState, read_hold
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from clusterstacks.model.conditions import Condition
    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.clock import Clock


@dataclass(slots=True, kw_only=True)
class ClusterReport:
    """The report of one reconcile about the addons of a Cluster, which ``snapshot`` has as it was at the beginning."""

    client: Client
    cached_reads: CachedReader
    clock: Clock
    patch: StatusPatch
    snapshot: ClusterSnapshot
    cluster: Manifest = field(init=False)
    """The Cluster as this reconcile wrote it last."""

    def __post_init__(self) -> None:
        self.cluster = self.snapshot.cluster.raw

    @property
    def was_ready(self) -> bool:
        """True if the status as it was read says that the addons of the class are delivered."""
        return bool(at(self.patch.manifest, "status", "ready"))

    @property
    def is_of_earlier_class(self) -> bool:
        """True if the ClusterAddon or the Cluster still says that the addons of an earlier class are delivered."""
        recorded, wanted = recorded_target(self.patch, self.snapshot), wanted_target(self.snapshot)
        is_reported = condition_view(self.cluster, ADDONS_READY_CONDITION).true
        return not recorded.is_same(wanted) and (is_reported or self.was_ready)

    async def begin(self, *, is_noted: bool = False) -> None:
        """Withdraw the conditions of the earlier class before anything changes: users wait for conditions.

        ``is_noted`` says that the status has other news that must be written before the stages run.
        """

        async def on_addon() -> None:
            if is_noted or self.was_ready:
                await self.begin_on_addon()

        async def on_cluster() -> None:
            await self._mirror(self._beginning())

        await gather(lambda report: report(), (on_addon, on_cluster))

    async def begin_on_addon(self) -> None:
        """Withdraw the conditions of the earlier class from the ClusterAddon, and write its status."""
        beginning = self._beginning()
        self.patch.status["ready"] = False
        self.patch.false(AddonCondition.DELIVERED, beginning.reason, beginning.message, Severity.INFO)
        await self.patch.checkpoint(beginning)

    async def end(self, outcome: Outcome) -> None:
        """Report the outcome of the reconcile on the Cluster, with an event when the addons became ready."""
        self._note_observed()
        is_news = await self._mirror(outcome)
        if is_news and isinstance(outcome, Settled):
            message = f"the addons of class {self.snapshot.cluster.class_name} are delivered"
            self.patch.announce(self.cluster, "Normal", EventReason.ADDONS_DELIVERED, message)

    async def fail(self, error: ClusterStacksError) -> None:
        """Report the error that ended the reconcile, with an event when it is new."""
        self._note_observed()
        outcome = self.patch.reported(outcome_of(error), self.clock.now(), ADVISORY)
        self.note_delivered(outcome)
        is_news = await self._mirror(outcome)
        if is_news and not isinstance(outcome, Settled):
            self.patch.announce(self.cluster, "Warning", outcome.reason, outcome.message)
        self.patch.status["ready"] = False

    async def explain(self, cause: Waiting, hold: str) -> None:
        """Report on the Cluster why its upgrade does not continue while nothing is delivered.

        ``hold`` describes what holds it; empty after the hold was removed.
        """
        waiting = Waiting(cause.reason, f"{cause.message}; {hold}" if hold else cause.message, None)
        self._written((await mirror(self.client, self.cluster, waiting, self.clock.now(), self._warnings()))[0])

    def note_delivered(self, outcome: Outcome) -> None:
        """Set the condition Delivered; waits for conditions and health do not count."""
        if isinstance(outcome, Settled) or read_progress(self.patch.status).delivered:
            self.patch.true(AddonCondition.DELIVERED)
        else:
            self.patch.false(AddonCondition.DELIVERED, outcome.reason, outcome.message, Severity.INFO)

    def _note_observed(self) -> None:
        """Note the state of the Cluster that the conditions describe, at the end of the work.

        The Cluster's conditions are written between this and the status. After one of these fields changes, the
        conditions of both objects describe at least that state.
        """
        status, cluster = self.patch.status, self.snapshot.cluster
        status["observedClusterGeneration"] = cluster.raw["metadata"].get("generation", 0)
        status["observedAddonAnnotations"] = annotations_digest(cluster.annotations)
        status["observedKubernetesVersion"] = self.snapshot.running.text

    async def _mirror(self, outcome: Outcome) -> bool:
        """Write the conditions of the Cluster; return whether status or reason of ClusterStackAddonsReady changed."""
        patch, now = self.patch, self.clock.now()
        reported = _with_hold(patch.reported(outcome, now, ADVISORY), patch, self.cluster)
        written, is_news = await mirror(self.client, self.cluster, reported, now, self._warnings())
        self._written(written)
        return is_news

    def _warnings(self) -> dict[str, Condition | None]:
        return {
            WITHIN_RANGES_CONDITION: self.patch.condition(AddonCondition.WITHIN_RANGES),
            ADDONS_HEALTHY_CONDITION: self.patch.condition(AddonCondition.HEALTHY),
            ADDONS_IN_SYNC_CONDITION: self.patch.condition(AddonCondition.IN_SYNC),
        }

    def _written(self, cluster: Manifest) -> None:
        self.cluster = cluster
        self.cached_reads.written(cluster, CLUSTER_API_GROUP)

    def _beginning(self) -> Waiting:
        """Return the report from the change of the Cluster until the rollout waits or ends."""
        recorded, wanted = recorded_target(self.patch, self.snapshot), wanted_target(self.snapshot)
        message = f"the addons of class {recorded.class_name} are replaced by those of {wanted.class_name}"
        if recorded == NO_TARGET:
            message = f"the addons of class {wanted.class_name} are installed"
        elif recorded.class_name in {"", wanted.class_name}:
            message = f"the stages of the upgrade to {wanted.version} run"
        return Waiting("RollingOut", message)


def _with_hold(outcome: Outcome, patch: StatusPatch, cluster: Manifest) -> Outcome:
    """Add to the report on the Cluster who holds its upgrade, for what, and how to release it."""
    hold = read_hold(patch.status)
    if hold is None or isinstance(outcome, Settled) or not (described := hold.describe(cluster_view(cluster).key)):
        return outcome
    reason = Reason.HOLD_NOT_HONOURED if hold.state is HoldState.NOT_HONOURED else outcome.reason
    return replace(outcome, reason=reason, message=f"{outcome.message}; {described}")
