"""Plans the rollout of one cluster's addons: the stages to run, their order, and what they wait for.

A reconcile calls :func:`plan_rollout` once, then :meth:`RolloutPlan.next_move`, and reports results with
:meth:`RolloutPlan.reached` and :meth:`RolloutPlan.after_prune`, until a move must wait or all are done. Only then the
class is recorded: until then every reconcile continues the same rollout. Without a change of class or values there is
nothing to run. The status of the ClusterAddon keeps the progress between reconciles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.files.addon_config import AddonConfig, LifecycleHook, Rollback, Stage, StageAction, WaitFor
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone, milestone_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState


class StagePhase(StrEnum):
    """Phase of a stage, with the Go operator's values."""

    PENDING = "Pending"
    WAITING_FOR_PRE = "waitingForPreCondition"
    CHANGING = "applyingOrDeleting"
    WAITING_FOR_HEALTH = "waitingForHealth"
    """Only in stages with ``waitFor: Healthy``, which the Go operator does not know."""
    ROLLED_BACK = "rolledBack"
    """Only in stages with ``rollback: OnFailure``, which the Go operator does not know."""
    WAITING_FOR_POST = "waitingForPostCondition"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One entry of ``status.stages``."""

    hook: str
    """The lifecycle hook; empty for a release without stages."""
    name: str
    """The addon."""
    action: str
    """``apply`` or ``delete``."""
    phase: StagePhase
    since: str = ""
    """When the stage began to wait for health (RFC 3339); empty in other phases."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Key that is equal for two entries of the same stage."""
        return self.hook, self.name, self.action


@dataclass(frozen=True, slots=True)
class Target:
    """The class and the Kubernetes version of a Cluster that addons are delivered for."""

    class_name: str = ""
    """Empty before the first delivery, and if it is not known."""
    version: str = ""
    """Kubernetes version of the Cluster's spec; empty if it is not known."""

    def is_same(self, other: Target) -> bool:
        """Return whether class and version are the same; an unknown version is the same as any."""
        return self.class_name == other.class_name and (self.version == other.version or not self._knows(other))

    def is_upgraded_by(self, other: Target) -> bool:
        """Return whether the Kubernetes version of ``other`` is known and differs."""
        return self._knows(other) and self.version != other.version

    def _knows(self, other: Target) -> bool:
        return bool(self.version and other.version)


NO_TARGET = Target()
"""Nothing was delivered, or nothing is rolled out."""


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """Progress of a rollout."""

    target: Target = NO_TARGET
    """``status.target`` and ``status.targetKubernetesVersion``; empty without a rollout."""
    stages: tuple[StageProgress, ...] = ()
    """All stages in order, ``status.stages``."""

    @property
    def begun(self) -> bool:
        """True if a stage has run or waits for a condition."""
        return any(stage.phase is not StagePhase.PENDING for stage in self.stages)

    @property
    def finished(self) -> bool:
        """True if all stages are done, or there are none."""
        return all(stage.phase is StagePhase.DONE for stage in self.stages)

    @property
    def before_upgrade(self) -> bool:
        """True if all stages that precede the upgrade of the cluster are done, or there are none."""
        preceding = {"", LifecycleHook.BEFORE_CLUSTER_UPGRADE}
        return all(stage.phase is StagePhase.DONE for stage in self.stages if stage.hook in preceding)

    def document(self) -> Manifest:
        """Return the fields of the status that keep the progress."""
        stages = [
            {"name": stage.name, "action": stage.action, "phase": stage.phase.value, "hook": stage.hook}
            | ({"waitingSince": stage.since} if stage.since else {})
            for stage in self.stages
        ]
        done = sum(stage.phase is StagePhase.DONE for stage in self.stages)
        return {
            "target": self.target.class_name,
            "targetKubernetesVersion": self.target.version,
            "progress": f"{done}/{len(stages)}" if stages else "",
            "stages": stages,
        }

    @property
    def awaited(self) -> Milestone:
        """The point of an upgrade that the first unfinished stage waits for; for the prune, its end."""
        return next(
            (milestone_of(stage.hook) for stage in self.stages if stage.phase is not StagePhase.DONE), Milestone.CLUSTER
        )

    @property
    def delivered(self) -> bool:
        """True if a rollout has applied and deleted everything and only waits for conditions or health."""
        return bool(self.stages) and all(
            stage.phase in {StagePhase.WAITING_FOR_HEALTH, StagePhase.WAITING_FOR_POST, StagePhase.DONE}
            for stage in self.stages
        )


