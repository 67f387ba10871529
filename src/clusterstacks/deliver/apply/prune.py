"""Prunes a cluster: deletes the objects that its addons no longer render, in the reverse order of their creation.

Every delete carries the uid that was read before, so an object that another writer created in its place is not deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.deliver.apply.delivery_plan import record_before_removal
from clusterstacks.deliver.apply.foreign_content import ForeignContentCheck
from clusterstacks.deliver.apply.live_members import LiveMembers, read_live_members
from clusterstacks.deliver.apply.messages import explain_delete, raise_outage
from clusterstacks.deliver.apply.policy import reason_to_keep
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, PrunePlan, PruneResult, record_after_prune
from clusterstacks.deliver.apply.results import Deadlines, Removal
from clusterstacks.deliver.apply.waiting import until_gone
from clusterstacks.deliver.apply.waves import Wave, wave_of
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.objects import ObjectId
from clusterstacks.net.kube.errors import Conflict, NotFound
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.failing_webhooks import FailingWebhooks
    from clusterstacks.deliver.apply.record_store import RecordStore, Stored
    from clusterstacks.deliver.apply.results import Deadlines
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource


class Pruner:
    """Prunes one cluster."""

    def __init__(self, client: Client, store: RecordStore, deadlines: Deadlines, webhooks: FailingWebhooks) -> None:
        self._client = client
        self._webhooks = webhooks
        self._store = store
        self._deadlines = deadlines

    async def prune(
        self, stored: Mapping[str, Stored], plans: Sequence[PrunePlan]
    ) -> tuple[tuple[Removal, ...], dict[str, Stored]]:
        """Execute plans; return the result of every object, and the remaining records.

        A record is written after its objects are deleted, and an empty one is deleted last. The record of a removed
        addon is written before as well: after an interrupted prune the addon may be wanted again.
        """
        members = await gather(self._look, plans)
        results: dict[str, dict[ObjectId, PruneResult]] = {}
        candidates: list[PruneCandidate] = []
        for plan, seen in zip(plans, members, strict=True):
            results[plan.record.addon], going = _without_deletes(plan, seen)
            candidates += going
        pruned_sets = {self._store.set_id(plan.record.addon) for plan in plans if plan.whole}
        settled = ((identity, result) for found in results.values() for identity, result in found.items())
        kept = {identity for identity, result in settled if result.outcome is PruneOutcome.KEPT}
        guard = ForeignContentCheck(self._client, pruned_sets, kept)
        left = dict(stored)
        for plan in plans:
            addon = plan.record.addon
            if plan.whole and plan.record.objects:
                write = partial(self._store.write, left[addon], record_before_removal(plan.record), b"")
                left[addon] = await self._webhooks.retry_write(write)
        removed = await Remover(self._client, self._deadlines, guard).remove(candidates)
        for plan in plans:
            addon = plan.record.addon
            results[addon] |= {known.id: removed[known.id] for known in plan.candidates if known.id in removed}
            await self._note(left, plan, results[addon])
        removals = (Removal(addon, *result) for addon, found in results.items() for result in found.items())
        return tuple(removals), left

    async def _look(self, plan: PrunePlan) -> LiveMembers:
        labels = self._store.members(plan.record.addon)
        return await read_live_members(self._client, (known.id for known in plan.candidates), labels=labels)

    async def _note(self, left: dict[str, Stored], plan: PrunePlan, results: Mapping[ObjectId, PruneResult]) -> None:
        addon = plan.record.addon
        record = record_after_prune(plan, results)
        if record is None:
            await self._webhooks.retry_write(partial(self._store.delete, left.pop(addon)))
        else:
            write = partial(self._store.write, left[addon], record, left[addon].kept_revision)
            left[addon] = await self._webhooks.retry_write(write)


def _without_deletes(plan: PrunePlan, seen: LiveMembers) -> tuple[dict[ObjectId, PruneResult], list[PruneCandidate]]:
    """Return the results of objects that need no delete, and the objects to delete."""
    settled = {
        identity: PruneResult(PruneOutcome.HANDED_OVER, f"addon {addon} renders it now")
        for identity, addon in plan.handed_over.items()
    }
    candidates = []
    for known in plan.candidates:
        served = (known.id.group, known.id.kind) in seen.places
        if result := without_delete(known, seen.live.get(known.id), served=served):
            settled[known.id] = result
        else:
            candidates.append(_candidate(known, seen, plan.record.addon))
    return settled, candidates


def without_delete(known: RecordedObject, live: Manifest | None, *, served: bool = True) -> PruneResult | None:
    """Return the result of an object that needs no delete or forbids it; None for an object to delete."""
    if not served:
        return PruneResult(PruneOutcome.GONE, "the server no longer serves its kind")
    if live is None:
        return PruneResult(PruneOutcome.GONE, "it does not exist any longer, or is not part of the addon")
    if known.uid and live["metadata"]["uid"] != known.uid:
        return PruneResult(PruneOutcome.GONE, "another object with its name exists now")
    if reason := reason_to_keep(live) or (known.protected and "an annotation of its manifest disables pruning"):
        return PruneResult(PruneOutcome.KEPT, reason)
    return None


def _candidate(known: RecordedObject, seen: LiveMembers, addon: str) -> PruneCandidate:
    metadata = seen.live[known.id]["metadata"]
    finalizers = frozenset(metadata.get("finalizers") or ())
    is_cleaned_up = bool(finalizers) and (known.id.group, known.id.kind) in CLEANED_UP
    wave = wave_of(known.id)
    return PruneCandidate(
        known.id,
        seen.places[known.id.group, known.id.kind],
        metadata["uid"],
        addon,
        # Controllers must not be deleted before they have handled the finalizers of custom resources. A Namespace waits
        # for its content, as a CRD does, and a healthy cluster needs five seconds for that.
        awaited=wave is Wave.FOUNDATIONS or (bool(finalizers) and (is_cleaned_up or wave is Wave.CUSTOM)),
        leaving=bool(metadata.get("deletionTimestamp")),
        finalizers=finalizers,
    )


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    """One object to delete.

    Args:
        id: The object.
        place: The resource of its kind.
        uid: Only an object with this uid is deleted.
        owner: The addon; a pending object blocks only later waves of the same owner.
        awaited: The next wave waits until it is gone, for example because its controller handles its finalizers.
        leaving: Its deletion was requested before.
        finalizers: Its finalizers when it was read; it remains until they are removed.
    """

    id: ObjectId
    place: Resource
    uid: str
    owner: str = ""
    awaited: bool = False
    leaving: bool = False
    finalizers: frozenset[str] = frozenset()

    @property
    def is_cleaned_up(self) -> bool:
        """True if a controller in the cluster, perhaps of another addon, must release something outside of it first."""
        return bool(self.finalizers) and (self.id.group, self.id.kind) in CLEANED_UP

    def delays(self, workload: PruneCandidate) -> bool:
        """Return whether a workload stays until this object is gone.

        A volume claim whose only finalizer waits for its Pods does not delay the workloads of its own addon.
        """
        return self.is_cleaned_up and (self.owner != workload.owner or self.finalizers != {IN_USE})


CLEANED_UP: Final = frozenset({("", "Service"), ("", "PersistentVolumeClaim"), ("networking.k8s.io", "Ingress")})
"""Kinds whose finalizers are mostly handled by workloads of addons, for example those of load balancers."""

SOON: Final = timedelta(milliseconds=50)
"""Time for an object that delays nothing and does not go at once; the next prune looks again. Arbitrary."""

IN_USE: Final = "kubernetes.io/pvc-protection"
"""Finalizer that the control plane removes once no Pod uses a volume claim."""

Guard: TypeAlias = Callable[[ObjectId], Awaitable[str]]
"""Called right before the deletion of an object; returns the reason to keep it, or an empty text."""


async def keep_nothing(_: ObjectId) -> str:
    """Guard that keeps no object."""
    return ""


class Remover:
    """Deletes objects of one cluster."""

    def __init__(self, client: Client, deadlines: Deadlines, guard: Guard = keep_nothing) -> None:
        self._client = client
        self._deadlines = deadlines
        self._guard = guard

    async def remove(self, candidates: Sequence[PruneCandidate]) -> dict[ObjectId, PruneResult]:
        """Delete the objects; return the result of each.

        Raises:
            DependencyError: The server is not available, or rejects our credentials.
        """
        waves: dict[tuple[Wave, bool], list[PruneCandidate]] = defaultdict(list)
        for one in candidates:
            # What workloads must clean up goes before them.
            wave = Wave.WORKLOADS if one.is_cleaned_up else wave_of(one.id)
            waves[wave, one.is_cleaned_up].append(one)
        results: dict[ObjectId, PruneResult] = {}
        held: dict[str, ObjectId] = {}
        uncleaned: list[PruneCandidate] = []
        for place, members in sorted(waves.items(), reverse=True):
            delaying = uncleaned if place == (Wave.WORKLOADS, False) else ()
            of_wave = await gather(partial(self._remove_unless_held, held, delaying), members)
            for one, result in zip(members, of_wave, strict=True):
                results[one.id] = result
                if result.outcome is not PruneOutcome.PENDING:
                    continue
                if one.is_cleaned_up:
                    uncleaned.append(one)
                elif one.awaited or not one.finalizers:
                    held.setdefault(one.owner, one.id)
        return results

    async def _remove_unless_held(
        self, held: Mapping[str, ObjectId], delaying: Sequence[PruneCandidate], one: PruneCandidate
    ) -> PruneResult:
        cause = next((other.id for other in delaying if other.delays(one)), held.get(one.owner))
        if cause is not None:
            return PruneResult(PruneOutcome.PENDING, f"{one.id} waits until {cause} is gone")
        try:
            return await self._delete(one)
        except NotFound:
            return PruneResult(PruneOutcome.GONE)
        except ClusterStacksError as error:
            await raise_outage(self._client, error)
            return PruneResult(PruneOutcome.PENDING, explain_delete(error))

    async def _delete(self, one: PruneCandidate) -> PruneResult:
        is_gone = False
        if not one.leaving:
            if reason := await self._guard(one.id):
                return PruneResult(PruneOutcome.KEPT, reason)
            try:
                is_gone = await self._client.delete(one.place, one.id.name, one.id.namespace, uid=one.uid)
            except Conflict:
                # A server has other reasons than the uid, for example concurrent writes.
                live = await self._client.find_metadata(one.place, one.id.name, one.id.namespace)
                if live is not None and live["metadata"]["uid"] == one.uid:
                    raise
                return PruneResult(PruneOutcome.GONE, "another object with its name exists now")
        if not is_gone:
            limit = self._deadlines.gone if one.awaited else SOON
            await until_gone(self._client, one.place, one.id, one.uid, limit)
        return PruneResult(PruneOutcome.GONE)
