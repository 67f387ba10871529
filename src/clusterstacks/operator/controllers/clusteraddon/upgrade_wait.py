"""Names what the upgrade of a Cluster waits for: the hold, Cluster API, or a stage after the upgrade."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, UPGRADE_HOLD_ANNOTATION
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import NO_TARGET, StagePhase, Target, read_progress
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import (
    HoldState,
    assume_held,
    awaits_upgrade,
    read_hold,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import RolloutProgress, StageProgress
    from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import UpgradeHold
    from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState


class WaitsFor(StrEnum):
    """Kind of a wait, as tools show it."""

    HOLD = "Hold"
    """Cluster API waits until the stages of BeforeClusterUpgrade are complete."""
    CONTROL_PLANE = "ControlPlane"
    WORKERS = "Workers"
    CLUSTER = "Cluster"
    """Cluster API has the versions, but is not done yet."""
    ADDONS = "Addons"
    """The upgrade has reached the point of the next stage."""


_MILESTONES: Final[Mapping[Milestone, WaitsFor]] = {
    Milestone.CONTROL_PLANE: WaitsFor.CONTROL_PLANE,
    Milestone.WORKERS: WaitsFor.WORKERS,
    Milestone.CLUSTER: WaitsFor.CLUSTER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeWait:
    """The wait of a running upgrade."""

    target: Target
    waits_for: WaitsFor
    message: str
    """The cause, in one line."""
    stage: StageProgress | None = None
    """The first stage that is not complete; None if the operator has not noted the stages."""
    since: str = ""
    """When the operator noticed the held upgrade (RFC 3339); empty if it has not noted it, or nothing is held."""


def find_wait(
    cluster: ClusterView, addon: Manifest, control_plane: Manifest, state: UpgradeState
) -> UpgradeWait | None:
    """Return what the upgrade of a Cluster waits for; None if no upgrade is running.

    ``addon`` is empty if it cannot be read. Without a ``control_plane`` object the versions in the Cluster's status
    count.
    """
    status, wanted = mapping(addon, "status"), Target(cluster.class_name, state.wanted.text)
    progress = read_progress(status)
    # The conditions may be older than the note.
    stage, note = _first_stage(progress, wanted), assume_held(status, wanted)
    if _is_held(cluster, status, control_plane, state):
        message = _cause(cluster, note)
        return UpgradeWait(target=wanted, waits_for=WaitsFor.HOLD, message=message, stage=stage, since=note.since)
    recorded = Target(text(addon, "spec", "clusterStack"), text(status, "deliveredKubernetesVersion"))
    moves = recorded != NO_TARGET and not recorded.is_same(wanted)
    if not moves and (not state.control_plane or state.has_versions):
        return None
    awaited = _awaited(progress, wanted) if moves else Milestone.CLUSTER
    if missing := state.missing(awaited):
        kind = next(kind for milestone, kind in _MILESTONES.items() if state.missing(milestone))
        return UpgradeWait(target=wanted, waits_for=kind, message=missing, stage=stage)
    if not moves:
        return None
    message = _reported(cluster, note) or "the operator has not reported the state of the addons yet"
    return UpgradeWait(target=wanted, waits_for=WaitsFor.ADDONS, message=message, stage=stage)


def _is_held(cluster: ClusterView, status: Manifest, control_plane: Manifest, state: UpgradeState) -> bool:
    if UPGRADE_HOLD_ANNOTATION not in cluster.annotations or not awaits_upgrade(cluster, control_plane, state):
        return False
    # Without the control plane object an upgrade that has begun may look as if it was awaited.
    note = read_hold(status)
    return note is None or note.target.version != state.wanted.text or note.state is HoldState.HELD


def _cause(cluster: ClusterView, note: UpgradeHold) -> str:
    if cluster.paused:
        return f"Cluster {cluster.key} is paused"
    return _reported(cluster, note) or "the operator has not reported the state of the stages yet: check that it runs"


def _reported(cluster: ClusterView, note: UpgradeHold) -> str:
    """Return the cause in the Cluster's condition in one line, without the description of the hold.

    Empty if the condition is True, or about an earlier generation of the Cluster.
    """
    condition = condition_view(cluster.raw, ADDONS_READY_CONDITION)
    if not condition.false or not condition.current:
        return ""
    return " ".join(condition.message.removesuffix(note.describe(cluster.key)).rstrip("; ").split())


def _first_stage(progress: RolloutProgress, wanted: Target) -> StageProgress | None:
    stages = progress.stages if progress.target.is_same(wanted) else ()
    return next((stage for stage in stages if stage.phase is not StagePhase.DONE), None)


def _awaited(progress: RolloutProgress, wanted: Target) -> Milestone:
    return progress.awaited if progress.target.is_same(wanted) else Milestone.BEGUN
