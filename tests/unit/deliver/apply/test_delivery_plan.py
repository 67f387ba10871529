from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.delivery_plan import (
    DeliveryPlan,
    DeliveryRecord,
    DeliveryState,
    LiveMember,
    Mark,
    RecordedObject,
    WantedObject,
    objects_to_read,
    plan_delivery,
    record_results,
    unrecorded_objects,
)
from clusterstacks.model.drift_settings import SyncStrategy
from clusterstacks.model.objects import ObjectId

MARK = Mark(1, "", "texts")
MOVED = Mark(2, "", "texts")
AIM = DeliveryRecord("cni", "new", "inputs", DeliveryState.DELIVERING)


def oid(name: str) -> ObjectId:
    return ObjectId("", "ConfigMap", "kube-system", name)


def known(name: str, digest: str = "d1", mark: Mark | None = MARK) -> RecordedObject:
    return RecordedObject(oid(name), "v1", f"uid-{name}", digest, mark)


def planned(name: str) -> RecordedObject:
    return RecordedObject(oid(name), "v1")


def wanted(name: str, digest: str = "d1") -> WantedObject:
    return WantedObject(oid(name), "v1", digest)


def seen(name: str, mark: Mark = MARK, uid: str = "") -> dict[ObjectId, LiveMember]:
    return {oid(name): LiveMember(uid or f"uid-{name}", mark)}


def record(
    *objects: RecordedObject, state: DeliveryState = DeliveryState.PRUNED, stale: tuple[RecordedObject, ...] = ()
) -> DeliveryRecord:
    return DeliveryRecord("cni", "old", "old inputs", state, objects, stale)


def test_first_delivery_reads_no_object_and_applies_all() -> None:
    plan = plan_delivery(None, AIM, [wanted("a"), wanted("b")], {})

    assert plan == DeliveryPlan(replace(AIM, objects=(planned("a"), planned("b"))), frozenset())


@pytest.mark.parametrize(
    ("digest", "live", "unchanged"),
    [
        ("d1", seen("a"), True),
        ("d2", seen("a"), False),
        ("d1", seen("a", MOVED), False),
        ("d1", seen("a", uid="another"), False),
        ("d1", {}, False),
    ],
    ids=["same", "rendered otherwise", "changed by somebody", "recreated by somebody", "deleted by somebody"],
)
def test_object_is_skipped_only_if_rendered_and_live_state_are_unchanged(
    digest: str, live: dict[ObjectId, LiveMember], *, unchanged: bool
) -> None:
    plan = plan_delivery(record(known("a")), AIM, [wanted("a", digest)], live)

    assert (oid("a") in plan.unchanged) is unchanged


@pytest.mark.parametrize(
    ("strategy", "writes"),
    [
        (SyncStrategy.APPLY_ONCE, {"new", "failed"}),
        (SyncStrategy.RECONCILE, {"new", "failed", "changed"}),
        (SyncStrategy.CONTINUOUS, {"new", "failed", "changed", "edited", "deleted", "recreated"}),
    ],
)
def test_strategy_decides_which_objects_are_written_again(strategy: SyncStrategy, writes: set[str]) -> None:
    names = ["same", "changed", "edited", "deleted", "recreated"]
    before = record(*(known(name) for name in names), planned("failed"), known("left"))
    items = [wanted(name, "d2" if name == "changed" else "d1") for name in [*names, "failed", "new"]]
    live = seen("same") | seen("changed") | seen("edited", MOVED) | seen("recreated", uid="another")

    plan = plan_delivery(before, AIM, items, live, strategy)

    assert {item.id for item in items} - plan.unchanged == {oid(name) for name in writes}
    finished = record_results(
        plan, {item.id: known(item.id.name, item.digest) for item in items if item.id not in plan.unchanged}
    )
    assert finished.state is DeliveryState.DELIVERED
    assert finished.stale == (known("left"),)


