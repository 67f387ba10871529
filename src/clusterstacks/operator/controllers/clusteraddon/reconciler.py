"""Reconciles ClusterAddons: delivers the addons of a Cluster's class, and reports their state on the Cluster.

One reconcile goes through admission, the gate of the workload cluster, the rollout and the review of the hold, and ends
with the report. Each of them is a module of its own; this one has their order.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more, at, text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.clusteraddon import ClusterAddon, addon_name
from clusterstacks.model.kinds.clusterapi import unpause_hint
from clusterstacks.model.kinds.names import (
    ADDON_FINALIZER,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    AddonCondition,
    Reason,
)
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.addon_health import outcome_of_health, report_unread
from clusterstacks.operator.controllers.class_access import CLASS_NOT_OFFERED
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import snapshot_digest
from clusterstacks.operator.controllers.clusteraddon.cluster_report import ClusterReport
from clusterstacks.operator.controllers.clusteraddon.compat_check import ADVISORY
from clusterstacks.operator.controllers.clusteraddon.hold_review import recorded_target, wanted_target
from clusterstacks.operator.controllers.clusteraddon.mirrored_conditions import withdraw
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import RolloutProgress, StagePhase, read_progress
from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot, read_snapshot
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone
from clusterstacks.operator.controllers.clusteraddon.workload_gate import unreported
from clusterstacks.operator.controllers.object_reader import LiveReader
from clusterstacks.operator.controllers.status_reconciler import add_finalizer, remove_finalizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.clusteraddon.awaited_objects import AwaitedObjects
    from clusterstacks.operator.controllers.clusteraddon.class_admission import ClassAdmission
    from clusterstacks.operator.controllers.clusteraddon.compat_check import CompatCheck
    from clusterstacks.operator.controllers.clusteraddon.departure import DepartedAddons
    from clusterstacks.operator.controllers.clusteraddon.hold_review import HoldReview
    from clusterstacks.operator.controllers.clusteraddon.rollout_executor import RolloutExecutor
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
    from clusterstacks.operator.controllers.clusteraddon.rollout_preparation import RolloutPreparation
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
    from clusterstacks.operator.controllers.clusteraddon.sweep_settings import SweepSwitch
    from clusterstacks.operator.controllers.clusteraddon.workload_gate import WorkloadGate
    from clusterstacks.operator.controllers.held_reports import HeldReports
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.clock import Clock

RESYNC = timedelta(minutes=5)
"""Interval that bounds the effect of a lost event, as the Go operator's resync; an object whose kind cannot be watched
is read again then."""

RELEASE_RETRY = timedelta(seconds=10)
"""Interval at which a missing release is looked for, as in the Go operator."""

RECORDS_SHOWN = 3
"""Delivery records that a message names; arbitrary."""

PAUSED = "Paused"
"""Reason in conditions of paused objects, as in Cluster API."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonReconciler:
    """Compares the addons of a cluster with those of its class, and rolls out the difference.

    A cluster that has everything is settled without a request to it and without opening its release.
    """

    client: Client
    cached_reads: CachedReader
    clock: Clock
    contracts: ContractKinds
    workloads: Workloads
    admission: ClassAdmission
    gate: WorkloadGate
    preparation: RolloutPreparation
    rollout: RolloutExecutor
    awaited: AwaitedObjects
    hold: HoldReview
    held: HeldReports
    sweep: AddonSweep
    drift: SweepSwitch
    compat_check: CompatCheck
    departed: DepartedAddons

    async def work(self, patch: StatusPatch) -> Outcome | timedelta | None:
        """Reconcile the addons of one cluster; None where there is nothing to do or to report."""
        # Nothing else is read of a deleted object: an unreadable spec must not block the removal of the finalizer.
        cluster_key = ObjectKey(patch.key.namespace, text(patch.manifest, "spec", "clusterRef", "name"))
        counts = patch.key.name == addon_name(cluster_key.name)
        if patch.deleting:
            patch.require_live()
            return await self._end(patch, cluster_key if counts else None)
        addon = ClusterAddon.parse(patch.manifest)
        if not counts:
            patch.status["ready"] = False
            raise SpecError(
                "NameNotCanonical",
                f"ClusterAddon {patch.key} is not reconciled: Cluster {cluster_key} has one ClusterAddon, which is "
                f"ClusterAddon {cluster_key.namespace}/{addon_name(cluster_key.name)}; delete this one",
            )
        reads = self.cached_reads if patch.cached else LiveReader(self.client, self.cached_reads.informers)
        snapshot = await read_snapshot(reads, cluster_key, self.contracts)
        if snapshot is None or snapshot.cluster.deleting:
            self.sweep.forget(patch.key)
            deleting = None if snapshot else await self.departed.delete_addons(patch, addon, reads, cluster_key)
            await self.workloads.forget(cluster_key)
            return deleting
        if (addon.status.observed_cluster_generation or 0) > snapshot.generation:
            patch.require_live()  # the cache is older than what an earlier reconcile read
        report = self._report(patch, snapshot)
        if snapshot.cluster.moving or snapshot.release_object is None:
            self._stand_still(patch)
            await self._report_offer(report)
            await self._explain_hold(report, Waiting(Reason.CHART_MISSING, snapshot.release_missing))
            return None
        if addon.spec.paused or snapshot.cluster.paused:
            self._stand_still(patch)
            self.sweep.forget(patch.key)
            report_unread(patch, _cause_of_pause(snapshot.cluster), self.clock.now())
            await self._explain_hold(report, Waiting(PAUSED, _cause_of_pause(snapshot.cluster)))
            return _pause(patch, snapshot.cluster)
        patch.drop(AddonCondition.PAUSED)
        await add_finalizer(patch, ADDON_FINALIZER, self.client)
        return await self._deliver_and_report(addon, report)

    def _report(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> ClusterReport:
        return ClusterReport(
            client=self.client, cached_reads=self.cached_reads, clock=self.clock, patch=patch, snapshot=snapshot
        )

    def _stand_still(self, patch: StatusPatch) -> None:
        """Neither sweep the cluster nor watch objects that a stage waits for, while nothing is delivered."""
        self.drift.stop(patch)
        self.awaited.forget(patch.key)

    async def _report_offer(self, report: ClusterReport) -> None:
        """Report and raise that the missing class of a Cluster is not offered to it; return if it is."""
        patch, snapshot = report.patch, report.snapshot
        if snapshot.cluster.moving or snapshot.cluster.paused:
            return
        try:
            await self.admission.check_offer(patch, snapshot)
        except SpecError as error:
            if self.hold.describe(patch, snapshot):
                await self._explain_hold(report, Waiting(CLASS_NOT_OFFERED, error.message))
            else:
                await report.fail(error)
            raise

    async def _explain_hold(self, report: ClusterReport, cause: Waiting) -> None:
        """Report on the Cluster that its upgrade is held, or no longer held, and why nothing is delivered."""
        patch, snapshot = report.patch, report.snapshot
        if snapshot.cluster.moving or snapshot.cluster.paused:
            return
        hold = self.hold.describe(patch, snapshot)
        if hold or self.hold.note_removal(patch, snapshot):
            await report.explain(cause, hold)

    async def _deliver_and_report(self, addon: ClusterAddon, report: ClusterReport) -> Outcome | timedelta:
        """Deliver what is missing, hold or release the upgrade, and write the result to the Cluster."""
        patch, snapshot = report.patch, report.snapshot
        if _settles_soon(patch, snapshot) and (delay := self.held.delay(patch.key)) is not None:
            if report.was_ready:
                await report.begin_on_addon()
            return delay
        holds = await self.hold.is_enabled(snapshot)
        failure: ClusterStacksError | None = None
        try:
            outcome = await self._deliver(addon, report, holds=holds)
        except ClusterStacksError as error:
            failure = error
        try:
            report.cluster = await self.hold.review(patch, snapshot, report.cluster, enabled=holds)
        except ClusterStacksError as error:
            failure = failure or error
        if failure is not None:
            self.sweep.report_drift(patch)
            await report.fail(failure)
            raise failure
        outcome = self._with_health(report, outcome)
        delay = self.held.left(patch, outcome, {Reason.CONTROL_PLANE_NOT_READY} if patch.cached else ())
        if delay is not None:
            return delay
        patch.status["ready"] = isinstance(outcome, Settled)
        if isinstance(outcome, Settled):
            await self.compat_check.check(patch, snapshot)
        await report.end(outcome)
        return outcome

    def _with_health(self, report: ClusterReport, outcome: Outcome) -> Outcome:
        """Set the conditions Delivered and Healthy; return the outcome with the health that the class asks for."""
        report.note_delivered(outcome)
        stages = read_progress(report.patch.status).stages
        if any(stage.phase is StagePhase.WAITING_FOR_HEALTH for stage in stages):
            self.sweep.report_drift(report.patch)
            return outcome  # the stage has just read the health
        return outcome_of_health(report.patch, outcome, self.sweep.report(report.patch))

    async def _end(self, patch: StatusPatch, cluster: ObjectKey | None) -> Outcome:
        """Release a deleted ClusterAddon. The cluster keeps its addons, and gets a new ClusterAddon while it exists.

        ``cluster`` is None if its Cluster has another ClusterAddon.
        """
        self.sweep.forget(patch.key)
        if cluster is not None:
            await self.workloads.forget(cluster)
            try:
                await self._withdraw(cluster)
            except ClusterStacksError as error:
                log.warning(
                    "cannot remove the conditions of the deleted ClusterAddon from Cluster %s: %s", cluster, error
                )
        await remove_finalizer(patch, ADDON_FINALIZER, self.client)
        return Settled()

    async def _withdraw(self, key: ObjectKey) -> None:
        resource = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        cluster = await self.client.find(resource, key.name, key.namespace)
        if cluster is not None and not at(cluster, "metadata", "deletionTimestamp"):
            await withdraw(self.client, cluster)

    async def _deliver(self, addon: ClusterAddon, report: ClusterReport, *, holds: bool) -> Outcome:
        patch, snapshot = report.patch, report.snapshot
        recorded, wanted = recorded_target(patch, snapshot), wanted_target(snapshot)
        if addon.status.ready and not recorded.is_same(wanted):
            patch.require_live()
        _check_snapshot(patch, snapshot)
        progress = read_progress(patch.status)
        inputs = snapshot_digest(str(snapshot.minor), snapshot.digest, snapshot.data)
        lost = self.sweep.lost_records(patch.key)
        changed = addon.status.observed_inputs != inputs
        patch.reconsider(condition for condition in AddonCondition if condition not in ADVISORY)
        await self.admission.admit(patch, addon, snapshot)
        if addon.status.observed_cluster_generation != snapshot.generation:
            await self.compat_check.check_request(patch, snapshot)
        at_rest = recorded.is_same(wanted) and progress == RolloutProgress() and not lost
        in_doubt = changed and self.sweep.failure(patch.key)
        if at_rest and not in_doubt and (not changed or await self.preparation.is_delivered(patch, snapshot, wanted)):
            patch.status["observedInputs"] = inputs
            self.sweep.watch(patch.key, snapshot.cluster.key)
            await self.drift.start(patch, snapshot)
            return Settled(RESYNC)
        if snapshot.release_missing:
            patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.release_missing)
            return Waiting(Reason.CHART_MISSING, snapshot.release_missing, RELEASE_RETRY)
        if not self.gate.is_closed(snapshot.cluster):
            patch.require_live()
        if lost:
            await _withdraw_delivery(patch, lost)
        self._warm_up(snapshot, progress, wanted)
        self.drift.stop(patch)
        async with self.sweep.rollout(snapshot.cluster.key):
            outcome = await self._roll_out(report, recorded, inputs, holds=holds)
        if isinstance(outcome, Settled) or outcome.reason == Reason.ROLLED_BACK:
            await self.drift.start(patch, snapshot)
        return outcome

    def _warm_up(self, snapshot: ClusterSnapshot, progress: RolloutProgress, wanted: Target) -> None:
        """Start a render worker, but not at each event of control plane and workers while their upgrade is awaited."""
        awaited = max(progress.awaited, Milestone.CONTROL_PLANE)
        is_held_up = progress.target.is_same(wanted) and snapshot.upgrade.missing(awaited)
        if not unreported(snapshot.cluster) and not is_held_up:
            self.preparation.renderer.warm_up()

    async def _roll_out(self, report: ClusterReport, recorded: Target, inputs: str, *, holds: bool) -> Outcome:
        patch, snapshot = report.patch, report.snapshot
        workload = await self.gate.connect(patch, snapshot.cluster)
        if isinstance(workload, Waiting):
            return workload
        patch.status["ready"] = False
        rollout = await self.preparation.prepare(patch, snapshot, workload, recorded=recorded, inputs=inputs)
        if isinstance(rollout, Waiting):
            return rollout
        async with self.rollout.underway(rollout):
            if report.is_of_earlier_class:
                await report.begin(is_noted=self.hold.note(patch, snapshot, enabled=holds))
            return await self.rollout.run_rollout(rollout, workload, inputs)


