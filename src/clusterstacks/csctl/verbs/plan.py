"""``csctl plan``: plan an upgrade as a sequence of single changes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    complete_releases,
    management_options,
    read_live,
)
from clusterstacks.csctl.shared.options import FILE, TEXT, form_option
from clusterstacks.csctl.shared.plan_output import (
    NO_PLAN,
    UNDECIDED,
    live_commands,
    print_refusal,
    print_steps,
    print_summary,
    print_targets,
    print_upgrade,
    running_upgrade,
    search_live_plan,
    search_plan,
    step_commands,
    timeout_option,
)
from clusterstacks.csctl.shared.terminal import ResultMark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.plan.compat.world import ClusterState
    from clusterstacks.plan.planner.model_builder import Goal


@click.command(short_help="Plan an upgrade step by step.")
@click.argument("cluster", metavar="[CLUSTER]", required=False, type=ClusterName())
@click.option(
    "--from",
    "state",
    type=FILE,
    help="File with the versions of a cluster (kubernetes, class, addons, ...) instead of a live Cluster.",
)
@click.option(
    "--to",
    "target",
    metavar="RELEASE|VERSION",
    help="Target release, or Kubernetes version or minor.  [default: print where the Cluster can go]",
    shell_complete=complete_releases,
)
@management_options
@form_option()
@timeout_option
def plan(  # noqa: PLR0913 - one for each option
    *,
    cluster: ObjectKey | None,
    state: Path | None,
    target: str | None,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
    timeout: float,
) -> int:
    """Plan an upgrade as single changes that the compatibility statements of the releases allow.

    CLUSTER is a Cluster of the management cluster. The statements are read from the status of its
    ClusterStackReleases. Only if these lead to no plan, further releases are read from the sources of the
    ClusterStacks, with your rights on their Secrets. With --from, no cluster is read, and --releases contains all
    releases; only their metadata.yaml and compatibility.yaml are used.

    If an upgrade of the Cluster is running, the first line says what it waits for, and who holds it.

    Each step is printed with the kubectl commands that patch the Cluster and wait until the next step is possible.

    A release as target means its class and exactly its addons. A version as target means this Kubernetes version; the
    class and the addons change only if necessary. A minor, such as 1.36, means its newest version that a release has.

    Exits with 0 if there is a plan, 3 if there is none, and 4 if the search stopped without a result.
    """
    from clusterstacks.model.names import parse_goal

    goal = parse_goal(target) if target is not None else None
    if cluster is not None and state is None:
        context = output.run_counted(read_live(management, cluster, releases, goal))
        if goal is None:
            print_targets(context.world, context.state, form, context.notices, timeout)
            return 0
        upgrade = running_upgrade(context, management)
        if form == TEXT:
            print_upgrade(upgrade)
        searched = search_live_plan(context, context.world.target(goal), timeout)
        if searched is None:
            return UNDECIDED
        return _print({"upgrade": upgrade, **searched[1]}, form, live_commands(management, cluster))
    if cluster is not None or state is None:
        raise click.UsageError("expected either CLUSTER or --from FILE")
    if releases is None or management != ManagementCluster():
        raise click.UsageError(
            "--from requires --releases, and reads no Cluster: remove --kubeconfig, --context and --namespace"
        )
    return _offline(state, releases, goal, timeout, form)


def _offline(file: Path, releases: Path, goal: Goal | None, timeout: float, form: str) -> int:
    from clusterstacks.csctl.shared.cluster_options import upstream_facts
    from clusterstacks.plan.compat.release_statements import read_candidates
    from clusterstacks.plan.compat.world import World
    from clusterstacks.plan.planner.plan_document import plan_document

    state = _read_state(file)
    world = World(read_candidates(releases), upstream=upstream_facts())
    if goal is None:
        print_targets(world, state, form, (), timeout)
        return 0
    to = world.target(goal)
    answer = search_plan(world, state, to, timeout)
    if answer is None:
        return UNDECIDED
    return _print(plan_document(world, state, to, answer), form, _offline_commands)


def _offline_commands(step: dict[str, Any]) -> list[str]:
    return step_commands(step, "NAME", lambda *arguments: shlex.join(["kubectl", *arguments]))


def _read_state(path: Path) -> ClusterState:
    from clusterstacks.model import yaml
    from clusterstacks.plan.planner.state_file import parse_state

    return parse_state(yaml.load(path.read_bytes(), name=path.name), file=path.name)


def _print(document: dict[str, Any], form: str, commands: Callable[[dict[str, Any]], list[str]]) -> int:
    refused = document["refused"]
    if form != TEXT:
        output.print_document(document, form)
        return NO_PLAN if refused is not None else 0
    output.warn_all(document["warnings"])
    if refused is not None:
        print_refusal(refused)
        return NO_PLAN
    if not document["steps"]:
        output.say_judged(ResultMark.GOOD, "Nothing to do: the cluster already has the target versions.")
        return 0
    print_steps(document["steps"], commands)
    print_summary(document["steps"])
    return 0
