"""Delivers the objects of a ClusterResourceSync to one cluster, and deletes them when it is not selected any more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE, Delivery, RecordOwner, Revision
from clusterstacks.deliver.apply.foreign_content import ForeignContentCheck
from clusterstacks.deliver.apply.prune_hold import positions, revision_of, revision_until
from clusterstacks.deliver.apply.record_store import SYNC_RECORD, RecordStore
from clusterstacks.deliver.apply.source_objects import without_repetitions
from clusterstacks.deliver.apply.targets import digest_of
from clusterstacks.deliver.apply.waves import CRD_KIND
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more, text
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.model.files.addon_config import WaitFor
from clusterstacks.model.kinds.clusterapi import cluster_view, is_moving, unpause_hint
from clusterstacks.model.kinds.clusterresourceset import sync_of_set
from clusterstacks.model.kinds.clusterresourcesync import ClusterResourceSync, binding_name
from clusterstacks.model.kinds.clusterresourcesyncbinding import last_delivery
from clusterstacks.model.kinds.clusterstack import DeletionPolicy
from clusterstacks.model.kinds.names import (
    ADOPT_ANNOTATION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    CONFIRM_PRUNE_ANNOTATION,
    PAUSED_ANNOTATION,
    RECONCILE_ANNOTATION,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    SYNC_DELETION_POLICY_ANNOTATION,
    SYNC_FINALIZER,
    SYNC_GROUP,
    AddonCondition,
    Kind,
    Reason,
    SyncCondition,
    set_name,
)
from clusterstacks.model.objects import rfc3339
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.addon_health import report_unread
from clusterstacks.operator.controllers.clusterresourcesync.reconciler import is_selected
from clusterstacks.operator.controllers.clusterresourcesync.set_adoption import adopt, objects_to_adopt
from clusterstacks.operator.controllers.clusterresourcesync.source_wait import RETRY, wait_for_delivery, wait_for_health
from clusterstacks.operator.controllers.object_reader import LiveReader
from clusterstacks.operator.controllers.resource_list import describe_failures, describe_remaining, entries
from clusterstacks.operator.controllers.status_reconciler import remove_finalizer
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.deliver.apply.prune_hold import SyncRevision
    from clusterstacks.deliver.apply.results import DeliveryReport
    from clusterstacks.deliver.apply.source_objects import SourceObjects
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.kinds.clusterresourcesync import ClusterResourceSyncSpec
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.clusteraddon.workload_gate import WorkloadGate
    from clusterstacks.operator.controllers.clusterresourcesync.sync_sources import SyncSources
    from clusterstacks.operator.controllers.object_reader import CachedReader, Reader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.metrics import Metrics

FAULTS_SHOWN: Final = 3
"""Faults of sources that a message names (arbitrary)."""

COMPARED: Final = frozenset(
    {
        Reason.PRUNE_HELD,
        Reason.SOURCE_INCOMPLETE,
        Reason.OBJECTS_IN_PROGRESS,
        Reason.OBJECTS_FAILED,
        Reason.HEALTH_UNKNOWN,
    }
)
"""Reasons to wait for a person or a workload, perhaps for long: until then, the delivered objects are compared."""

PATIENCE: Final = timedelta(seconds=2)
"""Time that a binding waits for the delivery of another one to its cluster. Each takes 10 s if the cluster does not
answer, so that its syncs would occupy all workers. Arbitrary."""

ADVISORY: Final = frozenset({AddonCondition.HEALTHY, AddonCondition.IN_SYNC, AddonCondition.PAUSED})
"""Conditions that do not count for Ready."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A binding with its sync and its Cluster."""

    patch: StatusPatch
    sync: ClusterResourceSync
    cluster: ClusterView
    sources: Sequence[SourceObjects]
    inputs: str
    """Digest of everything that decides what is delivered."""

    @property
    def name(self) -> str:
        return self.sync.metadata.name

    @property
    def is_incomplete(self) -> bool:
        """Whether a source cannot be read, or a part of it."""
        return any(source.faults for source in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingReconciler:
    """Compares the objects of a cluster with the sources of a sync, and delivers the difference."""

    client: Client
    cached_reads: CachedReader
    workloads: Workloads
    gate: WorkloadGate
    sources: SyncSources
    sweep: AddonSweep
    metrics: Metrics

    async def work(self, patch: StatusPatch) -> Outcome | timedelta | None:
        """Reconcile one binding; None where there is nothing to do or to report."""
        if is_moving(patch.manifest):
            self.sweep.forget(patch.key)
            return None
        if patch.deleting:
            patch.require_live()
        reads = self.cached_reads if patch.cached else LiveReader(self.client, self.cached_reads.informers)
        cluster_manifest = await _find(reads, CLUSTER_API_GROUP, CLUSTER_KIND, patch, "clusterName")
        sync = await _sync_of(reads, patch)
        canonical = binding_name(text(patch.manifest, "spec", "syncName"), text(patch.manifest, "spec", "clusterName"))
        # A binding under another name has delivered nothing, so nothing in the cluster is its own.
        is_canonical = patch.key.name == canonical
        cluster = cluster_view(cluster_manifest) if cluster_manifest and is_canonical else None
        if patch.deleting:
            return await self._end(patch, sync, cluster)
        if sync is None or cluster is None or not is_selected(sync, cluster_manifest):
            self.sweep.forget(patch.key)
            return None  # the reconcile of the sync deletes it
        if sync.spec.suspend or cluster.paused or cluster.moving:
            self.sweep.forget(patch.key)
            why = unpause_hint(cluster.key) if cluster.paused else _suspension(sync)
            patch.true(AddonCondition.PAUSED, "Paused", f"nothing is delivered because {why}")
            report_unread(patch, why, self.gate.clock.now())
            return Settled() if patch.status.get("ready") else Waiting("Paused", why, None)
        patch.drop(AddonCondition.PAUSED)
        bound = await self._bound(patch, sync, cluster)
        try:
            outcome = await self._deliver(bound)
        finally:
            self.sweep.report(patch)
        patch.status["ready"] = isinstance(outcome, Settled)
        return outcome

    async def _bound(self, patch: StatusPatch, sync: ClusterResourceSync, cluster: ClusterView) -> _Bound:
        found = await gather(partial(self.sources.read, cluster=cluster.raw), sync.spec.resources)
        confirmed = sync.metadata.annotations.get(CONFIRM_PRUNE_ANNOTATION, "")
        settings = [sync.spec.strategy, sync.spec.prune, sync.spec.drift.document()]
        order = [[digest, one.wait_for] for one, (_, digest) in zip(sync.spec.resources, found, strict=True)]
        inputs = digest_of([order, settings, confirmed])
        return _Bound(patch, sync, cluster, without_repetitions(objects for objects, _ in found), inputs)

    async def _deliver(self, bound: _Bound) -> Outcome:
        patch, interval = bound.patch, bound.sync.spec.reading_interval
        faults = [fault for source in bound.sources for fault in source.faults]
        if faults:
            message = and_more(faults, FAULTS_SHOWN, separator="; ", noun="faults")
            patch.false(SyncCondition.SOURCES_READ, Reason.SOURCE_INCOMPLETE, message)
        else:
            patch.true(SyncCondition.SOURCES_READ)
        lost = self.sweep.lost_records(patch.key)
        if lost or patch.status.get("observedInputs") != bound.inputs:
            patch.require_live()
            patch.status |= {"observedInputs": "", "ready": False}
            self.sweep.configure(patch.key, None)
            async with self.sweep.rollout(bound.cluster.key, PATIENCE):
                outcome = await self._roll_out(bound)
            if outcome is not None:
                if outcome.reason in COMPARED:
                    self._detect_drift(bound)
                return outcome
            patch.status["observedInputs"] = bound.inputs
        else:
            self.sweep.watch(patch.key, bound.cluster.key, record=bound.name)
        self._detect_drift(bound)
        if faults:
            return Waiting(Reason.SOURCE_INCOMPLETE, message, interval)
        return Settled(interval)

    def _detect_drift(self, bound: _Bound) -> None:
        patch = bound.patch
        requested = bound.cluster.annotations.get(RECONCILE_ANNOTATION, "")
        request = requested if requested != patch.status.get("lastHandledReconcileAt", "") else ""
        delivered = last_delivery(bound.name, patch.status)
        self.sweep.configure(patch.key, bound.sync.spec.drift_settings(), request, [delivered])

    async def _roll_out(self, bound: _Bound) -> Waiting | None:
        """Deliver the objects; return None when the cluster has them all and nothing is left to delete."""
        patch = bound.patch
        applied = patch.condition(SyncCondition.OBJECTS_APPLIED)
        if applied is not None and applied.status == "True":
            patch.drop(SyncCondition.OBJECTS_APPLIED)  # it is about what was delivered before
        client = await self.gate.connect(patch, bound.cluster)
        if isinstance(client, Waiting):
            return client
        delivery = self._delivery(client, bound.cluster, bound.sync.spec)
        with patch.failing_condition(SyncCondition.OBJECTS_APPLIED):
            records = await delivery.records()
            before = await delivery.manifests(bound.name)
            revision = await self._revision(client, bound, before or [])
            if resource_set := set_name(bound.name):
                sources = zip(bound.sync.spec.resources, bound.sources, strict=True)
                adoptable = await objects_to_adopt(self.client, bound.cluster.key, resource_set, sources)
                await adopt(client, delivery, bound.name, records.get(bound.name), adoptable)
            for position, source in enumerate(bound.sync.spec.resources):
                if source.wait_for is not None:
                    until = revision_until(bound.sources, before or [], position)
                    report = await self._install(bound, delivery, until)
                    if waiting := await self._await_source(bound, client, report, position):
                        return waiting
            report = await self._install(bound, delivery, revision.manifests)
        failed = sum(not one.synced for one in report.objects)
        if not report.synced:
            message = f"{failed} of {len(report.objects)} objects not applied: {describe_failures(report.objects)}"
            patch.false(SyncCondition.OBJECTS_APPLIED, Reason.OBJECTS_APPLYING_ONGOING, message)
            return Waiting(Reason.OBJECTS_APPLYING_ONGOING, message)
        patch.true(SyncCondition.OBJECTS_APPLIED)
        self._watch(bound, report)
        # Without the recorded manifests it is not known what would leave.
        is_certain = before is not None or bound.name not in records
        return await self._prune(bound, delivery, revision, is_certain=is_certain)

    async def _install(self, bound: _Bound, delivery: Delivery, manifests: Sequence[Manifest]) -> DeliveryReport:
        sent = replace(
            Revision.of(list(manifests), bound.inputs),
            strategy=bound.sync.spec.strategy,
            sources=positions(bound.sources),
        )
        report = await delivery.install(bound.name, sent)
        bound.patch.status["resources"] = entries(report.objects)
        changed = sum(one.changed for one in report.objects)
        failed = sum(not one.synced for one in report.objects)
        self.metrics.count_applied(changed=changed, unchanged=len(report.objects) - changed - failed, failed=failed)
        return report

    def _watch(self, bound: _Bound, report: DeliveryReport) -> None:
        objects = {one.id: bound.name for one in report.objects if one.synced}
        self.sweep.watch(bound.patch.key, bound.cluster.key, objects, {bound.name: bound.inputs}, record=bound.name)

    async def _await_source(
        self, bound: _Bound, client: Client, report: DeliveryReport, position: int
    ) -> Waiting | None:
        """Return what the sources after a source wait for; None if its objects are in the state that it names."""
        patch, source = bound.patch, bound.sources[position]
        self._watch(bound, report)
        wait = wait_for_delivery(source, report)
        if wait is None and bound.sync.spec.resources[position].wait_for is WaitFor.HEALTHY:
            await self.sweep.read_delivered(patch.key, client)
            wait = wait_for_health(source, report, self.sweep.report(patch))
        if wait is None:
            return None
        before = patch.condition(SyncCondition.OBJECTS_APPLIED)
        since = before.last_transition_time if before is not None and before.status == "False" else ""
        since = since or rfc3339(self.sweep.clock.now())
        message = f"waiting for the objects of {source.title} since {since}: {wait.message}"
        patch.false(SyncCondition.OBJECTS_APPLIED, wait.reason, message, Severity.INFO)
        return Waiting(wait.reason, message, RETRY)

    async def _prune(
        self, bound: _Bound, delivery: Delivery, revision: SyncRevision, *, is_certain: bool
    ) -> Waiting | None:
        patch = bound.patch
        if revision.held:
            resource_set = set_name(bound.name)
            annotated = f"{RESOURCE_SET_KIND.lower()} {resource_set}" if resource_set else f"crsync {bound.name}"
            command = (
                f"kubectl annotate --overwrite --namespace {patch.key.namespace} {annotated} "
                f"{CONFIRM_PRUNE_ANNOTATION}={revision.confirmation}"
            )
            message = f"{revision.held}; to delete them: {command}"
            patch.false(SyncCondition.OBJECTS_PRUNED, Reason.PRUNE_HELD, message)
            return Waiting(Reason.PRUNE_HELD, message, bound.sync.spec.reading_interval)
        patch.drop(SyncCondition.OBJECTS_PRUNED)
        doubtful = not is_certain and any(source.is_empty for source in bound.sources)
        if bound.is_incomplete or (bound.sync.spec.prunes and doubtful):
            return None
        if not bound.sync.spec.prunes:
            # It may be a CRD with objects: a later change of the strategy or of prune must not delete it unseen.
            await delivery.release(bound.name)
            return None
        with patch.failing_condition(SyncCondition.OBJECTS_PRUNED):
            report = await delivery.prune_addon(bound.name)
        if report.complete:
            return None
        message = describe_remaining(report)
        patch.false(SyncCondition.OBJECTS_PRUNED, Reason.FAILED_TO_DELETE_OBJECTS, message)
        return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message)

    async def _revision(self, client: Client, bound: _Bound, before: Sequence[Manifest]) -> SyncRevision:
        stays_delivered = bound.sync.spec.prunes or bound.is_incomplete
        decide = partial(
            revision_of,
            bound.sources,
            before if stays_delivered else (),
            confirmed=bound.sync.metadata.annotations.get(CONFIRM_PRUNE_ANNOTATION, ""),
        )
        revision = decide()
        used: set[ObjectId] = set()
        check = ForeignContentCheck(client, (), ())
        for identity in revision.leaving:
            if (identity.group, identity.kind) == CRD_KIND and await check(identity):
                used.add(identity)
        return decide(used_crds=used) if used else revision

    def _delivery(self, client: Client, cluster: ClusterView, spec: ClusterResourceSyncSpec | None = None) -> Delivery:
        store = RecordStore(client, RECORD_NAMESPACE, str(cluster.key), kind=SYNC_RECORD)
        owner = RecordOwner(cluster.key, cluster.annotations.get(ADOPT_ANNOTATION, ""))
        if spec is None:
            return Delivery(client, owner, store=store)
        return Delivery(client, owner, ignored=spec.drift_settings().ignored_fields, store=store)

    async def _end(self, patch: StatusPatch, sync: ClusterResourceSync | None, cluster: ClusterView | None) -> Outcome:
        """Delete or orphan the objects of a deleted binding; those of a Cluster that is deleted go with it."""
        self.sweep.forget(patch.key)
        if cluster is not None and not cluster.deleting:
            policy = sync.spec.deletion_policy if sync is not None else DeletionPolicy.ORPHAN
            annotated = patch.annotation(SYNC_DELETION_POLICY_ANNOTATION)
            is_orphan = annotated == DeletionPolicy.ORPHAN or (not annotated and policy is DeletionPolicy.ORPHAN)
            if cluster.paused or (sync is not None and sync.spec.suspend and not is_orphan):
                why = unpause_hint(cluster.key) if cluster.paused else "spec.suspend of the sync is true"
                return Waiting("Paused", f"nothing is deleted because {why}", None)
            name = text(patch.manifest, "spec", "syncName")
            async with self.sweep.rollout(cluster.key, PATIENCE):
                try:
                    remaining = await self._remove(patch, name, cluster, is_orphan=is_orphan)
                except ClusterStacksError as error:  # an invalid kubeconfig must not keep the binding either
                    if not is_orphan:
                        raise _with_way_out(patch, error) from error
                    remaining = None
            if remaining is not None:
                return remaining
        await remove_finalizer(patch, SYNC_FINALIZER, self.client)
        return Settled()

    async def _remove(self, patch: StatusPatch, name: str, cluster: ClusterView, *, is_orphan: bool) -> Outcome | None:
        delivery = self._delivery(await self.workloads.connect(cluster.key), cluster)
        if is_orphan:
            await delivery.orphan(name)
            return None
        report = await delivery.remove(name)
        if report.complete:
            return None
        message = describe_remaining(report)
        patch.false(SyncCondition.OBJECTS_PRUNED, Reason.FAILED_TO_DELETE_OBJECTS, message, Severity.WARNING)
        return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message)


