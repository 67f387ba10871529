"""Plans and refusals of ``csctl plan`` and ``csctl why``: the search, and the printed result."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, Seconds
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.documents import counted
from clusterstacks.model.errors import SpecError
from clusterstacks.plan.planner.step_titles import step_title

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.csctl.shared.cluster_options import ManagementCluster
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.compat.world import ClusterState, World
    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.model_builder import Target
    from clusterstacks.plan.planner.planner import NoPlan, Plan, Undecided

NO_PLAN = output.NEGATIVE
UNDECIDED = output.UNDECIDED
"""Exit codes of results that are not errors."""

SEARCH_SECONDS = 10
"""Default time limit of a search (arbitrary: a person waits for it)."""

timeout_option = click.option(
    "--timeout",
    type=Seconds(),
    default=f"{SEARCH_SECONDS}s",
    show_default=True,
    metavar="DURATION",
    help="Time limit of the search for a plan.",
)
"""The option --timeout, which does not include the time for reading releases."""


def search_effort(seconds: float) -> Budget:
    """Return the limit of a search that starts now."""
    from clusterstacks.plan.planner.budget import Budget

    end = time.monotonic() + seconds
    return Budget(is_over=lambda: time.monotonic() > end)


def search_plan(world: World, start: ClusterState, goal: Target, timeout: float) -> Plan | NoPlan | None:
    """Search for a plan; if the search stops undecided (``timeout`` in seconds), print an error and return None.

    Raises:
        PlanImpossible: Statements of the releases are missing.
    """
    from clusterstacks.plan.planner.planner import Undecided, find_plan

    answer = find_plan(world, start, goal, search_effort(timeout))
    if isinstance(answer, Undecided):
        output.show_error(SpecError("Undecided", f"{_how_far(answer)}: increase --timeout, or choose a nearer target"))
        return None
    return answer


def _how_far(answer: Undecided) -> str:
    message = f"the search for a plan stopped without a result after {answer.looks} combinations"
    if answer.nearest is None:
        return f"{message}, before the first step"
    return f"{message}; it reached Kubernetes {answer.nearest}, and every plan costs at least {answer.bound}"


def search_live_plan(
    context: UpgradeContext, goal: Target, timeout: float = SEARCH_SECONDS
) -> tuple[Plan | NoPlan, dict[str, Any]] | None:
    """Search for a plan of a live cluster; if the search stops undecided, print an error and return None.

    Return the plan or the refusal, and its document. Its warnings name objects that could not be read, and releases
    that must be offered before the plan.

    Raises:
        SpecError: The target release is unknown, or belongs to another stack.
    """
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.plan.planner.plan_document import plan_document
    from clusterstacks.plan.planner.planner import Plan

    if isinstance(goal, ReleaseName):
        context.candidate(goal)
    answer = search_plan(context.world, context.state, goal, timeout)
    if answer is None:
        return None
    document = plan_document(context.world, context.state, goal, answer)
    preparations = context.preparations(answer.steps) if isinstance(answer, Plan) else []
    document["warnings"] = [*context.notices, *preparations, *document["warnings"]]
    return answer, document


def print_targets(world: World, state: ClusterState, form: str, notices: Sequence[str], timeout: float) -> None:
    """Print the releases that a cluster can move to, with the number of steps; ``timeout`` limits the whole search."""
    from clusterstacks.plan.planner.planner import Plan, find_plan

    rows, budget = [], search_effort(timeout)
    for candidate in sorted(world.candidates, key=lambda known: (known.kubernetes, known.name.version)):
        try:
            answer = find_plan(world, state, candidate.name, budget)
        except SpecError:  # of another stack, or its statements are missing
            continue
        if isinstance(answer, Plan) and answer.steps:
            rows.append((candidate.name.release, answer.end.kubernetes.text, len(answer.steps)))
    output.warn_all(notices)
    if form != TEXT:
        names = ("release", "kubernetes", "steps")
        output.print_document([dict(zip(names, row, strict=True)) for row in rows], form)
    elif rows:
        output.print_table(("RELEASE", "KUBERNETES", "STEPS"), [(*names, str(steps)) for *names, steps in rows])
    else:
        output.note("No release is known to which the cluster can be upgraded.")


def running_upgrade(context: UpgradeContext, management: ManagementCluster) -> dict[str, Any] | None:
    """Return the document of the upgrade that a live Cluster waits for now; None where no upgrade is running."""
    from clusterstacks.operator.controllers.clusteraddon.snapshot import upgrade_state
    from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import release_arguments
    from clusterstacks.operator.controllers.clusteraddon.upgrade_wait import WaitsFor, find_wait

    cluster = context.cluster
    view, control_plane = cluster.view, cluster.control_plane
    wait = find_wait(view, cluster.addon, control_plane, upgrade_state(view, control_plane))
    if wait is None:
        return None
    stage, is_hold = wait.stage, wait.waits_for is WaitsFor.HOLD
    return {
        "cluster": str(view.key),
        "class": wait.target.class_name,
        "kubernetes": wait.target.version,
        "waitsFor": wait.waits_for.value,
        "stage": {"hook": stage.hook or None, "addon": stage.name, "action": stage.action, "phase": stage.phase.value}
        if stage is not None
        else None,
        "since": wait.since or None,
        "message": wait.message,
        "release": management.kubectl(*release_arguments(view.key)) if is_hold else None,
    }


def print_upgrade(upgrade: dict[str, Any] | None) -> None:
    """Print in one line what a running upgrade waits for."""
    if upgrade is None:
        return
    cluster, version, message = upgrade["cluster"], upgrade["kubernetes"], upgrade["message"]
    if upgrade["release"] is None:
        output.say_judged(
            ResultMark.WAITING,
            f"Upgrading Cluster {cluster} to class {upgrade['class']}, Kubernetes {version}: {message}",
        )
        return
    since = f" since {upgrade['since']}" if upgrade["since"] else ""
    output.say_judged(
        ResultMark.WAITING,
        f"Held: Cluster API waits{since} with the upgrade of Cluster {cluster} to {version}, until the stages of "
        f"BeforeClusterUpgrade are complete: {message}; to release it by hand, run '{upgrade['release']}'",
    )


def patch_command(management: ManagementCluster, cluster: ObjectKey, patch: Manifest) -> str:
    """Return the kubectl command that patches a Cluster."""
    written = json.dumps(patch, separators=(",", ":"))
    place = ("cluster", "-n", cluster.namespace, cluster.name)
    return management.kubectl("patch", *place, "--type", "merge", "--patch", written)


def step_commands(
    step: dict[str, Any], cluster: str, kubectl: Callable[..., str], namespace: Sequence[str] = ()
) -> list[str]:
    """Return the kubectl commands of a step in the document of a plan: its patch, and the waits before the next step.

    ``kubectl`` makes a command from arguments, ``namespace`` is the option with that of the Cluster.
    """
    from clusterstacks.model.kinds.clusteraddon import addon_name

    commands = []
    if step["patch"] is not None:
        written = json.dumps(step["patch"], separators=(",", ":"))
        commands.append(kubectl("patch", "cluster", *namespace, cluster, "--type", "merge", "--patch", written))
    for wait in step["waits"]:
        kind = wait["kind"].lower()
        name = cluster if kind == "cluster" else addon_name(cluster)
        commands.append(kubectl("wait", kind, *namespace, name, f"--for={wait['for']}", f"--timeout={wait['timeout']}"))
    return commands


def live_commands(management: ManagementCluster, cluster: ObjectKey) -> Callable[[dict[str, Any]], list[str]]:
    """Return a function that returns the commands of a step for a live Cluster."""
    return lambda step: step_commands(step, cluster.name, management.kubectl, ("-n", cluster.namespace))


def print_steps(
    steps: list[dict[str, Any]],
    commands: Callable[[dict[str, Any]], list[str]] = lambda _: [],
) -> None:
    """Print steps, each with its reason and commands."""
    for number, step in enumerate(steps, start=1):
        output.say(f"{number}. {step_title(step)}", bold=True, wraps=True)
        output.say(f"     {step['reason']}", wraps=True)
        for command in commands(step):
            output.say(f"     {command}")


def print_refusal(refused: dict[str, Any]) -> None:
    """Print why there is no plan."""
    output.say_judged(ResultMark.BAD, f"There is no plan: {refused['message']}")
    for fact in refused["facts"]:
        print_fact(fact)
    if not refused["minimal"]:
        message = "The search for the smallest set of facts reached --timeout: some of these facts may not matter."
        output.say(message, wraps=True)


def print_fact(fact: dict[str, Any]) -> None:
    """Print a fact that blocks an upgrade: its text, its source, and the id that a CompatibilityRule can allow."""
    source = f" ({fact['source']})" if fact.get("source") else ""
    output.say_judged(ResultMark.BAD, f"{fact['text']}{source} [{fact['id']}]", indent=2)


def print_summary(steps: Sequence[dict[str, Any]], impact: str = "") -> None:
    """Print how many steps a plan has, how many of them replace nodes, and the impact of all."""
    rolls = sum(step["kind"] != "addon" for step in steps)
    told = (
        "it replaces nodes"
        if len(steps) == rolls == 1
        else f"{rolls or 'none'} of them replace{'' if rolls > 1 else 's'} nodes"
    )
    output.say(f"{counted(len(steps), 'step')}; {told}{impact and f'; {impact}'}.")
