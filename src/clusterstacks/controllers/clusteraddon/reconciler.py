"""Reconciles ClusterAddons: delivers the addons of a Cluster's class, and reports their state on the Cluster."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import annotations_digest
from clusterstacks.api.clusteraddon import Admitted, ClusterAddon, addon_name
from clusterstacks.api.names import (
    ADDON_FINALIZER,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    PAUSED_ANNOTATION,
    AddonCondition,
    EventReason,
    Reason,
)
from clusterstacks.controllers.clusteraddon.addon_inputs import snapshot_digest
from clusterstacks.controllers.clusteraddon.class_access import CLASS_NOT_OFFERED
from clusterstacks.controllers.clusteraddon.compat_check import ADVISORY
from clusterstacks.controllers.clusteraddon.mirrored_conditions import mirror, withdraw
from clusterstacks.controllers.clusteraddon.rollout_plan import RolloutProgress, read_progress
from clusterstacks.controllers.clusteraddon.snapshot import ClusterSnapshot, read_snapshot
from clusterstacks.controllers.status_reconciler import add_finalizer, remove_finalizer
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.digests import sha256_digest
from clusterstacks.domain.documents import at, text
from clusterstacks.domain.errors import ClusterStacksError, DependencyError, SpecError, outcome_of
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.outcomes import Outcome, Settled, Waiting
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.controllers.clusteraddon.class_access import ClassAccess
    from clusterstacks.controllers.clusteraddon.compat_check import CompatCheck
    from clusterstacks.controllers.clusteraddon.rollout_executor import RolloutExecutor
    from clusterstacks.controllers.clusteraddon.snapshot import ContractKinds
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.controllers.workload_clients import Workloads
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.clock import Clock

RESYNC = timedelta(minutes=5)
"""Interval at which control plane and infrastructure objects are read again, as the Go operator's resync."""

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
    clock: Clock
    access: ClassAccess
    contracts: ContractKinds
    workloads: Workloads
    rollout: RolloutExecutor
    compat_check: CompatCheck

    async def work(self, draft: StatusPatch) -> Outcome | None:
        """Reconcile the addons of one cluster; None where there is nothing to do or to report."""
        # Nothing else is read of a deleted object: an unreadable spec must not block the removal of the finalizer.
        cluster_key = ObjectKey(draft.key.namespace, text(draft.manifest, "spec", "clusterRef", "name"))
        counts = draft.key.name == addon_name(cluster_key.name)
        if draft.deleting:
            return await self._end(draft, cluster_key if counts else None)
        addon = ClusterAddon.parse(draft.manifest)
        if not counts:
            draft.status["ready"] = False
            raise NameNotCanonical(draft.key, cluster_key)
        snapshot = await read_snapshot(self.client, cluster_key, self.contracts)
        if snapshot is None or snapshot.cluster.deleting:
            await self.workloads.forget(cluster_key)
            return None
        if snapshot.cluster.moving or snapshot.release_object is None:
            return None
        if addon.spec.paused or snapshot.cluster.paused:
            return _pause(draft, snapshot.cluster)
        draft.drop(AddonCondition.PAUSED)
        await add_finalizer(draft, ADDON_FINALIZER, self.client)
        cluster = await self._begin(draft, addon, snapshot)
        try:
            outcome = await self._deliver(draft, addon, snapshot)
        except ClusterStacksError as error:
            _observed(draft, snapshot)
            outcome = draft.reported(outcome_of(error), self.clock.now(), ADVISORY)
            _, is_news = await self._mirror(draft, cluster, outcome)
            if is_news and not isinstance(outcome, Settled):
                draft.announce(cluster, "Warning", outcome.reason, outcome.message)
            draft.status["ready"] = False
            raise
        draft.status["ready"] = isinstance(outcome, Settled)
        if isinstance(outcome, Settled):
            await self.compat_check.check(draft, snapshot)
        _observed(draft, snapshot)
        _, is_news = await self._mirror(draft, cluster, outcome)
        if is_news and isinstance(outcome, Settled):
            message = f"the addons of class {snapshot.cluster.class_name} are delivered"
            draft.announce(cluster, "Normal", EventReason.ADDONS_DELIVERED, message)
        return outcome

    async def _begin(self, draft: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot) -> Manifest:
        """Withdraw the conditions of the old class as soon as the Cluster names another: users wait for conditions.

        Returns:
            The Cluster with its new conditions.
        """
        cluster = snapshot.cluster.raw
        recorded, wanted = addon.spec.cluster_stack, snapshot.cluster.class_name
        if not addon.status.ready or recorded == wanted:
            return cluster
        draft.status["ready"] = False
        beginning = Waiting("RollingOut", f"the addons of class {recorded} are replaced by those of {wanted}")

        async def take_back() -> None:
            nonlocal cluster
            cluster, _ = await self._mirror(draft, cluster, beginning)

        writes: tuple[Callable[[], Awaitable[None]], ...] = (partial(draft.checkpoint, beginning), take_back)
        await gather(lambda write: write(), writes)
        return cluster

    async def _mirror(self, draft: StatusPatch, cluster: Manifest, outcome: Outcome) -> tuple[Manifest, bool]:
        within, now = draft.condition(AddonCondition.WITHIN_RANGES), self.clock.now()
        return await mirror(self.client, cluster, draft.reported(outcome, now, ADVISORY), now, within)

    async def _end(self, draft: StatusPatch, cluster: ObjectKey | None) -> Outcome:
        """Release a deleted ClusterAddon. The cluster keeps its addons, and gets a new ClusterAddon while it exists.

        Args:
            draft: The ClusterAddon.
            cluster: Its Cluster; None where the Cluster has another ClusterAddon.
        """
        if cluster is not None:
            await self.workloads.forget(cluster)
            try:
                await self._withdraw(cluster)
            except ClusterStacksError as error:
                log.warning(
                    "cannot remove the conditions of the deleted ClusterAddon from Cluster %s: %s", cluster, error
                )
        await remove_finalizer(draft, ADDON_FINALIZER, self.client)
        return Settled()

    async def _withdraw(self, key: ObjectKey) -> None:
        resource = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        cluster = await self.client.find(resource, key.name, key.namespace)
        if cluster is not None and not at(cluster, "metadata", "deletionTimestamp"):
            await withdraw(self.client, cluster)

    async def _deliver(self, draft: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot) -> Outcome:
        if snapshot.refusal is not None:
            draft.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.refusal.message, Severity.ERROR)
            raise snapshot.refusal
        if snapshot.unread is not None:
            draft.false(AddonCondition.CLUSTER_READY, snapshot.unread.code, snapshot.unread.message, Severity.ERROR)
            raise snapshot.unread
        recorded, wanted = addon.spec.cluster_stack, snapshot.cluster.class_name
        progress = read_progress(addon.status.target, draft.status.get("stages"))
        inputs = snapshot_digest(str(snapshot.minor), snapshot.digest, snapshot.data)
        changed = addon.status.observed_inputs != inputs
        draft.reconsider(condition for condition in AddonCondition if condition not in ADVISORY)
        await self._admit(draft, addon, snapshot)
        if recorded == wanted and not changed and progress == RolloutProgress():
            return Settled(RESYNC)
        if snapshot.release_missing:
            draft.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.release_missing)
            return Waiting(Reason.CHART_MISSING, snapshot.release_missing, GATE_RETRY)
        connected = await self._connect(draft, snapshot)
        if isinstance(connected, Waiting):
            draft.false(AddonCondition.CLUSTER_READY, Reason.CONTROL_PLANE_NOT_READY, connected.message)
            return connected
        draft.true(AddonCondition.CLUSTER_READY)
        draft.status["ready"] = False
        return await self.rollout.run_rollout(draft, snapshot, connected, recorded=recorded, inputs=inputs)

    async def _connect(self, draft: StatusPatch, snapshot: ClusterSnapshot) -> Client | Waiting:
        """Connect to the workload cluster when Cluster API reports it, or when it responds without a report."""
        missing = _missing(snapshot.cluster)
        message = f"the {missing} of Cluster {snapshot.cluster.key} is not ready yet"
        if missing and self._is_young(snapshot.cluster):
            return Waiting(Reason.CONTROL_PLANE_NOT_READY, message, GATE_RETRY)
        try:
            with draft.failing_condition(AddonCondition.CLUSTER_READY):
                return await self.workloads.connect(snapshot.cluster.key)
        except DependencyError as error:
            if not missing:
                raise
            return Waiting(Reason.CONTROL_PLANE_NOT_READY, f"{message}: {error.message}", GATE_RETRY)

    def _is_young(self, cluster: ClusterView) -> bool:
        created = text(cluster.raw, "metadata", "creationTimestamp")
        return not created or self.clock.now() - datetime.fromisoformat(created) < REPORTED_WITHIN

    async def _admit(self, draft: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot) -> None:
        """Check that the Cluster may use its addons, unless that was decided before for the same ones.

        Only the status proves that: users write the spec. During a rollout it is checked in each reconcile.

        Raises:
            SpecError: A class or release is not offered to the Cluster's namespace.
            ReleaseUnsigned: A release lacks a required signature.
        """
        admitted = _admitted(snapshot)
        if addon.status.admitted == admitted and addon.spec.cluster_stack == snapshot.cluster.class_name:
            return
        refusal = await self.access.refusal(snapshot.cluster, filter(None, snapshot.objects.values()))
        if refusal:
            draft.false(AddonCondition.CLUSTER_READY, CLASS_NOT_OFFERED, refusal)
            raise SpecError(CLASS_NOT_OFFERED, refusal)
        if snapshot.unsigned:
            draft.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, snapshot.unsigned)
            raise ReleaseUnsigned(snapshot.unsigned)
        if not snapshot.release_missing:
            draft.status["admitted"] = admitted.document()


