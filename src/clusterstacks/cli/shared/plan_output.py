"""How plans and refusals are told, by ``csctl plan`` and ``csctl why``."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.cli.shared.cluster_options import ManagementCluster
    from clusterstacks.clusters.context import Outlook
    from clusterstacks.compat.world import ClusterState, World
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.planner.budget import Budget
    from clusterstacks.planner.model_builder import Target
    from clusterstacks.planner.planner import NoPlan, Plan, Undecided

NO_WAY = output.NEGATIVE
UNDECIDED = output.UNDECIDED
"""Exit codes of answers that are not errors."""


SEARCH_SECONDS = 10
"""How long the planner searches unless asked otherwise. Arbitrary: a person waits."""

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=SEARCH_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to search for a plan.",
)
"""How long the planner may search; reading releases is not counted."""


def search_effort(seconds: float) -> Budget:
    """Return what a search may spend from now on."""
    from clusterstacks.planner.budget import Budget

    end = time.monotonic() + seconds
    return Budget(is_over=lambda: time.monotonic() > end)


def search_plan(world: World, start: ClusterState, goal: Target, timeout: float) -> Plan | NoPlan | None:
    """Ask the planner; print why and return None when it stopped undecided.

    Args:
        world: What there is.
        start: Where the cluster is.
        goal: Where to go.
        timeout: Seconds it may take.

    Raises:
        PlanImpossible: The releases are not known well enough.
    """
    from clusterstacks.planner.planner import Undecided, find_plan

    answer = find_plan(world, start, goal, search_effort(timeout))
    if isinstance(answer, Undecided):
        output.show_error(SpecError("Undecided", f"{_how_far(answer)}: give it more --timeout or name a nearer target"))
        return None
    return answer


def _how_far(answer: Undecided) -> str:
    message = f"the search for a plan stopped undecided after {answer.looks} combinations"
    if answer.nearest is None:
        return f"{message}, before the first step"
    return f"{message}; it got as far as Kubernetes {answer.nearest}, and no plan costs less than {answer.bound}"


def search_live_plan(
    outlook: Outlook, goal: Target, timeout: float = SEARCH_SECONDS
) -> tuple[Plan | NoPlan, dict[str, Any]] | None:
    """Ask the planner about a live cluster; print why and return None when it stopped undecided.

    Args:
        outlook: The cluster and what it could become.
        goal: Where to go.
        timeout: Seconds the planner may take.

    Returns:
        The answer, and its document with what could not be read and what has to be offered first.

    Raises:
        SpecError: The release that is the goal is not known, or of another stack.
    """
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.planner.plan_document import plan_document
    from clusterstacks.planner.planner import Plan

    if isinstance(goal, ReleaseName):
        outlook.candidate(goal)
    answer = search_plan(outlook.world, outlook.state, goal, timeout)
    if answer is None:
        return None
    document = plan_document(outlook.world, outlook.state, goal, answer)
    preparations = outlook.preparations(answer.steps) if isinstance(answer, Plan) else []
    document["warnings"] = [*outlook.notices, *preparations, *document["warnings"]]
    return answer, document


def patch_command(management: ManagementCluster, cluster: ObjectKey, patch: Manifest) -> str:
    """Write the command of a step."""
    written = json.dumps(patch, separators=(",", ":"))
    place = ("cluster", "-n", cluster.namespace, cluster.name)
    return management.kubectl("patch", *place, "--type", "merge", "--patch", written)


def step_commands(
    step: dict[str, Any], cluster: str, kubectl: Callable[..., str], namespace: Sequence[str] = ()
) -> list[str]:
    """Write the commands of a step: its patch, and what to wait for before the next one.

    Args:
        step: Of the document of a plan.
        cluster: Name of the Cluster.
        kubectl: Makes a command of arguments.
        namespace: The option that names its namespace.
    """
    from clusterstacks.api.clusteraddon import addon_name

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
    """Return what writes the commands of a step for a live Cluster."""
    return lambda step: step_commands(step, cluster.name, management.kubectl, ("-n", cluster.namespace))


def print_document(document: dict[str, Any], form: str) -> None:
    """Print a document as JSON or YAML."""
    if form == "json":
        output.print_json(document)
    else:
        from clusterstacks.api import yaml

        click.echo(yaml.dump(document), nl=False)


def print_warnings(warnings: list[str]) -> None:
    """Print what somebody should know beside an answer."""
    for warning in warnings:
        output.warn(warning)


def print_steps(steps: list[dict[str, Any]], commands: Callable[[dict[str, Any]], list[str]]) -> None:
    """Print steps, each with its reason and commands."""
    for number, step in enumerate(steps, start=1):
        output.say(f"{number}. {_told(step)}")
        output.say(f"     {step['reason']}")
        for command in commands(step):
            output.say(f"     {command}")


def print_refusal(refused: dict[str, Any]) -> None:
    """Print why there is no way."""
    output.say(f"There is no way: {refused['message']}")
    for fact in refused["facts"]:
        source = f" ({fact['source']})" if fact["source"] else ""
        output.say(f"  {fact['id']}: {fact['text']}{source}")
    if not refused["minimal"]:
        output.say("The search for fewer facts reached its --timeout: some of these may not be needed.")


def _told(step: dict[str, Any]) -> str:
    if step["kind"] == "workers":
        return f"wait until the workers have moved from {step['from']} to {step['to']}"
    if step["kind"] != "addon":
        beside = f", with Kubernetes {step['kubernetes']}" if step["kind"] != "kubernetes" else ""
        return f"move {step['kind']} from {step['from']} to {step['to']}{beside}"
    if step["to"] is None:
        return f"remove addon {step['name']} {step['from']}"
    if step["from"] is None:
        return f"install addon {step['name']} {step['to']} of {step['release']}"
    return f"move addon {step['name']} from {step['from']} to {step['to']} of {step['release']}"
