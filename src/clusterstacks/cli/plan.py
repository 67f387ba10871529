"""``csctl plan``: the order of single changes that takes a cluster where its owner wants it."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli import output
from clusterstacks.cli.dev import FILE
from clusterstacks.cli.management import ClusterName, Management, management_options, outlook_of
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.domain.planning.compiling import Target
    from clusterstacks.domain.planning.planner import NoWay, Plan
    from clusterstacks.domain.planning.world import State, World
    from clusterstacks.fleet.world import Outlook

    Command = Callable[[Manifest], str]

NO_WAY = 3
UNDECIDED = 4


@click.command(short_help="Plan an upgrade step by step.")
@click.argument("cluster", metavar="[NAMESPACE/CLUSTER]", required=False, type=ClusterName())
@click.option("--from", "state", type=FILE, help="A file instead of a live Cluster: kubernetes, class, addons, ...")
@click.option("--to", "target", metavar="RELEASE|VERSION", required=True, help="Where to go.")
@management_options
@click.option("--output", "-o", "form", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def plan(  # noqa: PLR0913 - one parameter for each option
    *,
    cluster: ObjectKey | None,
    state: Path | None,
    target: str,
    kubeconfig: Path | None,
    context: str,
    releases: Path | None,
    form: str,
) -> int:
    """Plan an upgrade: single changes, each allowed by what the releases state about versions.

    NAMESPACE/CLUSTER is a Cluster of the management cluster, which is asked as kubectl asks it. Every release counts
    that the sources of its ClusterStacks list; their Secrets are read by your own rights. With --from nothing is asked,
    and --releases says which releases there are. Of each release only metadata.yaml and compatibility.yaml are read.

    A release as target means its class and exactly its addons; a version means that Kubernetes version, with class and
    addons moved only where needed.

    Exits with 0 when there is a plan, 3 when there is none, and 4 when the search gave up undecided.
    """
    from clusterstacks.domain.planning.statefile import parse_target

    management, goal = Management(kubeconfig, context), parse_target(target)
    if (cluster is None) == (state is None):
        raise click.UsageError("name either NAMESPACE/CLUSTER or a file with --from")
    if cluster is not None:
        return _live(asyncio.run(_read_live(management, cluster, releases)), management, goal, form)
    if releases is None or kubeconfig or context:
        raise click.UsageError("--from goes with --releases, and asks no cluster")
    assert state is not None  # noqa: S101 - looked at above
    return _offline(state, releases, goal, form)


async def _read_live(management: Management, cluster: ObjectKey, releases: Path | None) -> Outlook:
    async with management.connected() as client:
        return await outlook_of(client, cluster, releases)


def _live(outlook: Outlook, management: Management, goal: Target, form: str) -> int:
    from clusterstacks.domain.planning.compiling import PlanImpossible
    from clusterstacks.domain.planning.planner import Plan

    view = outlook.cluster.view
    try:
        answer = answered(outlook.world, outlook.state, goal)
    except PlanImpossible as error:
        raise SpecError(error.code, "\n".join([error.message, *outlook.notices])) from None
    if answer is None:
        return UNDECIDED
    document = document_of(outlook, goal, answer)
    _print(document, form, lambda patch: patch_command(management, view.key, patch))
    return 0 if isinstance(answer, Plan) else NO_WAY


def document_of(outlook: Outlook, goal: Target, answer: Plan | NoWay) -> dict[str, Any]:
    """Write the answer about a live cluster, with what could not be read and what has to be offered first."""
    from clusterstacks.domain.planning.document import plan_document
    from clusterstacks.domain.planning.planner import Plan

    document = plan_document(outlook.world, outlook.state, goal, answer)
    preparations = outlook.preparations(answer.steps) if isinstance(answer, Plan) else []
    document["warnings"] = [*outlook.notices, *preparations, *document["warnings"]]
    return document


def _offline(state: Path, releases: Path, goal: Target, form: str) -> int:
    from clusterstacks.cli.upstream import facts_in_force
    from clusterstacks.domain.planning.document import plan_document
    from clusterstacks.domain.planning.planner import Plan
    from clusterstacks.domain.planning.world import World
    from clusterstacks.releases.statements import read_candidates

    start = _read_state(state)
    world = World(read_candidates(releases), upstream=facts_in_force())
    answer = answered(world, start, goal)
    if answer is None:
        return UNDECIDED
    _print(plan_document(world, start, goal, answer), form, _offline_command)
    return 0 if isinstance(answer, Plan) else NO_WAY


def answered(world: World, start: State, goal: Target) -> Plan | NoWay | None:
    """Ask the planner; None, which is told, when it gave up.

    Raises:
        PlanImpossible: The releases are not known well enough.
    """
    from clusterstacks.domain.planning.planner import Undecided, find_plan

    answer = find_plan(world, start, goal)
    if isinstance(answer, Undecided):
        message = f"the search for a plan looked at {answer.budget} combinations and gave up undecided"
        output.show_error(SpecError("Undecided", f"{message}: name a nearer target"))
        return None
    return answer


def patch_command(management: Management, cluster: ObjectKey, patch: Manifest) -> str:
    """Write the command of a step."""
    written = json.dumps(patch, separators=(",", ":"))
    place = ("cluster", "-n", cluster.namespace, cluster.name)
    return management.kubectl("patch", *place, "--type", "merge", "--patch", written)


def _offline_command(patch: Manifest) -> str:
    return f"kubectl patch cluster NAME --type merge --patch {shlex.quote(json.dumps(patch, separators=(',', ':')))}"


def _read_state(path: Path) -> State:
    from clusterstacks.api import yaml
    from clusterstacks.domain.planning.statefile import parse_state

    return parse_state(yaml.load(path.read_bytes(), name=path.name), file=path.name)


def _print(document: dict[str, Any], form: str, command: Command) -> None:
    if form == "json":
        output.print_json(document)
    elif form == "yaml":
        from clusterstacks.api import yaml

        click.echo(yaml.dump(document), nl=False)
    else:
        _print_text(document, command)


def _print_text(document: dict[str, Any], command: Command) -> None:
    print_warnings(document["warnings"])
    if document["refused"] is not None:
        print_refusal(document["refused"])
        return
    if not document["steps"]:
        output.say("Nothing is to be done: the cluster is there.")
        return
    for number, step in enumerate(document["steps"], start=1):
        output.say(f"{number}. {told(step)}")
        output.say(f"     {step['reason']}")
        if step["patch"] is not None:
            output.say(f"     {command(step['patch'])}")
    output.say(f"Cost {document['cost']}: 10 for each step that rolls nodes, 1 for each addon.")


def print_warnings(warnings: list[str]) -> None:
    """Print what somebody should know beside an answer."""
    for warning in warnings:
        click.echo(f"{click.style('Warning:', fg='yellow')} {output.printable(warning)}", err=True)


def print_refusal(refused: dict[str, Any]) -> None:
    """Print why there is no way."""
    output.say(f"There is no way: {refused['message']}")
    for fact in refused["facts"]:
        source = f" ({fact['source']})" if fact["source"] else ""
        output.say(f"  {fact['id']}: {fact['text']}{source}")


def told(step: dict[str, Any]) -> str:
    """Say what a step does."""
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
