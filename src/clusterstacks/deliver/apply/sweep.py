"""Finds delivered objects that another writer changed or deleted, and restores them.

A sweep begins with the live members of the delivery records, as ``live_members`` reads them. Only objects that are
missing, or whose metadata changed since they were last compared, cost further requests.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from clusterstacks.deliver.apply.applied_state import is_applied
from clusterstacks.deliver.apply.autoscalers import Autoscalers
from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.deliver.apply.drift_rules import (
    CHANGED,
    DELETED,
    LEAVING,
    NOT_COMPARED,
    DriftedObject,
    changed_fields,
    may_be_gone,
    reported_fields,
)
from clusterstacks.deliver.apply.foreign_fields import REPLICAS, foreign_fields
from clusterstacks.deliver.apply.messages import explain, raise_outage
from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER, Owner, has_applied, owner_of
from clusterstacks.deliver.apply.record_store import ADDON_RECORD, record_name
from clusterstacks.deliver.apply.targets import digest_of, mark_of, resolve
from clusterstacks.model.documents import text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.kube.errors import Conflict, KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from clusterstacks.deliver.apply.delivery import Delivery
    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, RecordedObject
    from clusterstacks.deliver.apply.live_members import Kind, LiveMembers
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.drift_settings import FieldPath
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client

Render: TypeAlias = "Callable[[DeliveryRecord], Awaitable[Sequence[Manifest] | None]]"
"""Renders the addon of a record again; None if its inputs are not the recorded ones."""

FINGERPRINT_BYTES: Final = 8
"""A collision would hide one change of one object until its next change."""

ATTEMPTS: Final = 3
"""Comparisons of an object that others change at the same time (arbitrary)."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A drifted object, and the step that restores it; None where that is not possible."""

    object: DriftedObject
    step: ObjectStep | None = None


@dataclass(slots=True)
class SweepMemory:
    """State of one cluster between two sweeps. It is lost at a restart, which costs a comparison with the records.

    Args:
        objects: The delivered objects with their addons.
        compared: Fingerprints of the objects when they were last found as they should be.
        settled: Digests of the lists in which all objects of a kind were as they should be, and healthy. While a list
            has the same digest, nothing about its objects changed.
        inputs: By addon, the digest of the inputs that were delivered.
        records: The resourceVersions of the records with these inputs, by Secret.
        not_reproducible: By addon, the digest of a revision whose chart renders other manifests each time.
    """

    objects: Mapping[ObjectId, str]
    compared: dict[ObjectId, bytes] = field(default_factory=dict)
    settled: dict[Kind, bytes] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, str] = field(default_factory=dict)
    not_reproducible: dict[str, str] = field(default_factory=dict)

    def forget(self) -> None:
        """Compare all objects again."""
        self.compared.clear()
        self.settled.clear()
        self.not_reproducible.clear()

    def settle(self, members: LiveMembers, judged: Iterable[ObjectId]) -> None:
        """Note the lists in which all objects are as they should be, after a read of all and the comparison.

        Args:
            members: The live objects.
            judged: Objects whose health is judged again at each sweep, as of those that are not healthy.
        """
        read_again = (*self.suspects(members), *members.unreadable, *judged)
        unsettled = {(identity.group, identity.kind) for identity in read_again}
        self.settled = {kind: digest for kind, digest in members.digests.items() if kind not in unsettled}

    def suspects(self, members: LiveMembers) -> dict[ObjectId, bytes]:
        """Return the objects to compare with their fingerprints, which are empty for objects that are missing."""
        found: dict[ObjectId, bytes] = {}
        for identity in self.objects:
            if (identity.group, identity.kind) in members.unchanged:
                continue
            one = members.live.get(identity)
            if one is None:
                if not may_be_gone(identity):
                    found[identity] = b""
                continue
            print_ = fingerprint(one)
            if self.compared.get(identity) != print_:
                found[identity] = print_
        return found


