"""``csctl why``: explain why an upgrade of a Cluster is refused, and print the first steps of a plan."""

from __future__ import annotations

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
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.plan_output import (
    NO_PLAN,
    UNDECIDED,
    live_commands,
    patch_command,
    print_fact,
    print_refusal,
    print_steps,
    print_upgrade,
    running_upgrade,
    search_live_plan,
    timeout_option,
)
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.csctl.shared.upgrade_decision import decide, decision_document

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.operator.webhooks.cluster_rules import Decision
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.planner.model_builder import Goal, Target

SHOWN_STEPS = 3
"""Number of steps to print; ``csctl plan`` prints all."""


@click.command(short_help="Explain why an upgrade is refused, and what to do first.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@click.argument("target", metavar="RELEASE|VERSION", shell_complete=complete_releases)
@management_options
@form_option()
@timeout_option
def why(
    cluster: ObjectKey, target: str, management: ManagementCluster, releases: Path | None, form: str, timeout: float
) -> int:
    """Check if one write may change a Cluster to a release or a Kubernetes version now.

    If not, csctl prints the facts that block it, their sources, and the first steps of a plan. The decision is the one
    of the operator's webhooks. Nothing is written. Releases are found as with 'csctl plan'.

    If an upgrade of the Cluster is running, the first line says what it waits for. If the operator holds it, the line
    also says since when, and which command releases it.

    Exits with 0 if the change is allowed or there is a plan, 3 if there is no plan, and 4 if the search stopped without
    a result.
    """
    from clusterstacks.model.names import parse_goal

    goal, context, patch, decision = output.run_counted(_read(management, cluster, releases, parse_goal(target)))
    upgrade = running_upgrade(context, management)
    if form == TEXT:
        print_upgrade(upgrade)
    plan: dict[str, Any] = {"steps": [], "refused": None, "warnings": context.hints(goal)}
    if not decision.answer.allowed:
        searched = search_live_plan(context, goal, timeout)
        if searched is None:
            return UNDECIDED
        plan = searched[1]
    document = {"upgrade": upgrade, **decision_document(decision, patch, plan)}
    if form != TEXT:
        output.print_document(document, form)
    else:
        _print_text(document, management, cluster, goal)
    return NO_PLAN if document["noWay"] is not None else 0


async def _read(
    management: ManagementCluster, cluster: ObjectKey, releases: Path | None, goal: Goal
) -> tuple[Target, UpgradeContext, Manifest, Decision]:
    context = await read_live(management, cluster, releases, goal)
    target = context.world.target(goal)
    return target, context, *await decide(context, target)


def _print_text(document: dict[str, Any], management: ManagementCluster, cluster: ObjectKey, goal: Target) -> None:
    output.warn_all(document["warnings"])
    if document["allowed"]:
        if not document["patch"]:
            verb = "asks for" if document["upgrade"] is not None else "has"
            output.say_judged(ResultMark.GOOD, f"Nothing to do: Cluster {cluster} already {verb} {goal}.")
            return
        output.say_judged(ResultMark.GOOD, f"Allowed: Cluster {cluster} can change to {goal} now:")
        output.say(f"  {patch_command(management, cluster, document['patch'])}")
        return
    output.say_judged(ResultMark.BAD, f"Refused: Cluster {cluster} cannot change to {goal} now:")
    for fact in document["facts"]:
        print_fact(fact)
    if not document["facts"]:
        output.say(f"  {document['refusal']}", wraps=True)
    if document["noWay"] is not None:
        print_refusal(document["noWay"])
        return
    steps = document["steps"]
    output.say("Do this first:")
    print_steps(steps[:SHOWN_STEPS], live_commands(management, cluster))
    if len(steps) > SHOWN_STEPS:
        output.say(f"'{output.program()} plan {cluster} --to {goal}' shows all {len(steps)} steps.")