async def _withdraw_delivery(patch: StatusPatch, lost: Sequence[str]) -> None:
    """Report that the cluster no longer proves what was delivered, so that a killed operator delivers it as well."""
    message = f"delivered again: {and_more(lost, RECORDS_SHOWN, separator='; ')}"
    before = patch.condition(AddonCondition.IN_SYNC)
    if before is None or before.reason != Reason.RECORD_MISSING:
        patch.announce(patch.manifest, "Warning", Reason.RECORD_MISSING, message)
    patch.false(AddonCondition.IN_SYNC, Reason.RECORD_MISSING, message)
    patch.status |= {"observedInputs": "", "ready": False}
    await patch.checkpoint(Waiting(Reason.RECORD_MISSING, message))


def _check_snapshot(patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
    """Report and raise the refusal of the Cluster's annotations, or of an object that the Cluster refers to."""
    if snapshot.refusal is not None:
        patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.refusal.message, Severity.ERROR)
        raise snapshot.refusal
    if snapshot.unread is not None:
        patch.false(AddonCondition.CLUSTER_READY, snapshot.unread.code, snapshot.unread.message, Severity.ERROR)
        raise snapshot.unread


def _settles_soon(patch: StatusPatch, snapshot: ClusterSnapshot) -> bool:
    """Return whether only the class was changed, and Cluster API sets TopologyReconciled probably within a second.

    Until then nothing is read, because everything is read again afterwards, and only the ClusterAddon is written: a
    write to the Cluster would make Cluster API repeat its own after 0.1 s or more. Source:
    sigs.k8s.io/cluster-api/util/patch, patchStatusConditions.
    """
    recorded, wanted = recorded_target(patch, snapshot), wanted_target(snapshot)
    if not patch.cached or not recorded.class_name or recorded.is_same(wanted) or recorded.is_upgraded_by(wanted):
        return False
    if read_progress(patch.status).target.is_same(wanted):
        return False  # this was reported before
    return snapshot.upgrade.has_versions and bool(snapshot.upgrade.missing(Milestone.CLUSTER))


def _pause(patch: StatusPatch, cluster: ClusterView) -> Outcome:
    """Report the pause; it does not change whether the addons are ready."""
    message = _cause_of_pause(cluster)
    patch.true(AddonCondition.PAUSED, PAUSED, message)
    return Settled() if patch.status.get("ready") else Waiting(PAUSED, message, None)


def _cause_of_pause(cluster: ClusterView) -> str:
    if cluster.paused:
        how = unpause_hint(cluster.key)
    else:
        how = f"spec.paused of ClusterAddon {addon_name(cluster.name)} is true: set it to false"
    return f"nothing is delivered because {how}"
