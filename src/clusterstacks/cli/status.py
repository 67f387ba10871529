"""``csctl status``: describe the state of a Cluster, or of all Clusters, in a management cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, CLUSTER_NAME_LABEL, GROUP, Kind, addon_name
from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import ClusterName, ManagementCluster, contexts_options
from clusterstacks.cli.shared.contexts import read_contexts, read_objects_of
from clusterstacks.cli.shared.management_objects import ObjectQuery, follow
from clusterstacks.cli.shared.options import TEXT, form_option
from clusterstacks.clusters.cluster_summary import addons_by_cluster, summarize
from clusterstacks.clusters.cluster_tree import Snapshot, cluster_status, overview

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.cli.shared.contexts import ContextResults
    from clusterstacks.clusters.cluster_summary import ClusterSummary
    from clusterstacks.clusters.cluster_tree import ViewNode
    from clusterstacks.domain.objects import Manifest, ObjectKey

    Found = Sequence[list[Manifest] | None]

NO_ADDONS: Final = "stages, versions of addons and drift are not shown"


@click.command(short_help="Describe the state of Clusters.")
@click.argument("cluster", metavar="[NAMESPACE/CLUSTER]", type=ClusterName(), required=False)
@contexts_options
@form_option("text", "json", "yaml")
@click.option("--watch", "-w", is_flag=True, help="Redraw the state when it changes, until Ctrl-C.")
def status(cluster: ObjectKey | None, managements: Sequence[ManagementCluster], form: str, *, watch: bool) -> int:
    """Describe the current and wanted versions, the rollout, health and drift of a Cluster.

    The tree shows control plane, workers and addons, the running stage and what it waits for, the hold of an upgrade,
    and the last change. Without an argument, each Cluster with a class of a cluster stack has one line. With --watch,
    a terminal shows the current tree; in a pipe, csctl prints the lines that change.

    With several contexts, the lines of each are below its name. A management cluster that cannot be read does not stop
    the others; the failures are listed at the end. NAMESPACE/CLUSTER and --watch take one context.
    """
    if watch and form != TEXT:
        raise click.UsageError(f"--watch cannot be combined with -o {form}")
    if len(managements) > 1 and (cluster is not None or watch):
        one = "--watch" if cluster is None else "NAMESPACE/CLUSTER"
        raise click.UsageError(f"{one} cannot be combined with several --context: name one")
    queries = _all() if cluster is None else _of_cluster(cluster)
    if watch:
        asyncio.run(_watch(managements[0], queries, _overviews if cluster is None else _tree))
        return 0
    results = read_contexts(managements, lambda management: read_objects_of(management, queries))
    if form != TEXT:
        documents = [
            results.named(context, one.document())
            for context, found in results.found.items()
            for one in _summaries(found)
            if cluster or one.of_cluster_stack
        ]
        output.print_document(documents[0] if cluster else documents, form)
    else:
        _print(results, _overviews if cluster is None else _tree)
    return results.show_failures()


def _print(results: ContextResults[list[list[Manifest] | None]], draw: Callable[[Found], list[ViewNode]]) -> None:
    from clusterstacks.cli.shared.live_view import print_nodes

    for number, (context, found) in enumerate(results.found.items()):
        if results.several:
            output.say(f"\nContext {context}" if number else f"Context {context}", bold=True)
        nodes = draw(found)
        print_nodes(nodes)
        if not nodes:
            output.note("No Cluster has a class of a cluster stack.")


def _all() -> list[ObjectQuery]:
    return [
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, consequence=NO_ADDONS),
    ]


def _of_cluster(cluster: ObjectKey) -> list[ObjectQuery]:
    namespace, labels = cluster.namespace, f"{CLUSTER_NAME_LABEL}={cluster.name}"
    workers = "workers are not shown"
    return [
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, namespace, name=cluster.name),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, namespace, name=addon_name(cluster.name), consequence=NO_ADDONS),
        ObjectQuery(CLUSTER_API_GROUP, "MachineDeployment", namespace, labels, consequence=workers),
        ObjectQuery(CLUSTER_API_GROUP, "Machine", namespace, labels, consequence=workers),
    ]


async def _watch(
    management: ManagementCluster, queries: Sequence[ObjectQuery], draw: Callable[[Found], list[ViewNode]]
) -> None:
    from clusterstacks.cli.shared.live_view import LiveView

    async with management.connected() as client:
        with LiveView() as view:
            await follow(client, queries, lambda found: view.show(draw(found)))


def _summaries(found: Found) -> list[ClusterSummary]:
    addons = addons_by_cluster(found[1] or [])
    clusters = [(one["metadata"]["namespace"], one["metadata"]["name"], one) for one in found[0] or []]
    return [summarize(cluster, addons.get((namespace, name))) for namespace, name, cluster in clusters]


def _overviews(found: Found) -> list[ViewNode]:
    return [overview(one) for one in _summaries(found) if one.of_cluster_stack]


def _tree(found: Found) -> list[ViewNode]:
    clusters, addons, pools, machines = (one or [] for one in found)
    snapshot = Snapshot(clusters=clusters, addons=addons, pools=pools, machines=machines)
    return [cluster_status(cluster, snapshot) for cluster in clusters]
