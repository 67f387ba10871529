"""Counts of objects that are not ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.controllers.registration import count_unready, ready_condition

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

CREATED = "2026-11-01T00:00:00Z"
CREATED_AT = 1793491200.0


def one(status: str = "", since: str = "2026-11-02T00:00:00Z") -> Manifest:
    ready = {"type": "Ready", "status": status, "message": "long", "reason": "R", "lastTransitionTime": since}
    return {
        "metadata": {"name": "x", "creationTimestamp": CREATED},
        **({"status": {"conditions": [{"type": "Other", "status": "False"}, ready]}} if status else {}),
    }


def test_live_m1_objects_that_are_not_ready_are_counted_with_the_time_of_the_oldest() -> None:
    assert count_unready([]) == (0, 0.0)
    assert count_unready([one("True")]) == (0, 0.0)
    assert count_unready([one("True"), one("False"), one("Unknown", "2026-11-03T00:00:00Z")]) == (2, CREATED_AT + 86400)
    assert count_unready([one("False"), one()]) == (2, CREATED_AT)  # one without conditions counts since its creation
    assert count_unready([one("False", "rubbish"), {"metadata": {}}]) == (2, 0.0)


def test_live_m1_only_the_ready_condition_of_a_status_is_kept() -> None:
    kept = ready_condition(one("False"))
    assert [condition["type"] for condition in kept["conditions"]] == ["Ready"]
    assert "message" not in kept["conditions"][0]
    assert count_unready([{**one(), "status": kept}]) == count_unready([one("False")])
    assert ready_condition(one()) == {}
