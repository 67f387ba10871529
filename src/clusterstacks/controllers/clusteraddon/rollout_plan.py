"""Plans the rollout of one cluster's addons: the stages to run, their order, and what they wait for.

A reconcile calls :func:`plan_rollout` once, then :meth:`RolloutPlan.next_move`, and reports results with
:meth:`RolloutPlan.reached` and :meth:`RolloutPlan.after_prune`, until a move must wait or all are done. Only then the
class is recorded: until then every reconcile continues the same rollout. Without a change of class or values there is
nothing to run. The status of the ClusterAddon keeps the progress between reconciles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.domain.addon_config import AddonConfig, LifecycleHook, Stage, StageAction

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.domain.versions import KubernetesVersion


class StagePhase(StrEnum):
    """Phase of a stage, with the Go operator's values."""

    PENDING = "Pending"
    WAITING_FOR_PRE = "waitingForPreCondition"
    CHANGING = "applyingOrDeleting"
    WAITING_FOR_POST = "waitingForPostCondition"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One entry of ``status.stages``.

    Args:
        hook: The lifecycle hook of the stage; empty for a release without stages.
        name: The addon.
        action: ``apply`` or ``delete``.
        phase: Its phase.
    """

    hook: str
    name: str
    action: str
    phase: StagePhase

    @property
    def identity(self) -> tuple[str, str, str]:
        """Key that is equal for two entries of the same stage."""
        return self.hook, self.name, self.action


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """Progress of a rollout.

    Args:
        target: The class that is rolled out, ``status.target``; empty without a rollout.
        stages: All its stages in order, ``status.stages``.
    """

    target: str = ""
    stages: tuple[StageProgress, ...] = ()

    @property
    def finished(self) -> bool:
        """True if every stage is done, also without any stage."""
        return all(stage.phase is StagePhase.DONE for stage in self.stages)

    def documents(self) -> list[dict[str, str]]:
        """Return ``status.stages``."""
        return [
            {"name": stage.name, "action": stage.action, "phase": stage.phase.value, "hook": stage.hook}
            for stage in self.stages
        ]


def read_progress(target: object, documents: object) -> RolloutProgress:
    """Parse ``status.target`` and ``status.stages``; an entry that is not valid counts as not started."""
    entries = documents if isinstance(documents, (list, tuple)) else ()
    stages = tuple(_stage(entry) for entry in entries if isinstance(entry, Mapping))
    return RolloutProgress(target if isinstance(target, str) else "", stages)


def _stage(entry: Mapping[str, object]) -> StageProgress:
    def text(key: str) -> str:
        value = entry.get(key)
        return value if isinstance(value, str) else ""

    phase = text("phase")
    return StageProgress(
        text("hook"),
        text("name"),
        text("action"),
        StagePhase(phase) if phase in tuple(StagePhase) else StagePhase.PENDING,
    )


SINGLE_ADDON = "cluster-addon"
"""The only addon of a release without clusteraddon.yaml."""


class Occasion(StrEnum):
    """Reason for a rollout."""

    NOTHING = "nothing"
    INSTALL = "install"
    UPGRADE = "upgrade"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class ControlPlaneState:
    """State of the control plane, which the stages after an upgrade wait for.

    Args:
        reported: The versions that the control plane reports; several during its rollout, none before its first report.
        wanted: The version in the Cluster's spec.
        topology_reconciled: Whether the Cluster's condition TopologyReconciled is True for its newest generation.
    """

    reported: tuple[KubernetesVersion, ...]
    wanted: KubernetesVersion
    topology_reconciled: bool

    @property
    def missing(self) -> str:
        """Return what the upgrade waits for; empty when it is complete."""
        behind = [version.text for version in sorted(self.reported) if not version.reaches(self.wanted)]
        if behind or not self.reported:
            now = ", ".join(behind) or "no version"
            return f"waiting for the control plane to report {self.wanted}; it reports {now}"
        if self.topology_reconciled:
            return ""
        return "waiting for the Cluster's condition TopologyReconciled to be True for its newest generation"


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """A stage in the order of a rollout.

    Args:
        hook: The lifecycle hook of the stage; None for a release without stages.
        stage: The stage.
        phase: Its phase.
    """

    hook: LifecycleHook | None
    stage: Stage
    phase: StagePhase = StagePhase.PENDING

    @property
    def progress(self) -> StageProgress:
        """The step as an entry of the status."""
        return StageProgress(self.hook or "", self.stage.addon, self.stage.action.value, self.phase)


_SINGLE = (RolloutStep(None, Stage(SINGLE_ADDON, StageAction.APPLY)),)


@dataclass(frozen=True, slots=True)
class RunStage:
    """Continue the step at ``index`` from its phase, then report the phase that it reached."""

    index: int
    step: RolloutStep


@dataclass(frozen=True, slots=True)
class WaitForUpgrade:
    """Wait for the upgrade of the cluster; ``message`` names what is missing."""

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
    """Plan of a rollout.

    Args:
        occasion: The reason; with ``NOTHING`` the next move is :class:`Done`.
        target: The class that is recorded at the end.
        steps: All stages in order, including those that are done.
        gate: Index of the first step that waits for the upgrade of the cluster, as the prune does; None without wait.
        resumed: Whether an earlier reconcile started it. Then addons may have been delivered with older values: no
            digest of the inputs is recorded at the end, so that a refresh checks all of them again.
        pruned: Whether the prune was done.
    """

    occasion: Occasion
    target: str
    steps: tuple[RolloutStep, ...] = ()
    gate: int | None = None
    resumed: bool = False
    pruned: bool = False

    def next_move(self, control_plane: ControlPlaneState) -> Move:
        """Return the next move: the first step that is not done, unless it must wait."""
        index = next((at for at, step in enumerate(self.steps) if step.phase is not StagePhase.DONE), len(self.steps))
        if self._held(index) and (missing := control_plane.missing):
            return WaitForUpgrade(missing)
        if index < len(self.steps):
            return RunStage(index, self.steps[index])
        return Done() if self.pruned else Prune(self._kept())

    def reached(self, index: int, phase: StagePhase) -> RolloutPlan:
        """Return the plan with one step in another phase."""
        steps = (*self.steps[:index], replace(self.steps[index], phase=phase), *self.steps[index + 1 :])
        return replace(self, steps=steps)

    def after_prune(self) -> RolloutPlan:
        """Return the plan with its prune done."""
        return replace(self, pruned=True)

    @property
    def progress(self) -> RolloutProgress:
        """The progress to keep in status until the next reconcile."""
        return RolloutProgress(self.target, tuple(step.progress for step in self.steps))

    def _held(self, index: int) -> bool:
        if self.gate is None or index < self.gate:
            return False
        # Once a step after the gate has started, the gate stays open: a reconciling topology must not stop it half-way.
        return all(step.phase is StagePhase.PENDING for step in self.steps[self.gate :])

    def _kept(self) -> frozenset[str]:
        last = {step.stage.addon: step.stage.action for step in self.steps}
        return frozenset(addon for addon, action in last.items() if action is StageAction.APPLY)


def plan_rollout(
    config: AddonConfig | None,
    *,
    recorded: str,
    wanted: str,
    changed: bool,
    delivered: Collection[str],
    progress: RolloutProgress,
) -> RolloutPlan:
    """Plan the rollout of a cluster; called once in every reconcile.

    - Install (no class recorded): the stages of AfterControlPlaneInitialized.
    - Upgrade (another class recorded): BeforeClusterUpgrade at once; once the cluster is upgraded AfterClusterUpgrade,
      then the AfterControlPlaneInitialized stages of addons that neither names.
    - Refresh (values changed, or an earlier rollout was not finished): every addon that AfterControlPlaneInitialized
      applies.

    Install and refresh then update delivered addons that only the upgrade hooks name. Each rollout ends with one prune.
    An addon that no stage names is not delivered. A release without stages has one addon and waits for nothing. Stages
    that are done for ``wanted`` do not run again; a rollout to another target starts from the beginning.

    Args:
        config: The stages of the wanted release; None for a release without them.
        recorded: The class whose addons the cluster has completely; empty before the first delivery.
        wanted: The Cluster's class.
        changed: Whether the inputs of the addons differ from those of the last complete delivery.
        delivered: The addons with a delivery record in the cluster.
        progress: The progress in status.
    """
    occasion = _occasion(recorded, wanted, changed=changed, progress=progress)
    if occasion is Occasion.NOTHING:
        return RolloutPlan(occasion, wanted, pruned=True)
    steps, gate = (_SINGLE, None) if config is None else _ordered(config, occasion, delivered)
    return _taken_up(RolloutPlan(occasion, wanted, steps, gate), changed=changed, progress=progress)


def _occasion(recorded: str, wanted: str, *, changed: bool, progress: RolloutProgress) -> Occasion:
    if not recorded:
        return Occasion.INSTALL
    if recorded != wanted:
        return Occasion.UPGRADE
    # Progress is cleared at the end: a remaining one belongs to an unfinished rollout, of this class or, where the
    # Cluster was set back to the recorded class, of another one.
    return Occasion.REFRESH if changed or progress != RolloutProgress() else Occasion.NOTHING


def _taken_up(fresh: RolloutPlan, *, changed: bool, progress: RolloutProgress) -> RolloutPlan:
    if progress.target != fresh.target:
        return fresh
    if fresh.occasion is Occasion.REFRESH and progress.finished:
        # Only the prune of the last rollout or refresh is missing: its stages run again only if the values changed.
        phases = [StagePhase.PENDING if changed else StagePhase.DONE for _ in fresh.steps]
    elif [stage.identity for stage in progress.stages] == [stage.identity for stage in fresh.progress.stages]:
        phases = [stage.phase for stage in progress.stages]
    else:
        return fresh
    steps = tuple(replace(step, phase=phase) for step, phase in zip(fresh.steps, phases, strict=True))
    return replace(fresh, steps=steps, resumed=any(phase is not StagePhase.PENDING for phase in phases))


def _ordered(
    config: AddonConfig, occasion: Occasion, delivered: Collection[str]
) -> tuple[tuple[RolloutStep, ...], int | None]:
    install, before, after = (_steps(config, hook) for hook in LifecycleHook)
    if occasion is Occasion.UPGRADE:
        return (*before, *after, *_others(install, before + after)), len(before)
    steps = install if occasion is Occasion.INSTALL else _applying(install)
    for upgrading in (_applying(before), _applying(after)):
        steps += tuple(step for step in _others(upgrading, steps) if step.stage.addon in delivered)
    return steps, None


def _steps(config: AddonConfig, hook: LifecycleHook) -> tuple[RolloutStep, ...]:
    return tuple(RolloutStep(hook, stage) for stage in config.stages[hook])


def _applying(steps: tuple[RolloutStep, ...]) -> tuple[RolloutStep, ...]:
    return tuple(step for step in steps if step.stage.action is StageAction.APPLY)


def _others(steps: tuple[RolloutStep, ...], named: tuple[RolloutStep, ...]) -> tuple[RolloutStep, ...]:
    addons = {step.stage.addon for step in named}
    return tuple(step for step in steps if step.stage.addon not in addons)
