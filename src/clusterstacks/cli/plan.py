"""``csctl plan``: the order of single changes that takes a cluster where its owner wants it."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    management_options,
    read_cluster_outlook,
)
from clusterstacks.cli.shared.options import FILE, form_option
from clusterstacks.cli.shared.plan_output import (
    NO_WAY,
    UNDECIDED,
    live_commands,
    print_document,
    print_refusal,
    print_steps,
    print_warnings,
    search_live_plan,
    search_plan,
    step_commands,
    timeout_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.clusters.context import Outlook
    from clusterstacks.compat.world import ClusterState
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.planner.model_builder import Target


@click.command(short_help="Plan an upgrade step by step.")
@click.argument("cluster", metavar="[NAMESPACE/CLUSTER]", required=False, type=ClusterName())
@click.option("--from", "state", type=FILE, help="A file instead of a live Cluster: kubernetes, class, addons, ...")
@click.option("--to", "target", metavar="RELEASE|VERSION", required=True, help="Where to go.")
@management_options
@form_option("text", "json", "yaml")
@timeout_option
def plan(  # noqa: PLR0913 - one for each option
    *,
    cluster: ObjectKey | None,
    state: Path | None,
    target: str,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
    timeout: float,
) -> int:
    """Plan an upgrade: single changes, each allowed by what the releases state about versions.

    NAMESPACE/CLUSTER is a Cluster of the management cluster, which is asked as kubectl asks it. What releases state is
    read from the status of their ClusterStackReleases. Only where these show no plan, the sources of the ClusterStacks
    are asked for further releases; their Secrets are read by your own rights. With --from nothing is asked, and
    --releases says which releases there are. Of those only metadata.yaml and compatibility.yaml are read.

    Each step is printed with its patch and with what to wait for before the next one, as commands of kubectl.

    A release as target means its class and exactly its addons; a version means that Kubernetes version, with class and
    addons moved only where needed.

    Exits with 0 when there is a plan, 3 when there is none, and 4 when the search stopped undecided.
    """
    from clusterstacks.planner.state_file import parse_target

    goal = parse_target(target)
    if cluster is not None and state is None:
        outlook = asyncio.run(_read_live(management, cluster, releases, goal))
        found = search_live_plan(outlook, goal, timeout)
        return UNDECIDED if found is None else _print(found[1], form, live_commands(management, cluster))
    if cluster is not None or state is None:
        raise click.UsageError("name either NAMESPACE/CLUSTER or a file with --from")
    if releases is None or management != ManagementCluster():
        raise click.UsageError("--from goes with --releases, and asks no cluster")
    document = _offline(state, releases, goal, timeout)
    return UNDECIDED if document is None else _print(document, form, _offline_commands)


async def _read_live(management: ManagementCluster, cluster: ObjectKey, releases: Path | None, goal: Target) -> Outlook:
    async with management.connected() as client:
        return await read_cluster_outlook(client, cluster, releases, goal)


def _offline(file: Path, releases: Path, goal: Target, timeout: float) -> dict[str, Any] | None:
    from clusterstacks.cli.shared.cluster_options import upstream_facts
    from clusterstacks.compat.world import World
    from clusterstacks.planner.plan_document import plan_document
    from clusterstacks.releases.compat_statements import read_candidates

    state = _read_state(file)
    world = World(read_candidates(releases), upstream=upstream_facts())
    answer = search_plan(world, state, goal, timeout)
    return None if answer is None else plan_document(world, state, goal, answer)


def _offline_commands(step: dict[str, Any]) -> list[str]:
    return step_commands(step, "NAME", lambda *arguments: shlex.join(["kubectl", *arguments]))


def _read_state(path: Path) -> ClusterState:
    from clusterstacks.api import yaml
    from clusterstacks.planner.state_file import parse_state

    return parse_state(yaml.load(path.read_bytes(), name=path.name), file=path.name)


def _print(document: dict[str, Any], form: str, commands: Callable[[dict[str, Any]], list[str]]) -> int:
    refused = document["refused"]
    if form != "text":
        print_document(document, form)
        return NO_WAY if refused is not None else 0
    print_warnings(document["warnings"])
    if refused is not None:
        print_refusal(refused)
        return NO_WAY
    if not document["steps"]:
        output.say("Nothing is to be done: the cluster is there.")
        return 0
    print_steps(document["steps"], commands)
    output.say(f"Cost {document['cost']}: 10 for each step that rolls nodes, 1 for each addon.")
    return 0
