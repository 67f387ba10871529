from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from clusterstacks.deliver.apply.health import HealthReport, UnhealthyObject
from clusterstacks.deliver.apply.health_rules import Health, HealthState
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.files.addon_config import LifecycleHook, Stage, StageAction, WaitFor
from clusterstacks.model.objects import ObjectId
from clusterstacks.model.outcomes import Outcome, Waiting
from clusterstacks.operator.controllers.clusteraddon import stage_run
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import RolloutStep, StagePhase
from clusterstacks.operator.controllers.clusteraddon.stage_run import StageRun
from clusterstacks.operator.controllers.status_reconciler import StatusPatch

DNS = ObjectId("apps", "Deployment", "kube-system", "dns")
UNHEALTHY = HealthReport((UnhealthyObject(DNS, "dns", Health(HealthState.IN_PROGRESS, "LessReady", "0 of 1")),), 1)
STAGE = Stage("dns", StageAction.APPLY, wait_for=WaitFor.HEALTHY, timeout=timedelta(minutes=5))
STEP = RolloutStep(LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED, STAGE)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass
class Addon:
    """A delivery of one addon: it changes objects, sends unchanged ones again, or fails."""

    changes: bool = False
    error: DependencyError | None = None
    inputs: Any = field(default_factory=lambda: SimpleNamespace(label=lambda addon: f"addon {addon}", renderer=None))
    patch: StatusPatch = field(
        default_factory=lambda: StatusPatch({"metadata": {"namespace": "team", "name": "one"}, "status": {}})
    )

    async def install_addon(self, _: str) -> None:
        if self.error is not None:
            raise self.error

    def has_changed(self, _: Stage) -> bool:
        return self.changes

    def stateful_objects(self, addon: str) -> dict[ObjectId, str]:
        return {DNS: addon}


async def run(step: RolloutStep, minutes: int, addon: Addon, *, is_refresh: bool) -> tuple[RolloutStep, Outcome | None]:
    stage: Any = StageRun(step, addon, None, NOON + timedelta(minutes=minutes), is_refresh=is_refresh)  # type: ignore[arg-type]
    try:
        outcome = await stage.run_stage()
    except DependencyError:
        outcome = None
    return replace(step, phase=stage.phase, since=stage.since), outcome


@pytest.mark.parametrize("is_refresh", [False, True])
async def test_time_to_become_healthy_goes_on_after_an_error(
    monkeypatch: pytest.MonkeyPatch, *, is_refresh: bool
) -> None:
    async def unhealthy(*_: object) -> HealthReport:
        return UNHEALTHY

    monkeypatch.setattr(stage_run, "read_health", unhealthy)
    step, _ = await run(STEP, 0, Addon(changes=True), is_refresh=is_refresh)
    step, _ = await run(step, 4, Addon(error=DependencyError("WorkerDied", "killed")), is_refresh=is_refresh)
    assert (step.phase, step.since) == (StagePhase.WAITING_FOR_HEALTH, "2026-11-01T12:00:00Z")

    step, outcome = await run(step, 5, Addon(), is_refresh=is_refresh)

    assert step.phase is StagePhase.WAITING_FOR_HEALTH
    assert isinstance(outcome, Waiting)
    assert outcome.reason == "HealthTimeout"


async def test_time_to_become_healthy_begins_anew_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unhealthy(*_: object) -> HealthReport:
        return UNHEALTHY

    monkeypatch.setattr(stage_run, "read_health", unhealthy)
    step, _ = await run(STEP, 0, Addon(changes=True), is_refresh=False)
    step, outcome = await run(step, 5, Addon(changes=True), is_refresh=False)

    assert step.since == "2026-11-01T12:05:00Z"
    assert isinstance(outcome, Waiting)
    assert outcome.reason == "ObjectsInProgress"
