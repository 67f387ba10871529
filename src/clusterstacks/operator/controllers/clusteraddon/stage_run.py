"""Runs a stage of clusteraddon.yaml: delivers its addon, and waits for its health and its conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.health import read_health
from clusterstacks.deliver.apply.health_expressions import HealthExpressions
from clusterstacks.model.files.addon_config import Rollback, StageAction, StageCondition, WaitFor, WatchedObject
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.model.objects import Manifest, ObjectId, rfc3339, split_api_version
from clusterstacks.model.outcomes import Outcome, Waiting
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.addon_health import report_health
from clusterstacks.operator.controllers.clusteraddon.rollback import AddonRollback, RollbackNotPossible
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import StagePhase

if TYPE_CHECKING:
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import RolloutStep


WATCHED_SHOWN = 3
"""Objects of a condition that a message names; arbitrary."""

RETRY = timedelta(seconds=5)
"""Interval at which a condition that is not met is evaluated again (the Go operator waits 20 s). Arbitrary."""


LATE_RETRY = timedelta(seconds=30)
"""Interval at which health is read again after the timeout of the stage. Arbitrary."""


@dataclass(slots=True)
class StageRun:
    """Runs one stage: pre-condition, delivery or deletion of its addon, health, post-condition.

    In a refresh, which repeats earlier deliveries, the health of an unchanged addon holds nothing back.
    """

    step: RolloutStep
    installer: AddonInstaller
    workload: Client
    now: datetime
    is_refresh: bool = False
    phase: StagePhase = field(init=False)
    """The phase reached, also after a failure."""
    since: str = field(init=False, default="")
    """When it began to wait for health (RFC 3339); empty in other phases."""
    awaited: tuple[ObjectId, ...] = field(init=False, default=())
    """The objects that it waits for."""

    def __post_init__(self) -> None:
        self.phase = self.step.phase

    async def run_stage(self) -> Outcome | None:
        """Continue from the phase the stage had reached; return what it waits for, None when it is done.

        A pre-condition that was met once is not evaluated again.
        """
        stage = self.step.stage
        if self.phase in {StagePhase.PENDING, StagePhase.WAITING_FOR_PRE}:
            self.phase = StagePhase.WAITING_FOR_PRE
            waiting = await self._check(stage.pre, Reason.FAILED_PRE_CONDITION)
            if waiting is not None:
                return waiting
        if self.phase is not StagePhase.WAITING_FOR_POST:
            waiting = await self._bring()
            if waiting is not None:
                return waiting
        self.phase, self.since = StagePhase.WAITING_FOR_POST, ""
        waiting = await self._check(stage.post, Reason.FAILED_POST_CONDITION)
        if waiting is None:
            self.phase = StagePhase.DONE
        return waiting

    async def _bring(self) -> Outcome | None:
        """Apply or delete the addon and await its health; after an error the time to become healthy goes on."""
        if self.phase is StagePhase.WAITING_FOR_HEALTH:
            self.since = self.step.since
        else:
            self.phase = StagePhase.CHANGING
        return await self._stay_rolled_back() or await self._change() or await self._await_health()

    async def _stay_rolled_back(self) -> Outcome | None:
        waiting = await self._rollback.resume() if self._rolls_back else None
        if waiting is not None:
            self.phase, self.since = StagePhase.ROLLED_BACK, ""
        return waiting

    async def _change(self) -> Outcome | None:
        """Apply or delete the addon. While it waits for health its values may change, which may be the remedy."""
        if self._rolls_back:
            await self._rollback.keep_before_change()
        if self.step.stage.action is StageAction.APPLY:
            return await self.installer.install_addon(self.step.stage.addon)
        return await self.installer.remove_addon(self.step.stage.addon)

    async def _await_health(self) -> Outcome | None:
        stage = self.step.stage
        if not await self._needs_health():
            return None
        self.phase = StagePhase.WAITING_FOR_HEALTH
        changed = self.installer.has_changed(stage)
        began = _moment("" if changed else self.step.since) or self.now
        self.since = rfc3339(began)
        with self.installer.patch.failing_condition(AddonCondition.HEALTHY, Reason.HEALTH_UNKNOWN):
            objects = self.installer.stateful_objects(stage.addon)
            expressions = HealthExpressions(self.installer.inputs.renderer)
            report = await read_health(self.workload, objects, self.now, expressions)
        report_health(self.installer.patch, report)
        if not report.unhealthy:
            if self._rolls_back:
                await self._rollback.keep()
            return None
        self.awaited = tuple(unhealthy.id for unhealthy in report.unhealthy)
        late = self.now - began >= stage.timeout
        within = f" not healthy within {stage.timeout}" if late else " not healthy yet"
        message = f"{len(report.unhealthy)} of {report.objects} objects are{within}: {report.message}"
        label = self.installer.inputs.label(stage.addon)
        if late:
            return await self._time_out(label, message)
        return Waiting(Reason.OBJECTS_IN_PROGRESS, f"{label}: {message}", RETRY)

    async def _needs_health(self) -> bool:
        """A refresh waits only for addons that it changes, that it waited for before, or that never were healthy."""
        if self.step.stage.wait_for is not WaitFor.HEALTHY:
            return False
        if not self.is_refresh or self.installer.has_changed(self.step.stage):
            return True
        if self.step.phase is StagePhase.WAITING_FOR_HEALTH:
            return True
        return self._rolls_back and await self._rollback.is_unproven()

    async def _time_out(self, label: str, message: str) -> Outcome:
        """Roll the addon back if its stage says so and a healthy revision is known; otherwise continue to wait."""
        why = ""
        if self._rolls_back:
            try:
                outcome = await self._rollback.roll_back(message)
            except RollbackNotPossible as error:
                why = f"; it cannot be rolled back: {error}"
            else:
                self.phase, self.since = StagePhase.ROLLED_BACK, ""
                return outcome
        return Waiting(Reason.HEALTH_TIMEOUT, f"{label}: {message}{why}", LATE_RETRY)

    @property
    def _rolls_back(self) -> bool:
        return self.step.stage.rollback is Rollback.ON_FAILURE

    @property
    def _rollback(self) -> AddonRollback:
        return AddonRollback(self.step.stage.addon, self.installer, self.workload, self.now)

    async def _check(self, condition: StageCondition | None, reason: Reason) -> Outcome | None:
        if condition is None:
            return None
        self.awaited = tuple(_id(watched) for watched in condition.objects)
        patch, inputs = self.installer.patch, self.installer.inputs
        label = f"stage {self.step.stage.addon} of {inputs.release_name(self.step.stage.addon)}"
        with patch.failing_condition(AddonCondition.CEL_EVALUATED, reason):
            variables = {watched.key: await self._read(watched) for watched in condition.objects}
            missing = [watched for watched in condition.objects if variables[watched.key] is None]
            if missing:
                message = f"{label} waits for {_title(missing[0])}, which does not exist"
                return Waiting("ConditionNotMet", message, RETRY)
            objects = {key: manifest for key, manifest in variables.items() if manifest is not None}
            watched = ", ".join(f"{entry.key} is {_title(entry)}" for entry in condition.objects[:WATCHED_SHOWN])
            holds = await inputs.renderer.holds(condition.expression, objects, label=f"{label} ({watched})")
        patch.true(AddonCondition.CEL_EVALUATED)
        if holds:
            self.awaited = ()
            return None
        return Waiting("ConditionNotMet", f"{label} waits until this holds: {condition.expression}", RETRY)

    async def _read(self, watched: WatchedObject) -> Manifest | None:
        group, version = split_api_version(watched.api_version)
        try:
            resource = await self.workload.resource(group, watched.kind, version)
        except KindNotServed:
            return None
        return await self.workload.find(resource, watched.name, watched.namespace if resource.namespaced else "")


def _id(watched: WatchedObject) -> ObjectId:
    group, _ = split_api_version(watched.api_version)
    return ObjectId(group, watched.kind, watched.namespace, watched.name)


def _title(watched: WatchedObject) -> str:
    place = f"{watched.namespace}/{watched.name}" if watched.namespace else watched.name
    return f"{watched.kind} {place}"


def _moment(text: str) -> datetime | None:
    """Parse a time of the status; None if there is none, or it is not valid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
