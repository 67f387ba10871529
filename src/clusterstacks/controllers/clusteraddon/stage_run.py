"""Runs a stage of clusteraddon.yaml: waits for its conditions before and after its addon is delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.names import AddonCondition, Reason
from clusterstacks.controllers.clusteraddon.rollout_plan import StagePhase
from clusterstacks.domain.addon_config import StageAction, StageCondition, WatchedObject
from clusterstacks.domain.objects import Manifest, split_api_version
from clusterstacks.domain.outcomes import Outcome, Waiting
from clusterstacks.kube.errors import KindNotServed

if TYPE_CHECKING:
    from clusterstacks.controllers.clusteraddon.addon_delivery import AddonDelivery
    from clusterstacks.controllers.clusteraddon.rollout_plan import RolloutStep
    from clusterstacks.kube.client import Client


WATCHED_SHOWN = 3
"""Objects of a condition that a message names; arbitrary."""

RETRY = timedelta(seconds=5)
"""Interval at which a condition that is not met is evaluated again (the Go operator waits 20 s). Arbitrary."""


@dataclass(slots=True)
class StageRun:
    """Runs one stage: waits for its pre-condition, applies or deletes its addon, waits for its post-condition.

    Args:
        step: The stage with the phase it had reached.
        delivery: Delivers its addon.
        workload: The workload cluster.
        phase: The phase reached, also after a failure.
    """

    step: RolloutStep
    delivery: AddonDelivery
    workload: Client
    phase: StagePhase = field(init=False)

    def __post_init__(self) -> None:
        self.phase = self.step.phase

    async def run_stage(self) -> Outcome | None:
        """Continue from the phase the stage had reached; a pre-condition that was met once is not evaluated again.

        Returns:
            What the stage waits for; None when it is done.
        """
        stage = self.step.stage
        if self.phase in {StagePhase.PENDING, StagePhase.WAITING_FOR_PRE}:
            self.phase = StagePhase.WAITING_FOR_PRE
            waiting = await self._check(stage.pre, Reason.FAILED_PRE_CONDITION)
            if waiting is not None:
                return waiting
        if self.phase is not StagePhase.WAITING_FOR_POST:
            self.phase = StagePhase.CHANGING
            if stage.action is StageAction.APPLY:
                waiting = await self.delivery.deliver_addon(stage.addon)
            else:
                waiting = await self.delivery.remove_addon(stage.addon)
            if waiting is not None:
                return waiting
        self.phase = StagePhase.WAITING_FOR_POST
        waiting = await self._check(stage.post, Reason.FAILED_POST_CONDITION)
        if waiting is None:
            self.phase = StagePhase.DONE
        return waiting

    async def _check(self, condition: StageCondition | None, reason: Reason) -> Outcome | None:
        if condition is None:
            return None
        draft, inputs = self.delivery.draft, self.delivery.inputs
        label = f"stage {self.step.stage.addon} of {inputs.release_name(self.step.stage.addon)}"
        with draft.failing_condition(AddonCondition.CEL_EVALUATED, reason):
            variables = {watched.key: await self._read(watched) for watched in condition.objects}
            missing = [watched for watched in condition.objects if variables[watched.key] is None]
            if missing:
                message = f"{label} waits for {_title(missing[0])}, which does not exist"
                return Waiting("ConditionNotMet", message, RETRY)
            objects = {key: manifest for key, manifest in variables.items() if manifest is not None}
            watched = ", ".join(f"{one.key} is {_title(one)}" for one in condition.objects[:WATCHED_SHOWN])
            holds = await inputs.renderer.holds(condition.expression, objects, label=f"{label} ({watched})")
        draft.true(AddonCondition.CEL_EVALUATED)
        if holds:
            return None
        return Waiting("ConditionNotMet", f"{label} waits until this holds: {condition.expression}", RETRY)

    async def _read(self, watched: WatchedObject) -> Manifest | None:
        group, version = split_api_version(watched.api_version)
        try:
            resource = await self.workload.resource(group, watched.kind, version)
        except KindNotServed:
            return None
        return await self.workload.find(resource, watched.name, watched.namespace if resource.namespaced else "")


def _title(watched: WatchedObject) -> str:
    place = f"{watched.namespace}/{watched.name}" if watched.namespace else watched.name
    return f"{watched.kind} {place}"
