"""Rollouts with random failures, crashes and changes of class and values."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.files.addon_config import AddonConfig, LifecycleHook, Stage, StageAction
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    Done,
    Occasion,
    Prune,
    RolloutPlan,
    RolloutProgress,
    RunStage,
    StagePhase,
    Target,
    WaitForUpgrade,
    plan_rollout,
    read_progress,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState

VERSION = KubernetesVersion(1, 36, 1)
READY = UpgradeState(control_plane=(VERSION,), wanted=VERSION, topology_reconciled=True)
BUSY = UpgradeState(control_plane=(VERSION,), wanted=VERSION, topology_reconciled=False)

STAGES = st.lists(st.builds(Stage, st.sampled_from("abcd"), st.sampled_from(StageAction)), max_size=4).map(tuple)
CONFIGS = st.none() | st.builds(
    lambda *hooks: AddonConfig(dict(zip(LifecycleHook, hooks, strict=True))), *[STAGES] * len(LifecycleHook)
)
CLASSES = st.fixed_dictionaries({"one": CONFIGS, "two": CONFIGS, "three": CONFIGS})
BUDGETS = st.integers(0, 6)
"""How many moves a reconcile gets done before something fails."""


@dataclass
class Fleet:
    """One cluster with its recorded state, and a controller that follows the rollout."""

    classes: dict[str, AddonConfig | None]
    wanted: str = "one"
    values: int = 0
    recorded: str = ""
    observed: int | None = None
    progress: RolloutProgress = field(default_factory=RolloutProgress)
    delivered: dict[str, tuple[str, int]] = field(default_factory=dict)
    journal: list[str] = field(default_factory=list)

    def plan(self) -> RolloutPlan:
        return plan_rollout(
            self.classes[self.wanted],
            recorded=Target(self.recorded),
            wanted=Target(self.wanted),
            changed=self.observed != self.values,
            delivered=self.delivered,
            progress=self.progress,
        )

    def reconcile(self, budget: int = 100, upgrade: UpgradeState = READY, *, clears: bool = True) -> None:
        rollout = self.plan()
        for _ in range(budget):
            match rollout.next_move(upgrade):
                case RunStage(index, step):
                    self.run(step.stage)
                    rollout = rollout.reached(index, StagePhase.DONE)
                    self.progress = read_progress(rollout.progress.document())
                case Prune(keep):
                    self.delivered = {addon: state for addon, state in self.delivered.items() if addon in keep}
                    self.progress = rollout.progress
                    rollout = rollout.after_prune()
                case WaitForUpgrade():
                    return
                case Done():
                    self.recorded = rollout.target.class_name
                    if clears and rollout.occasion is not Occasion.NOTHING:
                        self.observed = None if rollout.resumed else self.values
                        self.progress = RolloutProgress()
                    return

    def run(self, stage: Stage) -> None:
        self.journal.append(stage.addon)
        if stage.action is StageAction.APPLY:
            self.delivered[stage.addon] = (self.wanted, self.values)
        else:
            self.delivered.pop(stage.addon, None)


EVENTS = st.one_of(
    st.tuples(st.just("reconcile"), BUDGETS),
    st.tuples(st.just("busy"), BUDGETS),
    st.tuples(st.just("crash"), st.just(100)),
    st.tuples(st.just("values"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["one", "two", "three"]), st.just(0)),
)


def live(fleet: Fleet, events: list[tuple[str, int]]) -> None:
    for event, number in events:
        match event:
            case "reconcile":
                fleet.reconcile(number)
            case "busy":
                fleet.reconcile(number, BUSY)
            case "crash":
                fleet.reconcile(number, clears=False)
            case "values":
                fleet.values = number
            case name:
                fleet.wanted = name


@given(CLASSES, st.lists(EVENTS))
def test_cluster_converges_after_any_interruption_and_stays_unchanged(
    classes: dict[str, AddonConfig | None], events: list[tuple[str, int]]
) -> None:
    fleet = Fleet(classes)
    live(fleet, events)

    for _ in range(3):  # the rollout itself, the look at what was delivered before a resume, and rest
        fleet.reconcile()
    fleet.journal.clear()
    fleet.reconcile()

    assert fleet.journal == []
    assert fleet.recorded == fleet.wanted
    # An old value or class left behind is what D1 and D80 were about.
    assert set(fleet.delivered.values()) <= {(fleet.wanted, fleet.values)}


@given(CLASSES, st.lists(BUDGETS.filter(bool)), st.sampled_from(["", "one"]))
def test_interrupted_rollout_runs_each_stage_once_and_in_order(
    classes: dict[str, AddonConfig | None], budgets: list[int], recorded: str
) -> None:
    straight, interrupted = (Fleet(classes, wanted="two", recorded=recorded, observed=0) for _ in range(2))
    straight.reconcile()
    for budget in budgets:
        if interrupted.recorded != "two":
            interrupted.reconcile(budget)
    if interrupted.recorded != "two":
        interrupted.reconcile()

    assert interrupted.journal == straight.journal


@given(CLASSES, st.lists(EVENTS))
def test_class_is_recorded_only_by_a_complete_rollout(
    classes: dict[str, AddonConfig | None], events: list[tuple[str, int]]
) -> None:
    fleet = Fleet(classes)
    for event in events:
        before = fleet.recorded
        live(fleet, [event])
        if fleet.recorded != before:
            assert fleet.recorded == fleet.wanted
            assert {state[0] for addon, state in fleet.delivered.items()} <= {fleet.wanted}


@given(classes=CLASSES, recorded=st.sampled_from(["", "one", "two"]), changed=st.booleans())
def test_installation_runs_only_its_own_hook_and_a_settled_cluster_runs_none(
    classes: dict[str, AddonConfig | None], recorded: str, *, changed: bool
) -> None:
    """D81."""
    rollout = plan_rollout(
        classes["two"],
        recorded=Target(recorded),
        wanted=Target("two"),
        changed=changed,
        delivered=(),
        progress=RolloutProgress(),
    )

    if not recorded:
        assert {step.hook for step in rollout.steps} <= {LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED, None}
    if recorded == "two" and not changed:
        assert rollout.steps == ()
