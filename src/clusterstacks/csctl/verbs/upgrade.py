"""``csctl upgrade``: upgrade Clusters along a plan, by a ClusterUpgrade or in csctl."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
from clusterstacks.csctl.shared.options import TEXT, Seconds, form_option
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
from clusterstacks.csctl.shared.upgrade_impact import impact_summary, print_refused, read_impact, rolling_nodes
from clusterstacks.csctl.shared.upgrade_run import (
    begin,
    find_running,
    follow_upgrade,
    selected_clusters,
    unfinished,
)
from clusterstacks.csctl.shared.upgrade_walk import UpgradeWalk
from clusterstacks.csctl.verbs.status import cluster_queries, cluster_tree
from clusterstacks.model.documents import duration_text, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterupgrade import LATEST, LATEST_PATCH
from clusterstacks.model.kinds.names import UpgradePhase
from clusterstacks.model.names import parse_goal
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.clusters.cluster_tree import upgrade_overview
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest
    from clusterstacks.csctl.verbs.status import QueryResults
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

SHOWN_CLUSTERS: Final = 20
"""Selected Clusters that are planned and printed (arbitrary: a screen)."""

READ_AT_ONCE: Final = 4
"""Clusters that are read at a time (arbitrary)."""


@click.command(short_help="Upgrade Clusters step by step.")
@click.argument("cluster", metavar="[CLUSTER]", required=False, type=ClusterName())
@click.option(
    "--to",
    "target",
    metavar="RELEASE|VERSION",
    help="Target release, Kubernetes version or minor, latest or latestPatch.  [default: print where it can go]",
    shell_complete=complete_releases,
)
@click.option(
    "--selector",
    "-l",
    "labels",
    default="",
    help="Labels of the Clusters, for example ring=canary, instead of the name of one.",
)
@click.option("--max", "most", type=click.IntRange(min=1), help="Clusters that are upgraded at a time.  [default: 3]")
@click.option(
    "--window", default="", help="When steps begin, for example 'Sat,Sun 02:00+4h Europe/Berlin'.  [default: always]"
)
@click.option("--dry-run", is_flag=True, help="Print the plan; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Begin without a question.")
@click.option("--here", is_flag=True, help="Take the steps in csctl, for an operator without ClusterUpgrades.")
@click.option("--wait", type=Seconds(), help="Stop following the upgrade after this time.  [default: never]")
@management_options
@form_option()
@timeout_option
def upgrade(  # noqa: PLR0913 - one for each option
    *,
    cluster: ObjectKey | None,
    target: str | None,
    labels: str,
    most: int | None,
    window: str,
    dry_run: bool,
    yes: bool,
    here: bool,
    wait: float | None,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
    timeout: float,
) -> int:
    """Upgrade a Cluster, or those with some labels, to a release or a Kubernetes version.

    csctl prints the plan of 'csctl plan', how many nodes it replaces, and how many objects it changes in the workload
    cluster, and asks. Then it creates a ClusterUpgrade, which the operator carries out, and follows it until it ends.
    Ctrl-C leaves it running; the same command follows it again. Before each step the operator plans anew from the
    present state of the Cluster, so a change by another user leads to another plan, and no step is taken twice. A step
    begins only while the addons are ready and the Cluster is not paused, and passes the admission rules.

    Objects are rendered with the values of the Cluster, and compared with those of the delivery records, and by a dry
    run of the API server. That needs access to the workload cluster and to the releases; what is not known is said.

    With a Cluster, -o prints the plan as a document. With --selector, -o prints the ClusterUpgrade, for Git or for
    'kubectl apply -f -'. Nothing is changed then.

    With --here, csctl takes the steps itself, one when the Cluster has settled after the one before. You can stop it
    at any time: a step that has begun goes on, and the same command continues.

    Exits with 0 if the Clusters have the target, 2 if the ClusterUpgrade is refused, 3 if the upgrade failed, is
    blocked or has no plan, and 4 if the search for a plan, or --wait, ended without a result.
    """
    from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest

    if (cluster is None) is not bool(labels):
        raise click.UsageError("expected either CLUSTER or --selector")
    if cluster is not None and most is not None:
        raise click.UsageError("--max needs --selector")
    if here and (cluster is None or window):
        raise click.UsageError("--here takes one Cluster, and no --window")
    if target is None:
        if cluster is None or here or window:
            raise click.UsageError("--to is missing, which names the target")
        context = asyncio.run(read_live(management, cluster, releases))
        print_targets(context.world, context.state, form, context.notices, timeout)
        return 0
    if cluster is not None and target not in (LATEST, LATEST_PATCH):
        goal = parse_goal(target)
        if isinstance(goal, KubernetesMinor):
            context = asyncio.run(read_live(management, cluster, releases, goal))
            target = str(context.world.target(goal))
    place = cluster.namespace if cluster is not None else management.connection().namespace
    name = cluster.name if cluster is not None else ""
    request = UpgradeRequest(namespace=place, to=target, cluster=name, labels=labels, most=most, window=window)
    work = _Upgrade(request, management, releases, timeout, wait, form, here)
    return asyncio.run(work.run(only_shown=dry_run or form != TEXT, yes=yes))


@dataclass(frozen=True, slots=True)
class _Upgrade:
    """An upgrade that a user asks for."""

    request: UpgradeRequest
    management: ManagementCluster
    releases: Path | None
    timeout: float
    """Seconds for each search for a plan."""
    wait: float | None
    """Seconds for which the upgrade is followed."""
    form: str
    here: bool

    @property
    def cluster(self) -> ObjectKey:
        """The Cluster, if it is named."""
        return ObjectKey(self.request.namespace, self.request.cluster)

    async def run(self, *, only_shown: bool, yes: bool) -> int:
        """Show plan and impact, ask, and carry out the upgrade; return the exit code."""
        request = self.request
        async with self.management.connected() as client:
            if not self.here and not only_shown and (running := await find_running(client, request)) is not None:
                return await self._follow(client, running)
            code = await (self._show_plan(client) if request.cluster else self._show_clusters(client))
            if code is not None or only_shown:
                return code or 0
            if not yes:
                _ask(f"Cluster {self.cluster}" if request.cluster else f"these Clusters to {request.to}")
            if self.here:
                return await self._take_steps(client)
            key = await begin(client, request)
            output.note(f"ClusterUpgrade {key} is created. Ctrl-C leaves it running.")
            return await self._follow(client, key)

    async def _show_plan(self, client: Client) -> int | None:
        """Print plan and impact for one Cluster; return the exit code if nothing is left to do, otherwise None."""
        goal = self.request.target
        if goal is None:
            output.note(f"{self.request.to} follows what the stack publishes: 'csctl plan {self.cluster}' lists it.")
            return None
        walk = UpgradeWalk(self.cluster, goal, self.releases, self.timeout)
        document = await read_plan(client, walk, self.management, self.form)
        if document is None:
            return UNDECIDED
        if self.form != TEXT:
            output.print_document(document, self.form)
        elif document["refused"] is None:
            print_plan(document)
        else:
            print_refusal(document["refused"])
        if document["refused"] is not None:
            return NO_PLAN
        if document["steps"] or self.here:  # csctl also waits until the Cluster has settled
            return None
        if self.form == TEXT:
            output.say_judged(
                ResultMark.GOOD, f"Nothing to do: Cluster {self.cluster} already has the target versions."
            )
        return 0

    async def _show_clusters(self, client: Client) -> int | None:
        """Print the object, or a line for each of the first selected Clusters; return NO_PLAN if none has a plan."""
        names = await selected_clusters(client, self.request)
        if self.form != TEXT:
            output.print_document(self.request.manifest(), self.form)
            return None

        async def row(name: str) -> tuple[str, ...]:
            key, goal = ObjectKey(self.request.namespace, name), self.request.target
            try:
                context = await read_cluster_context(client, key, self.releases, goal)
                version = context.state.kubernetes.text
                if goal is None:
                    return name, version, "", "", ""
                searched = await asyncio.to_thread(search_live_plan, context, goal, self.timeout)
            except SpecError as error:
                return name, "", "", "", error.message
            if searched is None:
                return name, version, "", "", "the search for a plan stopped without a result"
            if (refused := searched[1]["refused"]) is not None:
                return name, version, "", "", refused["message"]
            steps = searched[1]["steps"]
            return name, version, str(len(steps)), str(await rolling_nodes(client, context, steps)), ""

        rows = await gather(row, names[:SHOWN_CLUSTERS], at_once=READ_AT_ONCE)
        output.print_table(("CLUSTER", "KUBERNETES", "STEPS", "NODES ROLL", "PROBLEM"), rows)
        if len(names) > len(rows):
            output.say(f"and {len(names) - len(rows)} more")
        return NO_PLAN if all(problem for *_, problem in rows) else None

    async def _take_steps(self, client: Client) -> int:
        """Carry out the upgrade in csctl, and show the Cluster meanwhile."""
        from clusterstacks.operator.controllers.clusterupgrade.stepper import Blocked

        goal = self.request.target
        if goal is None:
            raise SpecError("TargetMoves", f"--here takes a release or a version, not {self.request.to}")
        walk = UpgradeWalk(self.cluster, goal, self.releases, self.timeout)
        with LiveView(counts=True) as view:

            def show(objects: QueryResults) -> None:
                view.show(cluster_tree(objects))
                walk.look()

            following = asyncio.create_task(follow(client, cluster_queries(self.cluster), show))
            try:
                action = await walk.run(client, view.say)
            finally:
                following.cancel()
                # The picture is no part of the upgrade: its failures do not count.
                await asyncio.gather(following, return_exceptions=True)
        if isinstance(action, Blocked):
            output.say_judged(ResultMark.BAD, f"The upgrade of Cluster {self.cluster} is blocked: {action.why}")
            for fact in action.facts:
                print_fact(fact)
            return NO_PLAN
        output.say_judged(ResultMark.GOOD, f"Cluster {self.cluster} has the target versions, and its addons are ready.")
        return 0

    async def _follow(self, client: Client, key: ObjectKey) -> int:
        """Follow a ClusterUpgrade, and print how it ended."""
        try:
            upgrade = await self._show_until_end(client, key)
        except TimeoutError:
            output.say_judged(
                ResultMark.WAITING, f"ClusterUpgrade {key} has not ended within {duration_text(self.wait or 0)}."
            )
            self._print_commands(key)
            return UNDECIDED
        except asyncio.CancelledError:  # Ctrl-C
            self._print_commands(key)
            raise
        if upgrade is None:
            output.say_judged(ResultMark.BAD, f"ClusterUpgrade {key} was deleted: no further step begins.")
            return NO_PLAN
        phase, done = text(upgrade, "status", "phase"), text(upgrade, "status", "done")
        if phase == UpgradePhase.DONE:
            output.say_judged(ResultMark.GOOD, f"ClusterUpgrade {key} is done: {done} have {self.request.to}.")
            return 0
        output.say_judged(ResultMark.BAD, f"ClusterUpgrade {key} is {phase}: {done} have {self.request.to}.")
        for line in unfinished(upgrade)[:SHOWN_CLUSTERS]:
            output.say_judged(ResultMark.BAD, line, indent=2)
        return NO_PLAN

    async def _show_until_end(self, client: Client, key: ObjectKey) -> Manifest | None:
        one, told = bool(self.request.cluster), ""
        with LiveView(counts=one) as view:

            def show(upgrade: Manifest, objects: QueryResults) -> None:
                nonlocal told
                for entry in mappings(upgrade, "status", "clusters") if one else ():
                    doing = ": ".join(filter(None, (text(entry, "step"), text(entry, "doing"))))
                    if doing and doing != told:
                        told = doing
                        view.say(f"Step {doing}" if text(entry, "step") else doing)
                view.show(cluster_tree([*objects, [upgrade]]) if one else [upgrade_overview(upgrade)])

            queries = cluster_queries(self.cluster)[:-1] if one else []
            return await follow_upgrade(client, key, queries, show, self.wait)

    def _print_commands(self, key: ObjectKey) -> None:
        kubectl, place = self.management.kubectl, ("clusterupgrade", "-n", key.namespace, key.name)
        output.note(f"ClusterUpgrade {key} goes on; the same command follows it again.")
        suspended = '{"spec":{"suspend":true}}'
        output.note(f"To begin no further step: {kubectl('patch', *place, '--type', 'merge', '--patch', suspended)}")
        output.note(f"To end it: {kubectl('delete', *place)}")


async def read_plan(
    client: Client, walk: UpgradeWalk, management: ManagementCluster, form: str = TEXT
) -> dict[str, Any] | None:
    """Return the document of a plan with its impact, and what the Cluster waits for now; None without a result."""
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Blocked, obstacle

    context = await read_cluster_context(client, walk.cluster, walk.releases, walk.target)
    upgrade = running_upgrade(context, management)
    if form == TEXT:
        print_upgrade(upgrade)
    searched = search_live_plan(context, walk.target, walk.search_seconds)
    if searched is None:
        return None
    document = searched[1]
    steps = document["steps"]
    impact = await read_impact(client, context, steps, walk.releases) if steps else None
    first = obstacle(context.cluster)
    waits = None if first is None else first.why if isinstance(first, Blocked) else first.what
    return {"cluster": str(walk.cluster), "upgrade": upgrade, "waits": waits, **document, "impact": impact}


def print_plan(document: dict[str, Any]) -> None:
    """Print the steps of a plan with their impact."""
    output.warn_all(document["warnings"])
    steps = document["steps"]
    if not steps:
        return
    if document["waits"] is not None and document["upgrade"] is None:
        output.say_judged(ResultMark.WAITING, f"No step begins yet: {document['waits']}")
    print_steps(steps)
    print_refused(document["impact"])
    print_summary(steps, impact_summary(document["impact"]))


def _ask(what: str) -> None:
    if not sys.stdin.isatty():
        problem = f"the upgrade of {what} is not begun: add --yes, because the input is no terminal for the question"
        raise SpecError("NotConfirmed", problem)
    click.confirm(f"Begin the upgrade of {what}?", abort=True)
