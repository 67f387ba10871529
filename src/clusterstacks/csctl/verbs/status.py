"""``csctl status``: list the Clusters or syncs of management clusters, or describe the state of one Cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ClusterName,
    ListScope,
    ManagementCluster,
    contexts_options,
    filter_options,
)
from clusterstacks.csctl.shared.contexts import read_contexts, read_objects_of
from clusterstacks.csctl.shared.live_view import MARKS, LiveView, print_nodes
from clusterstacks.csctl.shared.management_objects import BINDINGS, UPGRADES, ObjectQuery, follow, read_all
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.shard_table import print_shards, shard_queries
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.documents import and_more, counted
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    CLUSTER_NAME_LABEL,
    GROUP,
    SYNC_GROUP,
    Kind,
    addon_name,
)
from clusterstacks.model.objects import age
from clusterstacks.plan.clusters.cluster_summary import summarize_all
from clusterstacks.plan.clusters.cluster_tree import (
    NodeState,
    Snapshot,
    cluster_status,
    overview,
    sync_overview,
    upgrade_overview,
)
from clusterstacks.plan.clusters.leaving_support import leaving_support
from clusterstacks.plan.clusters.release_groups import group_by_release
from clusterstacks.plan.clusters.sync_summary import summarize_syncs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.csctl.shared.contexts import ContextResults
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary
    from clusterstacks.plan.clusters.cluster_tree import ViewNode
    from clusterstacks.plan.clusters.recent_events import ClusterEvent
    from clusterstacks.plan.clusters.release_groups import ReleaseGroup
    from clusterstacks.plan.clusters.sync_summary import SyncSummary

    QueryResults = Sequence[list[Manifest] | None]

NO_ADDONS: Final = "stages, versions of addons and drift are not shown"
NO_SYNCS: Final = "syncs are not shown"

SHOWN_EVENTS: Final = 10
"""Events of a Cluster (arbitrary); ``kubectl events`` lists all."""

SHOWN_RELEASES: Final = 10
"""Releases in the line below the table (arbitrary)."""

SHOWN_UPGRADES: Final = 10
"""ClusterUpgrades below the table (arbitrary)."""

HEADER: Final = ("NAMESPACE", "NAME", "READY", "RELEASE", "NEWER", "KUBERNETES", "STAGE", "REASON", "SINCE")
SYNC_HEADER: Final = ("NAMESPACE", "NAME", "READY", "CLUSTERS", "SYNCED", "DRIFTED", "REASON", "SINCE")


@click.command(short_help="List Clusters or syncs, or describe the state of a Cluster.")
@click.argument("cluster", metavar="[CLUSTER]", type=ClusterName(), required=False)
@contexts_options
@filter_options
@click.option("--syncs", is_flag=True, help="List the ClusterResourceSyncs instead of the Clusters.")
@click.option("--shards", is_flag=True, help="List the shards of the operator instead of the Clusters.")
@click.option("--troubled", is_flag=True, help="Only Clusters or syncs that are not well: those with a REASON.")
@form_option()
@click.option("--watch", "-w", is_flag=True, help="Redraw the state when it changes, until Ctrl-C.")
def status(  # noqa: PLR0913 - the options of the verb
    cluster: ObjectKey | None,
    managements: Sequence[ManagementCluster],
    scope: ListScope,
    form: str,
    *,
    syncs: bool,
    shards: bool,
    troubled: bool,
    watch: bool,
) -> int:
    """List the Clusters of cluster stacks and of syncs, or describe the current and wanted state of one Cluster.

    READY means that all addons of the class are delivered, and that Cluster API reports the Cluster as available.
    RELEASE and KUBERNETES show 'v1 → v2' while an upgrade is not complete. NEWER names the newest ready release of the
    same Kubernetes minor and that of the next one: 'csctl why' says whether a Cluster may move there, 'csctl plan' how.
    REASON is the first thing to look at, also if the Cluster is ready. The last lines count the Clusters of each
    release, and those of each Kubernetes minor that left support or leaves it within 60 days. Without the right to list
    the Clusters of all namespaces, those of the namespace of the context are listed.

    With CLUSTER, a tree shows control plane, workers, addons and syncs, the running stage and what it waits
    for, the hold of an upgrade, health, drift, the last change and the newest events. With --syncs, a table shows how
    many Clusters each ClusterResourceSync selects, and how many of them have all objects or differences. With --shards,
    it shows Clusters and load (delivered objects, and one for each Cluster) of each shard of the operator, and the
    commands that would balance them. With --watch, a terminal shows the current tree, or a line for each Cluster or
    sync; in a pipe, csctl prints the changed lines.

    A management cluster that cannot be read does not stop the others; the failures are listed at the end.
    CLUSTER and --watch take one context.
    """
    if watch and form != TEXT:
        raise click.UsageError(f"--watch cannot be combined with -o {form}")
    if len(managements) > 1 and (cluster is not None or watch):
        one = "--watch" if cluster is None else "CLUSTER"
        raise click.UsageError(f"{one} cannot be combined with several --context: name one")
    if shards:
        if cluster is not None or syncs or troubled or watch:
            raise click.UsageError("--shards cannot be combined with CLUSTER, --syncs, --troubled or --watch")
        found = read_contexts(managements, lambda one: read_objects_of(one, shard_queries(one, scope)))
        print_shards(found, form)
        return found.show_failures()
    if cluster is not None:
        if scope.labels or syncs or troubled:
            raise click.UsageError("CLUSTER cannot be combined with --selector, --syncs or --troubled")
        management = replace(managements[0], namespace=scope.namespace)
        _describe(management, management.full_key(cluster), form, watch=watch)
        return 0
    if syncs and scope.labels:
        raise click.UsageError("--syncs cannot be combined with --selector, which selects Clusters")
    queries, lines, print_list = (_syncs, _sync_lines, _print_syncs) if syncs else (_all, _lines, _print_clusters)
    if watch:
        asyncio.run(_watch(managements[0], queries(managements[0], scope), partial(lines, troubled=troubled)))
        return 0
    results = read_contexts(managements, lambda management: read_objects_of(management, queries(management, scope)))
    print_list(results, form, troubled=troubled)
    return results.show_failures()


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """A line of the table."""

    context: str
    """The context of its management cluster."""
    summary: ClusterSummary
    group: ReleaseGroup | None
    """The release that it has, or asks for while it has none; None for a class of another project, or none."""

    @property
    def troubled(self) -> bool:
        """True if there is something to look at."""
        return overview(self.summary).state is not NodeState.DONE

    @property
    def release(self) -> str:
        """Name of the release or class."""
        return self.group.name.release if self.group else self.summary.delivered

    def row(self, now: datetime) -> tuple[str, ...]:
        """Return a mark, and the cells of ``HEADER``."""
        summary, concern = self.summary, self.summary.concern
        _, arrow, wanted = summary.release_change.partition("→")
        asked = f"→ {self.release}" if self.release else ""
        release = f"{self.release} {arrow}{wanted}" if summary.delivered else asked
        newer = self.group.newer_versions() if self.group else ()
        return (
            MARKS[overview(summary).state].sign,
            summary.key.namespace,
            summary.key.name,
            summary.ready.status,
            release.rstrip(),
            ", ".join(newer),
            summary.kubernetes_change,
            str(summary.stage),
            concern.reason,
            age(concern.last_transition_time, now) if concern.reason else "",
        )

    def document(self) -> Manifest:
        """Return the Cluster as JSON."""
        newer = self.group.newer if self.group else ()
        return self.summary.document() | {"newer": [release.release for release in newer]}


def list_clusters(objects: QueryResults, context: str = "") -> list[ListedCluster]:
    """Return the Clusters of cluster stacks and of syncs.

    The objects are Clusters, ClusterAddons, ClusterResourceSyncBindings and ClusterStackReleases.
    """
    summaries = [summary for summary in _summaries(objects) if summary.has_deliveries]
    groups = group_by_release(objects[3] or [], summaries)
    group_of = {cluster.key: group for group in groups for cluster in group.clusters}
    return [ListedCluster(context, summary, group_of.get(summary.key)) for summary in summaries]


def count_clusters(clusters: Sequence[ListedCluster]) -> str:
    """Return a line with the number of Clusters, of those that are not well, and of those with each release."""
    releases = Counter(cluster.release for cluster in clusters if cluster.release)
    names = [f"{name} ({number})" for name, number in releases.most_common()]
    number = _count(len(clusters), "Cluster", sum(cluster.troubled for cluster in clusters))
    return f"{number}; releases: {and_more(names, SHOWN_RELEASES)}" if names else number


def _count(number: int, noun: str, troubled: int) -> str:
    return f"{counted(number, noun)}, {troubled or 'none'} troubled"


def _print_clusters(results: ContextResults[list[list[Manifest] | None]], form: str, *, troubled: bool) -> None:
    clusters = [cluster for context, objects in results.found.items() for cluster in list_clusters(objects, context)]
    shown = [listed for listed in clusters if listed.troubled or not troubled]
    if form != TEXT:
        output.print_document([results.named(listed.context, listed.document()) for listed in shown], form)
    elif clusters:
        now = datetime.now(UTC)
        _print_table(HEADER, [(listed.context, *listed.row(now)) for listed in shown], several=results.several)
        output.say(count_clusters(clusters), wraps=True)
        _print_upgrades([upgrade for objects in results.found.values() for upgrade in objects[-1] or ()])
        from clusterstacks.plan.compat.support_facts import support_ends

        for version in leaving_support((listed.summary for listed in clusters), support_ends(), now.date()):
            told = f"{version.told(now.date())}: {version.used()}; 'csctl compat calendar' shows the way"
            output.say_judged(ResultMark.WAITING, told)
    elif not results.failed:
        output.note("No Cluster has a class of a cluster stack, or a sync.")


def _print_upgrades(upgrades: Sequence[Manifest]) -> None:
    """Print each ClusterUpgrade that has not ended in one line."""
    running = [node for node in map(upgrade_overview, upgrades) if node.state is not NodeState.DONE]
    for node in running[:SHOWN_UPGRADES]:
        output.say_judged(MARKS[node.state], f"{node.title} {node.detail}")
    if len(running) > SHOWN_UPGRADES:
        output.say(f"and {len(running) - SHOWN_UPGRADES} more: 'kubectl get clusterupgrades -A' lists all")


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, several: bool) -> None:
    """Print a table; a row has the context, a mark, and the cells of the header."""
    if rows:
        shown = [(mark, *((context,) if several else ()), *cells) for context, mark, *cells in rows]
        marks = {mark.sign: mark for mark in MARKS.values()}
        output.print_table(("", *(("CONTEXT",) if several else ()), *header), shown, marks=marks)


def _print_syncs(results: ContextResults[list[list[Manifest] | None]], form: str, *, troubled: bool) -> None:
    syncs = [(context, sync) for context, objects in results.found.items() for sync in _sync_summaries(objects)]
    shown = [(context, sync) for context, sync in syncs if sync.concern.reason or not troubled]
    if form != TEXT:
        output.print_document([results.named(context, sync.document()) for context, sync in shown], form)
    elif syncs:
        now = datetime.now(UTC)
        _print_table(
            SYNC_HEADER, [(context, *_sync_row(sync, now)) for context, sync in shown], several=results.several
        )
        output.say(_count(len(syncs), "sync", sum(bool(sync.concern.reason) for _, sync in syncs)))
    elif not results.failed:
        output.note("There is no ClusterResourceSync.")


def _sync_row(sync: SyncSummary, now: datetime) -> tuple[str, ...]:
    """Return a mark, and the cells of ``SYNC_HEADER``."""
    numbers = map(str, (sync.ready, sync.clusters, sync.synced, sync.drifted))
    mark, concern = MARKS[sync_overview(sync).state].sign, sync.concern
    since = age(concern.last_transition_time, now) if concern.reason else ""
    return mark, sync.key.namespace, sync.name, *numbers, concern.reason, since


def _describe(management: ManagementCluster, cluster: ObjectKey, form: str, *, watch: bool) -> None:
    if watch:
        asyncio.run(_watch(management, cluster_queries(cluster), cluster_tree))
        return
    objects, events = asyncio.run(_read_cluster(management, cluster))
    if form != TEXT:
        (summary,) = _summaries(objects)
        output.print_document(summary.document() | {"events": [event.document() for event in events]}, form)
        return
    print_nodes(cluster_tree(objects))
    if events:
        now = datetime.now(UTC)
        rows = [(age(event.last_seen, now), event.type, event.reason, event.subject, event.message) for event in events]
        output.say("")
        output.print_table(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows)


def _all(management: ManagementCluster, scope: ListScope) -> list[ObjectQuery]:
    own = management.connection().namespace
    unknown = "newer releases are not shown"
    return [
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, scope.namespace, scope.labels, fallback=own),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, scope.namespace, consequence=NO_ADDONS, fallback=own),
        replace(BINDINGS, namespace=scope.namespace, consequence=NO_SYNCS, fallback=own),
        ObjectQuery(GROUP, Kind.CLUSTER_STACK_RELEASE, consequence=unknown, fallback=scope.namespace or own),
        replace(UPGRADES, namespace=scope.namespace, fallback=own),
    ]


def _syncs(management: ManagementCluster, scope: ListScope) -> list[ObjectQuery]:
    own = management.connection().namespace
    return [
        ObjectQuery(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC, scope.namespace, fallback=own),
        replace(BINDINGS, namespace=scope.namespace, fallback=own),
    ]


def cluster_queries(cluster: ObjectKey) -> list[ObjectQuery]:
    """Return what is read for the tree of a Cluster."""
    namespace, labels = cluster.namespace, f"{CLUSTER_NAME_LABEL}={cluster.name}"
    workers = "workers are not shown"
    return [
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, namespace, name=cluster.name),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, namespace, name=addon_name(cluster.name), consequence=NO_ADDONS),
        replace(BINDINGS, namespace=namespace, labels=labels, consequence=NO_SYNCS),
        ObjectQuery(CLUSTER_API_GROUP, "MachineDeployment", namespace, labels, consequence=workers),
        ObjectQuery(CLUSTER_API_GROUP, "Machine", namespace, labels, consequence=workers),
        replace(UPGRADES, namespace=namespace),
    ]


async def _read_cluster(management: ManagementCluster, key: ObjectKey) -> tuple[QueryResults, list[ClusterEvent]]:
    """Read a Cluster, and its newest events, the oldest of them first; none if they cannot be read."""
    from clusterstacks.plan.clusters.recent_events import read_events

    async with management.connected() as client:
        objects = await read_all(client, cluster_queries(key))
        ((cluster,), *_) = [manifests or [] for manifests in objects]
        try:
            newest_first, _ = await read_events(client, cluster)
        except DependencyError as error:
            output.warn(f"{error.message}: events are not shown")
            newest_first = []
    return objects, newest_first[:SHOWN_EVENTS][::-1]


async def _watch(
    management: ManagementCluster, queries: Sequence[ObjectQuery], draw: Callable[[QueryResults], list[ViewNode]]
) -> None:
    async with management.connected() as client:
        with LiveView() as view:
            await follow(client, queries, lambda objects: view.show(draw(objects)))


def _summaries(objects: QueryResults) -> list[ClusterSummary]:
    clusters, addons, bindings, *_, upgrades = (manifests or [] for manifests in objects)
    return summarize_all(clusters, addons, bindings, upgrades)


def _sync_summaries(objects: QueryResults) -> list[SyncSummary]:
    syncs, bindings = (manifests or [] for manifests in objects)
    return summarize_syncs(syncs, bindings)


def _sync_lines(objects: QueryResults, *, troubled: bool) -> list[ViewNode]:
    """Draw each sync in one line."""
    return [sync_overview(sync) for sync in _sync_summaries(objects) if sync.concern.reason or not troubled]


def _lines(objects: QueryResults, *, troubled: bool) -> list[ViewNode]:
    """Draw each Cluster in one line."""
    return [overview(cluster.summary) for cluster in list_clusters(objects) if cluster.troubled or not troubled]


def cluster_tree(objects: QueryResults) -> list[ViewNode]:
    """Draw the state of a Cluster, from the objects of its queries."""
    kinds = ("clusters", "addons", "bindings", "pools", "machines", "upgrades")
    snapshot = Snapshot(**dict(zip(kinds, (manifests or [] for manifests in objects), strict=True)))
    clusters = snapshot.clusters
    return [cluster_status(cluster, snapshot) for cluster in clusters]
