from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject, shared_objects
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, PruneResult, plan_pruning, record_after_prune
from clusterstacks.model.objects import ObjectId
from tests.support.observing.prune_check import needs_pruning

GONE, KEPT, PENDING = (
    PruneResult(PruneOutcome.GONE),
    PruneResult(PruneOutcome.KEPT, "why"),
    PruneResult(PruneOutcome.PENDING, "why"),
)


def oid(name: str) -> ObjectId:
    return ObjectId("", "ConfigMap", "n", name)


def listed(names: str) -> tuple[RecordedObject, ...]:
    return tuple(RecordedObject(oid(name), "v1", f"uid-{name}", "d") for name in names)


def record(
    addon: str, objects: str, stale: str = "", state: DeliveryState = DeliveryState.DELIVERED
) -> dict[str, DeliveryRecord]:
    return {addon: DeliveryRecord(addon, "d", "i", state, listed(objects), listed(stale))}


def candidates(records: dict[str, DeliveryRecord], keep: set[str]) -> dict[str, str]:
    return {plan.record.addon: "".join(one.id.name for one in plan.candidates) for plan in plan_pruning(records, keep)}


def test_only_objects_of_earlier_revisions_are_pruned() -> None:
    assert candidates(record("cni", "ab", "cd"), {"cni"}) == {"cni": "cd"}


def test_removed_addon_is_pruned_completely() -> None:
    assert candidates(record("cni", "ab", "cd"), set()) == {"cni": "abcd"}


def test_incomplete_delivery_prunes_nothing() -> None:
    assert candidates(record("cni", "ab", "cd", DeliveryState.DELIVERING), {"cni"}) == {}


def test_object_rendered_by_another_addon_is_handed_over() -> None:
    records = record("cni", "", "ab") | record("csi", "a", "", DeliveryState.DELIVERING)

    (plan,) = plan_pruning(records, {"cni", "csi"})

    assert plan.handed_over == {oid("a"): "csi"}
    assert [one.id for one in plan.candidates] == [oid("b")]


def test_removed_addon_takes_over_no_objects() -> None:
    records = record("cni", "", "a") | record("csi", "a")

    assert candidates(records, {"cni"}) == {"cni": "a", "csi": "a"}


def test_objects_rendered_by_two_addons_are_reported() -> None:
    records = record("cni", "ab") | record("csi", "bc") | record("gone", "c")

    assert shared_objects(records, {"cni", "csi"}) == {oid("b"): ("cni", "csi")}


@pytest.mark.parametrize(
    ("fate", "stale", "state"),
    [
        (GONE, (), DeliveryState.PRUNED),
        (KEPT, (replace(listed("b")[0], kept="why"),), DeliveryState.PRUNED),
        (PENDING, listed("b"), DeliveryState.DELIVERED),
    ],
)
def test_record_keeps_the_remaining_objects(
    fate: PruneResult, stale: tuple[RecordedObject, ...], state: DeliveryState
) -> None:
    (plan,) = plan_pruning(record("cni", "a", "b"), {"cni"})

    after = record_after_prune(plan, {oid("b"): fate})

    assert after == DeliveryRecord("cni", "d", "i", state, listed("a"), stale)


def test_record_of_a_removed_addon_is_deleted_last() -> None:
    (plan,) = plan_pruning(record("cni", "ab"), set())

    assert record_after_prune(plan, {oid("a"): GONE, oid("b"): GONE}) is None
    left = record_after_prune(plan, {oid("a"): GONE})
    assert left is not None
    assert (left.objects, left.stale) == ((), listed("b"))
    assert not left.holds("d", "i"), "should the addon come back, it is not in place"


@pytest.mark.parametrize(
    ("records", "keep", "expected"),
    [
        ({}, set(), False),
        (record("cni", "ab"), {"cni"}, False),
        (record("cni", "ab", "c"), {"cni"}, True),
        (record("cni", "ab"), set(), True),
        (record("cni", ""), set(), True),
        (record("cni", "", "a") | record("csi", "a"), {"cni", "csi"}, True),
        (record("cni", "a", "b", DeliveryState.DELIVERING), {"cni"}, False),
    ],
)
def test_unchanged_cluster_needs_no_prune(
    records: dict[str, DeliveryRecord], keep: set[str], *, expected: bool
) -> None:
    assert needs_pruning(records, keep) is expected


@given(
    st.dictionaries(
        st.sampled_from(["cni", "csi", "ccm"]),
        st.tuples(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("efgh"))),
    ),
    st.sets(st.sampled_from(["cni", "csi", "ccm"])),
    st.sampled_from([GONE, KEPT]),
)
def test_after_a_prune_nothing_needs_pruning_and_no_rendered_object_is_a_candidate(
    content: dict[str, tuple[set[str], set[str]]], keep: set[str], fate: PruneResult
) -> None:
    records: dict[str, DeliveryRecord] = {}
    for addon, (objects, stale) in content.items():
        records |= record(addon, "".join(sorted(objects)), "".join(sorted(stale)))
    rendered = {one.id for addon, one_record in records.items() if addon in keep for one in one_record.objects}

    after = dict(records)
    for plan in plan_pruning(records, keep):
        assert not rendered & {one.id for one in plan.candidates}
        left = record_after_prune(plan, {one.id: fate for one in plan.candidates})
        after.pop(plan.record.addon)
        if left is not None:
            after[plan.record.addon] = left

    assert not needs_pruning(after, keep)
