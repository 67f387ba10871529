"""Sets and removes the hold of a Cluster's upgrades, as ``upgrade_hold`` decides."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.names import (
    ADDONS_READY_CONDITION,
    CLUSTER_API_GROUP,
    HOLD_UPGRADES_ANNOTATION,
    UPGRADE_HOLD_ANNOTATION,
    EventReason,
    Reason,
)
from clusterstacks.model.objects import rfc3339
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import NO_TARGET, Target
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import (
    HoldAction,
    HoldDecision,
    HoldFacts,
    HoldState,
    UpgradeHold,
    assume_held,
    awaits_upgrade,
    decide_hold,
    hooks_pending,
    is_before_upgrade_complete,
    read_hold,
)
from clusterstacks.plan.clusters.hold_annotation import is_held, release_hold, set_hold
from clusterstacks.release.sources.owners import leading_stack

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.metrics import Metrics

DISABLED: Final = "false"
"""Value of the annotation that disables the hold of a Cluster's upgrades."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReview:
    """Sets the annotation of one Cluster as its upgrade and its stages require."""

    client: Client
    stacks: ObjectCache
    cached_reads: CachedReader
    clock: Clock
    metrics: Metrics

    async def is_enabled(self, snapshot: ClusterSnapshot) -> bool:
        """Return whether upgrades of the Cluster are held; a ClusterStack that cannot be read does not disable it."""
        annotated = snapshot.cluster.annotations.get(HOLD_UPGRADES_ANNOTATION)
        if annotated is not None:
            return annotated != DISABLED
        stack = await leading_stack(snapshot.release_object or {"metadata": {}}, self.stacks, self.client)
        try:
            return stack is None or ClusterStack.parse(stack).spec.hold_upgrades
        except SpecError:
            return True

    def describe(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> str:
        """Describe what the hold does; empty while Cluster API does not wait because of it."""
        if not is_held(snapshot.cluster.raw) or not _awaits_upgrade(snapshot):
            return ""
        return assume_held(patch.status, wanted_target(snapshot)).describe(snapshot.cluster.key)

    def note(self, patch: StatusPatch, snapshot: ClusterSnapshot, *, enabled: bool) -> bool:
        """Note the state of the hold before the stages run, unless the annotation is to be changed first.

        A hold that is noted and absent looks as if another writer had removed it. Returns whether the note changed.
        """
        before = read_hold(patch.status)
        decision = self._decide(patch, snapshot, snapshot.cluster.raw, enabled=enabled)
        if _has_control_plane(snapshot.cluster) and decision.action is HoldAction.NOTHING:
            self._take_note(patch, snapshot, decision)
        return read_hold(patch.status) != before

    def note_removal(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> bool:
        """Note that the hold is gone while nothing is delivered; return whether the Cluster still tells about it."""
        cluster, last = snapshot.cluster.raw, read_hold(patch.status)
        if not is_held(cluster) and last is not None and last.state is HoldState.HELD:
            decision = self._decide(patch, snapshot, cluster, enabled=True)
            if decision.note is None or decision.note.state is not HoldState.HELD:
                self._take_note(patch, snapshot, decision)
        is_told = UPGRADE_HOLD_ANNOTATION in condition_view(cluster, ADDONS_READY_CONDITION).message
        return is_told and (last is None or last.state is not HoldState.NOT_HONOURED)

    async def review(
        self, patch: StatusPatch, snapshot: ClusterSnapshot, cluster: Manifest, *, enabled: bool
    ) -> Manifest:
        """Set or remove the hold after the stages ran; return the Cluster with its new annotations.

        ``patch`` has the progress of the stages, ``snapshot`` the state at the beginning of the reconcile, ``cluster``
        the newest conditions; ``enabled`` says whether upgrades are held. Raises DependencyError if the hold cannot be
        removed.
        """
        if not _has_control_plane(snapshot.cluster):
            return cluster
        decision = self._decide(patch, snapshot, cluster, enabled=enabled)
        if decision.action is HoldAction.REMOVE or decision.note != read_hold(patch.status):
            patch.require_live()  # a hold that is set because a cache lags behind is removed again
        if decision.action is HoldAction.REMOVE and enabled and await self._has_begun(snapshot):
            decision = self._decide(patch, snapshot, cluster, enabled=enabled, awaited=False)
        if decision.action is HoldAction.NOTHING:
            self._take_note(patch, snapshot, decision)
            return cluster
        is_removed = decision.action is HoldAction.REMOVE
        written = await (release_hold(self.client, cluster) if is_removed else self._set(cluster))
        if written is None:
            return cluster  # the Cluster was changed, which enqueues the ClusterAddon, or the hold was refused
        self._take_note(patch, snapshot, decision)
        self.cached_reads.written(written, CLUSTER_API_GROUP)
        return written

    def _decide(
        self,
        patch: StatusPatch,
        snapshot: ClusterSnapshot,
        cluster: Manifest,
        *,
        enabled: bool,
        awaited: bool | None = None,
    ) -> HoldDecision:
        recorded, wanted = recorded_target(patch, snapshot), wanted_target(snapshot)
        if awaited is None:
            awaited = _awaits_upgrade(snapshot)
        facts = HoldFacts(
            target=wanted,
            enabled=enabled,
            is_set=is_held(cluster),
            awaited=awaited,
            honours=hooks_pending(snapshot.cluster),
            moves=recorded.is_upgraded_by(wanted),
            complete=is_before_upgrade_complete(recorded, wanted, patch.status),
            last=read_hold(patch.status),
        )
        return decide_hold(facts, rfc3339(self.clock.now()))

    async def _has_begun(self, snapshot: ClusterSnapshot) -> bool:
        """Return whether Cluster API began the upgrade while the stages ran, as it does where it knows no hold."""
        reference = snapshot.cluster.control_plane_ref
        if reference is None or not snapshot.data["ControlPlane"]:
            return False
        resource = await self.client.resource(reference.group, reference.kind, reference.version)
        control_plane = await self.client.find(resource, reference.name, reference.namespace)
        return not awaits_upgrade(snapshot.cluster, control_plane or {}, snapshot.upgrade)

    async def _set(self, cluster: Manifest) -> Manifest | None:
        """Set the hold; a refusal must not make delivered addons unready, and the next reconcile tries again."""
        try:
            return await set_hold(self.client, cluster)
        except ClusterStacksError as error:
            log.warning("cannot hold upgrades of Cluster %s: %s", cluster_view(cluster).key, error)
            return None

    def _take_note(self, patch: StatusPatch, snapshot: ClusterSnapshot, decision: HoldDecision) -> None:
        note, last = decision.note, read_hold(patch.status)
        if note == last:
            return
        if note is None:
            patch.status.pop("upgradeHold", None)
            return
        patch.status["upgradeHold"] = note.document()
        self._announce(patch, snapshot, note, last)

    def _announce(
        self, patch: StatusPatch, snapshot: ClusterSnapshot, note: UpgradeHold, last: UpgradeHold | None
    ) -> None:
        cluster, version = snapshot.cluster.raw, note.target.version
        match note.state:
            case HoldState.HELD:
                patch.announce(cluster, "Normal", EventReason.UPGRADE_HELD, note.describe(snapshot.cluster.key))
            case HoldState.RELEASED:
                message = f"the stages of BeforeClusterUpgrade are complete: Cluster API may upgrade to {version}"
                patch.announce(cluster, "Normal", EventReason.UPGRADE_RELEASED, message)
            case HoldState.ABSENT:
                if last is None:
                    return
                message = (
                    f"the hold was removed by hand: Cluster API may upgrade to {version} before the stages of "
                    "BeforeClusterUpgrade are complete"
                )
                patch.announce(cluster, "Warning", EventReason.UPGRADE_RELEASED, message)
            case HoldState.NOT_HONOURED:
                self.metrics.count_unhonoured_hold()
                patch.announce(cluster, "Warning", Reason.HOLD_NOT_HONOURED, note.describe(snapshot.cluster.key))


def _has_control_plane(cluster: ClusterView) -> bool:
    """Return whether the Cluster can be held: Cluster API has created its control plane object.

    The hold is set then, long before the control plane is initialized. Cluster API patches the annotations of a Cluster
    when it creates the object and when the control plane is initialized. These patches remove all annotations if its
    cached copy has none but its own, so a hold that is set at these times may be lost. Source:
    sigs.k8s.io/cluster-api/internal/hooks, MarkAsDone, and core/reconcilers/topology/cluster, reconcileCluster.
    """
    return cluster.control_plane_ref is not None or cluster.control_plane_initialized


def _awaits_upgrade(snapshot: ClusterSnapshot) -> bool:
    return awaits_upgrade(snapshot.cluster, snapshot.data["ControlPlane"], snapshot.upgrade)


def wanted_target(snapshot: ClusterSnapshot) -> Target:
    """Return the class and version that the Cluster's spec asks for."""
    return Target(snapshot.cluster.class_name, snapshot.upgrade.wanted.text)


def recorded_target(patch: StatusPatch, snapshot: ClusterSnapshot) -> Target:
    """Return the class and version whose addons the cluster has completely; ``NO_TARGET`` before the first delivery.

    The class is empty in an upgrade whose ClusterAddon was deleted and created again. Without a recorded version, as
    earlier versions of the operator left it, the last observed one counts. The Go operator leaves neither: then it is
    the version of the control plane, so that an upgrade that is in progress runs all of its stages.
    """
    status = patch.status
    class_name, version = text(patch.manifest, "spec", "clusterStack"), text(status, "deliveredKubernetesVersion")
    if not class_name and not version:
        return NO_TARGET
    observed = text(status, "observedKubernetesVersion") or snapshot.running.text
    return Target(class_name, version or snapshot.reached(observed))
