"""Summarizes one Cluster, its ClusterAddon and syncs: versions, progress, what it waits for, health and drift."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.model.conditions import Condition, from_documents
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.clusterapi import cluster_view, is_paused, unpause_hint
from clusterstacks.model.kinds.names import (
    ADDONS_HEALTHY_CONDITION,
    ADDONS_IN_SYNC_CONDITION,
    ADDONS_READY_CONDITION,
    READY_CONDITION,
    WITHIN_RANGES_CONDITION,
    AddonCondition,
    ClusterPhase,
    Reason,
)
from clusterstacks.model.names import InvalidName, parse_class
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.plan.clusters.sync_summary import SyncState, sync_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectKey

AVAILABLE: Final = "Available"
"""Condition of Cluster API's Cluster."""

DONE: Final = "done"
"""Phase of a stage that is complete."""

HELD: Final = "Held"
"""State of an upgrade hold for which Cluster API waits."""

PAUSED: Final = "Paused"
"""Reason of a Cluster whose addons are not reconciled."""

UPGRADE_HELD: Final = "UpgradeHeld"
"""Reason of a Cluster whose upgrade waits for the addons."""

_MIRRORED: Final = {
    READY_CONDITION: ADDONS_READY_CONDITION,
    AddonCondition.HEALTHY: ADDONS_HEALTHY_CONDITION,
    AddonCondition.IN_SYNC: ADDONS_IN_SYNC_CONDITION,
    AddonCondition.WITHIN_RANGES: WITHIN_RANGES_CONDITION,
}
"""Conditions of the Cluster that count for a user who may not read ClusterAddons, by those of the ClusterAddon."""


@dataclass(frozen=True, slots=True)
class StageCount:
    """Progress of a rollout: stage ``number`` of ``total``, and its description; zero without a rollout."""

    number: int = 0
    total: int = 0
    current: str = ""

    def __str__(self) -> str:
        return f"{self.number}/{self.total}" if self.total else ""


