"""Messages of plans and refusals: reasons of steps, warnings, and why a target is out of reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.names import ReleaseName
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.constraints import KUBERNETES, violations
from clusterstacks.plan.compat.verdicts import Verdict, judge_kubernetes
from clusterstacks.plan.planner.model import accepts
from clusterstacks.plan.planner.steps import StepKind, components_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.planner.constraint_catalog import Fact
    from clusterstacks.plan.planner.model_builder import PlanningProblem, Target
    from clusterstacks.plan.planner.steps import PlannedVersions, Step


MINORS_OF_ONE_ROLL = 3
"""Minors that workers may skip when they are replaced: they may be three minors older than the control plane."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The message of a refusal.

    Args:
        message: One sentence.
        nearest: The version that comes closest to a plan; empty if none does.
    """

    message: str
    nearest: str = ""


def reasons(steps: Sequence[Step], target: Target, judges: Judges) -> Iterator[str]:
    """Yield the reason for each step."""
    for at, step in enumerate(steps):
        if step.kind is StepKind.WORKERS:
            yield "workers follow their control plane before anything else moves"
        elif step.kind is StepKind.ADDON:
            yield _addon_reason(step, steps[at + 1 :], target, judges)
        elif step.kind is StepKind.KUBERNETES:
            yield f"{_kubernetes_reason(step, target)}{_way(step)}"
        else:
            yield f"{_class_reason(step, target)}{_way(step)}"


def warnings(start: PlannedVersions, steps: Sequence[Step], judges: Judges) -> list[str]:
    """Return what the cluster violates already, and the untested combinations that the plan passes; each once."""
    found = [
        f"the cluster is outside what is allowed already: {one.text}"
        for one in violations(start.candidate, start.kubernetes, components_of(start), judges)
    ]
    for step in steps:
        where = f"Kubernetes {step.after.kubernetes.text}"
        for component in components_of(step.after):
            judgement = judge_kubernetes(component, step.after.kubernetes, judges.upstream)
            if judgement.verdict is Verdict.UNTESTED:
                found.append(f"untested: {judgement.text}, and the plan passes {where}")
            elif judgement.verdict is Verdict.UNKNOWN:
                found.append(f"unknown: {judgement.text}, and the plan passes {where}")
    return list(dict.fromkeys(found))


def refusal(asked: PlanningProblem, facts: Sequence[Fact], target: Target) -> Refusal:
    """Return the message for a conflict.

    Args:
        asked: The question.
        facts: The conflict; empty if the upgrade rules alone exclude every plan.
        target: The target that is out of reach.
    """
    goal = f"release {target}" if isinstance(target, ReleaseName) else f"Kubernetes {target}"
    if not facts:
        return Refusal(f"{goal} is out of reach: {_law(asked)}")
    blamed = {addon for fact in facts for addon in fact.addons}
    if len(blamed) == 1 and all(fact.addons and fact.id.endswith(KUBERNETES) for fact in facts):
        gap = _gap(asked, next(iter(blamed)))
        if gap is not None:
            return _without_bridge(asked, next(iter(blamed)), *gap)
    return Refusal(f"{goal} is out of reach, as these hold together: {'; '.join(fact.text for fact in facts)}")


def _addon_reason(step: Step, following: Sequence[Step], target: Target, judges: Judges) -> str:
    old, new = step.before.addons.get(step.addon), step.after.addons.get(step.addon)
    if old is None:
        return f"release {target} has it"
    if new is None:
        return f"release {target} does not have it"
    barrier = next((one for one in following if one.kind is not StepKind.ADDON), None)
    if barrier is not None:
        kept = [one for one in components_of(barrier.after) if one not in new.components]
        found = violations(barrier.after.candidate, barrier.after.kubernetes, [*kept, *old.components], judges)
        texts = [one.text for one in found if one.addon == step.addon or one.needs]
        if texts:
            return f"needed for {_arrival(barrier)}: {texts[0]}"
    later = [one for one in following if one.addon == step.addon]
    if later:
        return f"on the way to {step.addon} {later[-1].after.addons[step.addon].version}"
    return f"release {target} has this version" if isinstance(target, ReleaseName) else "needed further on"


def _arrival(step: Step) -> str:
    if step.before.kubernetes != step.after.kubernetes:
        return f"Kubernetes {step.after.kubernetes.text}"
    return f"class {step.after.candidate.name.class_name}"


def _kubernetes_reason(step: Step, target: Target) -> str:
    if step.after.kubernetes == target:
        return "the version asked for"
    return f"one minor at a time towards {target}"


def _way(step: Step) -> str:
    """Name the versions between those of a step; empty for a step of one minor."""
    passed = ", ".join(version.text for version in step.path[:-1])
    if not passed:
        return ""
    once = len(step.path) <= MINORS_OF_ONE_ROLL
    return (
        f"; Cluster API takes the control plane there by way of {passed}, which class "
        f"{step.after.candidate.name.class_name} lists, and replaces the workers "
        f"{'once' if once else f'every {MINORS_OF_ONE_ROLL} minors'}"
    )


def _class_reason(step: Step, target: Target) -> str:
    if step.after.candidate.name == target:
        return "the release asked for"
    stated = step.before.candidate.compatibility
    if stated is None:
        return "a bundle moves with its class, Kubernetes version and addons at once"
    return f"class {step.before.candidate.name.class_name} is for Kubernetes {stated.kubernetes}"


def _law(asked: PlanningProblem) -> str:
    start, goal = asked.state.kubernetes, asked.goal_version
    if goal < start:
        return f"Kubernetes never goes down, and the cluster has {start}"
    listed = ", ".join(version.text for version in asked.here.class_versions)
    if listed and not any(accepts(candidate, goal) for candidate in asked.candidates):
        return (
            f"class {asked.here.name.class_name} accepts only {listed} (kubernetesVersions), and no other class has it"
        )
    known = {version.series for version in asked.versions}
    for minor in range(start.minor + 1, goal.minor):
        if KubernetesMinor(start.major, minor) not in known:
            missing = KubernetesMinor(start.major, minor)
            return f"Kubernetes moves one minor at a time, and no release names a version of {missing}"
    if asked.here.is_bundle and all(candidate.kubernetes.series != goal.series for candidate in asked.candidates):
        return f"no known release of this stack is made for Kubernetes {goal.series}"
    if asked.here.is_bundle:
        return "a bundle moves to releases of the same or the next Kubernetes minor only, and none leads there"
    return "the class moves to releases with ranges only, and to a bundle only if it is the target"


def _gap(asked: PlanningProblem, addon: str) -> tuple[KubernetesVersion, KubernetesVersion] | None:
    """Find Kubernetes versions of two neighbouring minors such that no version of an addon works with both."""
    options = asked.options[addon]

    def works(components: Sequence[Component], version: KubernetesVersion) -> bool:
        return all(
            judge_kubernetes(component, version, asked.judges.upstream).verdict is not Verdict.INCOMPATIBLE
            for component in components
        )

    for lower in asked.versions:
        higher = [one for one in asked.versions if one.minor == lower.minor + 1]
        bridged = any(
            works(option.components, lower) and works(option.components, one) for option in options for one in higher
        )
        if higher and not bridged:
            return lower, higher[0]
    return None


def _without_bridge(asked: PlanningProblem, addon: str, lower: KubernetesVersion, higher: KubernetesVersion) -> Refusal:
    options = asked.options[addon]
    name = options[0].components[0].name
    message = (
        f"no release offers a version of {name} that works with both Kubernetes {lower.series} and {higher.series}"
    )
    close = [
        (component, option)
        for option in options
        for component in option.components
        if component.kubernetes is not None and option.releases and component.kubernetes.contains(lower)
    ]
    if not close:
        return Refusal(message)
    component, option = close[-1]
    nearest = (
        f"{component.name} {component.text} of release {option.releases[-1]} comes closest, which works with "
        f"Kubernetes {component.kubernetes}"
    )
    return Refusal(f"{message}; {nearest}", nearest)