def test_object_that_an_interrupted_delivery_created_is_not_written_again_by_apply_once() -> None:
    before = record(planned("a"), state=DeliveryState.DELIVERING)

    plan = plan_delivery(before, AIM, [wanted("a", "d2")], seen("a"), SyncStrategy.APPLY_ONCE)

    assert plan.unchanged == {oid("a")}
    assert plan.record.objects[0].uid == "uid-a"


@pytest.mark.parametrize("strategy", [SyncStrategy.APPLY_ONCE, SyncStrategy.RECONCILE])
def test_change_that_was_not_applied_is_applied_by_a_later_strategy(strategy: SyncStrategy) -> None:
    """An edit that one strategy left alone, or a definition that it did not apply, is not forgotten."""
    kept = record_results(plan_delivery(record(known("a")), AIM, [wanted("a")], seen("a", MOVED), strategy), {})
    once = record_results(plan_delivery(kept, AIM, [wanted("a", "d2")], seen("a"), SyncStrategy.APPLY_ONCE), {})

    assert plan_delivery(kept, AIM, [wanted("a")], seen("a", MOVED)).unchanged == frozenset()
    assert plan_delivery(once, AIM, [wanted("a", "d2")], seen("a")).unchanged == frozenset()
    assert plan_delivery(once, AIM, [wanted("a", "d2")], {}, SyncStrategy.RECONCILE).unchanged == frozenset()


def test_an_object_without_a_mark_is_applied_again() -> None:
    plan = plan_delivery(record(known("a", mark=None)), AIM, [wanted("a")], {oid("a"): LiveMember("uid-a", None)})

    assert plan.unchanged == frozenset()


def test_removed_object_stays_in_the_record_until_it_is_pruned() -> None:
    plan = plan_delivery(record(known("a"), known("b")), AIM, [wanted("a")], seen("a"))
    finished = record_results(plan, {})

    assert finished.objects == (known("a"),)
    assert finished.stale == (known("b"),)
    assert finished.state is DeliveryState.DELIVERED


def test_object_rendered_again_is_no_longer_stale() -> None:
    before = record(known("a"), stale=(replace(known("b"), kept="annotation"),))

    plan = plan_delivery(before, AIM, [wanted("a"), wanted("b")], seen("a") | seen("b"))

    assert plan.record.stale == ()
    assert [one.id for one in plan.record.objects] == [oid("a"), oid("b")]


def test_kept_object_is_a_prune_candidate_after_the_next_delivery() -> None:
    before = record(known("a"), stale=(replace(known("b"), kept="annotation"),))

    assert record_results(plan_delivery(before, AIM, [wanted("a")], seen("a")), {}).stale == (known("b"),)


def test_record_knows_which_manifests_forbid_a_deletion() -> None:
    before = record(replace(known("a"), protected=True), replace(known("b"), protected=True), known("c"))
    objects = [wanted("a"), replace(wanted("c", "d2"), protected=True)]

    plan = plan_delivery(before, AIM, objects, seen("a"))
    finished = record_results(plan, {oid("c"): known("c")})

    assert [(one.id, one.protected) for one in finished.objects] == [(oid("a"), False), (oid("c"), True)]
    assert [(one.id, one.protected) for one in finished.stale] == [(oid("b"), True)]


def test_interrupted_delivery_loses_no_object() -> None:
    """Applied but not recorded, then no longer rendered: only its live membership shows it."""
    killed = record(planned("a"), planned("b"), state=DeliveryState.DELIVERING)

    plan = plan_delivery(killed, AIM, [], seen("a"))

    assert plan.record.stale == (RecordedObject(oid("a"), "v1", "uid-a"),)


def test_only_unchanged_and_unfinished_objects_are_read() -> None:
    before = record(known("same"), known("changed"), known("old"), planned("lost"))

    looked = objects_to_read(before, [wanted("same"), wanted("changed", "d2"), wanted("new")])

    assert looked == {oid("same"), oid("lost")}


def test_failed_object_keeps_the_delivery_incomplete_and_its_old_entry() -> None:
    plan = plan_delivery(record(known("a")), AIM, [wanted("a", "d2"), wanted("b")], {})

    finished = record_results(plan, {oid("b"): known("b")})

    assert finished.state is DeliveryState.DELIVERING
    assert finished.objects == (known("a"), known("b"))
    assert not finished.holds("new", "inputs")