def read_progress(status: Manifest) -> RolloutProgress:
    """Parse the status of a ClusterAddon; an invalid entry counts as not started."""
    stages = tuple(_stage(entry) for entry in mappings(status, "stages"))
    return RolloutProgress(Target(text(status, "target"), text(status, "targetKubernetesVersion")), stages)


def _stage(entry: Manifest) -> StageProgress:
    phase = text(entry, "phase")
    return StageProgress(
        text(entry, "hook"),
        text(entry, "name"),
        text(entry, "action"),
        StagePhase(phase) if phase in tuple(StagePhase) else StagePhase.PENDING,
        text(entry, "waitingSince"),
    )


SINGLE_ADDON = "cluster-addon"
"""The only addon of a release without clusteraddon.yaml."""


class Occasion(StrEnum):
    """Reason for a rollout."""

    NOTHING = "nothing"
    INSTALL = "install"
    UPGRADE = "upgrade"
    REFRESH = "refresh"
    DELETE = "delete"
    """The Cluster left its cluster stack; not a rollout."""


WAITING_FOR_UPGRADE = "WaitingForUpgrade"

_UPGRADE_HOOKS = frozenset(LifecycleHook) - {LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED}


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """A stage in the order of a rollout."""

    hook: LifecycleHook | None
    """None for a release without stages."""
    stage: Stage
    phase: StagePhase = StagePhase.PENDING
    since: str = ""
    """When it began to wait for health (RFC 3339); empty in other phases."""

    @property
    def idempotent(self) -> bool:
        """True if the step can run again without effect: it applies, and waits for nothing that may hold only once.

        Each refresh evaluates the conditions of the installation's stages again, so these hold more than once.
        """
        stage = self.stage
        may_hold_once = self.hook in _UPGRADE_HOOKS and (stage.pre is not None or stage.post is not None)
        return stage.action is StageAction.APPLY and stage.wait_for is not WaitFor.HEALTHY and not may_hold_once

    @property
    def progress(self) -> StageProgress:
        """The step as an entry of the status."""
        return StageProgress(self.hook or "", self.stage.addon, self.stage.action.value, self.phase, self.since)


_SINGLE = (RolloutStep(None, Stage(SINGLE_ADDON, StageAction.APPLY)),)


@dataclass(frozen=True, slots=True)
class RunStage:
    """Continue the step at ``index`` from its phase, then report the phase that it reached."""

    index: int
    step: RolloutStep


