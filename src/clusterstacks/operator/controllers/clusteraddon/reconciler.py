"""Reconciles ClusterAddons: delivers the addons of a Cluster's class, and reports their state on the Cluster."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import at, text
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError, outcome_of
from clusterstacks.model.kinds.addon_annotations import annotations_digest
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.clusteraddon import Admitted, ClusterAddon, addon_name
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import (
    ADDON_FINALIZER,
    ADDONS_HEALTHY_CONDITION,
    ADDONS_IN_SYNC_CONDITION,
    ADDONS_READY_CONDITION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    PAUSED_ANNOTATION,
    RECONCILE_ANNOTATION,
    WITHIN_RANGES_CONDITION,
    AddonCondition,
    EventReason,
    Reason,
)
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.class_offer import OfferState
from clusterstacks.operator.controllers.addon_health import outcome_of_health
from clusterstacks.operator.controllers.class_access import CLASS_NOT_OFFERED
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import snapshot_digest
from clusterstacks.operator.controllers.clusteraddon.compat_check import ADVISORY
from clusterstacks.operator.controllers.clusteraddon.hold_review import recorded_target, wanted_target
from clusterstacks.operator.controllers.clusteraddon.mirrored_conditions import mirror, withdraw
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    NO_TARGET,
    RolloutProgress,
    StagePhase,
    read_progress,
)
from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot, read_snapshot
from clusterstacks.operator.controllers.clusteraddon.sweep_settings import read_sweep_settings
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import HoldState, read_hold
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone
from clusterstacks.operator.controllers.object_reader import LiveReader
from clusterstacks.operator.controllers.status_reconciler import add_finalizer, remove_finalizer
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.operator.controllers.clusteraddon.compat_check import CompatCheck
    from clusterstacks.operator.controllers.clusteraddon.departure import DepartedAddons
    from clusterstacks.operator.controllers.clusteraddon.hold_review import HoldReview
    from clusterstacks.operator.controllers.clusteraddon.rollout_executor import RolloutExecutor
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
    from clusterstacks.operator.controllers.held_reports import HeldReports
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.clock import Clock

RESYNC = timedelta(minutes=5)
"""Interval that bounds the effect of a lost event, as the Go operator's resync; an object whose kind cannot be watched
is read again then."""

PAUSED = "Paused"
"""Reason in conditions of paused objects, as in Cluster API."""

GATE_RETRY = timedelta(seconds=10)
"""Interval at which a missing control plane is checked, as in the Go operator."""

REPORTED_WITHIN = timedelta(minutes=2)
"""Age of a Cluster from which its kubeconfig and a response of its API server suffice, as in the Go operator: some
providers never report their control plane or infrastructure. Arbitrary."""

log = logging.getLogger(__name__)


class NameNotCanonical(SpecError):
    """A ClusterAddon does not have the name that is reconciled for its Cluster."""

    def __init__(self, addon: ObjectKey, cluster: ObjectKey) -> None:
        message = (
            f"ClusterAddon {addon} is not reconciled: Cluster {cluster} has one ClusterAddon, which is "
            f"ClusterAddon {cluster.namespace}/{addon_name(cluster.name)}; delete this one"
        )
        super().__init__("NameNotCanonical", message)


class ReleaseUnsigned(DependencyError):
    """The release must be signed and is not; a change of its ClusterStackRelease enqueues the ClusterAddon."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.SIGNATURE_REQUIRED, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonReconciler:
    """Compares the addons of a cluster with those of its class, and rolls out the difference.

    A cluster that has everything is settled without a request to it and without opening its release.
    """

    client: Client
    cached_reads: CachedReader
    clock: Clock
    access: ClassAccess
    contracts: ContractKinds
    workloads: Workloads
    rollout: RolloutExecutor
    compat_check: CompatCheck
    held: HeldReports
    hold: HoldReview
    sweep: AddonSweep
    drift_interval: timedelta | None
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
            raise NameNotCanonical(patch.key, cluster_key)
        reads = self.cached_reads if patch.cached else LiveReader(self.client, self.cached_reads.informers)
        snapshot = await read_snapshot(reads, cluster_key, self.contracts)
        if snapshot is None or snapshot.cluster.deleting:
            self.sweep.forget(patch.key)
            deleting = None if snapshot else await self.departed.delete_addons(patch, addon, reads, cluster_key)
            await self.workloads.forget(cluster_key)
            return deleting
        if (addon.status.observed_cluster_generation or 0) > snapshot.generation:
            patch.require_live()  # the cache is older than what an earlier reconcile read
        if snapshot.cluster.moving or snapshot.release_object is None:
            self.sweep.configure(patch.key, None)
            self.rollout.awaited.forget(patch.key)
            await self._report_offer(patch, snapshot)
            await self._explain_hold(patch, snapshot, Waiting(Reason.CHART_MISSING, snapshot.release_missing))
            return None
        if addon.spec.paused or snapshot.cluster.paused:
            self.sweep.configure(patch.key, None)
            self.rollout.awaited.forget(patch.key)
            await self._explain_hold(patch, snapshot, Waiting(PAUSED, _cause_of_pause(snapshot.cluster)))
            return _pause(patch, snapshot.cluster)
        patch.drop(AddonCondition.PAUSED)
        await add_finalizer(patch, ADDON_FINALIZER, self.client)
        return await self._bring_and_report(patch, addon, snapshot)

    async def _report_offer(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Report that the class of a Cluster does not exist and is not offered to it.

        Raises:
            SpecError: It is not offered.
        """
        if snapshot.cluster.moving or snapshot.cluster.paused:
            return
        try:
            await self._check_offer(patch, snapshot)
        except SpecError as error:
            if self.hold.describe(patch, snapshot):
                await self._explain_hold(patch, snapshot, Waiting(CLASS_NOT_OFFERED, error.message))
            else:
                await self._report_failure(patch, snapshot, snapshot.cluster.raw, error)
            raise

    async def _explain_hold(self, patch: StatusPatch, snapshot: ClusterSnapshot, cause: Waiting) -> None:
        """Report on the Cluster why its held upgrade does not go on, while nothing is delivered."""
        cluster = snapshot.cluster
        if cluster.moving or cluster.paused or not (described := self.hold.describe(patch, snapshot)):
            return
        held = Waiting(cause.reason, f"{cause.message}; {described}", None)
        written, _ = await mirror(self.client, cluster.raw, held, self.clock.now())
        self.cached_reads.written(written, CLUSTER_API_GROUP)

    async def _bring_and_report(
        self, patch: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot
    ) -> Outcome | timedelta:
        """Deliver what is missing, hold or release the upgrade, and write the result to the Cluster."""
        if _settles_soon(patch, snapshot) and (left := self.held.delay(patch.key)) is not None:
            if _is_ready(patch):
                await _report_beginning(patch, snapshot)
            return left
        holds = await self.hold.is_enabled(snapshot)
        cluster = snapshot.cluster.raw

        async def begin() -> None:
            nonlocal cluster
            cluster = await self._begin(patch, snapshot, holds=holds)

        failure: ClusterStacksError | None = None
        try:
            outcome = await self._deliver(patch, addon, snapshot, begin)
        except ClusterStacksError as error:
            failure = error
        try:
            cluster = await self.hold.review(patch, snapshot, cluster, enabled=holds)
        except ClusterStacksError as error:
            failure = failure or error
        if failure is not None:
            await self._report_failure(patch, snapshot, cluster, failure)
            raise failure
        outcome = self._conclude(patch, outcome)
        held = self.held.left(patch, outcome, {Reason.CONTROL_PLANE_NOT_READY} if patch.cached else ())
        if held is not None:
            return held
        patch.status["ready"] = isinstance(outcome, Settled)
        if isinstance(outcome, Settled):
            await self.compat_check.check(patch, snapshot)
        _observed(patch, snapshot)
        _, is_news = await self._mirror(patch, cluster, outcome)
        if is_news and isinstance(outcome, Settled):
            message = f"the addons of class {snapshot.cluster.class_name} are delivered"
            patch.announce(cluster, "Normal", EventReason.ADDONS_DELIVERED, message)
        return outcome

    async def _report_failure(
        self, patch: StatusPatch, snapshot: ClusterSnapshot, cluster: Manifest, error: ClusterStacksError
    ) -> None:
        _observed(patch, snapshot)
        outcome = patch.reported(outcome_of(error), self.clock.now(), ADVISORY)
        _report_delivery(patch, outcome)
        _, is_news = await self._mirror(patch, cluster, outcome)
        if is_news and not isinstance(outcome, Settled):
            patch.announce(cluster, "Warning", outcome.reason, outcome.message)
        patch.status["ready"] = False

    def _conclude(self, patch: StatusPatch, outcome: Outcome) -> Outcome:
        """Set the conditions Delivered and Healthy; return the outcome with what the class says about health."""
        _report_delivery(patch, outcome)
        stages = read_progress(patch.status).stages
        if any(stage.phase is StagePhase.WAITING_FOR_HEALTH for stage in stages):
            return outcome  # the stage has just read it
        return outcome_of_health(patch, outcome, self.sweep.report(patch))

    async def _begin(self, patch: StatusPatch, snapshot: ClusterSnapshot, *, holds: bool) -> Manifest:
        """Withdraw the conditions of the old class before anything changes: users wait for conditions.

        Returns:
            The Cluster with its new conditions.
        """
        cluster = snapshot.cluster.raw
        is_reported = condition_view(cluster, ADDONS_READY_CONDITION).true
        if recorded_target(patch, snapshot).is_same(wanted_target(snapshot)) or not (is_reported or _is_ready(patch)):
            return cluster
        is_noted = self.hold.note(patch, snapshot, enabled=holds)

        async def report_on_addon() -> None:
            if is_noted or _is_ready(patch):
                await _report_beginning(patch, snapshot)

        async def report_on_cluster() -> None:
            nonlocal cluster
            cluster, _ = await self._mirror(patch, cluster, _beginning(patch, snapshot))

        await gather(lambda report: report(), (report_on_addon, report_on_cluster))
        return cluster

    async def _mirror(self, patch: StatusPatch, cluster: Manifest, outcome: Outcome) -> tuple[Manifest, bool]:
        now = self.clock.now()
        warnings = {
            WITHIN_RANGES_CONDITION: patch.condition(AddonCondition.WITHIN_RANGES),
            ADDONS_HEALTHY_CONDITION: patch.condition(AddonCondition.HEALTHY),
            ADDONS_IN_SYNC_CONDITION: patch.condition(AddonCondition.IN_SYNC),
        }
        reported = _with_hold(patch.reported(outcome, now, ADVISORY), patch, cluster)
        written, is_news = await mirror(self.client, cluster, reported, now, warnings)
        self.cached_reads.written(written, CLUSTER_API_GROUP)
        return written, is_news

    async def _end(self, patch: StatusPatch, cluster: ObjectKey | None) -> Outcome:
        """Release a deleted ClusterAddon. The cluster keeps its addons, and gets a new ClusterAddon while it exists.

        Args:
            patch: The ClusterAddon.
            cluster: Its Cluster; None where the Cluster has another ClusterAddon.
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

    async def _deliver(
        self, patch: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot, begin: Callable[[], Awaitable[None]]
    ) -> Outcome:
        recorded, wanted = recorded_target(patch, snapshot), wanted_target(snapshot)
        if addon.status.ready and not recorded.is_same(wanted):
            patch.require_live()
        if snapshot.refusal is not None:
            patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.refusal.message, Severity.ERROR)
            raise snapshot.refusal
        if snapshot.unread is not None:
            patch.false(AddonCondition.CLUSTER_READY, snapshot.unread.code, snapshot.unread.message, Severity.ERROR)
            raise snapshot.unread
        progress = read_progress(patch.status)
        inputs = snapshot_digest(str(snapshot.minor), snapshot.digest, snapshot.data)
        changed = addon.status.observed_inputs != inputs
        patch.reconsider(condition for condition in AddonCondition if condition not in ADVISORY)
        await self._admit(patch, addon, snapshot)
        if recorded.is_same(wanted) and not changed and progress == RolloutProgress():
            self.sweep.watch(patch.key, snapshot.cluster.key)
            await self._sweep_on(patch, snapshot)
            return Settled(RESYNC)
        if snapshot.release_missing:
            patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.release_missing)
            return Waiting(Reason.CHART_MISSING, snapshot.release_missing, GATE_RETRY)
        missing = _missing(snapshot.cluster)
        if not missing or not self._is_young(snapshot.cluster):
            patch.require_live()
        awaited = max(progress.awaited, Milestone.CONTROL_PLANE)
        if not missing and (not progress.target.is_same(wanted) or not snapshot.upgrade.missing(awaited)):
            # Not at each event of control plane and workers while the rollout waits for their upgrade.
            self.rollout.renderer.warm_up()
        self.sweep.configure(patch.key, None)
        async with self.sweep.rollout(patch.key):
            connected = await self._connect(patch, snapshot)
            if isinstance(connected, Waiting):
                patch.false(AddonCondition.CLUSTER_READY, Reason.CONTROL_PLANE_NOT_READY, connected.message)
                return connected
            patch.true(AddonCondition.CLUSTER_READY)
            patch.status["ready"] = False
            outcome = await self.rollout.run_rollout(
                patch, snapshot, connected, recorded=recorded, inputs=inputs, begin=begin
            )
        if isinstance(outcome, Settled) or outcome.reason == Reason.ROLLED_BACK:
            await self._sweep_on(patch, snapshot)
        return outcome

    async def _sweep_on(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Look for drift from now on; a request of a user that was not handled yet makes it begin at once."""
        settings = await read_sweep_settings(
            snapshot.cluster,
            snapshot.release_object or {},
            client=self.access.client,
            stacks=self.access.stacks,
            default=self.drift_interval,
        )
        requested = snapshot.cluster.annotations.get(RECONCILE_ANNOTATION, "")
        handled = patch.status.get("lastHandledReconcileAt", "")
        self.sweep.configure(patch.key, settings, requested if requested != handled else "")

    async def _connect(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> Client | Waiting:
        """Connect to the workload cluster when Cluster API reports it, or when it responds without a report."""
        missing = _missing(snapshot.cluster)
        message = f"the {missing} of Cluster {snapshot.cluster.key} is not ready yet"
        if missing and self._is_young(snapshot.cluster):
            return Waiting(Reason.CONTROL_PLANE_NOT_READY, message, GATE_RETRY)
        try:
            with patch.failing_condition(AddonCondition.CLUSTER_READY):
                return await self.workloads.connect(snapshot.cluster.key)
        except DependencyError as error:
            if not missing:
                raise
            return Waiting(Reason.CONTROL_PLANE_NOT_READY, f"{message}: {error.message}", GATE_RETRY)

    def _is_young(self, cluster: ClusterView) -> bool:
        created = text(cluster.raw, "metadata", "creationTimestamp")
        return not created or self.clock.now() - datetime.fromisoformat(created) < REPORTED_WITHIN

    async def _admit(self, patch: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot) -> None:
        """Check that the Cluster may use its addons, unless that was decided before for the same ones.

        Only the status proves that: users write the spec. During a rollout it is checked in each reconcile.

        Raises:
            SpecError: A class or release is not offered to the Cluster's namespace.
            ReleaseUnsigned: A release lacks a required signature.
        """
        admitted, known = _admitted(snapshot), addon.status.admitted
        # Earlier versions did not record the uid; the digest contains it.
        is_known = known is not None and known.model_copy(update={"cluster_uid": admitted.cluster_uid}) == admitted
        if is_known and addon.spec.cluster_stack == snapshot.cluster.class_name:
            patch.status["admitted"] = admitted.document()
            return
        await self._check_offer(patch, snapshot)
        if snapshot.unsigned:
            patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.unsigned)
            raise ReleaseUnsigned(snapshot.unsigned)
        if not snapshot.release_missing:
            patch.status["admitted"] = admitted.document()

    async def _check_offer(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        offer = await self.access.decide(snapshot.cluster, snapshot.objects)
        if offer.state is not OfferState.OFFERED:
            patch.false(AddonCondition.CLUSTER_READY, CLASS_NOT_OFFERED, offer.message)
            raise SpecError(CLASS_NOT_OFFERED, offer.message)


def _with_hold(outcome: Outcome, patch: StatusPatch, cluster: Manifest) -> Outcome:
    """Add to the report on the Cluster who holds its upgrade, for what, and how to release it."""
    hold = read_hold(patch.status)
    if hold is None or isinstance(outcome, Settled) or not (described := hold.describe(cluster_view(cluster).key)):
        return outcome
    reason = Reason.HOLD_NOT_HONOURED if hold.state is HoldState.NOT_HONOURED else outcome.reason
    return replace(outcome, reason=reason, message=f"{outcome.message}; {described}")


def _is_ready(patch: StatusPatch) -> bool:
    """Return whether the status says that the addons of the class are delivered."""
    return bool(at(patch.manifest, "status", "ready"))


async def _report_beginning(patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
    """Withdraw the conditions of the old class from the ClusterAddon, and write its status."""
    patch.status["ready"] = False
    beginning = _beginning(patch, snapshot)
    patch.false(AddonCondition.DELIVERED, beginning.reason, beginning.message, Severity.INFO)
    await patch.checkpoint(beginning)


def _beginning(patch: StatusPatch, snapshot: ClusterSnapshot) -> Waiting:
    """Return what the conditions say from the change of the Cluster until the rollout waits or ends."""
    recorded, wanted = recorded_target(patch, snapshot), wanted_target(snapshot)
    message = f"the addons of class {recorded.class_name} are replaced by those of {wanted.class_name}"
    if recorded == NO_TARGET:
        message = f"the addons of class {wanted.class_name} are installed"
    elif recorded.class_name in {"", wanted.class_name}:
        message = f"the stages of the upgrade to {wanted.version} run"
    return Waiting("RollingOut", message)


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
    """Report the pause; whether the addons are ready does not change."""
    message = _cause_of_pause(cluster)
    patch.true(AddonCondition.PAUSED, PAUSED, message)
    return Settled() if patch.status.get("ready") else Waiting(PAUSED, message, None)


def _cause_of_pause(cluster: ClusterView) -> str:
    if cluster.paused:
        how = f"Cluster {cluster.key} is paused: unpause it by spec.paused or the annotation {PAUSED_ANNOTATION}"
    else:
        how = f"spec.paused of ClusterAddon {addon_name(cluster.name)} is true: set it to false"
    return f"nothing is delivered because {how}"


def _report_delivery(patch: StatusPatch, outcome: Outcome) -> None:
    """Set the condition Delivered; waits for conditions and health do not count."""
    if isinstance(outcome, Settled) or read_progress(patch.status).delivered:
        patch.true(AddonCondition.DELIVERED)
    else:
        patch.false(AddonCondition.DELIVERED, outcome.reason, outcome.message, Severity.INFO)


def _admitted(snapshot: ClusterSnapshot) -> Admitted:
    """Return the note in status that a Cluster was admitted; another Cluster with its name is checked again."""
    digest = sha256_digest(f"{snapshot.cluster.uid} {snapshot.digest}".encode())
    name, namespace = snapshot.cluster.class_name, snapshot.cluster.class_namespace
    values = {"class": name, "classNamespace": namespace, "clusterUid": snapshot.cluster.uid, "digest": digest}
    return Admitted.model_validate(values)


def _observed(patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
    """Note the state of the Cluster that the conditions describe, at the end of the work.

    The Cluster's conditions are written between this and the status. After one of these fields changes, the conditions
    of both objects describe at least that state.
    """
    patch.status["observedClusterGeneration"] = snapshot.cluster.raw["metadata"].get("generation", 0)
    patch.status["observedAddonAnnotations"] = annotations_digest(snapshot.cluster.annotations)
    patch.status["observedKubernetesVersion"] = snapshot.running.text


def _missing(cluster: ClusterView) -> str:
    """Return what Cluster API has not finished; templates need the endpoint, which the infrastructure provides."""
    if not cluster.control_plane_initialized:
        return "control plane"
    return "" if cluster.infrastructure_provisioned else "infrastructure"