def _with_way_out(patch: StatusPatch, error: ClusterStacksError) -> ClusterStacksError:
    kind = SpecError if isinstance(error, SpecError) else DependencyError
    return kind(
        error.code,
        f"the objects of the sync are not deleted: {error.message}; to leave them in the cluster: kubectl annotate "
        f"--namespace {patch.key.namespace} crsyncbinding {patch.key.name} {SYNC_DELETION_POLICY_ANNOTATION}=Orphan",
    )


def _suspension(sync: ClusterResourceSync) -> str:
    if resource_set := set_name(sync.metadata.name):
        return f"{RESOURCE_SET_KIND} {sync.metadata.namespace}/{resource_set} has the annotation {PAUSED_ANNOTATION}"
    return f"spec.suspend of the sync {sync.key} is true"


async def _sync_of(reads: Reader, patch: StatusPatch) -> ClusterResourceSync | None:
    """Read the sync of a binding; None if it is gone.

    How the binding of a ClusterResourceSet ends is written in the binding itself, as nothing delays the deletion of
    the ClusterResourceSet.

    Raises:
        SpecError: It is not valid.
    """
    resource_set = set_name(text(patch.manifest, "spec", "syncName"))
    if not resource_set:
        manifest = await _find(reads, SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC, patch, "syncName")
        return ClusterResourceSync.parse(manifest) if manifest else None
    if patch.deleting:
        return None
    try:
        resource = await reads.resource(RESOURCE_SET_GROUP, RESOURCE_SET_KIND)
    except KindNotServed:
        return None
    manifest = await reads.find(resource, resource_set, patch.key.namespace)
    return sync_of_set(manifest) if manifest else None


async def _find(reads: Reader, group: str, kind: str, patch: StatusPatch, field: str) -> Manifest | None:
    return await reads.find(await reads.resource(group, kind), text(patch.manifest, "spec", field), patch.key.namespace)
