"""What to do instead of what was refused: one command to begin with, and what follows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.compat.rules.combination import Setup, judge_setup
from clusterstacks.compat.verdicts import Verdict
from clusterstacks.planner.patches import annotated, patches, taken_from
from clusterstacks.planner.plan_document import plan_document
from clusterstacks.planner.planner import Plan, Undecided, find_plan
from clusterstacks.planner.steps import StepKind
from clusterstacks.planner.waits import CLUSTER, TOPOLOGY_RECONCILED, waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.rules.combination import Before
    from clusterstacks.compat.world import Candidate, ClusterState, World
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.planner.budget import Budget
    from clusterstacks.planner.model_builder import Target
    from clusterstacks.planner.steps import Step
    from clusterstacks.planner.waits import Wait

SHOWN_STEPS = 3
"""Steps told in a refusal; ``csctl plan`` tells all."""

RULES = "The rules of the provider:\n  kubectl get compatibilityrules"
"""The command that tells more where labels or variables are refused."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What was refused, as a question to the planner.

    Args:
        cluster: Whose.
        world: What there is.
        state: Where the cluster is.
        target: Where it was to go.
        ready: Releases whose class is there; None for all.
    """

    cluster: ObjectKey
    world: World
    state: ClusterState
    target: Target
    ready: frozenset[ReleaseName] | None = None


def way_to(wish: Wish, budget: Budget) -> str:
    """Say how to get there, or why there is no way; empty when the planner does not know in time.

    Args:
        wish: What was refused.
        budget: What the planner may spend.

    Raises:
        PlanImpossible: The releases of the cluster are not known well enough.
    """
    answer = find_plan(wish.world, wish.state, wish.target, budget)
    if isinstance(answer, Undecided):
        return ""
    if not isinstance(answer, Plan):
        document = plan_document(wish.world, wish.state, wish.target, answer)
        facts = f"The facts that forbid it:\n  csctl plan {wish.cluster} --to {wish.target}"
        return f"There is no way: {document['refused']['message']}\n{facts}"
    if not answer.steps:
        return ""
    if answer.steps[0].kind is StepKind.WORKERS:
        return retried("the workers have the version of the control plane", waited(wish.cluster, TOPOLOGY_RECONCILED))
    first = next(patches(answer.start, answer.steps, annotated(wish.world, wish.state)))
    if first is None:
        # The annotations ask for it already.
        (after, *_) = waits([(answer.steps[0], None)], wish.state.annotations or {})
        delivered = f"cluster addon {answer.steps[0].addon} is delivered as its annotation asks for"
        return retried(delivered, *(waited(wish.cluster, one) for one in after))
    return "\n".join(
        [
            *_told(answer.steps, wish),
            "All steps with their commands:",
            f"  csctl plan {wish.cluster} --to {wish.target}",
            "Begin with:",
            f"  {command(wish.cluster, first)}",
        ]
    )


def retried(until: str, *commands: str) -> str:
    """Say what to wait for before the same write is tried again."""
    return "\n  ".join([f"Wait until {until}, then try again:", *commands])


def waited(cluster: ObjectKey, wait: Wait) -> str:
    """Write the kubectl command that waits for something of a Cluster."""
    name = cluster.name if wait.kind == CLUSTER else f"cluster-addon-{cluster.name}"
    return (
        f"kubectl wait {wait.kind.lower()} -n {cluster.namespace} {name} --for='{wait.until}' --timeout={wait.timeout}"
    )


def look_for_a_way(cluster: ObjectKey, target: Target) -> str:
    """Name the command that shows the steps to a target, or why there are none."""
    return f"Look for a way:\n  csctl plan {cluster} --to {target}"


def combinations_of(cluster: ObjectKey) -> str:
    """Name the command that shows the addons of the releases that a Cluster could use."""
    return f"The releases, their addons, and what they work with:\n  csctl compat matrix {cluster}"


def releases_of(namespace: str) -> str:
    """Name the command that lists the releases whose classes Clusters can have."""
    return f"The releases and their Kubernetes versions:\n  kubectl get clusterstackreleases -n {namespace}"


def releases_with(addon: str, after: Setup, before: Before, candidates: Iterable[Candidate], judges: Judges) -> str:
    """Name the releases whose version of an addon could be taken instead, newest first."""
    fitting: dict[str, ReleaseName] = {}
    for candidate in sorted(candidates, key=lambda one: one.name, reverse=True):
        components = candidate.compatibility.of_addon(addon) if candidate.compatibility is not None else ()
        if not components:
            continue
        other = Setup(after.candidate, after.kubernetes, {**after.addons, addon: components})
        found = judge_setup(other, before, judges).findings
        if all(one.verdict is not Verdict.INCOMPATIBLE for one in found):
            fitting.setdefault(other.version(addon), candidate.name)
    named = [f"{version} of release {name}" for version, name in list(fitting.items())[:SHOWN_STEPS]]
    if not named:
        return f"No release that is known has a version of {addon} that could be taken instead: keep the one there is"
    return f"Choose another version of cluster addon {addon}: {' or '.join(named)}"


def classes_for(after: Setup, candidates: Iterable[Candidate], judges: Judges) -> str:
    """Say what a new Cluster could ask for instead: another class for its version, else another version."""
    own = after.candidate
    for candidate in sorted(candidates, key=lambda one: one.name, reverse=True):
        if candidate.name != own.name and _works(candidate, after.kubernetes, judges):
            return f"Choose class {candidate.name.class_name}, which works with {after.kubernetes}"
    return f"Choose Kubernetes {own.kubernetes}, which class {own.name.class_name} is made for"


def command(cluster: ObjectKey, patch: Manifest) -> str:
    """Write the kubectl command that does what a merge patch of a Cluster says."""
    place = f"cluster -n {cluster.namespace} {cluster.name}"
    if set(patch) == {"metadata"}:
        return f"kubectl annotate {place} --overwrite {' '.join(_annotated(patch['metadata']['annotations']))}"
    return f"kubectl patch {place} --type merge -p '{json.dumps(patch, separators=(',', ':'))}'"


def _annotated(annotations: Mapping[str, str | None]) -> list[str]:
    return [f"{key}-" if value is None else f"{key}={value}" for key, value in annotations.items()]


def _works(candidate: Candidate, kubernetes: KubernetesVersion, judges: Judges) -> bool:
    if candidate.compatibility is None:
        return candidate.kubernetes == kubernetes
    stated = candidate.compatibility
    addons = {addon: stated.of_addon(addon) for addon in stated.addons()}
    setup = Setup(candidate, kubernetes, addons)
    return all(one.verdict is not Verdict.INCOMPATIBLE for one in judge_setup(setup, None, judges).findings)


def _told(steps: Sequence[Step], wish: Wish) -> list[str]:
    """Tell the steps in their order, the one that was asked for included: so no step refers to another."""
    if len(steps) == 1:
        return [f"Do this instead: {_step(steps[0], wish.ready)}"]
    shown = [f"  {number}. {_step(step, wish.ready)}" for number, step in enumerate(steps[:SHOWN_STEPS], start=1)]
    more = [f"  and {len(steps) - SHOWN_STEPS} more"] if len(steps) > SHOWN_STEPS else []
    return ["Do this instead, one after the other:", *shown, *more]


def _step(step: Step, ready: frozenset[ReleaseName] | None) -> str:
    if step.kind is StepKind.KUBERNETES:
        return f"move to Kubernetes {step.after.kubernetes}"
    if step.kind is not StepKind.ADDON:
        moved = step.before.kubernetes != step.after.kubernetes
        both = f" with Kubernetes {step.after.kubernetes}" if moved else ""
        name = step.after.candidate.name
        missing = ready is not None and name not in ready
        first = f" (its ClusterStack must offer {name.version} first)" if missing else ""
        return f"move to class {name.class_name}{both}{first}"
    release = taken_from(step)
    if release is None:
        return f"remove cluster addon {step.addon}"
    version = step.after.addons[step.addon].version
    before = step.before.addons.get(step.addon)
    verb = "install" if before is None else "move"
    word = "to " if before is not None else ""
    if before is not None and version != before.version:
        verb = "upgrade"
    return f"{verb} cluster addon {step.addon} {word}{version} (release {release} has it)"
