"""``csctl plan``: the order of single changes that takes a cluster where its owner wants it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli import output
from clusterstacks.cli.dev import DIRECTORY, FILE
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.planning.world import State

NO_WAY = 3
UNDECIDED = 4


@click.command(short_help="Plan an upgrade step by step.")
@click.option("--from", "state", type=FILE, required=True, help="The cluster as it is: kubernetes, class, addons, ...")
@click.option("--releases", type=DIRECTORY, required=True, help="Directory with the directories of the releases.")
@click.option("--to", "target", metavar="RELEASE|VERSION", required=True, help="Where to go.")
@click.option("--output", "-o", "form", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def plan(state: Path, releases: Path, target: str, form: str) -> int:
    """Plan an upgrade: single changes, each allowed by what the releases state about versions.

    A release as target means its class and exactly its addons; a version means that Kubernetes version, with class and
    addons moved only where needed. Of each release only metadata.yaml and compatibility.yaml are read.

    Exits with 0 when there is a plan, 3 when there is none, and 4 when the search gave up undecided.
    """
    from clusterstacks.cli.upstream import facts_in_force
    from clusterstacks.domain.planning.document import plan_document
    from clusterstacks.domain.planning.planner import Plan, Undecided, find_plan
    from clusterstacks.domain.planning.statefile import parse_target
    from clusterstacks.domain.planning.world import World
    from clusterstacks.releases.statements import read_candidates

    start, goal = _read_state(state), parse_target(target)
    world = World(read_candidates(releases), upstream=facts_in_force())
    answer = find_plan(world, start, goal)
    if isinstance(answer, Undecided):
        message = f"the search for a plan looked at {answer.budget} combinations and gave up undecided"
        output.show_error(SpecError("Undecided", f"{message}: name a nearer target"))
        return UNDECIDED
    _print(plan_document(world, start, goal, answer), form)
    return 0 if isinstance(answer, Plan) else NO_WAY


def _read_state(path: Path) -> State:
    from clusterstacks.api import yaml
    from clusterstacks.domain.planning.statefile import parse_state

    return parse_state(yaml.load(path.read_bytes(), name=path.name), file=path.name)


def _print(document: dict[str, Any], form: str) -> None:
    if form == "json":
        output.print_json(document)
    elif form == "yaml":
        from clusterstacks.api import yaml

        click.echo(yaml.dump(document), nl=False)
    else:
        _print_text(document)


def _print_text(document: dict[str, Any]) -> None:
    for warning in document["warnings"]:
        click.echo(f"{click.style('Warning:', fg='yellow')} {output.printable(warning)}", err=True)
    if document["refused"] is not None:
        output.say(f"There is no way: {document['refused']['message']}")
        for fact in document["refused"]["facts"]:
            source = f" ({fact['source']})" if fact["source"] else ""
            output.say(f"  {fact['id']}: {fact['text']}{source}")
        return
    if not document["steps"]:
        output.say("Nothing is to be done: the cluster is there.")
        return
    for number, step in enumerate(document["steps"], start=1):
        output.say(f"{number}. {_told(step)}")
        output.say(f"     {step['reason']}")
        if step["patch"] is not None:
            patch = shlex.quote(json.dumps(step["patch"], separators=(",", ":")))
            output.say(f"     kubectl patch cluster NAME --type merge --patch {patch}")
    output.say(f"Cost {document['cost']}: 10 for each step that rolls nodes, 1 for each addon.")


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