def lost_records(
    delivered: Iterable[Manifest],
    inputs: Mapping[str, str],
    records: Mapping[str, DeliveryRecord],
    unreadable: Mapping[str, str],
    kind: str = ADDON_RECORD,
) -> list[str]:
    """Return why the records do not prove that addons are as they were delivered; empty if they do.

    Args:
        delivered: The delivered addons, as the status of the ClusterAddon has them.
        inputs: By addon, the digest of the inputs that this process delivered, which is newer than that in the status.
        records: The records of the cluster.
        unreadable: The errors of its other records, by Secret.
        kind: The kind of the records, for the names of their Secrets.
    """
    counts = {text(one, "name"): one.get("objects") for one in delivered}
    inputs = {text(one, "name"): digest for one in delivered if (digest := text(one, "inputs"))} | dict(inputs)
    found = []
    for addon in sorted({*counts, *inputs}):
        secret, record = record_name(addon, kind), records.get(addon)
        if secret in unreadable:
            found.append(unreadable[secret])
        elif record is None:
            found.append(f"{kind} {addon} has no delivery record (Secret {RECORD_NAMESPACE}/{secret})")
        elif record.inputs != inputs.get(addon, record.inputs) or counts.get(addon) not in {
            None,
            0,
            len(record.objects),
        }:
            found.append(
                f"the delivery record of {kind} {addon} (Secret {RECORD_NAMESPACE}/{secret}) is not that of its last "
                "delivery, as after the restore of a backup"
            )
    return found