@dataclass(frozen=True, slots=True)
class RunningUpgrade:
    """What a ClusterUpgrade does with a Cluster that does not have its target yet."""

    name: str
    """The ClusterUpgrade."""
    entry: Manifest
    """The entry of the Cluster in its status."""

    @property
    def failed(self) -> bool:
        """True if it continues only after a person has changed something."""
        return text(self.entry, "phase") in (ClusterPhase.FAILED, ClusterPhase.BLOCKED)

    @property
    def activity(self) -> str:
        """``Running, step 2/5, update addon cni from 1.0 to 1.1, addons are not ready``."""
        step = text(self.entry, "step")
        parts = [text(self.entry, "phase"), f"step {step}" if step else "", text(self.entry, "doing")]
        parts += [" ".join(text(self.entry, "message").split())]
        since = text(self.entry, "since")
        return f"{', '.join(filter(None, parts))}{since and f', since {since}'}"

    def document(self) -> Manifest:
        """Return it as JSON."""
        return {"name": self.name, **{key: value for key, value in self.entry.items() if key != "name"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """The state of a Cluster and its addons, as csctl shows it."""

    key: ObjectKey
    class_name: str
    """Class that its topology asks for; empty without a topology."""
    class_namespace: str
    delivered: str
    """Class whose addons were completely delivered last; empty if none were."""
    running: str
    """Oldest Kubernetes version that its nodes report; empty if none is reported."""
    wanted: str
    """Kubernetes version that its topology asks for."""
    ready: Condition
    """Whether the addons are delivered and Cluster API reports the Cluster as available.

    It is the only judgement about readiness; ``concern`` may name something to look at also while it is True.
    """
    stage: StageCount
    pause: str
    """Which object is paused, and how to continue; empty if none is."""
    hold: tuple[str, str]
    """State of the upgrade hold and since when; both empty without one."""
    conditions: Mapping[str, Condition]
    """The conditions Ready, Healthy, InSync and WithinRanges of its addons, by type, if they are known."""
    addons: tuple[tuple[str, str], ...]
    """Name and version (the release, if its version is unknown) of each delivered addon."""
    objects: int
    last_change: Condition | None
    """The condition of its addons that changed last; None without any."""
    last_delivery: Manifest
    """The newest entry of the history of its addons; empty without any."""
    syncs: tuple[SyncState, ...] = ()
    """The ClusterResourceSyncs that select it, and their state in it, by name."""
    upgrade: RunningUpgrade | None = None
    """The ClusterUpgrade that has not ended for it; of several, the oldest."""

    @property
    def of_cluster_stack(self) -> bool:
        """True if its class has the name of a release's class, or addons were delivered to it."""
        return bool(self.delivered) or _release(self.class_name) is not None

    @property
    def has_deliveries(self) -> bool:
        """True if it belongs to a cluster stack, or a sync selects it."""
        return self.of_cluster_stack or bool(self.syncs)

    @property
    def upgrading(self) -> bool:
        """True if its nodes do not have the wanted Kubernetes version yet."""
        return bool(self.running) and bool(self.wanted) and not _reaches(self.running, self.wanted)

    @property
    def release_change(self) -> str:
        """The version of the delivered release, and of the wanted one while it differs: ``v1 → v2``.

        Versions of different Kubernetes minors have the minor: ``1.35-v1 → 1.36-v2``. A Cluster that left its cluster
        stack has no wanted release: ``local-demo-1-35-v1, not managed any more``.
        """
        if self.delivered and _release(self.class_name) is None:
            return f"{self.delivered}, not managed any more"
        return version_change(_release(self.delivered), _release(self.class_name), self.delivered, self.class_name)

    @property
    def kubernetes_change(self) -> str:
        """The running Kubernetes version, and the wanted one while it differs: ``v1.35.4 → v1.36.1``."""
        if self.upgrading:
            return _change(self.running, self.wanted)
        return self.running or _change("", self.wanted)

    @property
    def concern(self) -> Condition:
        """Condition to look at first, with reason and message; an empty one if all is well."""
        if self.pause:
            return Condition(PAUSED, "True", PAUSED, self.pause)
        if self.hold[0] == HELD:
            return replace(self.ready, reason=UPGRADE_HELD, last_transition_time=self.hold[1])
        if self.ready.status != "True":
            return self.ready
        others = (AddonCondition.HEALTHY, AddonCondition.IN_SYNC, AddonCondition.WITHIN_RANGES)
        conditions = [self.conditions[kind] for kind in others if kind in self.conditions]
        conditions += [
            replace(sync.concern, message=f"sync {sync.name}: {sync.concern.message}")
            for sync in self.syncs
            if sync.concern.reason
        ]
        return next(
            (condition for condition in conditions if condition.status != "True"), Condition(READY_CONDITION, "True")
        )

    def document(self) -> Manifest:
        """Return the summary as JSON."""
        concern = self.concern
        return {
            "namespace": self.key.namespace,
            "name": self.key.name,
            "ready": self.ready.status == "True",
            "class": {"wanted": self.class_name, "delivered": self.delivered},
            "kubernetes": {"wanted": self.wanted, "running": self.running},
            "stage": {"number": self.stage.number, "total": self.stage.total, "current": self.stage.current},
            "paused": bool(self.pause),
            "upgradeHold": {"state": self.hold[0], "since": self.hold[1]} if self.hold[0] else None,
            "reason": concern.reason,
            "message": concern.message,
            "since": concern.last_transition_time,
            "conditions": [condition.document() for condition in self.conditions.values()],
            "addons": [{"name": name, "version": version} for name, version in self.addons],
            "objects": self.objects,
            "syncs": [sync.document() for sync in self.syncs],
            "upgrade": self.upgrade.document() if self.upgrade else None,
            "lastChange": self.last_change.document() if self.last_change else None,
            "lastDelivery": self.last_delivery or None,
        }


def summarize(
    cluster: Manifest,
    addon: Manifest | None,
    bindings: Iterable[Manifest] = (),
    upgrade: RunningUpgrade | None = None,
) -> ClusterSummary:
    """Summarize a Cluster in either API version; ``addon`` is None if there is none, or the user may not read it.

    ``bindings`` are the ClusterResourceSyncBindings of the Cluster.
    """
    view = cluster_view(cluster)
    status = mapping(addon or {}, "status")
    conditions = _conditions(cluster, addon)
    hold = mapping(status, "upgradeHold")
    delivered = text(addon or {}, "spec", "clusterStack")
    of_cluster_stack = bool(delivered) or _release(view.class_name) is not None
    return ClusterSummary(
        key=view.key,
        class_name=view.class_name,
        class_namespace=view.class_namespace,
        delivered=delivered,
        running=_running(view, text(status, "observedKubernetesVersion")),
        wanted=view.version,
        ready=_ready(cluster, conditions.get(READY_CONDITION), of_cluster_stack=of_cluster_stack),
        stage=_stage(mappings(status, "stages")),
        pause=_pause(view, cluster, addon or {}),
        hold=(text(hold, "state"), text(hold, "since")),
        conditions=conditions,
        addons=tuple(
            (text(delivered, "name"), text(delivered, "version") or text(delivered, "release"))
            for delivered in mappings(status, "addons")
        ),
        objects=sum(
            count for delivered in mappings(status, "addons") if isinstance(count := at(delivered, "objects"), int)
        ),
        last_change=_last(from_documents(status.get("conditions"))),
        last_delivery=next(iter(mappings(status, "history")), {}),
        syncs=tuple(sorted(map(sync_state, bindings), key=lambda sync: sync.name)),
        upgrade=upgrade,
    )


def summarize_all(
    clusters: Sequence[Manifest],
    addons: Iterable[Manifest],
    bindings: Iterable[Manifest],
    upgrades: Iterable[Manifest] = (),
) -> list[ClusterSummary]:
    """Summarize Clusters with those of the ClusterAddons, ClusterResourceSyncBindings and ClusterUpgrades of theirs."""
    addon_of, upgrade_of = addons_by_cluster(addons), _running_upgrades(upgrades)
    bindings_of: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
    for binding in bindings:
        bindings_of[text(binding, "metadata", "namespace"), text(binding, "spec", "clusterName")].append(binding)
    keys = [(text(cluster, "metadata", "namespace"), text(cluster, "metadata", "name")) for cluster in clusters]
    return [
        summarize(cluster, addon_of.get(key), bindings_of.get(key, ()), upgrade_of.get(key))
        for cluster, key in zip(clusters, keys, strict=True)
    ]


def _running_upgrades(upgrades: Iterable[Manifest]) -> dict[tuple[str, str], RunningUpgrade]:
    """Return by namespace and name of a Cluster the oldest upgrade that has not ended for it."""
    running: dict[tuple[str, str], RunningUpgrade] = {}
    for upgrade in sorted(upgrades, key=lambda one: (text(one, "metadata", "creationTimestamp"), _name(one))):
        for entry in mappings(upgrade, "status", "clusters"):
            if text(entry, "phase") != ClusterPhase.DONE:
                key = text(upgrade, "metadata", "namespace"), text(entry, "name")
                running.setdefault(key, RunningUpgrade(_name(upgrade), entry))
    return running


def _name(manifest: Manifest) -> str:
    return text(manifest, "metadata", "name")


def _pause(view: ClusterView, cluster: Manifest, addon: Manifest) -> str:
    if is_paused(cluster):
        return unpause_hint(view.key)
    return f"its ClusterAddon is paused: 'csctl resume {view.key}' continues" if is_paused(addon) else ""


def version_change(before: ReleaseName | None, after: ReleaseName | None, old: str, new: str) -> str:
    """Return the versions of two releases (their names where they are None, not valid), or one if they are the same."""
    if before == after:
        return str(before.version) if before else old
    if before is None or after is None:
        return _change(old, str(after.version) if after else new)
    if before.kubernetes == after.kubernetes:
        return _change(str(before.version), str(after.version))
    return _change(f"{before.kubernetes}-{before.version}", f"{after.kubernetes}-{after.version}")


def addons_by_cluster(addons: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Return ClusterAddons by namespace and name of their Cluster."""
    return {
        (text(addon, "metadata", "namespace"), text(addon, "spec", "clusterRef", "name")): addon for addon in addons
    }


def _conditions(cluster: Manifest, addon: Manifest | None) -> dict[str, Condition]:
    """Return the conditions of the ClusterAddon; without it, those that the Cluster mirrors."""
    if addon is not None and not _is_unserved(cluster):
        known = {condition.type: condition for condition in from_documents(mapping(addon, "status").get("conditions"))}
        return {kind: known[kind] for kind in _MIRRORED if kind in known}
    mirrored = {condition.type: condition for condition in from_documents(mapping(cluster, "status").get("conditions"))}
    return {kind: replace(mirrored[name], type=kind) for kind, name in _MIRRORED.items() if name in mirrored}


def _is_unserved(cluster: Manifest) -> bool:
    """Return whether the state of the ClusterAddon is old, because its shard does not run."""
    return any(
        (text(one, "type"), text(one, "reason")) == (ADDONS_READY_CONDITION, Reason.SHARD_NOT_RUNNING)
        for one in mappings(cluster, "status", "conditions")
    )


def _ready(cluster: Manifest, addons: Condition | None, *, of_cluster_stack: bool) -> Condition:
    if addons is None and not of_cluster_stack:
        addons = Condition(READY_CONDITION, "True")
    if addons is None:
        return Condition(
            READY_CONDITION, "Unknown", "NoAddons", "the operator has not reported the state of the addons yet"
        )
    available = condition_view(cluster, AVAILABLE)
    if addons.status == "True" and available.false:
        message = " ".join(available.message.split())
        return Condition(READY_CONDITION, "False", available.reason or "NotAvailable", message)
    return addons


def _running(view: ClusterView, observed: str) -> str:
    versions = []
    for reported in (*view.control_plane_versions, *view.worker_versions):
        try:
            versions.append(KubernetesVersion.parse(reported))
        except InvalidVersion:
            continue
    return min(versions).text if versions else observed


def _reaches(running: str, wanted: str) -> bool:
    try:
        return KubernetesVersion.parse(running).reaches(KubernetesVersion.parse(wanted))
    except InvalidVersion:
        return running == wanted


def _stage(stages: list[Manifest]) -> StageCount:
    done = sum(text(stage, "phase") == DONE for stage in stages)
    current = next((stage for stage in stages if text(stage, "phase") != DONE), {})
    described = " ".join(filter(None, (text(current, part) for part in ("action", "name"))))
    phase = text(current, "phase")
    return StageCount(min(done + 1, len(stages)), len(stages), f"{described}: {phase}" if phase else described)


def _last(conditions: Iterable[Condition]) -> Condition | None:
    dated = [
        condition for condition in conditions if condition.last_transition_time and condition.type != READY_CONDITION
    ]
    return max(dated, key=lambda condition: condition.last_transition_time, default=None)


def _release(class_name: str) -> ReleaseName | None:
    try:
        return parse_class(class_name)
    except InvalidName:
        return None


def _change(before: str, after: str) -> str:
    return f"{before} → {after}".lstrip()
