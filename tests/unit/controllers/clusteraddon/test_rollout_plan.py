from __future__ import annotations

import pytest
from hypothesis import given

from clusterstacks.controllers.clusteraddon.rollout_plan import (
    ControlPlaneState,
    Done,
    Occasion,
    Prune,
    RolloutPlan,
    RolloutProgress,
    RunStage,
    StagePhase,
    StageProgress,
    WaitForUpgrade,
    plan_rollout,
    read_progress,
)
from clusterstacks.domain.addon_config import AddonConfig, LifecycleHook, Stage, StageAction
from clusterstacks.domain.versions import KubernetesVersion
from tests.support.builders.documents import JSON

INSTALL, BEFORE, AFTER = LifecycleHook
OLD, NEW = KubernetesVersion(1, 35, 4), KubernetesVersion(1, 36, 1)
UPGRADED = ControlPlaneState((NEW,), NEW, topology_reconciled=True)
BEHIND = ControlPlaneState((OLD,), NEW, topology_reconciled=True)


def stages(text: str) -> tuple[Stage, ...]:
    """Read ``cni ccm -csi``: apply cni and ccm, delete csi."""
    return tuple(
        Stage(word.removeprefix("-"), StageAction.DELETE if word.startswith("-") else StageAction.APPLY)
        for word in text.split()
    )


def config(install: str = "", before: str = "", after: str = "") -> AddonConfig:
    return AddonConfig({INSTALL: stages(install), BEFORE: stages(before), AFTER: stages(after)})


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
        recorded=recorded,
        wanted=wanted,
        changed=changed,
        delivered=delivered.split(),
        progress=progress or RolloutProgress(),
    )


def played(rollout: RolloutPlan, control_plane: ControlPlaneState = UPGRADED) -> tuple[list[str], RolloutPlan]:
    """Do every move to the end or the first wait, and write down what was done."""
    journal: list[str] = []
    while True:
        match rollout.next_move(control_plane):
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
def test_the_stages_of_an_occasion_run_in_order_and_end_with_one_prune(
    release: AddonConfig | None, recorded: str, journal: list[str]
) -> None:
    assert played(plan(release, recorded))[0] == journal


@pytest.mark.parametrize("recorded", ["", "two"])
def test_what_only_an_upgrade_brings_is_kept_up_to_date_once_the_cluster_has_it(recorded: str) -> None:
    """A ClusterAddon deleted by hand and made anew installs, in a cluster that has had upgrades (D21)."""
    release = config(install="a", before="b", after="b c")

    assert played(plan(release, recorded, delivered="a b old"))[0] == ["a", "b", "keep a b", "done"]


def test_d81_nothing_runs_when_neither_class_nor_values_changed() -> None:
    rollout = plan(RELEASE, "two", changed=False)

    assert rollout.occasion is Occasion.NOTHING
    assert played(rollout, BEHIND)[0] == ["done"]


def test_the_stages_before_the_upgrade_run_at_once_and_all_others_wait_for_it() -> None:
    before, waiting = played(plan(RELEASE), BEHIND)
    after, _ = played(plan(RELEASE, progress=waiting.progress))

    assert before == ["cni", "-old", "wait"]
    assert after == ["csi", "metrics", "keep cni csi metrics", "done"]


def test_the_prune_alone_waits_for_the_upgrade_too() -> None:
    assert played(plan(config(before="cni")), BEHIND)[0] == ["cni", "wait"]


@pytest.mark.parametrize("recorded", ["", "two"])
def test_neither_install_nor_refresh_wait_for_an_upgrade(recorded: str) -> None:
    assert played(plan(RELEASE, recorded), BEHIND)[0][-1] == "done"


def test_a_release_without_stages_is_upgraded_at_once() -> None:
    assert played(plan(None), BEHIND)[0] == ["cluster-addon", "keep cluster-addon", "done"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (BEHIND, "waiting for the control plane to report v1.36.1; it reports v1.35.4"),
        (
            ControlPlaneState((NEW, OLD), NEW, topology_reconciled=True),
            "waiting for the control plane to report v1.36.1; it reports v1.35.4",
        ),
        (
            ControlPlaneState((), NEW, topology_reconciled=True),
            "waiting for the control plane to report v1.36.1; it reports no version",
        ),
        (
            ControlPlaneState((NEW,), NEW, topology_reconciled=False),
            "waiting for the Cluster's condition TopologyReconciled to be True for its newest generation",
        ),
    ],
)
def test_the_wait_says_what_is_missing(state: ControlPlaneState, message: str) -> None:
    assert plan(config(after="cni")).next_move(state) == WaitForUpgrade(message)