def fingerprint(live: Manifest) -> bytes:
    """Return a digest of the metadata that changes with every change of the object, except of its status."""
    metadata = live["metadata"]
    generation = metadata.get("generation")
    state = [
        metadata.get("uid"),
        generation or metadata.get("resourceVersion"),
        metadata.get("labels"),
        metadata.get("annotations"),
        metadata.get("deletionTimestamp"),
    ]
    written = orjson.dumps(state, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(written, digest_size=FINGERPRINT_BYTES).digest()


@dataclass(slots=True, kw_only=True)
class Sweep:
    """One comparison of suspected objects with their manifests in the delivery records.

    Args:
        client: The workload cluster.
        delivery: The delivery records.
        memory: The state of the cluster; objects without difference are noted in it.
        live: The live members as they were listed; metadata is enough.
        everything: Whether objects are compared whose recorded mark did not change.
        render: Renders an addon again whose manifests are not in its record; None reports its objects only.
    """

    client: Client
    delivery: Delivery
    memory: SweepMemory
    live: Mapping[ObjectId, Manifest]
    everything: bool = False
    render: Render | None = None
    _sets: frozenset[str] = field(init=False, default=frozenset())
    _autoscalers: Autoscalers = field(init=False)

    def __post_init__(self) -> None:
        self._autoscalers = Autoscalers(self.client)

    async def find(self, suspects: Collection[ObjectId]) -> list[Drift]:
        """Return the suspects that differ from their manifests.

        Raises:
            DependencyError: The cluster is not available.
            SpecError: The records belong to another Cluster.
        """
        records = await self.delivery.known_records()
        self._sets = frozenset(self.delivery.set_id(addon) for addon in records)
        by_addon: dict[str, set[ObjectId]] = defaultdict(set)
        for identity in suspects:
            by_addon[self.memory.objects[identity]].add(identity)
        found: list[Drift] = []
        for addon, mine in sorted(by_addon.items()):
            others = (one for name, one in records.items() if name != addon)
            shared = {known.id for one in others for known in one.objects}
            if addon in records and records[addon].state is not DeliveryState.DELIVERING:
                found += await self._find_in(records[addon], mine - shared)
        return found

    async def restore(self, drifts: Iterable[Drift]) -> list[DriftedObject]:
        """Apply drifted objects again; return them with the error of those that could not be restored.

        Raises:
            DependencyError: The cluster is not available, or another operator wrote a record in the meantime.
        """
        by_addon: dict[str, list[Drift]] = defaultdict(list)
        for drift in drifts:
            by_addon[drift.object.addon].append(drift)
        restored = []
        for addon, mine in sorted(by_addon.items()):
            steps = [drift.step for drift in mine if drift.step is not None]
            results = await self.delivery.restore(addon, steps)
            for drift in mine:
                result = results.get(drift.object.id)
                self.memory.compared.pop(drift.object.id, None)
                restored.append(replace(drift.object, error=result.error) if result else drift.object)
        return restored

    async def _find_in(self, record: DeliveryRecord, suspects: Collection[ObjectId]) -> list[Drift]:
        known = {one.id: one for one in record.objects if one.id in suspects}
        manifests = await self._manifests(record)
        if manifests is None:
            return [self._without_manifest(record.addon, one) for one in known.values() if self._has_changed(one)]
        targets = await resolve(
            self.client, manifests, default_namespace=RECORD_NAMESPACE, part_of=self.delivery.set_id(record.addon)
        )
        compared = [
            (target, known[target.id])
            for target in targets
            if target.id in known and not self._is_as_recorded(target, known[target.id])
        ]

        async def compare(one: tuple[ApplyTarget, RecordedObject]) -> Drift | None:
            return await self._compare(record.addon, *one)

        return [drift for drift in await gather(compare, compared) if drift is not None]

    async def _manifests(self, record: DeliveryRecord) -> Sequence[Manifest] | None:
        """Return the delivered manifests; None if the record lacks them, and a new rendering has other ones."""
        recorded = await self.delivery.manifests(record.addon)
        if recorded is not None or self.render is None:
            return recorded
        if self.memory.not_reproducible.get(record.addon) == record.digest:
            return None
        try:
            manifests = await self.render(record)
        except ClusterStacksError:
            return None
        if manifests is not None and digest_of(list(manifests)) != record.digest:
            self.memory.not_reproducible[record.addon] = record.digest
            return None
        return manifests

    def _is_as_recorded(self, target: ApplyTarget, known: RecordedObject) -> bool:
        live = self.live.get(target.id)
        if live is None or self.everything or live["metadata"]["uid"] != known.uid:
            return False
        if known.mark is None or mark_of(live, target.manifest) != known.mark:
            return False
        self.memory.compared[target.id] = fingerprint(live)
        return True

    def _has_changed(self, known: RecordedObject) -> bool:
        live = self.live.get(known.id)
        if live is None or live["metadata"]["uid"] != known.uid:
            return True
        # Objects with fields of others have no mark.
        return known.mark is not None and (live["metadata"].get("generation") or 0) != known.mark.generation

    def _without_manifest(self, addon: str, known: RecordedObject) -> Drift:
        change = CHANGED if known.id in self.live else DELETED
        why = (
            "the delivery record does not contain its manifest, and the chart cannot be rendered again as it was "
            "delivered; the next upgrade of the addon delivers it again"
        )
        if self.render is None:
            why = "the delivery record does not contain its manifest, so only the operator can compare its fields"
        return Drift(DriftedObject(known.id, addon, change, error=why))

    async def _compare(self, addon: str, target: ApplyTarget, known: RecordedObject) -> Drift | None:
        """Compare one object; an error that concerns only this object is part of its drift."""
        try:
            return await self._compared(addon, target, known)
        except ClusterStacksError as error:
            await raise_outage(self.client, error)
            return Drift(DriftedObject(target.id, addon, NOT_COMPARED, error=explain(error, target)))

    async def _compared(self, addon: str, target: ApplyTarget, known: RecordedObject) -> Drift | None:
        if target.refusal:
            return Drift(DriftedObject(target.id, addon, DELETED, error=target.refusal))
        live = await self._read(target)
        if live is None:
            return Drift(DriftedObject(target.id, addon, DELETED), ObjectStep(target, known))
        if live["metadata"].get("deletionTimestamp"):
            return Drift(DriftedObject(target.id, addon, LEAVING))
        paths, live = await self._changed(target, live)
        if REPLICAS in paths and await self._autoscalers.scale(target.id):
            paths.remove(REPLICAS)
        ours = owner_of(live, sets=self._sets, uid=known.uid) is Owner.OURS
        # Another program restored an object without managed fields of ours, perhaps with fields of an old revision.
        if not paths and (has_applied(live) or not ours):
            listed = self.live.get(target.id)
            if listed is not None:
                self.memory.compared[target.id] = fingerprint(listed)
            return None
        step = ObjectStep(target, known, ours=ours)
        return Drift(DriftedObject(target.id, addon, CHANGED, reported_fields(live, paths)), step)

    async def _read(self, target: ApplyTarget) -> Manifest | None:
        try:
            return await self.client.find(target.place, target.id.name, target.id.namespace)
        except KindNotServed:
            return None

    async def _changed(self, target: ApplyTarget, live: Manifest) -> tuple[list[FieldPath], Manifest]:
        """Return the fields that an apply would change, and the object that they were compared with."""
        for _ in range(ATTEMPTS):
            if is_applied(target.manifest, live):
                return [], live
            applied = await self.client.apply(
                target.place, target.manifest, manager=FIELD_MANAGER, force=True, dry_run=True
            )
            if applied["metadata"].get("resourceVersion") == live["metadata"].get("resourceVersion"):
                foreign = foreign_fields(target.manifest, live, ignored=self.delivery.ignored(target.id))
                return changed_fields(target.manifest, live, applied, foreign), live
            live = await self.client.get(target.place, target.id.name, target.id.namespace)
        raise Conflict(f"{target.id} changes all the time", status=409, reason="Conflict")
