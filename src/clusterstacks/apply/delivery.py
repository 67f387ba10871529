"""Addons into a workload cluster, remembered by the cluster itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.api.clusteraddon import addon_name
from clusterstacks.api.names import ADOPT_ANNOTATION, CLUSTER_API_GROUP, Reason
from clusterstacks.apply.delivery_plan import (
    DeliveryRecord,
    DeliveryState,
    LiveMember,
    PruneOutcome,
    RecordedObject,
    foreign_owners,
    objects_to_read,
    plan_delivery,
    plan_pruning,
    record_results,
    shared_objects,
    shares_objects,
)
from clusterstacks.apply.failing_webhooks import CONFIGURATIONS, FailingWebhooks
from clusterstacks.apply.live_members import read_live_members
from clusterstacks.apply.object_applier import ObjectStep
from clusterstacks.apply.ownership import PART_OF_LABEL
from clusterstacks.apply.prune import Pruner
from clusterstacks.apply.record_codec import RecordUnreadable, pack_revision, unpacking_revision
from clusterstacks.apply.record_store import RecordStore, Stored, record_name
from clusterstacks.apply.results import Deadlines, DeliveryReport, ObjectResult, PruneReport
from clusterstacks.apply.targets import ApplyTarget, digest_of, mark_of, resolve
from clusterstacks.apply.waiting import pauses
from clusterstacks.apply.wave_applier import WaveApplier
from clusterstacks.domain.errors import ClusterStacksError, SpecError
from clusterstacks.runtime.concurrency import run_in_steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from clusterstacks.apply.delivery_plan import PrunePlan
    from clusterstacks.domain.objects import Manifest, ObjectId, ObjectKey
    from clusterstacks.kube.client import Client

SHOWN_ADDONS = 3
"""Addons that a message names (arbitrary)."""

SHOWN_OBJECTS = 3
"""Objects that a message names (arbitrary)."""

RECORD_NAMESPACE = "kube-system"
"""Where delivery records lie, and where objects go that name no namespace (as the Go operator's)."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What an addon is rendered to.

    Args:
        manifests: The rendered objects.
        input_digest: Digest of everything they were rendered from.
        digest: Digest of the manifests.
    """

    manifests: Sequence[Manifest]
    input_digest: str
    digest: str

    @classmethod
    def of(cls, manifests: Sequence[Manifest], input_digest: str) -> Revision:
        """Make a revision of fresh manifests."""
        return cls(manifests, input_digest, digest_of(list(manifests)))


@dataclass(frozen=True, slots=True)
class RecordOwner:
    """Whose addons the records of a cluster are.

    Args:
        cluster: The Cluster.
        adopts: Another Cluster, as ``team/prod``, whose addons it takes over; empty for none.
    """

    cluster: ObjectKey
    adopts: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseAddons:
    """The addons of the release that is delivered.

    Args:
        addons: Their names. Webhook configurations of all other addons may be deleted when they block a delivery.
        is_current: Tells whether a record is that of the addon's revision in the release.
    """

    addons: Collection[str]
    is_current: Callable[[DeliveryRecord], Awaitable[bool]]


class RecordOfAnotherCluster(SpecError):
    """Another Cluster delivered addons to this cluster."""

    def __init__(self, cluster: ObjectKey, owner: str, addons: Sequence[str]) -> None:
        name = f"clusters.{CLUSTER_API_GROUP} --namespace {cluster.namespace} {cluster.name}"
        listed = ", ".join(sorted(addons)[:SHOWN_ADDONS]) + (" and others" if len(addons) > SHOWN_ADDONS else "")
        super().__init__(
            Reason.RECORD_OF_ANOTHER_CLUSTER,
            f"the workload cluster of Cluster {cluster} has addons of Cluster {owner} ({listed}), which are neither "
            f"changed nor deleted: correct the kubeconfig of Cluster {cluster} or, if it replaces Cluster {owner}, let "
            f"it take over the addons: kubectl annotate --overwrite {name} {ADOPT_ANNOTATION}={owner}",
        )


class ObjectInTwoAddons(SpecError):
    """Two addons of a release render the same object."""

    def __init__(self, shared: Sequence[ObjectId], addon: str, other: str) -> None:
        more = f" and {len(shared) - SHOWN_OBJECTS} more objects" if len(shared) > SHOWN_OBJECTS else ""
        super().__init__(
            Reason.OBJECT_IN_TWO_ADDONS,
            f"addon {addon} and addon {other} both render {', '.join(map(str, shared[:SHOWN_OBJECTS]))}{more}: remove "
            f"each object from one of the two charts; until then addon {addon} is not delivered, and the objects stay "
            f"as addon {other} delivered them",
        )


class Delivery:
    """The addons of one cluster, for one reconcile: it reads the records once and then trusts what it wrote itself.

    Every method raises DependencyError when the cluster cannot be worked with as a whole; it may be called again then,
    and goes on where it was, as does any other instance, after a crash, too. Every method raises RecordOfAnotherCluster
    as ``records``.

    Args:
        client: The workload cluster.
        recipient: The Cluster; None names none in the records, for tests and measurements of a cluster without one.
        deadlines: How long to wait for the server.
    """

    def __init__(
        self, client: Client, recipient: RecordOwner | None = None, *, deadlines: Deadlines | None = None
    ) -> None:
        self._client = client
        self._recipient = recipient
        self._deadlines = deadlines or Deadlines()
        self._store = RecordStore(client, RECORD_NAMESPACE, str(recipient.cluster) if recipient else "")
        self._stored: dict[str, Stored] | None = None
        self._unreadable: dict[str, str] = {}

    async def records(self) -> dict[str, DeliveryRecord]:
        """Read what the cluster holds, by addon: one request, and one more for each record that is taken over.

        Raises:
            RecordOfAnotherCluster: Another Cluster's addons are there, and this one was not asked to take them over.
        """
        stored, unreadable = await self._store.read()
        if self._recipient is not None:
            await self._check_owners(self._recipient, stored)
        self._stored = stored
        self._unreadable = {secret: f"{why}{self._look_again()}" for secret, why in unreadable.items()}
        return _records(stored)

    def _look_again(self) -> str:
        """Say how to have the cluster looked at right after a repair, which nothing else reports."""
        if self._recipient is None:
            return ""
        cluster = self._recipient.cluster
        addon = f"clusteraddon --namespace {cluster.namespace} {addon_name(cluster.name)}"
        return f'; afterwards, to deliver at once: kubectl annotate --overwrite {addon} look-again="$(date)"'

    async def _check_owners(self, recipient: RecordOwner, stored: dict[str, Stored]) -> None:
        owners = foreign_owners(_records(stored).values(), str(recipient.cluster))
        for addon in owners.pop(recipient.adopts, ()):
            # Written at once, so that the annotation has done its part after the first reconcile.
            stored[addon] = await self._store.write(stored[addon], stored[addon].record, stored[addon].kept_revision)
        for owner, addons in sorted(owners.items()):
            raise RecordOfAnotherCluster(recipient.cluster, owner, addons)

    async def manifests(self, name: str) -> list[Manifest] | None:
        """Return what an addon was last rendered to; None when the cluster holds no (readable) revision of it.

        A delivery that was cut off goes on with these: a chart that generates certificates renders to others.
        """
        stored = (await self._known()).get(name)
        if stored is None or not stored.revision:
            return None
        try:
            return await run_in_steps(unpacking_revision(stored.revision))
        except RecordUnreadable:
            return None

    async def install(
        self,
        name: str,
        revision: Revision,
        *,
        default_namespace: str = RECORD_NAMESPACE,
        siblings: ReleaseAddons | None = None,
    ) -> DeliveryReport:
        """Bring one addon to a revision.

        A revision that is in place costs no request. Objects that are in place cost none but their part in a list per
        kind. Objects of earlier revisions stay until ``prune``. Safe to call for several addons side by side.

        Args:
            name: The addon.
            revision: What to deliver.
            default_namespace: For objects of namespaced kinds that name none.
            siblings: The addons of the release; None for one that has no others.

        Raises:
            SpecError: A document that is no object; the record is unreadable, or has no room for so many objects; an
                object is rendered by another addon of the release as well.
            DependencyError: The cluster cannot be worked with, or another operator wrote the record meanwhile.
                WebhookFailed when the record cannot be written because of an admission webhook.
        """
        stored = (await self._known()).get(name)
        if secret := self._unreadable.get(record_name(name)):
            raise RecordUnreadable(secret)
        held = stored and stored.record.holds(revision.digest, revision.input_digest)
        if stored and held and not shares_objects(name, _records(await self._known())):
            return _report(stored.record, [_in_place(known) for known in stored.record.objects])
        try:
            return await self._install(name, stored, revision, default_namespace, siblings)
        except ClusterStacksError:
            # The record may be another now than the one read.
            self._stored = None
            raise

    async def prune(self, keep: Collection[str]) -> PruneReport:
        """Delete what no addon renders any more; to be called once, after all addons are delivered.

        Args:
            keep: Addons the release has; the records of all others go, with everything they list.

        Raises:
            DependencyError: The cluster cannot be worked with, or another operator wrote a record meanwhile.
        """
        records = _records(await self._known())
        return await self._prune(records, plan_pruning(records, keep), keep)

    async def remove(self, name: str) -> PruneReport:
        """Delete one addon with its record, e.g. in a stage that asks for it; all others stay as they are.

        Raises:
            DependencyError: As ``prune``.
        """
        records = _records(await self._known())
        keep = records.keys() - {name}
        return await self._prune(records, [plan for plan in plan_pruning(records, keep) if plan.whole], keep)

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
        name: str,
        stored: Stored | None,
        revision: Revision,
        default_namespace: str,
        siblings: ReleaseAddons | None,
    ) -> DeliveryReport:
        set_id = self._store.set_id(name)
        targets = await resolve(self._client, revision.manifests, default_namespace=default_namespace, part_of=set_id)
        await self._check_shared(name, targets, siblings)
        before = stored.record if stored else None
        seen = await self._seen(before, targets, set_id)
        aim = DeliveryRecord(name, revision.digest, revision.input_digest, DeliveryState.DELIVERING)
        plan = plan_delivery(before, aim, [target.wanted for target in targets], seen)
        # Compressing megabytes would hold up everybody else's requests.
        packed = await asyncio.to_thread(pack_revision, revision.manifests)
        known = {one.id: one for one in plan.record.objects}
        steps = [
            ObjectStep(target, known[target.id], ours=target.id in seen)
            for target in targets
            if target.id not in plan.unchanged
        ]
        webhooks = self._failing_webhooks(plan.record, siblings)
        if steps:
            stored = await webhooks.past(partial(self._write, stored, plan.record, packed))
        # Webhook configurations last: until their own workloads run, they may refuse every write, also of the record.
        last = [step for step in steps if _is_webhook_configuration(step.target.id)]
        first = [step for step in steps if not _is_webhook_configuration(step.target.id)]
        applied = await self._apply(name, first, webhooks)
        if first and last:
            noted = record_results(plan, _delivered(applied))
            stored = await webhooks.past(partial(self._write, stored, noted, packed))
        applied |= await self._apply(name, last, webhooks)
        stored = await webhooks.past(partial(self._write, stored, record_results(plan, _delivered(applied)), packed))
        return _report(stored.record, [applied.get(one.id) or _in_place(one) for one in stored.record.objects])

    async def _apply(
        self, name: str, steps: Sequence[ObjectStep], webhooks: FailingWebhooks
    ) -> dict[ObjectId, ObjectResult]:
        """Apply objects; those that a webhook refuses whose configuration is to leave, once more without it."""
        applier = WaveApplier(self._client, sets=self._sets(name), deadlines=self._deadlines)
        results = {result.id: result for result in await applier.apply_objects(steps)}
        for pause in pauses(self._deadlines.served):
            blocked = [step for step in steps if results[step.target.id].webhook]
            again = [step for step in blocked if await webhooks.is_leaving(results[step.target.id].webhook)]
            if not again:
                break
            await asyncio.sleep(pause)
            results |= {result.id: result for result in await applier.apply_objects(again)}
        return {identity: await webhooks.explained(result) for identity, result in results.items()}

    def _failing_webhooks(self, planned: DeliveryRecord, siblings: ReleaseAddons | None) -> FailingWebhooks:
        records = _records(self._stored or {})
        others = records.keys() - {planned.addon, *siblings.addons} if siblings else ()
        leaving = {planned.addon: planned.stale, **{addon: records[addon].members for addon in others}}
        addons = {self._store.set_id(addon): addon for addon in {planned.addon, *records}}
        return FailingWebhooks(self._client, leaving, addons, self._deadlines.served)

    async def _check_shared(self, name: str, targets: Sequence[ApplyTarget], siblings: ReleaseAddons | None) -> None:
        """Refuse objects that another addon of the release has delivered.

        A record of an earlier revision does not count: the object may move from one addon to the other.
        """
        wanted = {target.id for target in targets}
        for addon, record in sorted(_records(self._stored or {}).items()):
            if siblings is None or addon == name or addon not in siblings.addons:
                continue
            shared = [known.id for known in record.objects if known.id in wanted]
            if shared and await siblings.is_current(record):
                raise ObjectInTwoAddons(shared, name, addon)

    async def _seen(
        self, record: DeliveryRecord | None, targets: Sequence[ApplyTarget], set_id: str
    ) -> Mapping[ObjectId, LiveMember]:
        """Look at live members, only as far as they decide something: never at a first installation."""
        if record is None:
            return {}
        looked = objects_to_read(record, [target.wanted for target in targets])
        places = {(one.id.group, one.id.kind): one.resource for one in targets if one.resource}
        found = await read_live_members(self._client, looked, labels=f"{PART_OF_LABEL}={set_id}", places=places)
        sent = {target.id: target.manifest for target in targets}
        return {
            identity: LiveMember(live["metadata"]["uid"], mark_of(live, sent[identity]) if identity in sent else None)
            for identity, live in found.live.items()
        }

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
