from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState
from clusterstacks.model.files.addon_config import (
    AddonConfig,
    LifecycleHook,
    Rollback,
    Stage,
    StageAction,
    StageCondition,
    WaitFor,
)
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    NO_TARGET,
    Done,
    Occasion,
    Prune,
    RolloutPlan,
    RolloutProgress,
    RolloutStep,
    RunStage,
    StagePhase,
    StageProgress,
    Target,
    WaitForUpgrade,
    is_lost_in_upgrade,
    plan_rollout,
    read_progress,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone, UpgradeState
from tests.support.builders.documents import JSON

INSTALL, BEFORE, AFTER_CONTROL_PLANE, AFTER_WORKERS, AFTER = LifecycleHook
OLD, NEW = KubernetesVersion(1, 35, 4), KubernetesVersion(1, 36, 1)
UPGRADED = UpgradeState(control_plane=(NEW,), wanted=NEW, topology_reconciled=True)
BEHIND = UpgradeState(control_plane=(OLD,), wanted=NEW, topology_reconciled=True)
ROLLING = UpgradeState(control_plane=(NEW,), workers=(OLD, NEW), wanted=NEW, topology_reconciled=False)
ROLLED = UpgradeState(control_plane=(NEW,), workers=(NEW,), wanted=NEW, topology_reconciled=False)


def stages(text: str) -> tuple[Stage, ...]:
    """Read ``cni ccm -csi``: apply cni and ccm, delete csi."""
    return tuple(
        Stage(word.removeprefix("-"), StageAction.DELETE if word.startswith("-") else StageAction.APPLY)
        for word in text.split()
    )


def config(
    install: str = "", before: str = "", after: str = "", *, control_plane: str = "", workers: str = ""
) -> AddonConfig:
    return AddonConfig(
        {
            INSTALL: stages(install),
            BEFORE: stages(before),
            AFTER_CONTROL_PLANE: stages(control_plane),
            AFTER_WORKERS: stages(workers),
            AFTER: stages(after),
        }
    )


def plan(
    release: AddonConfig | None,
    recorded: str = "one",
    wanted: str = "two",
    *,
    changed: bool = True,
    delivered: str = "",
    progress: RolloutProgress | None = None,
) -> RolloutPlan:
    return plan_rollout(
        release,
        recorded=Target(recorded),
        wanted=Target(wanted),
        changed=changed,
        delivered=delivered.split(),
        progress=progress or RolloutProgress(),
    )


def played(rollout: RolloutPlan, upgrade: UpgradeState = UPGRADED) -> tuple[list[str], RolloutPlan]:
    """Do every move to the end or the first wait, and write down what was done."""
    journal: list[str] = []
    while True:
        match rollout.next_move(upgrade):
            case RunStage(index, step):
                journal.append(f"{'-' if step.stage.action is StageAction.DELETE else ''}{step.stage.addon}")
                rollout = rollout.reached(index, StagePhase.DONE)
            case Prune(keep):
                journal.append(f"keep {' '.join(sorted(keep))}".strip())
                rollout = rollout.after_prune()
            case WaitForUpgrade():
                return [*journal, "wait"], rollout
            case Done():
                return [*journal, "done"], rollout


RELEASE = config(install="cni metrics csi", before="cni -old", after="csi")


@pytest.mark.parametrize(
    ("release", "recorded", "journal"),
    [
        (RELEASE, "", ["cni", "metrics", "csi", "keep cni csi metrics", "done"]),
        (RELEASE, "one", ["cni", "-old", "csi", "metrics", "keep cni csi metrics", "done"]),
        (RELEASE, "two", ["cni", "metrics", "csi", "keep cni csi metrics", "done"]),
        (config(install="cni"), "one", ["cni", "keep cni", "done"]),
        (config(before="cni", after="cni"), "one", ["cni", "cni", "keep cni", "done"]),
        (config(install="a b", before="-a", after="b"), "one", ["-a", "b", "keep b", "done"]),
        (config(install="a", after="b"), "", ["a", "keep a", "done"]),
        (config(install="a", after="b"), "two", ["a", "keep a", "done"]),
        (config(install="-a b"), "", ["-a", "b", "keep b", "done"]),
        (config(install="-a b"), "two", ["b", "keep b", "done"]),
        (config(), "one", ["keep", "done"]),
        (None, "", ["cluster-addon", "keep cluster-addon", "done"]),
        (None, "one", ["cluster-addon", "keep cluster-addon", "done"]),
        (None, "two", ["cluster-addon", "keep cluster-addon", "done"]),
    ],
)
def test_stages_of_an_occasion_run_in_order_and_end_with_one_prune(
    release: AddonConfig | None, recorded: str, journal: list[str]
) -> None:
    assert played(plan(release, recorded))[0] == journal


