"""Entries of ``status.history``: the rules of one delivery after the other, and the bounds for hostile names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject
from clusterstacks.deliver.apply.results import ObjectResult
from clusterstacks.model.files.addon_config import LifecycleHook, Stage, StageAction
from clusterstacks.model.objects import ObjectId
from clusterstacks.operator.controllers.clusteraddon.delivery_history import (
    ENTRY_BYTES,
    HISTORY_BYTES,
    LISTED,
    AddonChanges,
    CountedNames,
    CurrentDelivery,
    DeliveryResult,
    applied_changes,
    updated_history,
)
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    NO_TARGET,
    Occasion,
    RolloutPlan,
    RolloutStep,
    StagePhase,
    Target,
)

V1, V2 = Target("local-demo-1-35-v1", "v1.35.4"), Target("local-demo-1-35-v2", "v1.35.5")
BEGAN, LATER, END = (f"2026-11-23T10:00:0{second}Z" for second in range(3))
STEPS = (
    RolloutStep(LifecycleHook.BEFORE_CLUSTER_UPGRADE, Stage("cni", StageAction.APPLY), StagePhase.DONE),
    RolloutStep(LifecycleHook.AFTER_CLUSTER_UPGRADE, Stage("dns", StageAction.APPLY)),
)


def changes(created: str = "", changed: str = "", removed: str = "") -> AddonChanges:
    return AddonChanges(*(CountedNames().plus(names.split()) for names in (created, changed, removed)))


def delivery(
    result: DeliveryResult = DeliveryResult.RUNNING,
    target: Target = V2,
    before: Target = V1,
    occasion: Occasion = Occasion.UPGRADE,
    **addons: AddonChanges,
) -> CurrentDelivery:
    failed = result in {DeliveryResult.FAILED, DeliveryResult.ROLLED_BACK}
    return CurrentDelivery(
        plan=RolloutPlan(occasion, target, STEPS),
        before=before,
        began=BEGAN,
        changes=addons,
        objects=10,
        result=result,
        reason=result.value if failed else "",
        message=f"it {result.value}" if failed else "",
    )


def size(document: object) -> int:
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


def results(history: list[dict[str, Any]]) -> list[str]:
    return [one["result"] for one in history]


def test_an_entry_says_what_an_upgrade_changed() -> None:
    done = delivery(DeliveryResult.DELIVERED, cni=changes("a b", "c", "d"), dns=changes())
    assert updated_history([], done, END) == [
        {
            "began": BEGAN,
            "ended": END,
            "occasion": "Upgrade",
            "fromRelease": "local-demo-1-35-v1",
            "release": "local-demo-1-35-v2",
            "fromKubernetesVersion": "v1.35.4",
            "kubernetesVersion": "v1.35.5",
            "hooks": ["BeforeClusterUpgrade"],
            "stages": "1/2",
            "created": 2,
            "changed": 1,
            "removed": 1,
            "unchanged": 7,
            "addons": [
                {
                    "name": "cni",
                    "created": 2,
                    "createdObjects": ["a", "b"],
                    "changed": 1,
                    "changedObjects": ["c"],
                    "removed": 1,
                    "removedObjects": ["d"],
                }
            ],
            "result": "Delivered",
        }
    ]


def test_the_reconciles_of_a_rollout_complete_one_entry() -> None:
    first = updated_history([], delivery(cni=changes("a", "b")), BEGAN)
    failed = replace(delivery(DeliveryResult.FAILED, dns=changes("x")), began=LATER)
    second = updated_history(first, failed, LATER)
    (entry,) = updated_history(second, delivery(DeliveryResult.DELIVERED, cni=changes("", "a b", "c")), END)
    assert "ended" not in second[0]
    assert second[0]["message"] == "it Failed"
    assert (entry["began"], entry["ended"], entry["result"]) == (BEGAN, END, "Delivered")
    assert (entry["created"], entry["changed"], entry["removed"]) == (2, 1, 1)
    assert not {"reason", "message"} & entry.keys()
    assert entry["addons"][0]["createdObjects"] == ["a"], "what was created counts as created only"


REFRESH = {"occasion": Occasion.REFRESH, "before": V2}


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([delivery(DeliveryResult.DELIVERED)], ["Delivered"]),
        ([delivery()], ["Running"]),
        ([delivery(DeliveryResult.DELIVERED, **REFRESH)], []),  # type: ignore[arg-type]
        ([delivery(**REFRESH)], []),  # type: ignore[arg-type]
        ([delivery(DeliveryResult.DELIVERED, occasion=Occasion.NOTHING)], []),
        ([delivery(DeliveryResult.DELIVERED, **REFRESH, cni=changes("a"))], ["Delivered"]),  # type: ignore[arg-type]
        ([delivery(DeliveryResult.FAILED, **REFRESH)], ["Failed"]),  # type: ignore[arg-type]
        (
            [delivery(DeliveryResult.FAILED, **REFRESH), delivery(DeliveryResult.DELIVERED, **REFRESH)],  # type: ignore[arg-type]
            [],
        ),
        ([delivery(), delivery(DeliveryResult.ROLLED_BACK)], ["RolledBack"]),
        ([delivery(), *[delivery(DeliveryResult.ROLLED_BACK)] * 3], ["RolledBack"]),
        ([delivery(), delivery(DeliveryResult.ROLLED_BACK), delivery(DeliveryResult.FAILED)], ["RolledBack"]),
        (
            [delivery(DeliveryResult.ROLLED_BACK, cni=changes("a")), delivery(cni=changes("b"))],
            ["Running", "RolledBack"],
        ),
        (
            [delivery(DeliveryResult.ROLLED_BACK, cni=changes("a")), delivery(DeliveryResult.DELIVERED)],
            ["Delivered", "RolledBack"],
        ),
        ([delivery(), delivery(target=V1, before=V2)], ["Running", "Superseded"]),
        ([delivery(DeliveryResult.FAILED), delivery(target=V1, before=V2)], ["Running", "Failed"]),
        ([delivery(), delivery(DeliveryResult.DELIVERED, V1, V1, Occasion.REFRESH)], ["Superseded"]),
        (
            [delivery(DeliveryResult.DELIVERED), delivery(DeliveryResult.DELIVERED, V1, V2)],
            ["Delivered", "Delivered"],
        ),
    ],
)
def test_deliveries_in_a_row_have_these_entries(steps: list[CurrentDelivery], found: list[str]) -> None:
    history: list[dict[str, Any]] = []
    for step in steps:
        history = updated_history(history, step, END)
    assert results(history) == found
    assert all(one.get("ended") for one in history[1:]), "only the newest is open"


def test_an_installation_has_no_release_before_it() -> None:
    (entry,) = updated_history([], delivery(before=NO_TARGET, occasion=Occasion.INSTALL), END)
    assert not {"fromRelease", "fromKubernetesVersion"} & entry.keys()


def test_an_upgrade_from_an_unknown_class_has_a_kubernetes_version_before_it() -> None:
    (entry,) = updated_history([], delivery(before=Target("", "v1.35.4")), END)
    assert "fromRelease" not in entry
    assert entry["fromKubernetesVersion"] == "v1.35.4"


def test_the_oldest_of_more_than_ten_entries_are_dropped() -> None:
    history: list[dict[str, Any]] = []
    for number in range(1, 14):
        done = delivery(DeliveryResult.DELIVERED, Target(f"local-demo-1-35-v{number}", "v1.35.4"))
        history = updated_history(history, done, END)
    assert [one["release"].rpartition("-")[2] for one in history] == [f"v{number}" for number in range(13, 3, -1)]


def test_long_lists_are_counted_and_cut_for_each_addon_alike() -> None:
    many = " ".join(f"Deployment.apps kube-system/name-{number}".replace(" ", "_") for number in range(500))
    (entry,) = updated_history([], delivery(DeliveryResult.DELIVERED, cni=changes(many), dns=changes("", many)), END)
    first, second = entry["addons"]
    assert (first["created"], second["changed"], entry["created"], entry["changed"]) == (500, 500, 500, 500)
    assert abs(len(first["createdObjects"]) - len(second["changedObjects"])) <= 1
    assert len(first["createdObjects"]) > 20
    assert size(entry) <= ENTRY_BYTES


def test_a_repeated_delivery_does_not_count_changes_again_whose_names_were_cut() -> None:
    again = delivery(cni=changes("", " ".join(f"ConfigMap/{number}" * 5 for number in range(500))))
    history = updated_history([], again, BEGAN)
    assert history[0]["changed"] == 500
    assert updated_history(history, again, LATER) == history


def test_addons_that_do_not_fit_are_counted_in_the_totals_of_later_attempts() -> None:
    addons = {f"addon-{number}-{'x' * 200}": changes("a") for number in range(40)}
    history = updated_history([], replace(delivery(), changes=addons), BEGAN)
    assert history[0]["created"] == 40
    assert len(history[0]["addons"]) + history[0]["addonsNotListed"] == 40
    (later,) = updated_history(history, delivery(DeliveryResult.DELIVERED), END)
    assert later["created"] == 40


IDENTITY = ObjectId("apps", "Deployment", "kube-system", "dns")


@pytest.mark.parametrize(
    ("known", "state", "result", "kind"),
    [
        (None, DeliveryState.PRUNED, {"created": True, "changed": True}, "created"),
        ("uid", DeliveryState.PRUNED, {"changed": True}, "changed"),
        ("uid", DeliveryState.PRUNED, {}, ""),
        ("", DeliveryState.DELIVERING, {}, "created"),  # an interrupted delivery created it
        ("uid", DeliveryState.DELIVERING, {"digest": "other"}, "changed"),
        ("uid", DeliveryState.DELIVERING, {}, ""),
        ("", DeliveryState.DELIVERING, {"synced": False}, ""),
    ],
)
def test_an_object_is_created_changed_or_unchanged(
    known: str | None, state: DeliveryState, result: dict[str, Any], kind: str
) -> None:
    objects = () if known is None else (RecordedObject(IDENTITY, "v1", known, "digest"),)
    record = DeliveryRecord("dns", "", "", state, objects)
    one = ObjectResult(IDENTITY, "v1", **{"synced": True, "digest": "digest", **result})
    found = applied_changes(record, [one])
    assert [name for name in ("created", "changed", "removed") if getattr(found, name).count] == (
        [kind] if kind else []
    )


NAMES = st.text(max_size=400)
CHANGES = st.builds(AddonChanges, *[st.lists(NAMES, max_size=60).map(lambda names: CountedNames().plus(names))] * 3)
DELIVERIES = st.builds(
    CurrentDelivery,
    plan=st.builds(
        RolloutPlan, st.sampled_from(Occasion), st.builds(Target, NAMES, NAMES), st.sampled_from([(), STEPS])
    ),
    before=st.builds(Target, NAMES, NAMES),
    began=st.just(BEGAN),
    changes=st.dictionaries(NAMES, CHANGES, max_size=30),
    objects=st.integers(0, 10_000),
    result=st.sampled_from(DeliveryResult),
    reason=st.text(max_size=60),
    message=st.text(max_size=3000),
)


WIDE = "\N{GRINNING FACE}" * 400


def test_an_entry_with_the_longest_texts_fits() -> None:
    longest = delivery(DeliveryResult.FAILED, Target(WIDE, WIDE), Target(WIDE, WIDE))
    longest = replace(longest, changes={WIDE: changes(WIDE)}, reason=WIDE, message=WIDE * 9)
    (entry,) = updated_history([], longest, END)
    assert size(entry) <= ENTRY_BYTES


@given(st.lists(DELIVERIES, max_size=15))
def test_the_history_fits_into_its_bounds_with_any_names(deliveries: list[CurrentDelivery]) -> None:
    history: list[dict[str, Any]] = []
    for one in deliveries:
        history = updated_history(history, one, END)
        assert len(history) <= LISTED
        assert size(history) <= HISTORY_BYTES
        for entry in history:
            assert size(entry) <= ENTRY_BYTES
            for kind in ("created", "changed", "removed"):
                assert entry[kind] >= sum(addon.get(kind, 0) for addon in entry.get("addons", ()))


@pytest.mark.regression("LIVE-LV-6")
def test_a_deletion_has_one_entry_until_all_objects_are_gone() -> None:
    failed = delivery(DeliveryResult.FAILED, V1, occasion=Occasion.DELETE, cni=changes(removed="a"))
    done = delivery(DeliveryResult.DELETED, V1, occasion=Occasion.DELETE, cni=changes(removed="b"))
    history = updated_history(updated_history([], failed, LATER), done, END)
    (entry,) = history
    assert (entry["occasion"], entry["result"], entry["removed"], entry["ended"]) == ("Delete", "Deleted", 2, END)
    assert entry["release"] == entry["fromRelease"] == "local-demo-1-35-v1"
    assert "stages" not in entry


@pytest.mark.regression("LIVE-LV-6")
@pytest.mark.parametrize("result", [DeliveryResult.RUNNING, DeliveryResult.FAILED])
def test_a_deletion_does_not_continue_the_delivery_of_the_same_release(result: DeliveryResult) -> None:
    history = updated_history([], delivery(result, V1, NO_TARGET, Occasion.INSTALL), LATER)
    done = delivery(DeliveryResult.DELETED, V1, occasion=Occasion.DELETE)
    deleted = updated_history(history, done, END)
    assert [one["occasion"] for one in deleted] == ["Delete", "Install"]
    assert deleted[1]["ended"] == END
    again = delivery(DeliveryResult.DELIVERED, V1, NO_TARGET, Occasion.INSTALL)
    assert [one["occasion"] for one in updated_history(deleted, again, END)] == ["Install", "Delete", "Install"]