@dataclass(frozen=True, slots=True)
class WaitForUpgrade:
    """Wait for a point of the cluster's upgrade; ``message`` names what is missing."""

    message: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove all delivered addons except ``keep``, and the objects that these no longer render."""

    keep: frozenset[str]


@dataclass(frozen=True, slots=True)
class Done:
    """The cluster has everything: record the class and clear the progress (target and stages)."""


Move: TypeAlias = RunStage | WaitForUpgrade | Prune | Done


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """Plan of a rollout."""

    occasion: Occasion
    """With ``NOTHING`` the next move is :class:`Done`."""
    target: Target
    """Recorded at the end."""
    steps: tuple[RolloutStep, ...] = ()
    """All stages in order, including those that are done."""
    waits: bool = False
    """True if the steps wait for the points of the upgrade that their hooks name, and the prune for its end."""
    resumed: bool = False
    """True if an earlier reconcile started it. Then addons may have been delivered with older values: if so, no digest
    of the inputs is recorded at the end, and a refresh delivers them again."""
    pruned: bool = False

    def next_move(self, upgrade: UpgradeState) -> Move:
        """Return the next move: the first step that is not done, unless it must wait."""
        index = next((at for at, step in enumerate(self.steps) if step.phase is not StagePhase.DONE), len(self.steps))
        if missing := upgrade.missing(self._awaited(index)):
            return WaitForUpgrade(missing)
        if index < len(self.steps):
            return RunStage(index, self.steps[index])
        return Done() if self.pruned else Prune(self._kept())

    def reached(self, index: int, phase: StagePhase, since: str = "") -> RolloutPlan:
        """Return the plan with one step in another phase."""
        step = replace(self.steps[index], phase=phase, since=since)
        steps = (*self.steps[:index], step, *self.steps[index + 1 :])
        return replace(self, steps=steps)

    def after_prune(self) -> RolloutPlan:
        """Return the plan with its prune done; the next move is then :class:`Done`."""
        return replace(self, pruned=True)

    @property
    def progress(self) -> RolloutProgress:
        """The progress to keep in status until the next reconcile."""
        return RolloutProgress(self.target, tuple(step.progress for step in self.steps))

    @property
    def addons_that_must_be_healthy(self) -> frozenset[str]:
        """The addons whose last stage waits for health."""
        last = {step.stage.addon: step.stage.wait_for for step in self.steps}
        return frozenset(addon for addon, wait_for in last.items() if wait_for is WaitFor.HEALTHY)

    @property
    def addons_that_roll_back(self) -> frozenset[str]:
        """The addons with a stage that returns to the last healthy revision."""
        return frozenset(step.stage.addon for step in self.steps if step.stage.rollback is Rollback.ON_FAILURE)

    def _awaited(self, index: int) -> Milestone:
        if not self.waits:
            return Milestone.BEGUN
        milestone = milestone_of(self.steps[index].hook) if index < len(self.steps) else Milestone.CLUSTER
        # Once a step of this point has started, it counts as reached: a reconciling topology must not stop it half-way.
        reached = any(
            step.phase is not StagePhase.PENDING and milestone_of(step.hook) >= milestone for step in self.steps
        )
        return Milestone.BEGUN if reached else milestone

    def _kept(self) -> frozenset[str]:
        last = {step.stage.addon: step.stage.action for step in self.steps}
        return frozenset(addon for addon, action in last.items() if action is StageAction.APPLY)


def plan_rollout(
    config: AddonConfig | None,
    *,
    recorded: Target,
    wanted: Target,
    changed: bool,
    delivered: Collection[str],
    progress: RolloutProgress,
) -> RolloutPlan:
    """Plan the rollout of a cluster; called once in every reconcile.

    - Install (nothing recorded): the stages of AfterControlPlaneInitialized.
    - Upgrade (another or an unknown class, or another Kubernetes version recorded): BeforeClusterUpgrade at once;
      AfterControlPlaneUpgrade, AfterWorkersUpgrade and AfterClusterUpgrade when the cluster has reached these points;
      then the AfterControlPlaneInitialized stages of addons that none of them names.
    - Refresh (values changed, or an earlier rollout was not finished): every addon that AfterControlPlaneInitialized
      applies.

    Install and refresh then update delivered addons that only the upgrade hooks name, without the conditions of their
    stages. Each rollout ends with one prune. An addon that no stage names is not delivered. A release without stages
    (``config`` is None) has one addon and waits for nothing. Stages that are done for ``wanted`` do not run again; a
    rollout to another target starts from the beginning.

    ``recorded`` is the class and version whose addons the cluster has completely; ``NO_TARGET`` before the first
    delivery, see :func:`is_lost_in_upgrade`. ``changed`` says whether the inputs of the addons differ from those of the
    last complete delivery; ``delivered`` are the addons with a delivery record in the cluster.
    """
    occasion = _occasion(recorded, wanted, changed=changed, progress=progress)
    if occasion is Occasion.NOTHING:
        return RolloutPlan(occasion, wanted, pruned=True)
    steps = _SINGLE if config is None else _ordered(config, occasion, delivered)
    waits = occasion is Occasion.UPGRADE and config is not None
    return _with_progress(RolloutPlan(occasion, wanted, steps, waits), changed=changed, progress=progress)


def is_lost_in_upgrade(
    progress: RolloutProgress,
    records: Collection[DeliveryRecord],
    wanted: Target,
    *,
    are_unreadable: bool,
    is_upgraded: bool,
    are_others_delivered: bool,
) -> bool:
    """Return whether a cluster is in an upgrade whose ClusterAddon was deleted, so that nothing is recorded.

    Without records it is an installation. An installation that the status knows continues, even for another target,
    unless all of its addons are in place: a ClusterAddon that was deleted at rest begins with an installation as well.

    Args:
        are_unreadable: Whether the cluster has other records, which cannot be read.
        is_upgraded: Whether Cluster API has an upgrade of the Kubernetes version to begin or to end.
        are_others_delivered: Whether the cluster has addons or charts of another class, or of another Kubernetes minor.
    """
    delivered = {record.addon: record.state for record in records if record.digest}
    if progress == RolloutProgress():
        return are_others_delivered or (is_upgraded and (bool(delivered) or are_unreadable))
    applied = {stage.name for stage in progress.stages if stage.action == StageAction.APPLY}
    in_place = {addon for addon, state in delivered.items() if state is not DeliveryState.DELIVERING}
    return is_upgraded and not progress.target.is_same(wanted) and bool(applied) and applied <= in_place


def _occasion(recorded: Target, wanted: Target, *, changed: bool, progress: RolloutProgress) -> Occasion:
    if recorded == NO_TARGET:
        return Occasion.INSTALL
    if not recorded.is_same(wanted):
        return Occasion.UPGRADE
    # Progress is cleared at the end: if there is any, it belongs to an unfinished rollout, of this class or, where the
    # Cluster was set back to the recorded class, of another one.
    return Occasion.REFRESH if changed or progress != RolloutProgress() else Occasion.NOTHING


def _with_progress(fresh: RolloutPlan, *, changed: bool, progress: RolloutProgress) -> RolloutPlan:
    if not progress.target.is_same(fresh.target):
        return fresh
    if fresh.occasion is Occasion.REFRESH and progress.finished:
        # Only the prune of the last rollout or refresh is missing: its stages run again only if the values changed.
        reached = [(StagePhase.PENDING if changed else StagePhase.DONE, "") for _ in fresh.steps]
    elif [stage.identity for stage in progress.stages] == [stage.identity for stage in fresh.progress.stages]:
        reached = [(stage.phase, stage.since) for stage in progress.stages]
    else:
        return fresh
    steps = tuple(
        replace(step, phase=phase, since=since) for step, (phase, since) in zip(fresh.steps, reached, strict=True)
    )
    return replace(fresh, steps=steps, resumed=any(phase is not StagePhase.PENDING for phase, _ in reached))


def _ordered(config: AddonConfig, occasion: Occasion, delivered: Collection[str]) -> tuple[RolloutStep, ...]:
    install, *upgrading = (tuple(RolloutStep(hook, stage) for stage in config.stages[hook]) for hook in LifecycleHook)
    if occasion is Occasion.UPGRADE:
        named = tuple(step for steps in upgrading for step in steps)
        return named + _others(install, named)
    steps = install if occasion is Occasion.INSTALL else _applying(install)
    for of_hook in upgrading:
        others = (step for step in _others(_applying(of_hook), steps) if step.stage.addon in delivered)
        # The conditions of an upgrade may hold only in an upgrade.
        steps += tuple(replace(step, stage=replace(step.stage, pre=None, post=None)) for step in others)
    return steps


def _applying(steps: tuple[RolloutStep, ...]) -> tuple[RolloutStep, ...]:
    return tuple(step for step in steps if step.stage.action is StageAction.APPLY)


def _others(steps: tuple[RolloutStep, ...], named: tuple[RolloutStep, ...]) -> tuple[RolloutStep, ...]:
    addons = {step.stage.addon for step in named}
    return tuple(step for step in steps if step.stage.addon not in addons)
