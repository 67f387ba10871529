"""``csctl upgrade``: carry out the plan of an upgrade step by step."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    complete_releases,
    management_options,
    read_live,
)
from clusterstacks.csctl.shared.live_view import LiveView
from clusterstacks.csctl.shared.management_objects import follow
from clusterstacks.csctl.shared.plan_output import (
    NO_PLAN,
    UNDECIDED,
    print_fact,
    print_refusal,
    print_steps,
    print_summary,
    print_upgrade,
    running_upgrade,
    search_effort,
    search_live_plan,
    timeout_option,
)
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.csctl.shared.upgrade_walk import UpgradeWalk
from clusterstacks.csctl.verbs.status import cluster_queries, cluster_tree
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.verbs.status import QueryResults
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Action
    from clusterstacks.plan.clusters.context import UpgradeContext


@click.command(short_help="Upgrade a Cluster step by step.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@click.option(
    "--to",
    "target",
    metavar="RELEASE|VERSION",
    help="Target release or Kubernetes version.  [default: print where the Cluster can go]",
    shell_complete=complete_releases,
)
@click.option("--dry-run", is_flag=True, help="Print the plan; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Begin without a question.")
@management_options
@timeout_option
def upgrade(  # noqa: PLR0913 - one for each option
    *,
    cluster: ObjectKey,
    target: str | None,
    dry_run: bool,
    yes: bool,
    management: ManagementCluster,
    releases: Path | None,
    timeout: float,
) -> int:
    """Upgrade a Cluster to a release or a Kubernetes version, along the plan of 'csctl plan'.

    csctl prints the plan and asks. Then it patches the Cluster once for each step, and waits until the Cluster has
    settled: until Cluster API has upgraded its nodes, and the operator has delivered its addons. Before each step the
    plan is made anew from the present state of the Cluster, so a change by somebody else leads to another plan, and no
    step is taken twice. You can stop csctl at any time: a step that has begun goes on, and the same command continues.

    A step begins only while the addons are ready and the Cluster is not paused. Each patch passes the admission rules
    of the management cluster.

    Exits with 0 if the Cluster has the target, 3 if the upgrade is blocked or there is no plan, and 4 if the search
    for a plan stopped without a result.
    """
    from clusterstacks.plan.planner.state_file import parse_target

    if target is None:
        _print_targets(asyncio.run(read_live(management, cluster, releases)), timeout)
        return 0
    goal = parse_target(target)
    context = asyncio.run(read_live(management, cluster, releases, goal))
    print_upgrade(running_upgrade(context, management))
    searched = search_live_plan(context, goal, timeout)
    if searched is None:
        return UNDECIDED
    document = searched[1]
    output.warn_all(document["warnings"])
    if document["refused"] is not None:
        print_refusal(document["refused"])
        return NO_PLAN
    if document["steps"]:
        print_steps(document["steps"], lambda _: [])
        print_summary(document["steps"])
    if dry_run:
        return 0
    if document["steps"] and not yes:
        _ask(cluster)
    return _print_end(cluster, asyncio.run(_upgrade(management, UpgradeWalk(cluster, goal, releases, timeout))))


def _ask(cluster: ObjectKey) -> None:
    if not sys.stdin.isatty():
        raise SpecError(
            "NotConfirmed", f"the upgrade of Cluster {cluster} is not begun: add --yes, as nobody can be asked"
        )
    click.confirm(f"Begin the upgrade of Cluster {cluster}?", abort=True)


def _print_targets(context: UpgradeContext, timeout: float) -> None:
    """Print the releases that the Cluster can move to, with the number of steps."""
    from clusterstacks.plan.planner.planner import Plan, find_plan

    rows, budget = [], search_effort(timeout)
    for candidate in sorted(context.world.candidates, key=lambda known: (known.kubernetes, known.name.version)):
        try:
            answer = find_plan(context.world, context.state, candidate.name, budget)
        except SpecError:  # of another stack, or its statements are missing
            continue
        if isinstance(answer, Plan) and answer.steps:
            rows.append((candidate.name.release, answer.end.kubernetes.text, str(len(answer.steps))))
    output.warn_all(context.notices)
    if rows:
        output.print_table(("RELEASE", "KUBERNETES", "STEPS"), rows)
    else:
        output.note("No release is known to which the Cluster can be upgraded.")


async def _upgrade(management: ManagementCluster, walk: UpgradeWalk) -> Action:
    """Take the steps, and show the Cluster meanwhile."""
    async with management.connected() as client:
        with LiveView(counts=True) as view:

            def show(objects: QueryResults) -> None:
                view.show(cluster_tree(objects))
                walk.look()

            following = asyncio.create_task(follow(client, cluster_queries(walk.cluster), show))
            try:
                return await walk.run(client, view.say)
            finally:
                following.cancel()
                # The picture is no part of the upgrade: its failures do not count.
                await asyncio.gather(following, return_exceptions=True)


def _print_end(cluster: ObjectKey, action: Action) -> int:
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Blocked

    if isinstance(action, Blocked):
        output.say_judged(ResultMark.BAD, f"The upgrade of Cluster {cluster} is blocked: {action.why}")
        for fact in action.facts:
            print_fact(fact)
        return NO_PLAN
    output.say_judged(ResultMark.GOOD, f"Cluster {cluster} has the target versions, and its addons are ready.")
    return 0