@pytest.mark.parametrize("recorded", ["", "two"])
def test_addons_of_upgrade_stages_are_refreshed_once_delivered(recorded: str) -> None:
    """A ClusterAddon deleted by hand and made anew installs, in a cluster that has had upgrades (D21)."""
    release = config(install="a", before="b", after="b c")

    assert played(plan(release, recorded, delivered="a b old"))[0] == ["a", "b", "keep a b", "done"]


@pytest.mark.regression("D81")
def test_nothing_runs_when_neither_class_nor_values_changed() -> None:
    rollout = plan(RELEASE, "two", changed=False)

    assert rollout.occasion is Occasion.NOTHING
    assert played(rollout, BEHIND)[0] == ["done"]


def test_stages_before_the_upgrade_run_at_once_and_others_wait_for_it() -> None:
    before, waiting = played(plan(RELEASE), BEHIND)
    after, _ = played(plan(RELEASE, progress=waiting.progress))

    assert before == ["cni", "-old", "wait"]
    assert after == ["csi", "metrics", "keep cni csi metrics", "done"]


def test_prune_without_stages_waits_for_the_upgrade() -> None:
    assert played(plan(config(before="cni")), BEHIND)[0] == ["cni", "wait"]


@pytest.mark.parametrize("recorded", ["", "two"])
def test_install_and_refresh_do_not_wait_for_an_upgrade(recorded: str) -> None:
    assert played(plan(RELEASE, recorded), BEHIND)[0][-1] == "done"


def test_release_without_stages_is_upgraded_at_once() -> None:
    assert played(plan(None), BEHIND)[0] == ["cluster-addon", "keep cluster-addon", "done"]


EVERY_HOOK = config(install="dns cni", before="cni", control_plane="ccm kubeproxy", workers="agent", after="csi")


@pytest.mark.regression("D26")
@pytest.mark.parametrize(
    ("upgrade", "journal"),
    [
        (BEHIND, ["cni", "wait"]),
        (ROLLING, ["cni", "ccm", "kubeproxy", "wait"]),
        (ROLLED, ["cni", "ccm", "kubeproxy", "agent", "wait"]),
        (
            UPGRADED,
            ["cni", "ccm", "kubeproxy", "agent", "csi", "dns", "keep agent ccm cni csi dns kubeproxy", "done"],
        ),
    ],
)
def test_stages_of_each_hook_run_when_the_upgrade_has_reached_it(upgrade: UpgradeState, journal: list[str]) -> None:
    assert played(plan(EVERY_HOOK), upgrade)[0] == journal


def test_each_point_of_an_upgrade_is_waited_for_once_and_no_stage_runs_twice() -> None:
    journal: list[str] = []
    progress = RolloutProgress()
    for upgrade in (BEHIND, ROLLING, BEHIND, ROLLED, ROLLING, UPGRADED):
        done, rollout = played(plan(EVERY_HOOK, progress=progress), upgrade)
        journal, progress = journal + done, rollout.progress

    assert [one for one in journal if one != "wait"][:6] == ["cni", "ccm", "kubeproxy", "agent", "csi", "dns"]
    assert journal.count("wait") == 5


def test_a_stage_that_has_started_continues_when_the_cluster_falls_behind_again() -> None:
    begun = plan(EVERY_HOOK).reached(0, StagePhase.DONE).reached(1, StagePhase.WAITING_FOR_HEALTH)

    assert played(begun, BEHIND)[0] == ["ccm", "kubeproxy", "wait"]


def test_version_that_is_set_back_before_the_control_plane_moved_ends_the_upgrade_with_all_its_stages() -> None:
    """The class stays the new one, so its addons are delivered for the version that the cluster has."""
    _, waiting = played(plan(EVERY_HOOK), BEHIND)
    back = UpgradeState(control_plane=(OLD,), workers=(OLD,), wanted=OLD, topology_reconciled=True)

    assert played(plan(EVERY_HOOK, progress=waiting.progress), back)[0][:5] == [
        "ccm",
        "kubeproxy",
        "agent",
        "csi",
        "dns",
    ]


def test_class_and_version_that_are_set_back_bring_the_old_addons_back_at_once() -> None:
    _, waiting = played(plan(EVERY_HOOK, "one", "two"), BEHIND)
    back = plan(EVERY_HOOK, "one", "one", changed=False, delivered="cni", progress=waiting.progress)

    assert played(back, BEHIND)[0] == ["dns", "cni", "keep cni dns", "done"]


