"""Decides ``status.history``: what each delivery of the addons of a cluster created, changed and removed.

The newest delivery is the first entry. It is open, without ``ended``, while its rollout waits or fails, and each
reconcile of the rollout completes it. Nothing is written for it alone: the entry changes only when the status says
something else as well, or when the cluster was changed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.deliver.apply.live_fields import one_line
from clusterstacks.deliver.apply.prune_plan import PruneOutcome
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.names import InvalidName, parse_class
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Occasion, StagePhase, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.apply.results import ObjectResult, PruneReport
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import RolloutPlan

LISTED: Final = 10
"""Deliveries that the history has (arbitrary: a cluster has some upgrades a year)."""

ENTRY_BYTES: Final = 4096
"""Maximum bytes of an entry as JSON. Arbitrary: the names of about 60 objects."""

HISTORY_BYTES: Final = 16 * 1024
"""Maximum bytes of the history as JSON. Arbitrary: etcd limits an object to 1.5 MiB, and each write has the history."""

MESSAGE_LENGTH: Final = 256
"""Characters of the message of an entry (arbitrary: the condition Ready has the whole message)."""

NAME_LENGTH: Final = 320
"""Characters of the name of an object. Arbitrary: kind, namespace and name fit in nearly all cases."""

RELEASE_LENGTH: Final = 128
"""Characters of a release (arbitrary). With it an entry without addons has less than ``ENTRY_BYTES`` in any script."""

WORD_LENGTH: Final = 64
"""Characters of a version or a reason (arbitrary)."""

KINDS: Final = ("created", "changed", "removed")
"""Kinds of changes, as fields of :class:`AddonChanges` and of an entry."""


class DeliveryResult(StrEnum):
    """``result`` of an entry of the history."""

    RUNNING = "Running"
    DELIVERED = "Delivered"
    DELETED = "Deleted"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"
    SUPERSEDED = "Superseded"
    """Another delivery began before the end of this one."""


@dataclass(frozen=True, slots=True)
class CountedNames:
    """A number of objects, and the names of the first ones; the status does not always have room for all names."""

    count: int = 0
    names: tuple[str, ...] = ()

    def plus(self, names: Iterable[str], *, repeated: bool = False) -> CountedNames:
        """Add objects that are not among the names.

        ``repeated`` objects may be among those without a name: then as few as possible are counted, so that a delivery
        that is tried again does not count the same objects again.
        """
        listed = set(self.names)
        new = tuple(name for name in dict.fromkeys(names) if name not in listed)
        known = (*self.names, *new)
        if repeated and self.count > len(self.names):
            return CountedNames(max(self.count, len(known)), known)
        return CountedNames(self.count + len(new), known)

    def without(self, names: Iterable[str]) -> CountedNames:
        """Remove the objects that are among the names."""
        removed = set(names).intersection(self.names)
        return CountedNames(self.count - len(removed), tuple(name for name in self.names if name not in removed))


@dataclass(frozen=True, slots=True)
class AddonChanges:
    """Objects of one addon that a delivery created, changed and removed."""

    created: CountedNames = CountedNames()
    changed: CountedNames = CountedNames()
    removed: CountedNames = CountedNames()

    def plus(self, later: AddonChanges) -> AddonChanges:
        """Add the changes of a later attempt; an object that was created counts as created only."""
        created = self.created.plus(later.created.names)
        changed = self.changed.plus(later.changed.names, repeated=True).without(created.names)
        return AddonChanges(created, changed, self.removed.plus(later.removed.names))

    def __bool__(self) -> bool:
        return bool(self.created.count or self.changed.count or self.removed.count)


Changes = Mapping[str, AddonChanges]
"""Changes by addon."""


def applied_changes(record: DeliveryRecord | None, results: Iterable[ObjectResult]) -> AddonChanges:
    """Return what the delivery of an addon changed, including what an interrupted delivery did not report.

    ``record`` is that before the delivery; None before the first one.
    """
    before = {known.id: known for known in record.members} if record else {}
    interrupted = record is not None and record.state is DeliveryState.DELIVERING
    created, changed = [], []
    for result in results:
        known = before.get(result.id)
        planned = interrupted and result.synced and known is not None
        if result.created or (planned and known is not None and not known.uid):
            created.append(_name(result.id))
        elif result.changed or (planned and known is not None and known.digest != result.digest):
            changed.append(_name(result.id))
    return AddonChanges(CountedNames().plus(created), CountedNames().plus(changed))


def removals(report: PruneReport) -> dict[str, AddonChanges]:
    """Return the changes by addon that a prune made."""
    gone: dict[str, list[str]] = defaultdict(list)
    for removal in report.removals:
        if removal.result.outcome is PruneOutcome.GONE:
            gone[removal.addon].append(_name(removal.id))
    return {addon: AddonChanges(removed=CountedNames().plus(names)) for addon, names in gone.items()}


def merged(earlier: Changes, later: Changes) -> dict[str, AddonChanges]:
    """Return the changes by addon after both attempts."""
    return {
        addon: earlier.get(addon, AddonChanges()).plus(later.get(addon, AddonChanges()))
        for addon in dict.fromkeys((*earlier, *later))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentDelivery:
    """A delivery as one reconcile knows it."""

    plan: RolloutPlan
    """The plan of its rollout, with the phases that were reached."""
    before: Target
    """The class and Kubernetes version whose addons the cluster had completely."""
    began: str
    """When this reconcile began (RFC 3339)."""
    changes: Changes = field(default_factory=dict)
    """The changes of this reconcile."""
    objects: int = 0
    """Number of all delivered objects."""
    result: DeliveryResult = DeliveryResult.RUNNING
    reason: str = ""
    """Reason of a failure or a rollback; otherwise empty, as its message."""
    message: str = ""

    def is_same(self, entry: Manifest) -> bool:
        """Return whether an entry is about the same release and Kubernetes version, and delivers or deletes as this."""
        if (text(entry, "occasion") == _occasion(Occasion.DELETE)) != (self.plan.occasion is Occasion.DELETE):
            return False
        wanted = (_release(self.plan.target.class_name), _version(self.plan.target))
        return (text(entry, "release"), text(entry, "kubernetesVersion")) == wanted

    def begins(self, last: Manifest) -> bool:
        """Return whether a new entry is worth it after ``last``, which has ended."""
        if any(self.changes.values()):
            return True
        if self.result in {DeliveryResult.DELIVERED, DeliveryResult.DELETED}:
            return self._is_announced
        if self.result is DeliveryResult.ROLLED_BACK or (
            self.is_same(last) and text(last, "result") == DeliveryResult.ROLLED_BACK
        ):
            return False
        return self.result is DeliveryResult.FAILED or self._is_announced

    @property
    def _is_announced(self) -> bool:
        """True if a user requested it by a class or version."""
        return self.plan.occasion in {Occasion.INSTALL, Occasion.UPGRADE, Occasion.DELETE}


def updated_history(history: Sequence[Manifest], delivery: CurrentDelivery, now: str) -> list[Manifest]:
    """Return the history (newest first) with the present state of a delivery, which ends at ``now`` (RFC 3339)."""
    older = list(history)
    entry: Manifest = {}
    if older and not text(older[0], "ended"):
        if delivery.is_same(older[0]):
            entry = older.pop(0)
        else:
            older[0] = _superseded(older[0], now)
    if not entry and not delivery.begins(older[0] if older else {}):
        return bounded(older)
    changes = merged(_changes_of(entry), delivery.changes)
    updated = _entry(entry, delivery, changes, now)
    is_refresh = updated["occasion"] == _occasion(Occasion.REFRESH)
    if is_refresh and delivery.result is DeliveryResult.DELIVERED and not any(changes.values()):
        return bounded(older)
    return bounded([updated, *older])


def bounded(history: Sequence[Manifest]) -> list[Manifest]:
    """Return the newest entries that fit into ``LISTED`` and ``HISTORY_BYTES``."""
    kept: list[Manifest] = []
    remaining = HISTORY_BYTES - _size([])
    for entry in history[:LISTED]:
        remaining -= _size(entry) + 1
        if remaining < 0:
            break
        kept.append(entry)
    return kept


def _entry(known: Manifest, delivery: CurrentDelivery, changes: Changes, now: str) -> Manifest:
    plan = delivery.plan
    is_end = delivery.result in {DeliveryResult.DELIVERED, DeliveryResult.ROLLED_BACK, DeliveryResult.DELETED}
    counts = {kind: _total(known, changes, kind) for kind in KINDS}
    hooks = dict.fromkeys(step.hook.value for step in plan.steps if step.hook and step.phase is not StagePhase.PENDING)
    entry: Manifest = {
        "began": text(known, "began") or delivery.began,
        "ended": now if is_end else "",
        "occasion": text(known, "occasion") or _occasion(plan.occasion),
        "fromRelease": text(known, "fromRelease") if known else _release(delivery.before.class_name),
        "release": _release(plan.target.class_name),
        "fromKubernetesVersion": text(known, "fromKubernetesVersion") if known else _version(delivery.before),
        "kubernetesVersion": _version(plan.target),
        "hooks": list(hooks),
        "stages": "" if plan.occasion is Occasion.DELETE else _progress(plan),
        **counts,
        "unchanged": max(0, delivery.objects - counts["created"] - counts["changed"]),
        "result": delivery.result.value,
        "reason": one_line(delivery.reason, WORD_LENGTH),
        "message": one_line(delivery.message, MESSAGE_LENGTH),
    }
    return _with_changes({key: value for key, value in entry.items() if value not in ("", [])}, changes)


def _total(known: Manifest, changes: Changes, kind: str) -> int:
    """Return the number of objects of all addons, including those that did not fit into the known entry."""
    total = at(known, kind)
    listed = sum(_counted(addon, kind).count for addon in mappings(known, "addons"))
    not_listed = max(0, total - listed) if isinstance(total, int) else 0
    counts: list[int] = [getattr(addon, kind).count for addon in changes.values()]
    return not_listed + sum(counts)


def _with_changes(entry: Manifest, changes: Changes) -> Manifest:
    """Add the changed addons, then the names of their objects in turn, as far as ``ENTRY_BYTES`` allow."""
    changed = sorted((addon, changes_of) for addon, changes_of in changes.items() if changes_of)
    remaining = ENTRY_BYTES - _size(entry | {"addons": [], "addonsNotListed": len(changed)})
    addons: list[Manifest] = []
    wanted: list[tuple[list[str], tuple[str, ...]]] = []
    for addon, changes_of in changed:
        counted: dict[str, CountedNames] = {
            kind: objects for kind in KINDS if (objects := getattr(changes_of, kind)).count
        }
        lists: dict[str, list[str]] = {f"{kind}Objects": [] for kind in counted}
        listed = {"name": addon} | {kind: objects.count for kind, objects in counted.items()} | lists
        remaining -= _size(listed) + 1
        if remaining < 0:
            break
        addons.append(listed)
        wanted += zip(lists.values(), (objects.names for objects in counted.values()), strict=True)
    _fill(wanted, remaining)
    not_listed = len(changed) - len(addons)
    return entry | ({"addons": addons} if addons else {}) | ({"addonsNotListed": not_listed} if not_listed else {})


def _fill(wanted: Sequence[tuple[list[str], tuple[str, ...]]], room: int) -> None:
    """Add names to their lists, one to each in turn, as far as ``room`` (bytes) allows."""
    for rank in range(max((len(names) for _, names in wanted), default=0)):
        for listed, names in wanted:
            if rank < len(names):
                room -= _size(names[rank]) + 1
                if room < 0:
                    return
                listed.append(names[rank])


def _changes_of(entry: Manifest) -> dict[str, AddonChanges]:
    """Return the changes of an entry. Of addons that are not listed only the number is known, by the totals."""
    return {
        text(addon, "name"): AddonChanges(*(_counted(addon, kind) for kind in KINDS))
        for addon in mappings(entry, "addons")
    }


def _counted(addon: Manifest, kind: str) -> CountedNames:
    count, names = at(addon, kind), at(addon, f"{kind}Objects")
    known = tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    return CountedNames(max(count if isinstance(count, int) else 0, len(known)), known)


def _superseded(entry: Manifest, now: str) -> Manifest:
    is_running = text(entry, "result") == DeliveryResult.RUNNING
    return entry | {"ended": now} | ({"result": DeliveryResult.SUPERSEDED.value} if is_running else {})


def _occasion(occasion: Occasion) -> str:
    return occasion.value.capitalize()


def _progress(plan: RolloutPlan) -> str:
    done = sum(step.phase is StagePhase.DONE for step in plan.steps)
    return f"{done}/{len(plan.steps)}"


def _release(class_name: str) -> str:
    try:
        name = parse_class(class_name).release
    except InvalidName:
        name = class_name
    return one_line(name, RELEASE_LENGTH)


def _version(target: Target) -> str:
    return one_line(target.version, WORD_LENGTH)


def _name(identity: object) -> str:
    return one_line(str(identity), NAME_LENGTH)


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
