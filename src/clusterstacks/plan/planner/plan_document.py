"""Builds the document of a plan or a refusal, which csctl prints as JSON or as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.names import ReleaseName
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.planner.model_builder import planning_problem
from clusterstacks.plan.planner.patches import annotated, annotations_of, assumed, patches, taken_from
from clusterstacks.plan.planner.plan_messages import reasons, refusal, warnings
from clusterstacks.plan.planner.planner import NoPlan, Plan
from clusterstacks.plan.planner.steps import StepKind
from clusterstacks.plan.planner.waits import waits

if TYPE_CHECKING:
    from clusterstacks.plan.compat.world import ClusterState, World
    from clusterstacks.plan.planner.model_builder import Target
    from clusterstacks.plan.planner.steps import PlannedVersions, Step
    from clusterstacks.plan.planner.waits import Wait

Document = dict[str, Any]


def plan_document(world: World, state: ClusterState, target: Target, answer: Plan | NoPlan) -> Document:
    """Return the document of an answer.

    Args:
        world: Releases, rules and upstream statements.
        state: The state of the cluster.
        target: A release or a Kubernetes version.
        answer: The answer of the planner.

    Raises:
        AddonReleaseRefused: An annotation of the cluster does not name a release.
    """
    judges = Judges(world.rules, world.upstream, state.labels, state.variables)
    if isinstance(answer, NoPlan):
        worded = refusal(planning_problem(world, state, target), answer.facts, target)
        facts = [{"id": fact.id, "text": fact.text, "source": fact.source or None} for fact in answer.facts]
        return {
            "from": _place(answer.start),
            "to": _wanted(world, answer.start, target),
            "cost": 0,
            "steps": [],
            "warnings": warnings(answer.start, (), judges),
            "refused": {
                "message": worded.message,
                "facts": facts,
                "nearest": worded.nearest or None,
                "minimal": answer.minimal,
            },
        }
    written = list(patches(answer.start, answer.steps, annotated(world, state)))
    annotations = annotations_of(assumed(answer.start)) if state.annotations is None else state.annotations
    awaited = waits(zip(answer.steps, written, strict=True), annotations)
    told = zip(answer.steps, written, reasons(answer.steps, target, judges), awaited, strict=True)
    return {
        "from": _place(answer.start),
        "to": _place(answer.end),
        "cost": answer.cost,
        "steps": [
            _step(step, state) | {"patch": patch, "reason": reason, "waits": [_wait(one) for one in after]}
            for step, patch, reason, after in told
        ],
        "warnings": warnings(answer.start, answer.steps, judges),
        "refused": None,
    }


def _wait(wait: Wait) -> Document:
    return {"kind": wait.kind, "for": wait.until, "timeout": wait.timeout}


def _place(situation: PlannedVersions) -> Document:
    return {
        "kubernetes": situation.kubernetes.text,
        "class": situation.candidate.name.release,
        "addons": {addon: option.version for addon, option in situation.addons.items()},
    }


def _wanted(world: World, start: PlannedVersions, target: Target) -> Document:
    """Return the target; for a Kubernetes version any class and addons are allowed."""
    if not isinstance(target, ReleaseName):
        return {"kubernetes": target.text, "class": None, "addons": None}
    (goal,) = [one for one in world.candidates if one.name == target]
    stated = goal.compatibility
    if stated is None:
        return {"kubernetes": goal.kubernetes.text, "class": target.release, "addons": {}}
    return {
        "kubernetes": max(goal.kubernetes, start.kubernetes).text,
        "class": target.release,
        "addons": {addon: leading(addon, stated.of_addon(addon)).text for addon in stated.addons()},
    }


def _step(step: Step, state: ClusterState) -> Document:
    old, new = step.before, step.after
    release: ReleaseName | None = None
    if step.kind is StepKind.ADDON:
        before, after = old.addons.get(step.addon), new.addons.get(step.addon)
        ends = (before.version if before else None, after.version if after else None)
        release = taken_from(step)
    elif step.kind is StepKind.WORKERS:
        ends = (state.workers.text, new.kubernetes.text)
    elif step.kind is StepKind.KUBERNETES:
        ends = (old.kubernetes.text, new.kubernetes.text)
    else:
        ends = (old.candidate.name.release, new.candidate.name.release)
        release = new.candidate.name
    return {
        "kind": step.kind.value,
        "name": step.addon or None,
        "from": ends[0],
        "to": ends[1],
        "release": release.release if release is not None else None,
        "kubernetes": new.kubernetes.text,
    }