def test_progress_names_the_point_that_the_next_stage_waits_for() -> None:
    awaited = [played(plan(EVERY_HOOK), upgrade)[1].progress.awaited for upgrade in (BEHIND, ROLLING, ROLLED, UPGRADED)]

    assert awaited == [Milestone.CONTROL_PLANE, Milestone.WORKERS, Milestone.CLUSTER, Milestone.CLUSTER]


@pytest.mark.parametrize("phase", StagePhase)
def test_a_rollout_has_begun_when_a_stage_has_left_its_first_phase(phase: StagePhase) -> None:
    assert plan(RELEASE).reached(1, phase).progress.begun is (phase is not StagePhase.PENDING)


def test_unreconciled_topology_does_not_stop_started_stages_after_the_upgrade() -> None:
    busy = UpgradeState(control_plane=(NEW,), wanted=NEW, topology_reconciled=False)
    begun = plan(config(before="cni", after="ccm csi")).reached(0, StagePhase.DONE).reached(1, StagePhase.CHANGING)

    assert played(begun, busy)[0] == ["ccm", "csi", "keep ccm cni csi", "done"]


@pytest.mark.regression("D80")
@pytest.mark.parametrize("phase", [phase for phase in StagePhase if phase is not StagePhase.DONE])
def test_interrupted_stage_is_resumed(phase: StagePhase) -> None:
    interrupted = plan(RELEASE).reached(0, StagePhase.DONE).reached(1, phase)
    resumed = plan(RELEASE, progress=interrupted.progress)
    move = resumed.next_move(UPGRADED)

    assert resumed.resumed
    assert isinstance(move, RunStage)
    assert (move.index, move.step.stage.addon, move.step.phase) == (1, "old", phase)


@pytest.mark.regression("D80")
def test_upgrade_with_a_failed_prune_is_resumed_at_the_prune() -> None:
    _, finished = played(plan(RELEASE))

    assert played(plan(RELEASE, changed=False, progress=finished.progress))[0] == ["keep cni csi metrics", "done"]


def test_changed_target_restarts_the_rollout() -> None:
    _, waiting = played(plan(RELEASE, wanted="two"), BEHIND)
    rollout = plan(RELEASE, wanted="three", progress=waiting.progress)

    assert not rollout.resumed
    assert played(rollout, BEHIND)[0] == ["cni", "-old", "wait"]


def test_cluster_reset_to_its_recorded_class_gets_its_addons_back() -> None:
    _, waiting = played(plan(RELEASE, "one", "two"), BEHIND)
    back = plan(RELEASE, "one", "one", changed=False, progress=waiting.progress)

    assert back.occasion is Occasion.REFRESH
    assert played(back, BEHIND)[0] == ["cni", "metrics", "csi", "keep cni csi metrics", "done"]


def test_interrupted_rollout_of_a_class_without_stages_is_reverted() -> None:
    back = plan(RELEASE, "one", "one", changed=False, progress=RolloutProgress(Target("two")))

    assert back.occasion is Occasion.REFRESH
    assert not back.resumed


@pytest.mark.regression("D81")
def test_crash_between_recording_the_class_and_clearing_progress_repeats_no_stage() -> None:
    _, finished = played(plan(RELEASE))

    assert played(plan(RELEASE, "two", changed=False, progress=finished.progress))[0] == [
        "keep cni csi metrics",
        "done",
    ]


def test_values_changed_before_progress_is_cleared_are_delivered() -> None:
    _, finished = played(plan(RELEASE))
    rollout = plan(RELEASE, "two", changed=True, progress=finished.progress)

    assert not rollout.resumed
    assert played(rollout)[0][:3] == ["cni", "metrics", "csi"]


def test_interrupted_refresh_is_resumed_even_if_values_are_reset() -> None:
    begun = plan(RELEASE, "two").reached(0, StagePhase.DONE)

    assert played(plan(RELEASE, "two", changed=False, progress=begun.progress))[0][:2] == ["metrics", "csi"]


def test_progress_of_other_stages_is_ignored() -> None:
    foreign = RolloutProgress(Target("two"), (StageProgress("BeforeClusterUpgrade", "cni", "apply", StagePhase.DONE),))

    assert not plan(RELEASE, progress=foreign).resumed


@pytest.mark.parametrize("version", ["", "v1.36.1"])
def test_progress_is_read_back_from_the_status(version: str) -> None:
    begun = plan(RELEASE).reached(0, StagePhase.WAITING_FOR_POST).progress
    progress = RolloutProgress(Target("two", version), begun.stages)

    assert read_progress(progress.document()) == progress
    assert progress.document()["stages"][0] == {
        "name": "cni",
        "action": "apply",
        "phase": "waitingForPostCondition",
        "hook": "BeforeClusterUpgrade",
    }