def test_a_topology_at_work_does_not_stop_stages_that_have_begun_after_the_upgrade() -> None:
    busy = ControlPlaneState((NEW,), NEW, topology_reconciled=False)
    begun = plan(config(before="cni", after="ccm csi")).reached(0, StagePhase.DONE).reached(1, StagePhase.CHANGING)

    assert played(begun, busy)[0] == ["ccm", "csi", "keep ccm cni csi", "done"]


@pytest.mark.parametrize("phase", [phase for phase in StagePhase if phase is not StagePhase.DONE])
def test_d80_a_stage_that_was_interrupted_goes_on_where_it_stood(phase: StagePhase) -> None:
    interrupted = plan(RELEASE).reached(0, StagePhase.DONE).reached(1, phase)
    resumed = plan(RELEASE, progress=interrupted.progress)
    move = resumed.next_move(UPGRADED)

    assert resumed.resumed
    assert isinstance(move, RunStage)
    assert (move.index, move.step.stage.addon, move.step.phase) == (1, "old", phase)


def test_d80_an_upgrade_whose_prune_failed_goes_on_with_the_prune() -> None:
    _, finished = played(plan(RELEASE))

    assert played(plan(RELEASE, changed=False, progress=finished.progress))[0] == ["keep cni csi metrics", "done"]


def test_another_target_begins_anew() -> None:
    _, waiting = played(plan(RELEASE, wanted="two"), BEHIND)
    rollout = plan(RELEASE, wanted="three", progress=waiting.progress)

    assert not rollout.resumed
    assert played(rollout, BEHIND)[0] == ["cni", "-old", "wait"]


def test_a_cluster_set_back_to_its_recorded_class_gets_its_addons_back() -> None:
    _, waiting = played(plan(RELEASE, "one", "two"), BEHIND)
    back = plan(RELEASE, "one", "one", changed=False, progress=waiting.progress)

    assert back.occasion is Occasion.REFRESH
    assert played(back, BEHIND)[0] == ["cni", "metrics", "csi", "keep cni csi metrics", "done"]


def test_a_class_without_stages_left_half_way_is_undone_too() -> None:
    back = plan(RELEASE, "one", "one", changed=False, progress=RolloutProgress("two"))

    assert back.occasion is Occasion.REFRESH
    assert not back.resumed


def test_d81_a_crash_between_recording_the_class_and_clearing_the_progress_runs_no_stage_again() -> None:
    _, finished = played(plan(RELEASE))

    assert played(plan(RELEASE, "two", changed=False, progress=finished.progress))[0] == [
        "keep cni csi metrics",
        "done",
    ]


def test_values_changed_in_that_moment_are_delivered() -> None:
    _, finished = played(plan(RELEASE))
    rollout = plan(RELEASE, "two", changed=True, progress=finished.progress)

    assert not rollout.resumed
    assert played(rollout)[0][:3] == ["cni", "metrics", "csi"]


def test_a_refresh_interrupted_goes_on_even_if_the_values_are_back_to_what_they_were() -> None:
    begun = plan(RELEASE, "two").reached(0, StagePhase.DONE)

    assert played(plan(RELEASE, "two", changed=False, progress=begun.progress))[0][:2] == ["metrics", "csi"]


def test_progress_of_other_stages_counts_for_nothing() -> None:
    foreign = RolloutProgress("two", (StageProgress("BeforeClusterUpgrade", "cni", "apply", StagePhase.DONE),))

    assert not plan(RELEASE, progress=foreign).resumed


def test_progress_reads_back_from_the_status() -> None:
    progress = plan(RELEASE).reached(0, StagePhase.WAITING_FOR_POST).progress

    assert read_progress("two", progress.documents()) == progress
    assert progress.documents()[0] == {
        "name": "cni",
        "action": "apply",
        "phase": "waitingForPostCondition",
        "hook": "BeforeClusterUpgrade",
    }


@given(JSON, JSON)
def test_reading_a_status_never_fails(target: object, documents: object) -> None:
    read_progress(target, documents).documents()
    read_progress(target, [{"name": documents, "phase": documents, "hook": target}])