def _pause(draft: StatusPatch, cluster: ClusterView) -> Outcome:
    """Report the pause; whether the addons are ready does not change."""
    if cluster.paused:
        how = f"Cluster {cluster.key} is paused: unpause it by spec.paused or the annotation {PAUSED_ANNOTATION}"
    else:
        how = "spec.paused of this ClusterAddon is true: set it to false"
    message = f"nothing is delivered because {how}"
    draft.true(AddonCondition.PAUSED, PAUSED, message)
    return Settled() if draft.status.get("ready") else Waiting(PAUSED, message, None)


def _admitted(snapshot: ClusterSnapshot) -> Admitted:
    """Return the note in status that a Cluster was admitted; another Cluster with its name is checked again."""
    digest = sha256_digest(f"{snapshot.cluster.uid} {snapshot.digest}".encode())
    name, namespace = snapshot.cluster.class_name, snapshot.cluster.class_namespace
    return Admitted.model_validate({"class": name, "classNamespace": namespace, "digest": digest})


def _observed(draft: StatusPatch, snapshot: ClusterSnapshot) -> None:
    """Note the state of the Cluster that the conditions describe, at the end of the work.

    The Cluster's conditions are written between this and the status. After one of these fields changes, the conditions
    of both objects describe at least that state.
    """
    draft.status["observedClusterGeneration"] = snapshot.cluster.raw["metadata"].get("generation", 0)
    draft.status["observedAddonAnnotations"] = annotations_digest(snapshot.cluster.annotations)
    draft.status["observedKubernetesVersion"] = snapshot.running.text


def _missing(cluster: ClusterView) -> str:
    """Return what Cluster API has not finished; templates need the endpoint, which the infrastructure provides."""
    if not cluster.control_plane_initialized:
        return "control plane"
    return "" if cluster.infrastructure_provisioned else "infrastructure"
