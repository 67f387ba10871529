"""Problems of objects, from which metrics and alerts are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.operator.controllers.object_problems import find_problems
from clusterstacks.runtime.object_problem_metrics import ObjectProblem

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

CREATED = "2026-11-01T00:00:00Z"
CREATED_AT = 1793491200.0
DAY = 86400


def condition(kind: str, status: str, since: str = "2026-11-02T00:00:00Z") -> Manifest:
    return {"type": kind, "status": status, "message": "long", "reason": f"{kind}Reason", "lastTransitionTime": since}


def addon(*conditions: Manifest, **status: Any) -> Manifest:
    metadata = {"name": "one", "namespace": "ns", "creationTimestamp": CREATED}
    return {"metadata": metadata, "status": {"conditions": [*conditions], **status}}


READY = condition("Ready", "True")
HOLD = {"class": "c", "version": "v1.36.3", "state": "Held", "since": "2026-11-03T00:00:00Z"}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (addon(READY, condition("HelmChartApplied", "False")), []),
        (addon(condition("Ready", "False")), [("Ready", "ReadyReason", CREATED_AT + DAY)]),
        (addon(condition("Ready", "Unknown")), [("Ready", "ReadyReason", CREATED_AT + DAY)]),
        (addon(condition("Ready", "False") | {"reason": "AddonsOrphaned"}, condition("InSync", "Unknown")), []),
        (addon(condition("Ready", "False") | {"reason": "AddonsDeleted"}), []),
        (addon(), [("Ready", "NoStatus", CREATED_AT)]),
        (addon(condition("Ready", "False", "rubbish")), [("Ready", "ReadyReason", 0.0)]),
        (addon(READY, condition("Healthy", "True"), condition("InSync", "True")), []),
        (
            addon(READY, condition("InSync", "False"), condition("Healthy", "False")),
            [("Healthy", "HealthyReason", CREATED_AT + DAY), ("InSync", "InSyncReason", CREATED_AT + DAY)],
        ),
        (addon(READY, condition("WithinRanges", "False")), [("WithinRanges", "WithinRangesReason", CREATED_AT + DAY)]),
        (addon(READY, upgradeHold=HOLD), [("UpgradeHeld", "Held", CREATED_AT + 2 * DAY)]),
        (addon(READY, upgradeHold={**HOLD, "state": "Released"}), []),
        (addon(READY, upgradeHold="rubbish"), []),
    ],
)
def test_problems_are_conditions_that_are_not_true_and_held_upgrades(
    manifest: Manifest, expected: list[tuple[str, str, float]]
) -> None:
    assert [*find_problems([manifest])] == [ObjectProblem("ns", "one", *problem) for problem in expected]


def test_an_object_without_anything_is_not_ready_since_an_unknown_time() -> None:
    assert [*find_problems([{"metadata": {}}])] == [ObjectProblem("", "", "Ready", "NoStatus", 0.0)]
