"""Which addon stages to run now for one cluster, in which order, and what they wait for.

A reconcile plans once with :func:`plan_rollout`, then asks :meth:`Rollout.next_move` and reports back with
:meth:`Rollout.reached` and :meth:`Rollout.after_prune` until it is told to wait or that all is done. Only then the
class is recorded: until that moment every reconcile goes on with the same rollout (INCUMBENT D80), and without a
change of class or values there is nothing to run (D81).
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
    """Where a stage stands; the words are those of the Go operator."""

    PENDING = "Pending"
    WAITING_FOR_PRE = "waitingForPreCondition"
    CHANGING = "applyingOrDeleting"
    WAITING_FOR_POST = "waitingForPostCondition"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One entry of ``status.stages``.

    Args:
        hook: The hook the stage belongs to; empty for a release without stages.
        name: The addon.
        action: ``apply`` or ``delete``.
        phase: Where it stands.
    """

    hook: str
    name: str
    action: str
    phase: StagePhase

    @property
    def identity(self) -> tuple[str, str, str]:
        """What says that two entries are about the same stage."""
        return self.hook, self.name, self.action


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """What a rollout has done so far.

    Args:
        target: The class rolled out, ``status.target``; empty when none is under way.
        stages: All its stages in their order, ``status.stages``.
    """

    target: str = ""
    stages: tuple[StageProgress, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether every stage is done, which also holds where there is none."""
        return all(stage.phase is StagePhase.DONE for stage in self.stages)

    def documents(self) -> list[dict[str, str]]:
        """Return ``status.stages``."""
        return [
            {"name": stage.name, "action": stage.action, "phase": stage.phase.value, "hook": stage.hook}
            for stage in self.stages
        ]


def read_progress(target: object, documents: object) -> RolloutProgress:
    """Read ``status.target`` and ``status.stages``; what cannot be read counts as not begun."""
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
"""The one addon of a release without clusteraddon.yaml."""


class Occasion(StrEnum):
    """Why stages run."""

    NOTHING = "nothing"
    INSTALL = "install"
    UPGRADE = "upgrade"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class ControlPlaneState:
    """What the stages after an upgrade wait for.

    Args:
        reported: Every version the control plane reports; several while it rolls, none while it reports nothing.
        wanted: The version the Cluster asks for.
        topology_reconciled: Whether the Cluster's condition TopologyReconciled is True for its newest generation.
    """

    reported: tuple[KubernetesVersion, ...]
    wanted: KubernetesVersion
    topology_reconciled: bool

    @property
    def missing(self) -> str:
        """Say what the upgrade still lacks; empty when it is complete."""
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
        hook: The hook the stage stands under; None for a release without stages.
        stage: What to do.
        phase: Where it stands.
    """

    hook: LifecycleHook | None
    stage: Stage
    phase: StagePhase = StagePhase.PENDING

    @property
    def progress(self) -> StageProgress:
        """The step as the status keeps it."""
        return StageProgress(self.hook or "", self.stage.addon, self.stage.action.value, self.phase)


_SINGLE = (RolloutStep(None, Stage(SINGLE_ADDON, StageAction.APPLY)),)


@dataclass(frozen=True, slots=True)
class RunStage:
    """Go on with the step at ``index`` from its phase, then report the phase it reached."""

    index: int
    step: RolloutStep


@dataclass(frozen=True, slots=True)
class WaitForUpgrade:
    """Nothing to do before the cluster is upgraded; ``message`` says what is missing."""

    message: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove every delivered addon but ``keep``, and what ``keep`` no longer contains."""

    keep: frozenset[str]


@dataclass(frozen=True, slots=True)
class Done:
    """The cluster has what the release brings: record the class and clear the progress, target and stages both."""


Move: TypeAlias = RunStage | WaitForUpgrade | Prune | Done


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """The stages to run for one cluster.

    Args:
        occasion: Why; with ``NOTHING`` the next move is :class:`Done` at once.
        target: The class that is recorded at the end.
        steps: All stages in order, those already done included.
        gate: Index of the first step that waits for the upgrade of the cluster, as the prune does; None without wait.
        resumed: Whether an earlier reconcile began it. Then addons may have been delivered with values that changed
            since: record no digest of the inputs at the end, so that a refresh looks at all of them once more.
        pruned: Whether the prune was done.
    """

    occasion: Occasion
    target: str
    steps: tuple[RolloutStep, ...] = ()
    gate: int | None = None
    resumed: bool = False
    pruned: bool = False

    def next_move(self, control_plane: ControlPlaneState) -> Move:
        """Say what to do now: the first step that is not done, once nothing holds it back."""
        index = next((at for at, step in enumerate(self.steps) if step.phase is not StagePhase.DONE), len(self.steps))
        if self._held(index) and (missing := control_plane.missing):
            return WaitForUpgrade(missing)
        if index < len(self.steps):
            return RunStage(index, self.steps[index])
        return Done() if self.pruned else Prune(self._kept())

    def reached(self, index: int, phase: StagePhase) -> RolloutPlan:
        """Return the rollout with one step in another phase."""
        steps = (*self.steps[:index], replace(self.steps[index], phase=phase), *self.steps[index + 1 :])
        return replace(self, steps=steps)

    def after_prune(self) -> RolloutPlan:
        """Return the rollout with its prune done."""
        return replace(self, pruned=True)

    @property
    def progress(self) -> RolloutProgress:
        """What the status keeps until the next reconcile."""
        return RolloutProgress(self.target, tuple(step.progress for step in self.steps))

    def _held(self, index: int) -> bool:
        if self.gate is None or index < self.gate:
            return False
        # Once a step behind the gate has begun the gate stays open: a topology at work must not stop half-way.
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
    """Decide what to run for a cluster; called once in every reconcile.

    - Install (no class recorded): the stages of AfterControlPlaneInitialized.
    - Upgrade (another class recorded): BeforeClusterUpgrade at once; once the cluster is upgraded AfterClusterUpgrade,
      then the AfterControlPlaneInitialized stages of addons that neither names.
    - Refresh (values changed, or a rollout of the recorded class or away from it was left unfinished): every addon
      that AfterControlPlaneInitialized applies.

    Install and refresh then bring up to date what only an upgrade brings and the cluster already has. Each occasion
    ends with one prune. An addon that no stage names is not delivered. A release without stages has one addon and
    waits for nothing. Stages done for ``wanted`` are not run again; another target begins anew.

    Args:
        config: The stages of the wanted release; None for a release without them.
        recorded: The class whose addons the cluster has completely; empty before the first time.
        wanted: The Cluster's class.
        changed: Whether what the addons are rendered from differs from what was last delivered completely.
        delivered: The addons the cluster has a delivery record of.
        progress: What the status keeps.
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
    # Progress is cleared at the end: what is left belongs to a rollout that did not get there, of this class or,
    # where the Cluster was set back to the recorded class, of another one.
    return Occasion.REFRESH if changed or progress != RolloutProgress() else Occasion.NOTHING


def _taken_up(fresh: RolloutPlan, *, changed: bool, progress: RolloutProgress) -> RolloutPlan:
    if progress.target != fresh.target:
        return fresh
    if fresh.occasion is Occasion.REFRESH and progress.finished:
        # The rollout that recorded the class, or a refresh, is complete but for its prune: nothing asks for its stages
        # again unless the values changed since.
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
