"""``csctl upgrade``: carry out the plan of an upgrade step by step."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    complete_releases,
    management_options,
    read_cluster_context,
    read_live,
)
from clusterstacks.csctl.shared.live_view import LiveView
from clusterstacks.csctl.shared.management_objects import follow
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.plan_output import (
    NO_PLAN,
    UNDECIDED,
    print_fact,
    print_refusal,
    print_steps,
    print_summary,
    print_targets,
    print_upgrade,
    running_upgrade,
    search_live_plan,
    timeout_option,
)
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.csctl.shared.upgrade_impact import add_impact, impact_summary, print_impact
from clusterstacks.csctl.shared.upgrade_walk import UpgradeWalk
from clusterstacks.csctl.verbs.status import cluster_queries, cluster_tree
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.verbs.status import QueryResults
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Action


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
@form_option("text", "json", "yaml")
@timeout_option
def upgrade(  # noqa: PLR0913 - one for each option
    *,
    cluster: ObjectKey,
    target: str | None,
    dry_run: bool,
    yes: bool,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
    timeout: float,
) -> int:
    """Upgrade a Cluster to a release or a Kubernetes version, along the plan of 'csctl plan'.

    csctl prints the plan with the nodes that each step replaces and the objects that it changes in the workload
    cluster, and asks. With -o it prints this as a document, and changes nothing. Then it patches the Cluster once for
    each step, and waits until the Cluster has settled: until Cluster API has upgraded its nodes, and the operator has
    delivered its addons. Before each step the plan is made anew from the present state of the Cluster, so a change by
    somebody else leads to another plan, and no step is taken twice. You can stop csctl at any time: a step that has
    begun goes on, and the same command continues.

    Objects are rendered with the values of the Cluster, and compared with those of the delivery records, and by a dry
    run of the API server. That needs access to the workload cluster and to the releases; what is not known is said.

    A step begins only while the addons are ready and the Cluster is not paused. Each patch passes the admission rules
    of the management cluster.

    Exits with 0 if the Cluster has the target, 3 if the upgrade is blocked or there is no plan, and 4 if the search
    for a plan stopped without a result.
    """
    from clusterstacks.plan.planner.state_file import parse_target

    if target is None:
        context = asyncio.run(read_live(management, cluster, releases))
        print_targets(context.world, context.state, form, context.notices, timeout)
        return 0
    goal = parse_target(target)
    document = asyncio.run(_plan(UpgradeWalk(cluster, goal, releases, timeout), management, form))
    if document is None:
        return UNDECIDED
    if form != TEXT:
        output.print_document(document, form)
    elif document["refused"] is None:
        _print_plan(document)
    else:
        print_refusal(document["refused"])
    if document["refused"] is not None:
        return NO_PLAN
    if dry_run or form != TEXT:
        return 0
    if document["steps"] and not yes:
        _ask(cluster)
    return _print_end(cluster, asyncio.run(_upgrade(management, UpgradeWalk(cluster, goal, releases, timeout))))


async def _plan(walk: UpgradeWalk, management: ManagementCluster, form: str) -> dict[str, Any] | None:
    """Return the document of a plan with its impact, and what the Cluster waits for now; None without a result."""
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Blocked, obstacle

    async with management.connected() as client:
        context = await read_cluster_context(client, walk.cluster, walk.releases, walk.target)
        upgrade = running_upgrade(context, management)
        if form == TEXT:
            print_upgrade(upgrade)
        searched = search_live_plan(context, walk.target, walk.search_seconds)
        if searched is None:
            return None
        document = searched[1]
        await add_impact(client, context, document["steps"], walk.releases)
    first = obstacle(context.cluster)
    waits = None if first is None else first.why if isinstance(first, Blocked) else first.what
    return {"cluster": str(walk.cluster), "upgrade": upgrade, "waits": waits, **document}


def _print_plan(document: dict[str, Any]) -> None:
    output.warn_all(document["warnings"])
    steps = document["steps"]
    if not steps:
        return
    if document["waits"] is not None and document["upgrade"] is None:
        output.say_judged(ResultMark.WAITING, f"No step begins yet: {document['waits']}")
    print_steps(steps, below=print_impact)
    print_summary(steps, impact_summary(steps))


def _ask(cluster: ObjectKey) -> None:
    if not sys.stdin.isatty():
        raise SpecError(
            "NotConfirmed", f"the upgrade of Cluster {cluster} is not begun: add --yes, as nobody can be asked"
        )
    click.confirm(f"Begin the upgrade of Cluster {cluster}?", abort=True)


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