@given(JSON, JSON)
def test_reading_an_arbitrary_status_does_not_raise(target: object, documents: object) -> None:
    read_progress({"target": target, "stages": documents}).document()
    read_progress({"stages": [{"name": documents, "phase": documents, "hook": target}]})


WAITING = Stage("cni", StageAction.APPLY, wait_for=WaitFor.HEALTHY)


def waiting_plan(progress: RolloutProgress | None = None) -> RolloutPlan:
    release = AddonConfig({**config().stages, INSTALL: (WAITING, *stages("csi"))})
    return plan(release, recorded="", wanted="two", progress=progress)


def test_the_time_since_when_a_stage_waits_for_health_survives_a_restart() -> None:
    waiting = waiting_plan().reached(0, StagePhase.WAITING_FOR_HEALTH, "2026-01-02T03:04:05Z")
    document = waiting.progress.document()
    assert [one.get("waitingSince") for one in document["stages"]] == ["2026-01-02T03:04:05Z", None]

    resumed = waiting_plan(read_progress(document))

    assert (resumed.steps[0].phase, resumed.steps[0].since) == (
        StagePhase.WAITING_FOR_HEALTH,
        "2026-01-02T03:04:05Z",
    )
    assert resumed.reached(0, StagePhase.DONE).steps[0].since == ""


def test_only_addons_with_a_stage_that_rolls_back_return_to_a_healthy_revision() -> None:
    release = AddonConfig(
        {**config().stages, INSTALL: (WAITING, Stage("csi", StageAction.APPLY, rollback=Rollback.ON_FAILURE))}
    )

    assert plan(release, recorded="").addons_that_roll_back == {"csi"}


def test_a_stage_that_waits_for_health_holds_back_the_next_one_and_the_prune() -> None:
    waiting = waiting_plan().reached(0, StagePhase.WAITING_FOR_HEALTH)
    assert isinstance(waiting.next_move(UPGRADED), RunStage)
    assert waiting.next_move(UPGRADED) == RunStage(0, waiting.steps[0])
    assert not waiting.progress.delivered

    last = waiting.reached(0, StagePhase.DONE).reached(1, StagePhase.WAITING_FOR_POST)
    assert last.progress.delivered
    assert isinstance(last.next_move(UPGRADED), RunStage)


def test_only_addons_whose_last_stage_waits_for_health_must_be_healthy() -> None:
    assert waiting_plan().addons_that_must_be_healthy == {"cni"}
    release = AddonConfig({**config().stages, INSTALL: (WAITING, *stages("cni"))})
    assert plan(release, recorded="").addons_that_must_be_healthy == frozenset()


ONCE = StageCondition("true")


@pytest.mark.parametrize(
    ("hook", "stage", "again"),
    [
        (None, Stage("cni", StageAction.APPLY), True),
        (INSTALL, Stage("cni", StageAction.APPLY), True),
        (INSTALL, Stage("cni", StageAction.APPLY, pre=ONCE, post=ONCE), True),
        (INSTALL, Stage("cni", StageAction.APPLY, wait_for=WaitFor.HEALTHY), False),
        (INSTALL, Stage("cni", StageAction.DELETE), False),
        (BEFORE, Stage("cni", StageAction.APPLY), True),
        (BEFORE, Stage("cni", StageAction.APPLY, pre=ONCE), False),
        (AFTER, Stage("cni", StageAction.APPLY, post=ONCE), False),
        (AFTER, Stage("cni", StageAction.DELETE), False),
    ],
)
def test_a_stage_can_run_again_if_a_refresh_runs_it_or_if_it_waits_for_nothing(
    hook: LifecycleHook | None, stage: Stage, *, again: bool
) -> None:
    assert RolloutStep(hook, stage).idempotent == again


@pytest.mark.parametrize(
    ("recorded", "wanted", "upgrades"),
    [
        (Target("one", "v1.35.4"), Target("one", "v1.36.1"), True),
        (Target("one", "v1.35.4"), Target("two", "v1.35.4"), False),
        (Target("one"), Target("two", "v1.36.1"), False),
        (Target("one", "v1.35.4"), Target("two"), False),
        (NO_TARGET, Target("one", "v1.35.4"), False),
        (Target("", "v1.35.4"), Target("one", "v1.36.1"), True),
    ],
)
def test_another_known_version_is_an_upgrade_of_kubernetes(recorded: Target, wanted: Target, *, upgrades: bool) -> None:
    assert recorded.is_upgraded_by(wanted) is upgrades


