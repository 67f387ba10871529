"""Which records do not prove a delivery."""

from __future__ import annotations

import pytest

from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject
from clusterstacks.deliver.apply.sweep import lost_records
from clusterstacks.model.objects import ObjectId

pytestmark = pytest.mark.regression("LIVE-LV-3")

SECRET = "cluster-stack-addon-app"


def record(inputs: str, objects: int) -> dict[str, DeliveryRecord]:
    known = tuple(RecordedObject(ObjectId("", "ConfigMap", "default", str(n)), "v1") for n in range(objects))
    return {"app": DeliveryRecord("app", "digest", inputs, DeliveryState.PRUNED, known)}


@pytest.mark.parametrize(
    ("delivered", "inputs", "records", "unreadable", "words"),
    [
        pytest.param({"app": 2}, {"app": "a"}, record("a", 2), {}, "", id="as delivered"),
        pytest.param({"app": 2}, {}, record("a", 2), {}, "", id="after a restart"),
        pytest.param({"app": 0}, {}, record("a", 2), {}, "", id="number of objects not known"),
        pytest.param({}, {}, record("a", 2), {"other": "unreadable"}, "", id="nothing delivered completely"),
        pytest.param({"app": 2}, {}, {}, {}, f"has no delivery record (Secret kube-system/{SECRET})", id="deleted"),
        pytest.param({}, {"app": "a"}, {}, {}, "has no delivery record", id="deleted after a rollback"),
        pytest.param({"app": 2}, {}, {}, {SECRET: "Secret is unreadable"}, "Secret is unreadable", id="unreadable"),
        pytest.param({"app": 2}, {"app": "a"}, record("b", 2), {}, "is not that of its last delivery", id="restored"),
        pytest.param({"app": 3}, {}, record("a", 2), {}, "is not that of its last delivery", id="partly gone"),
    ],
)
def test_each_delivered_addon_needs_the_record_of_its_last_delivery(
    delivered: dict[str, int],
    inputs: dict[str, str],
    records: dict[str, DeliveryRecord],
    unreadable: dict[str, str],
    words: str,
) -> None:
    found = lost_records(
        [{"name": name, "objects": count} for name, count in delivered.items()], inputs, records, unreadable
    )
    assert len(found) == bool(words)
    assert all(words in one for one in found)


@pytest.mark.parametrize(
    ("status", "delivered", "is_lost"),
    [
        pytest.param("a", {}, False, id="that of the status"),
        pytest.param("b", {}, True, id="after a restart, another one"),
        pytest.param("", {}, False, id="delivered by an earlier version of the operator"),
        pytest.param("b", {"app": "a"}, False, id="the status is older than the delivery"),
        pytest.param("a", {"app": "b"}, True, id="the status is older than the delivery, and of the restored record"),
    ],
)
def test_digest_of_the_inputs_in_the_status_counts_until_there_is_a_newer_one(
    status: str, delivered: dict[str, str], *, is_lost: bool
) -> None:
    addon = {"name": "app", "objects": 2, **({"inputs": status} if status else {})}
    assert bool(lost_records([addon], delivered, record("a", 2), {})) == is_lost
