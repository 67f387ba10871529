"""Decides whether Cluster API has to wait with the upgrade of a Cluster's Kubernetes version.

Cluster API begins no upgrade while a Cluster has the annotation of the hold. The operator keeps it set, removes it once
the stages of BeforeClusterUpgrade are complete, and sets it again when the upgrade has begun. So Cluster API waits also
while the operator is down.

A hold that another writer removes during an upgrade stays removed: this is how users release a Cluster by hand. The
status of the ClusterAddon therefore notes the state of the hold until the rollout ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.files.addon_config import LifecycleHook
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, PENDING_HOOKS_ANNOTATION, UPGRADE_HOLD_ANNOTATION
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import NO_TARGET, Target, read_progress
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState


class HoldState(StrEnum):
    """The values of ``status.upgradeHold.state``."""

    HELD = "Held"
    RELEASED = "Released"
    ABSENT = "Absent"
    """Another writer removed the annotation, or it was not set when the upgrade began."""
    NOT_HONOURED = "NotHonoured"
    """Cluster API began the upgrade although the annotation was set."""


class HoldAction(StrEnum):
    """The change of the annotation."""

    NOTHING = "nothing"
    SET = "set"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class UpgradeHold:
    """The note in status about the hold of one upgrade."""

    target: Target
    state: HoldState
    since: str
    """When the operator noticed the upgrade (RFC 3339)."""

    def document(self) -> dict[str, str]:
        """Return ``status.upgradeHold``, with the state and the target."""
        return {
            "class": self.target.class_name,
            "version": self.target.version,
            "state": self.state.value,
            "since": self.since,
        }

    def describe(self, cluster: ObjectKey) -> str:
        """Describe what the hold does, for the conditions of the Cluster; empty for states without effect."""
        if self.state is HoldState.HELD:
            since = f" since {self.since}" if self.since else ""
            return (
                f"the operator holds the upgrade to {self.target.version}{since} until the stages of "
                f"{LifecycleHook.BEFORE_CLUSTER_UPGRADE} are complete; to release it by hand, run "
                f"'{release_command(cluster)}'"
            )
        if self.state is HoldState.NOT_HONOURED:
            return (
                f"Cluster API began the upgrade to {self.target.version} before the stages of "
                f"{LifecycleHook.BEFORE_CLUSTER_UPGRADE} were complete, although the Cluster has the annotation "
                f"{UPGRADE_HOLD_ANNOTATION}: enable its feature gate RuntimeSDK (Cluster API 1.10 or newer)"
            )
        return ""


def release_command(cluster: ObjectKey) -> str:
    """Return the command with which a user releases a held upgrade."""
    return " ".join(("kubectl", *release_arguments(cluster)))


def release_arguments(cluster: ObjectKey) -> tuple[str, ...]:
    """Return the arguments with which kubectl releases a held upgrade."""
    resource = f"clusters.{CLUSTER_API_GROUP}"
    return "annotate", resource, cluster.name, "-n", cluster.namespace, f"{UPGRADE_HOLD_ANNOTATION}-"


def read_hold(status: Manifest) -> UpgradeHold | None:
    """Parse ``status.upgradeHold``; None if there is none, or it is not valid."""
    document = mapping(status, "upgradeHold")
    state = text(document, "state")
    if state not in tuple(HoldState):
        return None
    return UpgradeHold(
        Target(text(document, "class"), text(document, "version")), HoldState(state), text(document, "since")
    )


def assume_held(status: Manifest, wanted: Target) -> UpgradeHold:
    """Return the note that the upgrade to ``wanted`` is held: the status may not have it yet, or an earlier one."""
    note = read_hold(status)
    return UpgradeHold(wanted, HoldState.HELD, note.since if note is not None and note.target == wanted else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFacts:
    """The facts that decide about a hold; ``last`` is the note in status."""

    target: Target
    enabled: bool
    is_set: bool
    awaited: bool
    """True if Cluster API has an upgrade to do that it has not begun."""
    honours: bool
    """True if Cluster API calls hooks during the running upgrade, so that it knows the annotation."""
    moves: bool
    """True if stages for the Kubernetes version of the Cluster are to run."""
    complete: bool
    """True if the stages that precede the upgrade are complete."""
    last: UpgradeHold | None


@dataclass(frozen=True, slots=True)
class HoldDecision:
    """The change of the annotation, and the new note in status."""

    action: HoldAction
    note: UpgradeHold | None = None


def decide_hold(facts: HoldFacts, now: str) -> HoldDecision:
    """Decide about the hold of a Cluster.

    ======================  ===========  =================================================================
    upgrade                 annotation   decision
    ======================  ===========  =================================================================
    none                    absent       set it
    awaited, incomplete     set          hold
    awaited, incomplete     absent       set it, unless another writer removed it during this upgrade
    awaited, complete       set          remove it
    begun                   absent       set it again
    begun, incomplete       set          not honoured, unless it was set again after the upgrade had begun
    ======================  ===========  =================================================================

    Without ``enabled`` the annotation is removed.
    """
    if not facts.enabled:
        return HoldDecision(HoldAction.REMOVE if facts.is_set else HoldAction.NOTHING)
    last = facts.last if facts.last is not None and facts.last.target.version == facts.target.version else None
    note = UpgradeHold(facts.target, HoldState.HELD, last.since if last is not None else now)
    if facts.awaited:
        return _decide_awaited(facts, last, note)
    return _decide_begun(facts, last, note)


def _decide_awaited(facts: HoldFacts, last: UpgradeHold | None, note: UpgradeHold) -> HoldDecision:
    if facts.complete:
        kept = last if last is not None and last.state is HoldState.ABSENT and not facts.is_set else None
        action = HoldAction.REMOVE if facts.is_set else HoldAction.NOTHING
        return HoldDecision(action, kept or replace(note, state=HoldState.RELEASED))
    if facts.is_set:
        return HoldDecision(HoldAction.NOTHING, note)
    if last is None or last.target.class_name != facts.target.class_name:
        return HoldDecision(HoldAction.SET, note)
    if last.state is HoldState.RELEASED:
        return HoldDecision(HoldAction.NOTHING, last)
    return HoldDecision(HoldAction.NOTHING, replace(note, state=HoldState.ABSENT))


def _decide_begun(facts: HoldFacts, last: UpgradeHold | None, note: UpgradeHold) -> HoldDecision:
    if not facts.moves:
        return HoldDecision(HoldAction.NOTHING if facts.is_set else HoldAction.SET)
    if not facts.is_set:
        # Once the stages are complete, the operator itself removes the hold, and may crash before its note.
        is_released = last is not None and facts.complete
        unheld = replace(note, state=HoldState.RELEASED if is_released else HoldState.ABSENT)
        if last is None and not facts.complete:
            # The note comes first: without it, a crash after the write would look as if the hold was not honoured.
            return HoldDecision(HoldAction.NOTHING, unheld)
        return HoldDecision(HoldAction.SET, unheld if last is None or last.state is HoldState.HELD else last)
    ignored = (last is not None and last.state is HoldState.HELD) or (last is None and not facts.complete)
    if ignored:
        # Where Cluster API knows the hold, another writer removed it and set it again.
        state = HoldState.ABSENT if facts.honours else HoldState.NOT_HONOURED
        return HoldDecision(HoldAction.NOTHING, replace(note, state=state))
    return HoldDecision(HoldAction.NOTHING, last)


def is_before_upgrade_complete(recorded: Target, wanted: Target, status: Manifest) -> bool:
    """Return whether the stages that precede the upgrade to ``wanted`` are complete.

    ``recorded`` is the class and version whose addons the cluster has completely; ``NO_TARGET`` for none.
    """
    if recorded == NO_TARGET:
        return False
    progress = read_progress(status)
    return recorded.is_same(wanted) or (progress.target.is_same(wanted) and progress.before_upgrade)


def awaits_upgrade(cluster: ClusterView, control_plane: Manifest, state: UpgradeState) -> bool:
    """Return whether Cluster API has not begun an upgrade that the Cluster's spec asks for.

    It has begun once AfterClusterUpgrade is pending, or the control plane's spec has the version. If that spec has no
    version, the versions that the control plane reports count.
    """
    if hooks_pending(cluster):
        return False
    try:
        ordered = KubernetesVersion.parse(text(control_plane, "spec", "version"))
    except InvalidVersion:
        reported = state.control_plane
        return bool(reported) and not any(version.reaches(state.wanted) for version in reported)
    return not ordered.reaches(state.wanted)


def is_upgraded(cluster: ClusterView, control_plane: Manifest, state: UpgradeState) -> bool:
    """Return whether Cluster API has an upgrade of the Kubernetes version to begin or to end."""
    is_behind = bool(state.control_plane) and not state.has_versions and bool(state.missing(Milestone.CLUSTER))
    return is_behind or hooks_pending(cluster) or awaits_upgrade(cluster, control_plane, state)


def hooks_pending(cluster: ClusterView) -> bool:
    """Return whether Cluster API is going to call AfterClusterUpgrade: it has begun an upgrade, and knows hooks."""
    pending = str(cluster.annotations.get(PENDING_HOOKS_ANNOTATION, ""))
    return LifecycleHook.AFTER_CLUSTER_UPGRADE in pending.split(",")