def test_complete_delivery_records_only_its_revision() -> None:
    plan = plan_delivery(None, AIM, [wanted("a")], {})

    finished = record_results(plan, {oid("a"): known("a")})

    assert finished.state is DeliveryState.PRUNED
    assert finished.holds("new", "inputs")
    assert not finished.holds("new", "other inputs")
    assert not finished.holds("old", "inputs")


NAMES = st.sampled_from("abcdef")
DIGESTS = st.sampled_from(["d1", "d2"])
REVISIONS = st.dictionaries(NAMES, DIGESTS, max_size=6)


class Fake:
    """A cluster of digests, and the record in it."""

    def __init__(self) -> None:
        self.live: dict[str, str] = {}
        self.stored: DeliveryRecord | None = None

    def deliver(self, revision: dict[str, str], steps: int) -> None:
        """Deliver; killed after so many requests (writes of the record and applies)."""
        items = [wanted(name, digest) for name, digest in revision.items()]
        live = {oid(name): LiveMember(f"uid-{name}", Mark(1, digest, "texts")) for name, digest in self.live.items()}
        found = {}
        if self.stored:
            found = {key: live[key] for key in objects_to_read(self.stored, items) if key in live}
        plan = plan_delivery(self.stored, AIM, items, found)
        delivered = {}
        if steps < 1:
            return
        self.stored = plan.record
        for item in items:
            if item.id in plan.unchanged:
                continue
            steps -= 1
            if steps < 1:
                return
            self.live[item.id.name] = item.digest
            delivered[item.id] = RecordedObject(
                item.id, "v1", f"uid-{item.id.name}", item.digest, Mark(1, item.digest, "texts")
            )
        if steps > 1:
            self.stored = record_results(plan, delivered)


@given(st.lists(st.tuples(REVISIONS, st.integers(0, 9)), max_size=4), REVISIONS)
def test_no_sequence_of_kills_loses_an_object_or_a_change(
    killed: list[tuple[dict[str, str], int]], last: dict[str, str]
) -> None:
    cluster = Fake()
    for revision, steps in killed:
        cluster.deliver(revision, steps)

    cluster.deliver(last, 100)

    record = cluster.stored
    assert record is not None
    assert {name: cluster.live[name] for name in last} == last
    assert {one.id.name: one.digest for one in record.objects} == last
    assert {one.id.name for one in record.members} == set(cluster.live)
    assert record.state is (DeliveryState.DELIVERED if record.stale else DeliveryState.PRUNED)


def test_only_an_interrupted_delivery_of_the_same_revision_may_have_unrecorded_objects() -> None:
    items = [wanted("noted"), wanted("planned"), wanted("changed", "d2")]
    objects = (known("noted"), planned("planned"), known("changed"))
    interrupted = record(*objects, state=DeliveryState.DELIVERING)

    assert unrecorded_objects(interrupted, "old", items) == {oid("planned"), oid("changed")}
    assert unrecorded_objects(interrupted, "new", items) == set()
    assert unrecorded_objects(record(*objects), "old", items) == set()


def test_an_object_that_an_interrupted_delivery_applied_needs_no_request() -> None:
    before = record(known("changed"), planned("planned"), planned("lost"), state=DeliveryState.DELIVERING)
    items = [wanted("changed", "d2"), wanted("planned"), wanted("lost")]
    live = {
        oid("changed"): LiveMember("uid-changed", MOVED, applied=True),
        oid("planned"): LiveMember("uid-planned", MARK, applied=True),
        oid("lost"): LiveMember("uid-lost", MARK),
    }

    plan = plan_delivery(before, AIM, items, live)

    assert plan.unchanged == {oid("changed"), oid("planned")}
    assert plan.record.objects == (
        known("changed", "d2", MOVED),
        known("planned"),
        replace(planned("lost"), uid="uid-lost"),
    )
