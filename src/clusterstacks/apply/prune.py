"""Takes out of a cluster what its addons render no longer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.apply.concurrency import together
from clusterstacks.apply.in_use_check import ForeignContent
from clusterstacks.apply.live_members import LiveMembers, survey
from clusterstacks.apply.ownership import PART_OF_LABEL, refuses_pruning
from clusterstacks.apply.prune_plan import Departure, Fate, PrunePlan, pruned, withdrawn
from clusterstacks.apply.remove import Doomed, Remover
from clusterstacks.apply.results import Deadlines, Removal
from clusterstacks.apply.waves import Wave, wave_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.apply.delivery_plan import RecordedObject
    from clusterstacks.apply.failing_webhooks import FailingWebhooks
    from clusterstacks.apply.record_store import RecordStore, Stored
    from clusterstacks.domain.objects import ObjectId
    from clusterstacks.kube.client import Client


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
        """Carry out plans; return what became of every object, and the records that are left.

        A record is written after its objects; one that nothing is left of is deleted last. That of an addon that goes
        is written before them, too: after a prune that was cut off the addon may be wanted again.
        """
        surveys = await together(self._look, plans)
        fates: dict[str, dict[ObjectId, Departure]] = {}
        doomed: list[Doomed] = []
        for plan, seen in zip(plans, surveys, strict=True):
            fates[plan.record.addon], going = _sort_out(plan, seen)
            doomed += going
        guard = ForeignContent(self._client, {self._store.set_id(plan.record.addon) for plan in plans if plan.whole})
        left = dict(stored)
        for plan in plans:
            addon = plan.record.addon
            if plan.whole and plan.record.objects:
                write = partial(self._store.write, left[addon], withdrawn(plan.record), b"")
                left[addon] = await self._webhooks.past(write)
        removed = await Remover(self._client, self._deadlines, guard).remove(doomed)
        for plan in plans:
            addon = plan.record.addon
            fates[addon] |= {known.id: removed[known.id] for known in plan.candidates if known.id in removed}
            await self._note(left, plan, fates[addon])
        removals = (Removal(addon, *fate) for addon, found in fates.items() for fate in found.items())
        return tuple(removals), left

    async def _look(self, plan: PrunePlan) -> LiveMembers:
        labels = f"{PART_OF_LABEL}={self._store.set_id(plan.record.addon)}"
        return await survey(self._client, (known.id for known in plan.candidates), labels=labels)

    async def _note(self, left: dict[str, Stored], plan: PrunePlan, fates: Mapping[ObjectId, Departure]) -> None:
        addon = plan.record.addon
        record = pruned(plan, fates)
        if record is None:
            await self._webhooks.past(partial(self._store.delete, left.pop(addon)))
        else:
            write = partial(self._store.write, left[addon], record, left[addon].kept_revision)
            left[addon] = await self._webhooks.past(write)


def _sort_out(plan: PrunePlan, seen: LiveMembers) -> tuple[dict[ObjectId, Departure], list[Doomed]]:
    """Settle what needs no delete; return the rest to delete."""
    settled = {
        identity: Departure(Fate.HANDED_OVER, f"addon {addon} renders it now")
        for identity, addon in plan.handed_over.items()
    }
    doomed = []
    for known in plan.candidates:
        departure = _without_delete(known, seen)
        if departure:
            settled[known.id] = departure
        else:
            doomed.append(_doomed(known, seen, plan.record.addon))
    return settled, doomed


def _without_delete(known: RecordedObject, seen: LiveMembers) -> Departure | None:
    live = seen.live.get(known.id)
    if (known.id.group, known.id.kind) not in seen.places:
        return Departure(Fate.GONE, "the server does not serve its kind any more")
    if live is None:
        return Departure(Fate.GONE, "it was not there any more, or not part of the addon")
    if known.uid and live["metadata"]["uid"] != known.uid:
        return Departure(Fate.GONE, "another object of that name has taken its place")
    if refuses_pruning(live):
        return Departure(Fate.KEPT, "its annotation asks to keep it")
    return None


def _doomed(known: RecordedObject, seen: LiveMembers, addon: str) -> Doomed:
    metadata = seen.live[known.id]["metadata"]
    # Controllers that work on the finalizers of custom resources must not go first.
    awaited = bool(metadata.get("finalizers")) and wave_of(known.id) is Wave.CUSTOM
    return Doomed(
        known.id,
        seen.places[known.id.group, known.id.kind],
        metadata["uid"],
        addon,
        awaited,
        leaving=bool(metadata.get("deletionTimestamp")),
    )
