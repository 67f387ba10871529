"""One stage: wait for its pre-condition, apply or delete its addon, wait for its post-condition."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.names import AddonCondition, Reason
from clusterstacks.controllers.clusteraddon.progress import StagePhase
from clusterstacks.domain.addon_config import StageAction, StageCondition, WatchedObject
from clusterstacks.domain.objects import Manifest, split_api_version
from clusterstacks.domain.outcomes import Outcome, Waiting
from clusterstacks.kube.errors import KindNotServed

if TYPE_CHECKING:
    from clusterstacks.controllers.clusteraddon.addon_delivery import Delivering
    from clusterstacks.controllers.clusteraddon.rollout_plan import RolloutStep

SHOWN_OBJECTS = 3
"""Objects of a condition that a message names; arbitrary."""

RETRY = timedelta(seconds=5)
"""How soon to evaluate a condition again that does not hold (the Go operator waits 20 s). Arbitrary."""


@dataclass(slots=True)
class StageRun:
    """A stage under way; ``phase`` is where it stands, also after a failure."""

    step: RolloutStep
    delivering: Delivering
    phase: StagePhase = field(init=False)

    def __post_init__(self) -> None:
        self.phase = self.step.phase

    async def run(self) -> Outcome | None:
        """Go on from the phase the stage had reached; a pre-condition that once held is not asked again.

        Returns:
            What it waits for; None when it is done.
        """
        stage, delivering = self.step.stage, self.delivering
        if self.phase in {StagePhase.PENDING, StagePhase.WAITING_FOR_PRE}:
            self.phase = StagePhase.WAITING_FOR_PRE
            waiting = await _check(stage.pre, stage.addon, delivering, Reason.FAILED_PRE_CONDITION)
            if waiting is not None:
                return waiting
        if self.phase is not StagePhase.WAITING_FOR_POST:
            self.phase = StagePhase.CHANGING
            change = delivering.apply if stage.action is StageAction.APPLY else delivering.remove
            waiting = await change(stage.addon)
            if waiting is not None:
                return waiting
        self.phase = StagePhase.WAITING_FOR_POST
        waiting = await _check(stage.post, stage.addon, delivering, Reason.FAILED_POST_CONDITION)
        if waiting is None:
            self.phase = StagePhase.DONE
        return waiting


async def _check(check: StageCondition | None, addon: str, delivering: Delivering, reason: Reason) -> Outcome | None:
    if check is None:
        return None
    label = f"stage {addon} of {delivering.sources.release_of(addon).name}"
    with delivering.draft.failing_condition(AddonCondition.CEL_EVALUATED, reason):
        variables = {watched.key: await _read(watched, delivering) for watched in check.objects}
        missing = [watched for watched in check.objects if variables[watched.key] is None]
        if missing:
            message = f"{label} waits for {_title(missing[0])}, which does not exist"
            return Waiting("ConditionNotMet", message, RETRY)
        objects = {key: manifest for key, manifest in variables.items() if manifest is not None}
        watched = ", ".join(f"{one.key} is {_title(one)}" for one in check.objects[:SHOWN_OBJECTS])
        holds = await delivering.renderer.holds(check.expression, objects, label=f"{label} ({watched})")
    delivering.draft.true(AddonCondition.CEL_EVALUATED)
    if holds:
        return None
    return Waiting("ConditionNotMet", f"{label} waits until this holds: {check.expression}", RETRY)


async def _read(watched: WatchedObject, delivering: Delivering) -> Manifest | None:
    group, version = split_api_version(watched.api_version)
    try:
        resource = await delivering.workload.resource(group, watched.kind, version)
    except KindNotServed:
        return None
    return await delivering.workload.find(resource, watched.name, watched.namespace if resource.namespaced else "")


def _title(watched: WatchedObject) -> str:
    place = f"{watched.namespace}/{watched.name}" if watched.namespace else watched.name
    return f"{watched.kind} {place}"
