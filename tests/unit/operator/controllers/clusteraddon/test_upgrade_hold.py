from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import PENDING_HOOKS_ANNOTATION
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import (
    HoldAction,
    HoldDecision,
    HoldFacts,
    HoldState,
    UpgradeHold,
    awaits_upgrade,
    decide_hold,
    hooks_pending,
    is_before_upgrade_complete,
    is_upgraded,
    read_hold,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState
from tests.support.builders.documents import JSON

NOW, EARLIER = "2026-05-06T07:08:09Z", "2026-05-06T07:00:00Z"
TARGET, OTHER_CLASS = Target("stack-v2", "v1.36.1"), Target("stack-v3", "v1.36.1")
IDLE = HoldFacts(
    target=TARGET, enabled=True, is_set=True, awaited=False, honours=False, moves=False, complete=True, last=None
)
AWAITED = replace(IDLE, awaited=True, moves=True, complete=False)
BEGUN = replace(AWAITED, awaited=False)


def note(state: HoldState, since: str = EARLIER, target: Target = TARGET) -> UpgradeHold:
    return UpgradeHold(target, state, since)


HELD, RELEASED, ABSENT, NOT_HONOURED = (note(state) for state in HoldState)
NOTHING, SET, REMOVE = HoldAction


@pytest.mark.parametrize(
    ("facts", "action", "noted"),
    [
        # no upgrade
        (IDLE, NOTHING, None),
        (replace(IDLE, is_set=False), SET, None),
        (replace(IDLE, last=RELEASED), NOTHING, None),
        # opt-out
        (replace(IDLE, enabled=False), REMOVE, None),
        (replace(AWAITED, enabled=False, last=HELD), REMOVE, None),
        (replace(AWAITED, enabled=False, is_set=False), NOTHING, None),
        # the stages before the upgrade are not complete
        (AWAITED, NOTHING, note(HoldState.HELD, NOW)),
        (replace(AWAITED, last=HELD), NOTHING, HELD),
        (replace(AWAITED, is_set=False), SET, note(HoldState.HELD, NOW)),
        # another class, after the first one was released
        (
            replace(AWAITED, is_set=False, target=OTHER_CLASS, last=RELEASED),
            SET,
            note(HoldState.HELD, EARLIER, OTHER_CLASS),
        ),
        # released by hand
        (replace(AWAITED, is_set=False, last=HELD), NOTHING, ABSENT),
        (replace(AWAITED, is_set=False, last=ABSENT), NOTHING, ABSENT),
        (replace(AWAITED, last=ABSENT), NOTHING, HELD),
        (replace(AWAITED, is_set=False, complete=True, last=ABSENT), NOTHING, ABSENT),
        # released, and the progress was lost
        (replace(AWAITED, is_set=False, last=RELEASED), NOTHING, RELEASED),
        # complete
        (replace(AWAITED, complete=True), REMOVE, note(HoldState.RELEASED, NOW)),
        (replace(AWAITED, complete=True, last=HELD), REMOVE, RELEASED),
        (replace(AWAITED, complete=True, is_set=False, last=RELEASED), NOTHING, RELEASED),
        (replace(AWAITED, complete=True, is_set=False, last=HELD), NOTHING, RELEASED),
        # begun after the release: set again
        (replace(BEGUN, complete=True, is_set=False, last=RELEASED), SET, RELEASED),
        (replace(BEGUN, complete=True, last=RELEASED), NOTHING, RELEASED),
        (replace(BEGUN, complete=True), NOTHING, None),
        (replace(BEGUN, is_set=False, last=HELD), SET, ABSENT),
        (replace(BEGUN, is_set=False, complete=True, last=HELD), SET, RELEASED),
        (replace(BEGUN, is_set=False, complete=True), SET, note(HoldState.ABSENT, NOW)),
        (replace(BEGUN, is_set=False, last=ABSENT), SET, ABSENT),
        (replace(BEGUN, last=ABSENT), NOTHING, ABSENT),
        # another class while the upgrade runs
        (replace(BEGUN, target=OTHER_CLASS, last=RELEASED), NOTHING, RELEASED),
        # begun without a hold: noted first
        (replace(BEGUN, is_set=False), NOTHING, note(HoldState.ABSENT, NOW)),
        # not honoured
        (BEGUN, NOTHING, note(HoldState.NOT_HONOURED, NOW)),
        (replace(BEGUN, last=HELD), NOTHING, NOT_HONOURED),
        (replace(BEGUN, last=HELD, complete=True), NOTHING, NOT_HONOURED),
        (replace(BEGUN, last=NOT_HONOURED), NOTHING, NOT_HONOURED),
        (replace(BEGUN, honours=True), NOTHING, note(HoldState.ABSENT, NOW)),
        (replace(BEGUN, honours=True, last=HELD), NOTHING, ABSENT),
        # the version was set back while it was held, or another one is wanted now
        (replace(IDLE, last=note(HoldState.HELD, target=Target("stack-v2", "v1.36.0"))), NOTHING, None),
        (
            replace(AWAITED, is_set=False, last=note(HoldState.ABSENT, target=Target("stack-v2", "v1.36.0"))),
            SET,
            note(HoldState.HELD, NOW),
        ),
    ],
)
def test_decision_about_the_hold(facts: HoldFacts, action: HoldAction, noted: UpgradeHold | None) -> None:
    assert decide_hold(facts, NOW) == HoldDecision(action, noted)


TARGETS = st.builds(Target, st.sampled_from(["stack-v2", "stack-v3"]), st.sampled_from(["v1.36.1", "v1.36.2"]))
NOTES = st.none() | st.builds(UpgradeHold, TARGETS, st.sampled_from(HoldState), st.just(EARLIER))
FACTS = st.builds(
    HoldFacts,
    target=TARGETS,
    enabled=st.booleans(),
    is_set=st.booleans(),
    awaited=st.booleans(),
    honours=st.booleans(),
    moves=st.booleans(),
    complete=st.booleans(),
    last=NOTES,
)


@given(FACTS)
def test_a_hold_is_removed_exactly_when_the_stages_of_an_awaited_upgrade_are_complete_or_it_is_disabled(
    facts: HoldFacts,
) -> None:
    removes = decide_hold(facts, NOW).action is HoldAction.REMOVE

    assert removes == (facts.is_set and (not facts.enabled or (facts.awaited and facts.complete)))


@given(FACTS)
def test_the_decision_is_stable_once_its_action_is_done(facts: HoldFacts) -> None:
    decision = decide_hold(facts, NOW)
    is_set = {HoldAction.SET: True, HoldAction.REMOVE: False}.get(decision.action, facts.is_set)
    settled = decide_hold(replace(facts, is_set=is_set, last=decision.note), NOW)
    if settled.action is not HoldAction.NOTHING:  # the note preceded the write
        decision = settled
        settled = decide_hold(replace(facts, is_set=True, last=settled.note), NOW)

    assert settled == HoldDecision(HoldAction.NOTHING, decision.note)


@given(FACTS)
def test_a_hold_that_was_removed_by_hand_is_not_set_again_before_the_upgrade_begins(facts: HoldFacts) -> None:
    held = decide_hold(replace(facts, enabled=True, awaited=True, complete=False, is_set=True), NOW)
    later = replace(facts, enabled=True, awaited=True, is_set=False, last=held.note)

    assert decide_hold(later, NOW).action is HoldAction.NOTHING


@given(FACTS)
def test_a_crash_between_the_write_of_the_annotation_and_that_of_the_status_does_not_look_like_an_ignored_hold(
    facts: HoldFacts,
) -> None:
    decision = decide_hold(facts, NOW)
    if decision.action is not HoldAction.SET or facts.awaited:
        return
    crashed = decide_hold(replace(facts, is_set=True), NOW)

    expected = facts.last is not None and facts.last.state is HoldState.NOT_HONOURED
    held = facts.last is not None and facts.last.state is HoldState.HELD  # removed by hand and begun, unseen
    assert expected or held or crashed.note is None or crashed.note.state is not HoldState.NOT_HONOURED


def stage(hook: str, phase: str) -> Manifest:
    return {"hook": hook, "name": "cni", "action": "apply", "phase": phase}


BEFORE, AFTER, INSTALL = "BeforeClusterUpgrade", "AfterClusterUpgrade", "AfterControlPlaneInitialized"
OLD, NEW = Target("stack-v1", "v1.35.4"), Target("stack-v2", "v1.36.1")


def progress(target: Target, *stages: Manifest) -> Manifest:
    return {
        "target": target.class_name,
        "targetKubernetesVersion": target.version,
        "stages": list(stages),
    }


@pytest.mark.parametrize(
    ("recorded", "status", "complete"),
    [
        (NEW, {}, True),
        (Target("stack-v2", ""), {}, True),
        (OLD, {}, False),
        (Target(), {}, False),
        (Target(), progress(NEW, stage(INSTALL, "done")), False),
        (OLD, progress(NEW), True),
        (OLD, progress(NEW, stage(BEFORE, "done"), stage(AFTER, "Pending")), True),
        (OLD, progress(NEW, stage(BEFORE, "waitingForHealth"), stage(AFTER, "Pending")), False),
        (OLD, progress(NEW, stage(BEFORE, "waitingForPostCondition")), False),
        (OLD, progress(NEW, stage(BEFORE, "rolledBack")), False),
        (OLD, progress(NEW, stage(BEFORE, "done"), stage(BEFORE, "Pending")), False),
        (OLD, progress(NEW, stage("", "applyingOrDeleting")), False),
        (OLD, progress(NEW, stage("", "done")), True),
        (OLD, progress(OLD, stage(BEFORE, "done")), False),
        (OLD, progress(Target("stack-v2", "v1.36.0"), stage(BEFORE, "done")), False),
        (Target("", "v1.35.4"), {}, False),
        (Target("", "v1.35.4"), progress(NEW, stage(BEFORE, "done"), stage(AFTER, "Pending")), True),
        (Target("stack-v2", "v1.35.4"), {}, False),
        (Target("stack-v2", "v1.35.4"), progress(NEW, stage(BEFORE, "done"), stage(AFTER, "Pending")), True),
        (Target("stack-v2", "v1.35.4"), progress(Target("stack-v2", "v1.35.4"), stage(BEFORE, "done")), False),
    ],
)
def test_stages_before_the_upgrade_are_complete_only_for_the_class_and_version_of_the_cluster(
    recorded: Target, status: Manifest, *, complete: bool
) -> None:
    assert is_before_upgrade_complete(recorded, NEW, status) is complete


def state(*reported: str, wanted: str = "v1.36.1") -> UpgradeState:
    versions = tuple(KubernetesVersion.parse(one) for one in reported)
    return UpgradeState(control_plane=versions, wanted=KubernetesVersion.parse(wanted), topology_reconciled=True)


def cluster(pending: str = "") -> Manifest:
    annotations = {PENDING_HOOKS_ANNOTATION: pending} if pending else {}
    return {"metadata": {"name": "one", "namespace": "tenant", "annotations": annotations}}


@pytest.mark.parametrize(
    ("pending", "control_plane", "reported", "awaited"),
    [
        ("", "v1.35.4", state("v1.35.4"), True),
        ("", "v1.36.1", state("v1.35.4"), False),
        ("", "v1.36.1", state("v1.36.1"), False),
        ("", "v1.36.2", state("v1.36.2"), False),
        ("AfterClusterUpgrade", "v1.35.4", state("v1.35.4"), False),
        ("AfterControlPlaneUpgrade,AfterClusterUpgrade", "v1.35.4", state("v1.35.4"), False),
        ("AfterControlPlaneInitialized", "v1.35.4", state("v1.35.4"), True),
        ("", "", state("v1.35.4"), True),
        ("", "", state("v1.35.4", "v1.36.1"), False),
        ("", "", state(), False),
        ("", "not a version", state("v1.35.4"), True),
    ],
)
def test_an_upgrade_is_awaited_until_the_control_plane_has_the_version_or_hooks_are_pending(
    pending: str, control_plane: str, reported: UpgradeState, *, awaited: bool
) -> None:
    view = cluster_view(cluster(pending))

    assert awaits_upgrade(view, {"spec": {"version": control_plane}}, reported) is awaited
    assert hooks_pending(view) is ("AfterClusterUpgrade" in pending)


NEWEST, OLDER = KubernetesVersion(1, 36, 1), KubernetesVersion(1, 35, 4)
ROLLED = replace(state("v1.36.1"), workers=(NEWEST,))


@pytest.mark.parametrize(
    ("pending", "control_plane", "seen", "upgraded"),
    [
        ("", "v1.36.1", ROLLED, False),
        ("AfterControlPlaneInitialized", "v1.36.1", ROLLED, False),
        ("AfterClusterUpgrade", "v1.36.1", ROLLED, True),
        ("", "v1.35.4", state("v1.35.4"), True),
        ("", "v1.36.1", state("v1.36.1", "v1.35.4"), True),
        ("", "v1.36.1", replace(ROLLED, workers=(OLDER, NEWEST), topology_reconciled=False), True),
        # a pool outside the topology
        ("", "v1.36.1", replace(ROLLED, workers=(OLDER, NEWEST)), False),
        # Cluster API is busy with something else
        ("", "v1.36.1", replace(ROLLED, topology_reconciled=False), False),
        # the control plane is being created
        ("", "v1.36.1", replace(state(), topology_reconciled=False), False),
        ("", "", state(), False),
    ],
)
def test_a_cluster_is_upgraded_until_all_of_its_nodes_have_the_version_and_no_hook_is_pending(
    pending: str, control_plane: str, seen: UpgradeState, *, upgraded: bool
) -> None:
    assert is_upgraded(cluster_view(cluster(pending)), {"spec": {"version": control_plane}}, seen) is upgraded


def test_the_message_says_who_holds_since_when_for_what_and_how_to_release() -> None:
    assert HELD.describe(ObjectKey("tenant", "one")) == (
        "the operator holds the upgrade to v1.36.1 since 2026-05-06T07:00:00Z until the stages of BeforeClusterUpgrade "
        "are complete; to release it by hand, run 'kubectl annotate clusters.cluster.x-k8s.io one -n tenant "
        "before-upgrade.hook.cluster.cluster.x-k8s.io/cluster-stacks-'"
    )


@pytest.mark.parametrize("noted", [HELD, RELEASED, ABSENT, NOT_HONOURED])
def test_the_note_is_read_back_from_the_status(noted: UpgradeHold) -> None:
    assert read_hold({"upgradeHold": noted.document()}) == noted


@given(JSON)
def test_reading_an_arbitrary_note_does_not_raise(document: object) -> None:
    read_hold({"upgradeHold": document})
    read_hold({"upgradeHold": {"class": document, "version": document, "state": document, "since": document}})