def test_an_upgrade_from_an_unknown_class_runs_all_stages_in_order_after_its_points() -> None:
    def rollout(progress: RolloutProgress) -> RolloutPlan:
        return plan_rollout(
            EVERY_HOOK,
            recorded=Target("", "v1.35.4"),
            wanted=Target("two", "v1.36.1"),
            changed=True,
            delivered=["cni", "old"],
            progress=progress,
        )

    before, waiting = played(rollout(RolloutProgress()), BEHIND)
    after, _ = played(rollout(waiting.progress), UPGRADED)

    assert before == ["cni", "wait"]
    assert after == ["ccm", "kubeproxy", "agent", "csi", "dns", "keep agent ccm cni csi dns kubeproxy", "done"]


@pytest.mark.parametrize("recorded", ["", "two"])
def test_install_and_refresh_leave_out_the_conditions_of_upgrade_stages(recorded: str) -> None:
    """They may hold only in an upgrade, and the addon is delivered already."""
    conditioned = Stage("backup", StageAction.APPLY, pre=ONCE, post=ONCE)
    release = AddonConfig({**config().stages, INSTALL: (replace(conditioned, addon="cni"),), BEFORE: (conditioned,)})
    cni, backup = (step.stage for step in plan(release, recorded, delivered="backup cni").steps)

    assert (cni.pre, cni.post) == (ONCE, ONCE)
    assert (backup.pre, backup.post) == (None, None)
    assert plan(release, "one").steps[0].stage == conditioned


def record(addon: str, state: DeliveryState = DeliveryState.PRUNED, digest: str = "sha256:00") -> DeliveryRecord:
    return DeliveryRecord(addon, digest, "sha256:11", state)


def installing(target: str, *addons: str) -> RolloutProgress:
    return RolloutProgress(
        Target(target), tuple(StageProgress(INSTALL, name, "apply", StagePhase.PENDING) for name in addons)
    )


HALF = record("csi", DeliveryState.DELIVERING)
LEFT = record("cni", digest="")
"""A record of objects that were kept when the addon was deleted."""


@pytest.mark.regression("LIVE-LV-9")
@pytest.mark.parametrize(
    ("progress", "records", "is_upgraded", "others", "lost"),
    [
        pytest.param(None, [], True, False, False, id="nothing is delivered"),
        pytest.param(None, [LEFT], True, False, False, id="only kept objects are left of deleted addons"),
        pytest.param(None, [record("cni")], False, False, False, id="at rest, or an installation that was interrupted"),
        pytest.param(None, [record("cni")], True, False, True, id="the Kubernetes version is not reached"),
        pytest.param(None, [HALF], True, False, True, id="the first stage was interrupted"),
        pytest.param(None, [record("cni")], False, True, True, id="the version is reached, not all stages have run"),
        pytest.param(installing("one", "cni", "csi"), [record("cni")], True, True, False, id="installing"),
        pytest.param(installing("one", "cni", "csi"), [record("cni"), HALF], True, True, False, id="half of the last"),
        pytest.param(installing("two", "cni"), [record("cni")], True, True, False, id="installing the wanted class"),
        pytest.param(installing("one", "cni"), [record("cni")], False, True, False, id="a faulty class is replaced"),
        pytest.param(
            installing("one", "cni", "csi"),
            [record("cni"), record("csi")],
            True,
            False,
            True,
            id="lost at rest, then a stage waited, then the upgrade began",
        ),
        pytest.param(installing("one"), [record("cni")], True, False, False, id="nothing to install"),
    ],
)
def test_records_decide_whether_a_cluster_is_in_an_upgrade_that_its_cluster_addon_does_not_know(
    progress: RolloutProgress | None, records: list[DeliveryRecord], *, is_upgraded: bool, others: bool, lost: bool
) -> None:
    assert (
        is_lost_in_upgrade(
            progress or RolloutProgress(),
            records,
            Target("two"),
            are_unreadable=False,
            is_upgraded=is_upgraded,
            are_others_delivered=others,
        )
        is lost
    )


@pytest.mark.regression("LIVE-LV-9")
@pytest.mark.parametrize("upgraded", [False, True])
def test_an_unreadable_record_shows_that_a_cluster_in_an_upgrade_was_installed(*, upgraded: bool) -> None:
    lost = is_lost_in_upgrade(
        RolloutProgress(), [], Target("two"), are_unreadable=True, is_upgraded=upgraded, are_others_delivered=False
    )

    assert lost is upgraded
