"""Which Clusters of an upgrade begin, go on, wait, have failed or are done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.model.kinds.names import ClusterPhase, UpgradePhase
from clusterstacks.operator.controllers.clusterupgrade.schedule import (
    PATIENCE,
    ClusterDecision,
    KnownCluster,
    Limits,
    decide,
    overall,
)
from clusterstacks.operator.controllers.clusterupgrade.stepper import Action, Arrived, Blocked, Patch, Unsettled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOW = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)
WAITING, BLOCKED, RUNNING = ClusterPhase.WAITING, ClusterPhase.BLOCKED, ClusterPhase.RUNNING
FAILED, DONE = ClusterPhase.FAILED, ClusterPhase.DONE
STEP = {"kind": "kubernetes", "from": "v1.34.2", "to": "v1.35.4", "patch": {"spec": {}}}
STEPS = Patch([STEP, STEP, STEP], "7")
ROLLING = Unsettled("waiting for the workers")
LIMITS = Limits(max_concurrent=2, stop_after_failures=1)


def decided(
    limits: Limits, clusters: Sequence[KnownCluster], actions: Mapping[str, Action | None], now: datetime = NOW
) -> tuple[dict[str, ClusterDecision], list[str]]:
    """Return the decisions, and the Clusters that were looked at."""
    looked = []

    async def look(name: str) -> Action | None:
        looked.append(name)
        return actions[name]

    try:
        decide(limits, clusters, now, look).send(None)  # nothing in it waits
    except StopIteration as end:
        return end.value, looked
    raise AssertionError("it waits")


def decision(
    cluster: KnownCluster, action: Action | None, limits: Limits = LIMITS, after: timedelta = timedelta()
) -> ClusterDecision:
    return decided(limits, [cluster], {cluster.name: action}, NOW + after)[0][cluster.name]


NEW = KnownCluster("a")
BEGUN = KnownCluster("a", RUNNING, steps=1, doing="waiting for the workers", since=NOW)
STUCK = replace(BEGUN, doing="")
BROKEN = replace(BEGUN, phase=FAILED)
HOUR = replace(LIMITS, deadline=timedelta(hours=1))
OVERDUE = ClusterDecision(FAILED, "waiting for the workers", "nothing has moved for 1:00:00: waiting for the workers")
SUSPENDED = replace(LIMITS, pause="waits, because spec.suspend is true")


@pytest.mark.parametrize(
    ("cluster", "action", "limits", "after", "expected"),
    [
        (NEW, Arrived(), LIMITS, 0, ClusterDecision(DONE)),
        (NEW, ROLLING, LIMITS, 0, ClusterDecision(WAITING, "begins when it has settled: waiting for the workers")),
        (NEW, Blocked("no release"), LIMITS, 0, ClusterDecision(BLOCKED, message="no release")),
        (NEW, None, LIMITS, 0, ClusterDecision(WAITING, "is looked at in a moment", recheck=timedelta())),
        (NEW, STEPS, SUSPENDED, 0, ClusterDecision(WAITING, "waits, because spec.suspend is true")),
        (replace(NEW, held_by="b"), STEPS, LIMITS, 0,
         ClusterDecision(WAITING, "the older ClusterUpgrade b has this Cluster: wait, or delete it")),
        (BEGUN, Arrived(), SUSPENDED, 0, ClusterDecision(DONE)),
        (BEGUN, ROLLING, SUSPENDED, 0, ClusterDecision(RUNNING, "waiting for the workers")),
        (BEGUN, STEPS, SUSPENDED, 0, ClusterDecision(RUNNING, "waits, because spec.suspend is true")),
        (BEGUN, ROLLING, HOUR, 59, ClusterDecision(RUNNING, "waiting for the workers", recheck=timedelta(minutes=1))),
        (
            BEGUN,
            ROLLING,
            HOUR,
            60,
            OVERDUE,
        ),
        (BEGUN, Unsettled("another"), HOUR, 60, ClusterDecision(RUNNING, "another", recheck=timedelta(hours=1))),
        (BROKEN, ROLLING, HOUR, 60, OVERDUE),
        (BROKEN, Unsettled("another"), HOUR, 60, ClusterDecision(RUNNING, "another", recheck=timedelta(hours=1))),
        (BEGUN, Blocked("rolled back"), LIMITS, 60, ClusterDecision(RUNNING, message="rolled back", recheck=PATIENCE)),
        (STUCK, Blocked("rolled back"), LIMITS, 1, ClusterDecision(FAILED, message="rolled back")),
        (BROKEN, Blocked("rolled back"), LIMITS, 0, ClusterDecision(FAILED, message="rolled back")),
        (BEGUN, None, LIMITS, 0, ClusterDecision(RUNNING, "waiting for the workers", recheck=timedelta())),
    ],
)  # fmt: skip
def test_decisions(
    cluster: KnownCluster, action: Action | None, limits: Limits, after: int, expected: ClusterDecision
) -> None:
    assert decision(cluster, action, limits, timedelta(minutes=after)) == expected


def test_a_step_is_numbered_from_what_the_cluster_has_taken() -> None:
    begins = decision(NEW, STEPS)
    assert (begins.phase, begins.step, begins.patch) == (RUNNING, "1/3", STEPS)
    assert begins.doing == "update Kubernetes from v1.34.2 to v1.35.4"
    assert decision(BEGUN, STEPS).step == "2/4"


def test_step_limit_ends_with_the_step_and_keeps_the_place() -> None:
    limits = replace(LIMITS, max_concurrent=1, step_limit=1)
    decisions, looked = decided(limits, [BEGUN, KnownCluster("b")], {"a": STEPS})

    assert decisions["a"] == ClusterDecision(
        RUNNING, "stopped after 1 of 4 steps: raise spec.stepLimit to continue", step="1/4"
    )
    assert decisions["b"] == ClusterDecision(WAITING, "waits for its turn (spec.maxConcurrent)")
    assert looked == ["a"]


def test_a_failed_cluster_that_can_go_on_goes_on_before_another_begins() -> None:
    limits = Limits(max_concurrent=1, stop_after_failures=2)
    decisions, _ = decided(limits, [KnownCluster("a"), replace(BROKEN, name="b")], {"a": STEPS, "b": STEPS})

    assert (decisions["b"].phase, decisions["b"].patch) == (FAILED, STEPS)
    assert decisions["a"].patch is None


def test_a_failed_cluster_that_moves_waits_while_others_have_its_place() -> None:
    limits = Limits(max_concurrent=1, stop_after_failures=2)
    decisions, _ = decided(limits, [BEGUN, replace(BROKEN, name="b")], {"a": ROLLING, "b": Unsettled("other")})

    assert decisions["b"] == ClusterDecision(
        FAILED, "other", "it moves again, and waits for its turn (spec.maxConcurrent)"
    )


def test_clusters_that_are_done_or_wait_for_their_turn_are_not_looked_at() -> None:
    clusters = [KnownCluster(name, DONE) for name in "abc"] + [KnownCluster(name) for name in "defg"]
    _, looked = decided(LIMITS, clusters, dict.fromkeys("defg", STEPS))
    assert looked == ["d", "e"]


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([DONE, DONE], UpgradePhase.DONE),
        ([DONE, FAILED], UpgradePhase.STOPPED),
        ([RUNNING, FAILED], UpgradePhase.STOPPED),
        ([RUNNING, BLOCKED], UpgradePhase.RUNNING),
        ([BLOCKED, WAITING], UpgradePhase.WAITING),
        ([BLOCKED, DONE], UpgradePhase.BLOCKED),
    ],
)
def test_phase_of_the_whole_upgrade(phases: list[ClusterPhase], expected: UpgradePhase) -> None:
    decisions = [ClusterDecision(phase) for phase in phases]
    assert overall(LIMITS, decisions, is_suspended=False) is expected
    if expected is not UpgradePhase.DONE:
        assert overall(LIMITS, decisions, is_suspended=True) is UpgradePhase.SUSPENDED


@dataclass
class Played:
    """A Cluster that needs some steps, or fails in one of them."""

    steps: int
    fails_in: int | None = None
    taken: int = 0
    rolling: bool = False

    def action(self) -> Action:
        if self.fails_in is not None and self.taken == self.fails_in:
            return Blocked("an addon was rolled back")
        if self.rolling:
            return ROLLING
        left = self.steps - self.taken
        return Patch([STEP] * left, str(self.taken)) if left else Arrived()


def fleets(size: int = 8) -> st.SearchStrategy[list[Played]]:
    return st.lists(
        st.builds(Played, steps=st.integers(0, 3), fails_in=st.none() | st.integers(1, 3)), min_size=1, max_size=size
    )


@settings(max_examples=50, deadline=None)
@given(
    fleet=fleets(),
    limits=st.builds(
        Limits,
        max_concurrent=st.integers(1, 5),
        stop_after_failures=st.integers(1, 4),
        step_limit=st.none() | st.integers(1, 2),
    ),
    data=st.data(),
)
def test_never_more_run_than_allowed_and_none_begins_after_the_failures(
    fleet: list[Played], limits: Limits, data: st.DataObject
) -> None:
    """Clusters settle in any order, windows close in any moment, and the status is lost now and then."""
    played = {f"c{number:02}": cluster for number, cluster in enumerate(fleet)}
    states = {name: KnownCluster(name) for name in played}
    begun: set[str] = set()
    now = NOW
    for _ in range(25):
        now += PATIENCE
        is_closed = data.draw(st.booleans())
        asked = replace(limits, pause="closed") if is_closed else limits
        failed_before = sum(state.phase is FAILED for state in states.values())
        decisions, _ = decided(asked, [*states.values()], {name: one.action() for name, one in played.items()}, now)

        assert sum(one.phase is RUNNING for one in decisions.values()) <= limits.max_concurrent
        patched = {name for name, one in decisions.items() if one.patch is not None}
        assert not (is_closed and patched)
        assert not (failed_before >= limits.stop_after_failures and patched - begun)
        begun |= patched
        for name, one in decisions.items():
            state, cluster = states[name], played[name]
            since = state.since if state.doing == one.doing else now
            states[name] = replace(state, phase=one.phase, doing=one.doing, since=since)
            if name in patched:
                assert not cluster.rolling
                cluster.taken, cluster.rolling = cluster.taken + 1, True
                assert limits.step_limit is None or cluster.taken <= limits.step_limit
                states[name] = replace(states[name], steps=cluster.taken)
            elif data.draw(st.booleans()):
                cluster.rolling = False
    for name, cluster in played.items():
        assert cluster.taken <= cluster.steps
        assert states[name].phase is not DONE or cluster.taken == cluster.steps


def test_of_a_hundred_clusters_none_begins_after_two_of_five_have_failed() -> None:
    """100 selected, 5 at a time; the first three fail, and the upgrade stops after two."""
    limits = Limits(max_concurrent=5, stop_after_failures=2)
    played = {f"c{number:02}": Played(2, 1 if number < 3 else None) for number in range(100)}
    states = {name: KnownCluster(name) for name in played}
    begun: set[str] = set()
    for minute in range(10):
        actions = {name: one.action() for name, one in played.items()}
        decisions, _ = decided(limits, [*states.values()], actions, NOW + minute * PATIENCE)
        for name, one in decisions.items():
            since = states[name].since if states[name].doing == one.doing else NOW + minute * PATIENCE
            states[name] = replace(states[name], phase=one.phase, doing=one.doing, since=since)
            if one.patch is not None:
                begun.add(name)
                played[name].taken, played[name].rolling = played[name].taken + 1, True
            elif minute > 3:
                played[name].rolling = False
    assert begun == {"c00", "c01", "c02", "c03", "c04"}
    assert [states[name].phase for name in sorted(begun)] == [FAILED, FAILED, FAILED, DONE, DONE]
    assert {states[name].doing for name in played.keys() - begun} == {
        "no further Cluster begins, because 3 failed (spec.stopAfterFailures)"
    }
