"""Delivers addons and resource syncs to a workload cluster, using delivery records that are kept in that cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.delivery_plan import (
    AbandonedRevision,
    DeliveryRecord,
    DeliveryState,
    RecordedObject,
    foreign_owners,
    plan_delivery,
    record_results,
    shared_objects,
    shares_objects,
    with_results,
)
from clusterstacks.deliver.apply.failing_webhooks import CONFIGURATIONS, FailingWebhooks
from clusterstacks.deliver.apply.foreign_fields import nothing_ignored
from clusterstacks.deliver.apply.messages import ObjectInTwoAddons, RecordOfAnotherCluster
from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.prune import Pruner
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, plan_pruning
from clusterstacks.deliver.apply.record_codec import HealthyRevision, RecordUnreadable, unpacking_revision
from clusterstacks.deliver.apply.record_store import SYNC_RECORD, RecordStore, Stored, StoredHealthy
from clusterstacks.deliver.apply.results import Deadlines, DeliveryReport, ObjectResult, PruneReport
from clusterstacks.deliver.apply.survey import RevisionToSend, survey_cluster
from clusterstacks.deliver.apply.targets import digest_of
from clusterstacks.deliver.apply.waiting import pauses
from clusterstacks.deliver.apply.wave_applier import WaveApplier
from clusterstacks.deliver.apply.waves import CRD_KIND
from clusterstacks.model.drift_settings import SyncStrategy
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import Reason
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather, run_in_steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from clusterstacks.deliver.apply.foreign_fields import IgnoredFields
    from clusterstacks.deliver.apply.ownership import FieldWriter
    from clusterstacks.deliver.apply.prune_plan import PrunePlan
    from clusterstacks.deliver.apply.survey import Survey
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey
    from clusterstacks.net.kube.client import Client

RECORD_NAMESPACE = "kube-system"
"""Namespace of the delivery records, and of objects that do not name one (as with the Go operator)."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The rendered manifests of an addon.

    Args:
        input_digest: Digest of everything that the manifests were rendered from.
        digest: Digest of the manifests.
        basis: Digest of the part of the inputs that only an upgrade changes; empty if it is not known.
        strategy: When an object is written.
        sources: Positions of the sources of the objects of a sync, which are applied in this order.
    """

    manifests: Sequence[Manifest]
    input_digest: str
    digest: str
    basis: str = ""
    strategy: SyncStrategy = SyncStrategy.CONTINUOUS
    sources: Mapping[ObjectId, int] = field(default_factory=dict)

    @classmethod
    def of(cls, manifests: Sequence[Manifest], input_digest: str, basis: str = "") -> Revision:
        """Return the revision of manifests that were just rendered."""
        return cls(manifests, input_digest, digest_of(list(manifests)), basis)


@dataclass(frozen=True, slots=True)
class RecordOwner:
    """The Cluster that the delivery records of a workload cluster belong to.

    Args:
        adopts: Another Cluster, as ``team/prod``, whose addons this one takes over; empty for none.
    """

    cluster: ObjectKey
    adopts: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseAddons:
    """The addons that are delivered together with an addon.

    Args:
        addons: Their names. Webhook configurations of all other addons are deleted if they block a delivery.
        is_current: Returns whether a record holds the revision that the release has of its addon.
    """

    addons: Collection[str]
    is_current: Callable[[DeliveryRecord], Awaitable[bool]]


class Delivery:
    """Delivers the addons of one cluster during one reconcile; it reads the records once and keeps them current.

    Every method raises DependencyError when the cluster as a whole is not available. The call can be repeated, also by
    another instance after a crash, and continues from the record. Every method raises RecordOfAnotherCluster like
    ``records``.

    Args:
        client: The workload cluster.
        recipient: The Cluster; None writes records without an owner: for an installation, tests and benchmarks.
        store: The records; None for those of the addons.
        inherits: As ``ObjectApplier``.
        ignored: The fields of an object that belong to other writers by a setting of the ClusterStack.
    """

    def __init__(
        self,
        client: Client,
        recipient: RecordOwner | None = None,
        *,
        deadlines: Deadlines | None = None,
        store: RecordStore | None = None,
        inherits: Collection[FieldWriter] = (),
        ignored: IgnoredFields = nothing_ignored,
    ) -> None:
        self._client = client
        self._recipient = recipient
        self._deadlines = deadlines or Deadlines()
        self._inherits = inherits
        self.ignored = ignored
        self._store = store or RecordStore(client, RECORD_NAMESPACE, str(recipient.cluster) if recipient else "")
        self._stored: dict[str, Stored] | None = None
        self._unreadable: dict[str, str] = {}
        self._others: Mapping[str, DeliveryRecord] = {}
        self.versions_read: Mapping[str, str] = {}
        """The resourceVersion of each record by Secret, as ``records`` read them last."""
        self._surveys: dict[str, tuple[Survey, int]] = {}
        """Surveys for the next ``install`` of an addon, with the number of applied CRDs at their beginning."""
        self._crds_applied = 0

    async def records(self) -> dict[str, DeliveryRecord]:
        """Read the records by addon, with one request and one more for each adopted record.

        Raises:
            RecordOfAnotherCluster: The addons belong to another Cluster, and this one does not adopt them.
        """
        read = await self._store.read()
        if self._recipient is not None:
            await self._check_owners(self._recipient, read.stored)
        self._stored, self._others, self.versions_read = read.stored, read.others, read.versions
        self._unreadable = {secret: f"{why}{self._how_to_reconcile()}" for secret, why in read.unreadable.items()}
        return _records(read.stored)

    async def known_records(self) -> dict[str, DeliveryRecord]:
        """Return the records as they were read or written last; read them if they were not. Raises as ``records``."""
        return _records(await self._known())

    async def versions(self) -> dict[str, str]:
        """Read the resourceVersion of each record by Secret, without its content."""
        return await self._store.versions()

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The errors of the unreadable records by Secret, since they were read."""
        return self._unreadable

    @property
    def inputs(self) -> dict[str, str]:
        """The digest of the inputs of each addon, as the records have it since they were read or written last."""
        return {addon: one.record.inputs for addon, one in (self._stored or {}).items()}

    def set_id(self, name: str) -> str:
        """Return the ApplySet id of an addon."""
        return self._store.set_id(name)

    def _how_to_reconcile(self) -> str:
        """Return how to trigger a reconcile after a repair, which causes no event."""
        if self._recipient is None or self._store.kind == SYNC_RECORD:
            return ""
        cluster = self._recipient.cluster
        addon = f"clusteraddon --namespace {cluster.namespace} {addon_name(cluster.name)}"
        return f'; then, to deliver at once: kubectl annotate --overwrite {addon} look-again="$(date)"'

    async def _check_owners(self, recipient: RecordOwner, stored: dict[str, Stored]) -> None:
        owners = foreign_owners(_records(stored).values(), str(recipient.cluster))
        for addon in owners.pop(recipient.adopts, ()):
            # Written at once, so that the annotation is needed for the first reconcile only.
            stored[addon] = await self._store.write(stored[addon], stored[addon].record, stored[addon].kept_revision)
        for owner, addons in sorted(owners.items()):
            raise RecordOfAnotherCluster(recipient.cluster, owner, addons)

    async def manifests(self, name: str) -> list[Manifest] | None:
        """Return the last rendered manifests of an addon; None when the cluster has no readable revision of it.

        An interrupted delivery continues with these: a chart that generates certificates renders others each time.
        """
        stored = (await self._known()).get(name)
        if stored is None or not stored.revision:
            return None
        try:
            return await run_in_steps(unpacking_revision(stored.revision))
        except RecordUnreadable:
            return None

    async def healthy(self, name: str) -> StoredHealthy | None:
        """Return the last healthy revision of an addon; None when none was kept.

        Raises:
            RecordUnreadable: It was edited, or a newer operator wrote it.
        """
        return await self._store.read_healthy(name)

    async def keep_healthy(self, name: str, release: str) -> bool:
        """Keep the revision that the cluster has of an addon as its last healthy one; return False if it does not fit.

        Args:
            name: The addon.
            release: The release that the revision came from.
        """
        stored = (await self._known()).get(name)
        if stored is None or not stored.revision:
            return False
        revision = HealthyRevision(name, release, stored.record.digest, stored.record.inputs)
        return await self._store.write_healthy(revision, stored.revision)

    async def adopt(self, name: str, live: Iterable[RecordedObject]) -> None:
        """Replace the members of an addon by objects that exist; the next ``install`` reads all of them.

        Nothing is written: an object that the next revision renders becomes part of it, and the others are stale.

        Args:
            name: The addon; it needs no record.
            live: Its objects with their uids.

        Raises:
            RecordUnreadable: Its record was edited.
        """
        stored = (await self._known()).get(name)
        self._check_readable(name)
        record = stored.record if stored else DeliveryRecord(name, "", "", DeliveryState.DELIVERED)
        members = {(member.id, member.uid): member for member in live}
        objects = tuple(known for known in record.objects if members.pop((known.id, known.uid), None))
        record = replace(record, digest="", objects=objects, stale=tuple(members.values()))
        before = stored or Stored(record, b"", "")
        self._stored = {**(self._stored or {}), name: replace(before, record=record)}

    def _check_readable(self, name: str) -> None:
        if secret := self._unreadable.get(self._store.name(name)):
            raise RecordUnreadable(secret)

    async def survey(self, name: str, revision: Revision, *, default_namespace: str = RECORD_NAMESPACE) -> None:
        """Read what the next ``install`` of an addon needs, while another addon is delivered; nothing is written.

        A survey is not used if CRDs are applied after it began, because they change what the server serves.

        Raises:
            SpecError: A document is not an object.
            DependencyError: The cluster is not available.
        """
        before, kinds = (await self._known()).get(name), self._crds_applied
        self._surveys[name] = (await self._survey(name, before, revision, default_namespace), kinds)

    async def install(
        self,
        name: str,
        revision: Revision,
        *,
        default_namespace: str = RECORD_NAMESPACE,
        siblings: ReleaseAddons | None = None,
        abandoned: AbandonedRevision | None = None,
    ) -> DeliveryReport:
        """Install or upgrade one addon to a revision.

        A revision that is in place costs no request, an unchanged object only its share of one list per kind. Objects
        of earlier revisions remain until ``prune``. Calls for several addons may run concurrently.

        Args:
            name: The addon.
            revision: The manifests to apply.
            default_namespace: Namespace of objects that do not name one.
            siblings: The addons delivered together with this one; None for none.
            abandoned: The newer revision that this one replaces in a rollback; it is recorded before the first apply.

        Raises:
            SpecError: A document is not an object; the record is unreadable, or cannot hold so many objects; another
                addon of the release, or a sync, delivers one of the objects as well.
            DependencyError: The cluster is not available, or another operator wrote the record in the meantime.
                WebhookFailed when an admission webhook prevents the write of the record.
        """
        stored = (await self._known()).get(name)
        self._check_readable(name)
        target = DeliveryRecord(
            name,
            revision.digest,
            revision.input_digest,
            DeliveryState.DELIVERING,
            abandoned=abandoned,
            basis=revision.basis,
        )
        held = stored and stored.record.holds(revision.digest, revision.input_digest)
        if (
            stored
            and held
            and stored.record.abandoned == abandoned
            and not shares_objects(name, await self.known_records())
        ):
            return _report(stored.record, [_in_place(known) for known in stored.record.objects])
        try:
            return await self._install(target, stored, revision, default_namespace, siblings)
        except ClusterStacksError:
            # The record may have changed since it was read.
            self._stored = None
            raise

    async def restore(self, name: str, steps: Sequence[ObjectStep]) -> dict[ObjectId, ObjectResult]:
        """Apply objects of a delivered revision again that another writer changed or deleted, and record the results.

        Args:
            name: The addon, which has a record.
            steps: The objects.

        Raises:
            DependencyError: As ``install``; nothing is applied if the record was written since it was read.
        """
        stored = (await self._known())[name]
        await self._store.check_unchanged(stored)
        applied = await self._apply(name, steps, self._failing_webhooks(stored.record, None))
        delivered = _delivered(applied)
        objects = with_results(stored.record.objects, delivered)
        await self._write(stored, replace(stored.record, objects=objects), stored.kept_revision)
        return applied

    async def prune(self, keep: Collection[str]) -> PruneReport:
        """Delete the objects that no addon renders any longer; call it once, after all addons are delivered.

        Args:
            keep: The addons of the release; all other records are deleted with their objects.

        Raises:
            DependencyError: The cluster is not available, or another operator wrote a record in the meantime.
        """
        records = await self.known_records()
        return await self._prune(records, plan_pruning(records, keep), keep)

    async def prune_addon(self, name: str) -> PruneReport:
        """Delete the objects that one addon no longer renders, and no other addon either.

        Raises:
            DependencyError: As ``prune``.
        """
        records = await self.known_records()
        keep = records.keys()
        return await self._prune(
            records, [plan for plan in plan_pruning(records, keep) if plan.record.addon == name], keep
        )

    async def remove(self, name: str) -> PruneReport:
        """Delete one addon with its record, for example in a stage; other addons do not change.

        Raises:
            DependencyError: As ``prune``.
        """
        records = await self.known_records()
        keep = records.keys() - {name}
        return await self._prune(records, [plan for plan in plan_pruning(records, keep) if plan.whole], keep)

    async def orphan(self, name: str) -> None:
        """Delete the record of an addon and leave its objects in the cluster, where nothing looks after them any more.

        Raises:
            DependencyError: As ``prune``.
        """
        stored, self._stored = (await self._known()).get(name), None
        if stored is not None:
            await self._store.delete(stored)

    async def release(self, name: str) -> None:
        """Remove the objects that an addon no longer renders from its record, and leave them in the cluster.

        Raises:
            DependencyError: As ``prune``.
        """
        stored = (await self._known()).get(name)
        if stored is not None and stored.record.stale:
            record = replace(stored.record, stale=(), state=DeliveryState.PRUNED)
            await self._write(stored, record, stored.kept_revision)

    async def _prune(
        self, records: Mapping[str, DeliveryRecord], plans: Sequence[PrunePlan], keep: Collection[str]
    ) -> PruneReport:
        stored, self._stored = await self._known(), None
        addons = {self._store.set_id(addon): addon for addon in records}
        leaving = {plan.record.addon: plan.candidates for plan in plans}
        webhooks = FailingWebhooks(self._client, leaving, addons, self._deadlines.served)
        pruner = Pruner(self._client, self._store, self._deadlines, webhooks)
        removals, self._stored = await pruner.prune(stored, plans)
        complete = not self._unreadable and all(one.result.outcome is not PruneOutcome.PENDING for one in removals)
        return PruneReport(removals, shared_objects(records, keep), dict(self._unreadable), complete)

    async def _known(self) -> dict[str, Stored]:
        if self._stored is None:
            await self.records()
        return self._stored or {}

    async def _install(
        self,
        target: DeliveryRecord,
        stored: Stored | None,
        revision: Revision,
        default_namespace: str,
        siblings: ReleaseAddons | None,
    ) -> DeliveryReport:
        name = target.addon
        survey, kinds = self._surveys.pop(name, (None, 0))
        if survey is None or kinds != self._crds_applied or not survey.is_about(revision.digest, stored):
            survey = await self._survey(name, stored, revision, default_namespace)
        targets, seen, packed = survey.targets, survey.seen, survey.packed
        await self._check_shared(name, targets, siblings)
        before = stored.record if stored else None
        if revision.strategy is SyncStrategy.APPLY_ONCE:
            delivered = {known.id for known in (before.members if before else ()) if known.uid}
            targets = await self._without_existing(targets, delivered | seen.keys())
        plan = plan_delivery(before, target, [one.wanted for one in targets], seen, revision.strategy)
        known = {one.id: one for one in plan.record.objects}
        steps = [ObjectStep(one, known[one.id], ours=one.id in seen) for one in targets if one.id not in plan.unchanged]
        webhooks = self._failing_webhooks(plan.record, siblings)
        if steps:
            stored = await webhooks.retry_write(partial(self._write, stored, plan.record, packed))
        # Webhook configurations come last: until their workloads run, they may reject every write, also of the record.
        last = [step for step in steps if _is_webhook_configuration(step.target.id)]
        first = [step for step in steps if not _is_webhook_configuration(step.target.id)]
        applied = await self._apply(name, first, webhooks)
        if first and last:
            noted = record_results(plan, _delivered(applied))
            stored = await webhooks.retry_write(partial(self._write, stored, noted, packed))
        applied |= await self._apply(name, last, webhooks)
        stored = await webhooks.retry_write(
            partial(self._write, stored, record_results(plan, _delivered(applied)), packed)
        )
        return _report(stored.record, [applied.get(one.id) or _in_place(one) for one in stored.record.objects])

    async def _without_existing(
        self, targets: Sequence[ApplyTarget], delivered: Collection[ObjectId]
    ) -> Sequence[ApplyTarget]:
        """Return the objects that were delivered before, or do not exist."""

        async def is_ours(target: ApplyTarget) -> bool:
            if target.id in delivered or target.resource is None:
                return True
            try:
                live = await self._client.find(target.resource, target.id.name, target.id.namespace)
            except KindNotServed:  # a CRD of this delivery defines it
                return True
            return live is None or "deletionTimestamp" in live["metadata"]

        return [target for target, ours in zip(targets, await gather(is_ours, targets), strict=True) if ours]

    async def _survey(self, name: str, before: Stored | None, revision: Revision, default_namespace: str) -> Survey:
        set_id = self._store.set_id(name)
        sent = RevisionToSend(revision.manifests, revision.digest, default_namespace, set_id, revision.sources)
        return await survey_cluster(self._client, before, sent)

    async def _apply(
        self, name: str, steps: Sequence[ObjectStep], webhooks: FailingWebhooks
    ) -> dict[ObjectId, ObjectResult]:
        """Apply objects; retry those rejected by a webhook whose configuration is about to be deleted."""
        self._crds_applied += sum((step.target.id.group, step.target.id.kind) == CRD_KIND for step in steps)
        applier = WaveApplier(
            self._client,
            sets=self._sets(name),
            deadlines=self._deadlines,
            inherits=self._inherits,
            ignored=self.ignored,
        )
        results = {result.id: result for result in await applier.apply_objects(steps)}
        for pause in pauses(self._deadlines.served):
            blocked = [step for step in steps if results[step.target.id].webhook]
            again = [step for step in blocked if await webhooks.delete_leaving(results[step.target.id].webhook)]
            if not again:
                break
            await asyncio.sleep(pause)
            results |= {result.id: result for result in await applier.apply_objects(again)}
        return {identity: await webhooks.add_advice(result) for identity, result in results.items()}

    def _failing_webhooks(self, planned: DeliveryRecord, siblings: ReleaseAddons | None) -> FailingWebhooks:
        records = _records(self._stored or {})
        others = records.keys() - {planned.addon, *siblings.addons} if siblings else ()
        leaving = {planned.addon: planned.stale, **{addon: records[addon].members for addon in others}}
        addons = {self._store.set_id(addon): addon for addon in {planned.addon, *records}}
        return FailingWebhooks(self._client, leaving, addons, self._deadlines.served)

    async def _check_shared(self, name: str, targets: Sequence[ApplyTarget], siblings: ReleaseAddons | None) -> None:
        """Reject objects that another addon of the release, or a sync, has delivered.

        Records of earlier revisions do not count: an object may move from one addon to another.
        """
        wanted = {target.id for target in targets}
        claims = dict(self._others)
        if self._store.kind == SYNC_RECORD:
            claims |= {
                self._store.title(sync): one.record for sync, one in (self._stored or {}).items() if sync != name
            }
        for owner, record in sorted(claims.items()):
            if claimed := [known.id for known in record.objects if known.id in wanted]:
                raise ObjectInTwoAddons(claimed, self._store.title(name), owner, Reason.OBJECT_CLAIMED_TWICE)
        for addon, record in sorted(_records(self._stored or {}).items()):
            if siblings is None or addon == name or addon not in siblings.addons:
                continue
            shared = [known.id for known in record.objects if known.id in wanted]
            if shared and await siblings.is_current(record):
                raise ObjectInTwoAddons(shared, self._store.title(name), self._store.title(addon))

    def _sets(self, name: str) -> frozenset[str]:
        return frozenset(self._store.set_id(addon) for addon in {name, *(self._stored or {})})

    async def _write(self, before: Stored | None, record: DeliveryRecord, packed: bytes | None) -> Stored:
        stored = await self._store.write(before, record, packed)
        if self._stored is not None:
            self._stored[record.addon] = stored
        return stored


def _records(stored: Mapping[str, Stored]) -> dict[str, DeliveryRecord]:
    return {addon: one.record for addon, one in stored.items()}


def _delivered(applied: Mapping[ObjectId, ObjectResult]) -> dict[ObjectId, RecordedObject]:
    return {identity: _known(result) for identity, result in applied.items() if result.synced}


def _is_webhook_configuration(identity: ObjectId) -> bool:
    return (identity.group, identity.kind) in {(one.group, one.kind) for one in CONFIGURATIONS}


def _known(result: ObjectResult) -> RecordedObject:
    return RecordedObject(result.id, result.version, result.uid, result.digest, result.mark)


def _in_place(known: RecordedObject) -> ObjectResult:
    return ObjectResult(known.id, known.version, synced=True, uid=known.uid, digest=known.digest, mark=known.mark)


def _report(record: DeliveryRecord, results: Sequence[ObjectResult]) -> DeliveryReport:
    return DeliveryReport(record.addon, record.state, tuple(results), record.truncated)
