"""Suggests what to do instead of a rejected write: one command to begin with, and the steps that follow.

Best effort with a timeout: otherwise the refusal names the command that searches for a plan.
"""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import SpecError
from clusterstacks.plan.compat.rules.ranged_releases import ClusterChange, judge_change
from clusterstacks.plan.compat.world import ClusterState, ClusterVersions, World
from clusterstacks.plan.planner.budget import Budget
from clusterstacks.plan.planner.patches import annotated, patches, taken_from
from clusterstacks.plan.planner.plan_document import plan_document
from clusterstacks.plan.planner.planner import Plan, Undecided, find_plan
from clusterstacks.plan.planner.steps import StepKind
from clusterstacks.plan.planner.waits import (
    ADDONS_READY,
    CLUSTER,
    TOPOLOGY_RECONCILED,
    addon_delivered,
    control_plane_runs,
    waits,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.operator.webhooks.cluster_rules import Decision
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.compat.world import Candidate
    from clusterstacks.plan.planner.model_builder import Target
    from clusterstacks.plan.planner.steps import Step
    from clusterstacks.plan.planner.waits import Wait

TIMEOUT: Final = timedelta(seconds=1.5)
"""Timeout of a suggestion, including the wait for other suggestions. Arbitrary: a person waits, and
the API server allows 5 s for everything."""

MOST_LOOKS: Final = 400_000
"""Combinations that the planner examines for a refusal, about 1 s: a tenant who is refused again and again must not
occupy the processor. Arbitrary; the largest worlds measured without facts between addons take 50,000."""

SHOWN_STEPS: Final = 3
"""Number of steps in a refusal; ``csctl plan`` shows all."""

RULES: Final = "The rules of the provider:\n  kubectl get compatibilityrules"
"""The command that shows more about a refusal of labels or variables."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The request to the planner after a refusal."""

    cluster: ObjectKey
    world: World
    state: ClusterState
    target: Target
    """The release or version that was refused."""
    ready: frozenset[ReleaseName] | None = None
    """Releases whose class exists; None for all."""


class Suggester:
    """Makes suggestions, one plan at a time.

    The planner is plain Python code in a thread, so the event loop gets its turn within some milliseconds. A search
    ends when its refusal no longer waits; one that waited too long behind others does not begin.
    """

    def __init__(self) -> None:
        self._planner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")

    def close(self) -> None:
        """Start no more searches; the budget ends a running one."""
        self._planner.shutdown(wait=False, cancel_futures=True)

    async def suggest(self, cluster: ObjectKey, annotations: Mapping[str, str] | None, decision: Decision) -> str:
        """Return what to do instead of a write that facts refuse; empty when that is not known in time.

        ``annotations`` are those of the Cluster before the write; None for a new Cluster.
        """
        change, offer = decision.change, decision.offer
        if change is None or offer is None:
            return decision.more
        if change.before is None or change.delivered is None:
            return f"{class_or_version_for(change, offer.candidates.values())}\n{decision.more}"
        if wait := _wait(cluster, decision, change.wanted):
            return wait
        target = _target(change.wanted, change.before)
        if target is None:
            addon = next((finding.addon for finding in decision.against if finding.addon), "")
            if not addon:
                return decision.more
            return f"{releases_with(addon, change, offer.suggested())}\n{decision.more}"
        judges = change.judges
        world = World(offer.suggested(), judges.rules, judges.upstream)
        # Only the versions of the control plane are known here: the workers are assumed to have the same.
        state = change.delivered.state(judges.labels, judges.variables, annotations)
        return await self.plan(PlanRequest(cluster, world, state, target, frozenset(offer.candidates)))

    async def plan(self, request: PlanRequest) -> str:
        """Return the plan as a suggestion, or the command that searches for it where the planner takes too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + TIMEOUT.total_seconds()
        budget = Budget(MOST_LOOKS, lambda: loop.time() > end)
        search = loop.run_in_executor(self._planner, plan_suggestion, request, budget)
        suggestion = ""
        try:
            suggestion = await asyncio.wait_for(search, TIMEOUT.total_seconds())
        except (TimeoutError, SpecError) as error:
            log.debug("No suggestion for Cluster %s: %r", request.cluster, error)
        return suggestion or look_for_a_plan(request.cluster, request.target)


def _target(wanted: ClusterVersions, before: ClusterVersions) -> Target | None:
    kubernetes = wanted.kubernetes
    other_release = wanted.release.name != before.release.name
    if other_release and kubernetes in (wanted.release.kubernetes, before.kubernetes):
        return wanted.release.name
    return kubernetes if kubernetes != before.kubernetes else None


def _wait(cluster: ObjectKey, decision: Decision, wanted: ClusterVersions) -> str:
    """Name the command that waits for addons or the control plane to arrive; empty if neither is under way."""
    if all(finding.arriving for finding in decision.against):
        version = wanted.kubernetes.text
        command = wait_command(cluster, control_plane_runs(version))
        return wait_and_retry(f"the control plane of Cluster {cluster} runs {version}", command)
    if not all(finding.under_way for finding in decision.against):
        return ""
    addons = list(dict.fromkeys(finding.addon for finding in decision.against))
    versions = {addon: wanted.addon_version(addon) for addon in addons}
    awaited = [f"{addon} {versions[addon]}" if versions[addon] else f"the removal of {addon}" for addon in addons]
    commands = [
        wait_command(cluster, addon_delivered(addon, version) if version else ADDONS_READY)
        for addon, version in versions.items()
    ]
    return wait_and_retry(f"{', '.join(awaited)} is delivered to Cluster {cluster}", *commands)


def plan_suggestion(request: PlanRequest, budget: Budget) -> str:
    """Write a plan, or why there is none; empty when the budget ends first.

    Raises PlanImpossible when too little is known about the releases of the cluster.
    """
    answer = find_plan(request.world, request.state, request.target, budget)
    if isinstance(answer, Undecided):
        return ""
    command = f"csctl plan {request.cluster} --to {request.target}"
    if not isinstance(answer, Plan):
        document = plan_document(request.world, request.state, request.target, answer)
        return f"There is no plan: {document['refused']['message']}\nThe facts that forbid it:\n  {command}"
    if not answer.steps:
        return ""
    if answer.steps[0].kind is StepKind.WORKERS:
        wait = wait_command(request.cluster, TOPOLOGY_RECONCILED)
        return wait_and_retry("the workers have the version of the control plane", wait)
    first = next(patches(answer.start, answer.steps, annotated(request.world, request.state)))
    if first is None:
        # The annotations already request it.
        (after, *_) = waits([(answer.steps[0], None)], request.state.annotations or {})
        delivered = f"cluster addon {answer.steps[0].addon} is delivered as its annotation asks for"
        return wait_and_retry(delivered, *(wait_command(request.cluster, wait) for wait in after))
    return "\n".join(
        [
            *_steps(answer.steps, request.ready),
            "All steps with their commands:",
            f"  {command}",
            "Begin with:",
            f"  {patch_command(request.cluster, first)}",
        ]
    )


def wait_and_retry(until: str, *commands: str) -> str:
    """Write the commands to wait with before the same write is tried again."""
    return "\n  ".join([f"Wait until {until}, then try again:", *commands])


def wait_command(cluster: ObjectKey, wait: Wait) -> str:
    """Write the kubectl command that waits for a condition of a Cluster."""
    name = cluster.name if wait.kind == CLUSTER else f"cluster-addon-{cluster.name}"
    return (
        f"kubectl wait {wait.kind.lower()} -n {cluster.namespace} {name} --for='{wait.until}' --timeout={wait.timeout}"
    )


def look_for_a_plan(cluster: ObjectKey, target: Target) -> str:
    """Name the command that shows the steps to a target, or why there are none."""
    return f"Search for a plan:\n  csctl plan {cluster} --to {target}"


def combinations_of(cluster: ObjectKey) -> str:
    """Name the command that shows the addons of the releases that a Cluster could use."""
    return f"The releases, their addons, and what they work with:\n  csctl compat matrix {cluster}"


def releases_of(namespace: str) -> str:
    """Name the command that lists the releases whose classes Clusters can use."""
    return f"The releases and their Kubernetes versions:\n  kubectl get clusterstackreleases -n {namespace}"


def releases_with(addon: str, change: ClusterChange, candidates: Iterable[Candidate]) -> str:
    """Name the releases with a version of an addon that would be allowed, newest first."""
    allowed: dict[str, ReleaseName] = {}
    wanted = change.wanted
    for candidate in sorted(candidates, key=lambda candidate: candidate.name, reverse=True):
        components = candidate.compatibility.of_addon(addon) if candidate.compatibility is not None else ()
        if not components:
            continue
        other = replace(wanted, addons={**wanted.addons, addon: components})
        if not judge_change(replace(change, wanted=other)).incompatible:
            allowed.setdefault(other.addon_version(addon), candidate.name)
    named = [f"{version} of release {name}" for version, name in list(allowed.items())[:SHOWN_STEPS]]
    if not named:
        return f"No known release has a compatible version of {addon}: keep the current version"
    return f"Choose another version of cluster addon {addon}: {' or '.join(named)}"


def class_or_version_for(change: ClusterChange, candidates: Iterable[Candidate]) -> str:
    """Name another class for the version of a new Cluster, else another version for its class."""
    wanted, own = change.wanted, change.wanted.release
    for candidate in sorted(candidates, key=lambda candidate: candidate.name, reverse=True):
        if candidate.name != own.name and _works(candidate, wanted.kubernetes, change.judges):
            return f"Choose class {candidate.name.class_name}, which works with {wanted.kubernetes}"
    return f"Choose Kubernetes {own.kubernetes}, which class {own.name.class_name} is made for"


def _works(candidate: Candidate, kubernetes: KubernetesVersion, judges: Judges) -> bool:
    stated = candidate.compatibility
    if stated is None:
        return candidate.kubernetes == kubernetes
    versions = ClusterVersions(candidate, kubernetes, {addon: stated.of_addon(addon) for addon in stated.addons()})
    return not judge_change(ClusterChange(wanted=versions, judges=judges)).incompatible


def patch_command(cluster: ObjectKey, patch: Manifest) -> str:
    """Write the kubectl command for a merge patch of a Cluster."""
    place = f"cluster -n {cluster.namespace} {cluster.name}"
    if set(patch) == {"metadata"}:
        annotations: Mapping[str, str | None] = patch["metadata"]["annotations"]
        changes = [f"{key}-" if value is None else f"{key}={value}" for key, value in annotations.items()]
        return f"kubectl annotate {place} --overwrite {' '.join(changes)}"
    return f"kubectl patch {place} --type merge -p '{json.dumps(patch, separators=(',', ':'))}'"


def _steps(steps: Sequence[Step], ready: frozenset[ReleaseName] | None) -> list[str]:
    if len(steps) == 1:
        return [f"Do this instead: {_step(steps[0], ready)}"]
    shown = [f"  {number}. {_step(step, ready)}" for number, step in enumerate(steps[:SHOWN_STEPS], start=1)]
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
    if before is None:
        return f"install cluster addon {step.addon} {version} (release {release} has it)"
    verb = "upgrade" if version != before.version else "move"
    return f"{verb} cluster addon {step.addon} to {version} (release {release} has it)"
