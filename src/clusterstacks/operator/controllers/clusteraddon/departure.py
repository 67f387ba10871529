"""Releases a Cluster that left its cluster stack, and deletes or orphans its addons as the deletion policy says.

A Cluster has left when it continues with a class that does not come from a cluster stack. Nothing is deleted for a
Cluster that is being deleted or moved, for one whose release is missing, and for a deleted ClusterAddon: no finalizer
waits for this work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
from clusterstacks.deliver.apply.prune_plan import PruneOutcome
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.clusterstack import ClusterStack, DeletionPolicy
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    DELETION_POLICY_ANNOTATION,
    GROUP,
    AddonCondition,
    EventReason,
    Kind,
    Reason,
)
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class
from clusterstacks.model.objects import rfc3339
from clusterstacks.model.outcomes import Outcome, Waiting
from clusterstacks.operator.controllers.addon_health import report_unread
from clusterstacks.operator.controllers.class_usage import release_of
from clusterstacks.operator.controllers.clusteraddon.compat_check import ADVISORY
from clusterstacks.operator.controllers.clusteraddon.mirrored_conditions import withdraw
from clusterstacks.operator.controllers.clusteraddon.rollout_journal import note_deletion
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
from clusterstacks.operator.controllers.resource_list import OBJECTS_SHOWN, describe_remaining
from clusterstacks.plan.clusters.hold_annotation import drop_hold, is_held

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.deliver.apply.results import PruneReport
    from clusterstacks.model.kinds.clusteraddon import ClusterAddon
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.object_reader import Reader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder


def deletion_policy(cluster: ClusterView, addon: ClusterAddon, stacks: Iterable[Manifest]) -> DeletionPolicy:
    """Return the policy for the addons of a Cluster that left its cluster stack.

    The annotation of the Cluster decides; without one, Delete needs a ClusterStack of the delivered class, which the
    ClusterAddon names, that says so, and none that says otherwise. A value that is not valid counts as Orphan.
    """
    annotated = cluster.annotations.get(DELETION_POLICY_ANNOTATION)
    if annotated is not None:
        return DeletionPolicy.DELETE if annotated == DeletionPolicy.DELETE else DeletionPolicy.ORPHAN
    admitted = addon.status.admitted
    namespace = admitted.class_namespace if admitted is not None else ""
    try:
        release = parse_class(addon.spec.cluster_stack or addon.status.target)
    except InvalidName:
        return DeletionPolicy.ORPHAN
    stated = {
        stack.spec.deletion_policy
        for manifest in stacks
        if manifest["metadata"]["namespace"] == (namespace or cluster.namespace)
        and (stack := _stack(manifest)) is not None
        and _is_stack_of(stack, release)
    }
    return DeletionPolicy.DELETE if stated == {DeletionPolicy.DELETE} else DeletionPolicy.ORPHAN


def _stack(manifest: Manifest) -> ClusterStack | None:
    try:
        return ClusterStack.parse(manifest)
    except SpecError:
        return None


def _is_stack_of(stack: ClusterStack, release: ReleaseName) -> bool:
    spec = stack.spec
    known = (spec.provider, spec.name, spec.kubernetes_version)
    return known == (release.provider, release.stack, str(release.kubernetes))


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartedAddons:
    """Deletes the addons of Clusters that left their cluster stack."""

    client: Client
    stacks: ObjectCache
    workloads: Workloads
    events: EventRecorder
    clock: Clock

    async def delete_addons(
        self, patch: StatusPatch, addon: ClusterAddon, reader: Reader, key: ObjectKey
    ) -> Outcome | None:
        """Delete the addons of one Cluster, or report that they stay; None where there is nothing to report.

        ``key`` is the Cluster, whose class does not come from a cluster stack, or which does not exist. A SpecError
        says that the records of the workload cluster are those of another Cluster.
        """
        manifest = await reader.find(await reader.resource(CLUSTER_API_GROUP, CLUSTER_KIND), key.name, key.namespace)
        cluster = cluster_view(manifest) if manifest is not None else None
        if cluster is None or cluster.deleting or cluster.moving or cluster.paused or release_of(cluster) is not None:
            return None
        if is_held(cluster.raw):
            patch.require_live()
            await drop_hold(self.client, cluster.raw)
        if not (addon.spec.cluster_stack or addon.status.target or addon.status.addons) or addon.spec.paused:
            return None
        if deletion_policy(cluster, addon, self.stacks.all()) is not DeletionPolicy.DELETE:
            return await self._orphan(patch, cluster)
        patch.require_live()
        patch.status["ready"] = False
        began = rfc3339(self.clock.now())
        with patch.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            delivery = Delivery(await self.workloads.connect(key), RecordOwner(key))
            report = await delivery.prune(())
        await self._report_removals(patch, report)
        delivered = addon.spec.cluster_stack or addon.status.target
        note_deletion(patch, Target(delivered, addon.status.delivered_kubernetes_version), report, began, self.clock)
        if not report.complete:
            return _not_deleted(patch, report)
        await self._forget(patch)
        await withdraw(self.client, cluster.raw)
        message = f"Cluster {key} has a class of no cluster stack; its addons were deleted, as its deletion policy says"
        patch.false(AddonCondition.DELIVERED, Reason.ADDONS_DELETED, message, Severity.INFO)
        return Waiting(Reason.ADDONS_DELETED, message, None)

    async def _orphan(self, patch: StatusPatch, cluster: ClusterView) -> Outcome:
        """Report that nothing looks after the addons any more; no condition may say that they are well now."""
        await withdraw(self.client, cluster.raw)
        message = (
            f"Cluster {cluster.key} has a class of no cluster stack: its addons stay, and are not managed any more"
        )
        patch.status["ready"] = False
        patch.status.pop("upgradeHold", None)
        patch.reconsider(condition for condition in AddonCondition if condition not in ADVISORY)
        patch.drop(AddonCondition.WITHIN_RANGES)
        patch.drop(AddonCondition.SUPPORTED)
        report_unread(patch, message, self.clock.now())
        return Waiting(Reason.ADDONS_ORPHANED, message, None)

    async def _report_removals(self, patch: StatusPatch, report: PruneReport) -> None:
        gone = [str(removal.id) for removal in report.removals if removal.result.outcome is PruneOutcome.GONE]
        if gone:
            message = f"{len(gone)} objects of the addons were deleted: {and_more(gone, OBJECTS_SHOWN)}"
            await self.events.record(patch.manifest, "Normal", Reason.ADDONS_DELETED, message)
        kept = [
            f"{removal.id}: {removal.result.reason}"
            for removal in report.removals
            if removal.result.outcome is PruneOutcome.KEPT
        ]
        if kept:
            message = f"objects of deleted addons were kept: {and_more(kept, OBJECTS_SHOWN, separator='; ')}"
            await self.events.record(patch.manifest, "Normal", EventReason.OBJECTS_KEPT, message)

    async def _forget(self, patch: StatusPatch) -> None:
        """Note that nothing is delivered: a later class of a cluster stack is installed as the first one."""
        spec = {"clusterStack": "", "version": "", "hook": "", "addons": []}
        resource = await self.client.resource(GROUP, Kind.CLUSTER_ADDON)
        patch.manifest = await self.client.merge_patch(resource, patch.key.name, {"spec": spec}, patch.key.namespace)
        patch.status |= {"addons": [], "resources": [], "stages": [], "target": "", "observedInputs": ""}
        patch.status |= {"targetKubernetesVersion": "", "deliveredKubernetesVersion": ""}
        patch.status.pop("upgradeHold", None)
        patch.status.pop("admitted", None)
        for condition in AddonCondition:
            patch.drop(condition)


def _not_deleted(patch: StatusPatch, report: PruneReport) -> Outcome:
    message = describe_remaining(report)
    patch.false(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS, message)
    return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message)
