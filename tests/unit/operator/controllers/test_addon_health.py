from __future__ import annotations

import pytest

from clusterstacks.deliver.apply.health import HealthReport, UnhealthyObject
from clusterstacks.deliver.apply.health_rules import Health, HealthState
from clusterstacks.model.objects import ObjectId, ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.addon_health import outcome_of_health
from clusterstacks.operator.controllers.status_reconciler import StatusPatch

ADDON = ObjectKey("team", "cluster-addon-one")
DNS = ObjectId("apps", "Deployment", "kube-system", "dns")
GOOD = HealthReport((), 1)


def ill(state: HealthState = HealthState.IN_PROGRESS, addon: str = "dns") -> HealthReport:
    return HealthReport((UnhealthyObject(DNS, addon, Health(state, "LessReady", "0 of 1 replicas are ready")),), 1)


def patch(*, ready: bool = True, waits: bool = False, **condition: str) -> StatusPatch:
    conditions = [{"type": "Ready", "status": "True"} | condition]
    addons = [{"name": "dns", "waitFor": "Healthy" if waits else ""}, {"name": "csi"}]
    metadata = {"namespace": ADDON.namespace, "name": ADDON.name}
    return StatusPatch({"metadata": metadata, "status": {"ready": ready, "addons": addons, "conditions": conditions}})


NOT_HEALTHY = {"status": "False", "reason": "ObjectsFailed", "message": "dns"}

OUTCOMES: list[tuple[StatusPatch, HealthReport | None, str]] = [
    (patch(), ill(), "settled"),
    (patch(waits=True), GOOD, "settled"),
    (patch(waits=True), ill(), "ObjectsInProgress"),
    (patch(waits=True), ill(HealthState.FAILED), "ObjectsFailed"),
    (patch(waits=True), ill(addon="csi"), "settled"),
    (patch(waits=True), None, "settled"),
    (patch(waits=True, ready=False, **NOT_HEALTHY), None, "ObjectsFailed"),
    (patch(waits=True, ready=False), None, "HealthUnknown"),
    (patch(ready=False), None, "settled"),
]


@pytest.mark.parametrize(("read", "report", "reason"), OUTCOMES)
def test_ready_depends_on_the_health_of_addons_that_a_stage_waits_for(
    read: StatusPatch, report: HealthReport | None, reason: str
) -> None:
    outcome = outcome_of_health(read, Settled(), report)

    assert (outcome.reason if isinstance(outcome, Waiting) else "settled") == reason


@pytest.mark.parametrize("report", [None, GOOD, ill()])
def test_health_does_not_change_an_outcome_that_is_not_settled(report: HealthReport | None) -> None:
    outcome: Outcome = Waiting("RollingOut", "stage 1 of 2")

    assert outcome_of_health(patch(waits=True), outcome, report) is outcome
