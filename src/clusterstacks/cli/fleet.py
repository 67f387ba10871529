"""``csctl fleet``: list the releases of management clusters with the Clusters that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import contexts_options
from clusterstacks.cli.shared.contexts import read_contexts, read_objects_of
from clusterstacks.cli.shared.management_objects import ObjectQuery
from clusterstacks.cli.shared.options import form_option
from clusterstacks.clusters.cluster_summary import addons_by_cluster, summarize
from clusterstacks.clusters.fleet_table import group_by_release
from clusterstacks.domain.documents import and_more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.cli.shared.cluster_options import ManagementCluster
    from clusterstacks.clusters.cluster_summary import ClusterSummary
    from clusterstacks.clusters.fleet_table import FleetRelease

SHOWN_CLUSTERS = 5
"""Clusters of a release that the table names (arbitrary); ``-o wide`` names all."""


@click.command(short_help="List releases and the Clusters that have them.")
@contexts_options
@form_option("table", "wide", "json", "yaml")
@click.option("--selector", "-l", default="", help="Only Clusters with these labels, for example stage=prod.")
def fleet(managements: Sequence[ManagementCluster], form: str, selector: str) -> int:
    """List the releases of all namespaces, each with the Clusters whose addons come from it.

    A Cluster that moves to another release is shown as 'team-a/prod → v2'. NEWER names the newest ready release of the
    same Kubernetes minor and that of the next one: 'csctl why' says whether a Cluster may move there, 'csctl plan' how.

    With several contexts the table has a column CONTEXT. A management cluster that cannot be read does not stop the
    others; the failures are listed at the end.
    """
    results = read_contexts(managements, lambda management: _read(management, selector))
    found = [(context, release) for context, releases in results.found.items() for release in releases]
    if form in ("json", "yaml"):
        output.print_document([results.named(context, release.document()) for context, release in found], form)
    elif found:
        header = ("NAMESPACE", "RELEASE", "READY", "KUBERNETES", "CLUSTERS", "NEWER", "NAMES")
        rows = [(context, *fleet_row(release, wide=form == "wide")) for context, release in found]
        first = 0 if results.several else 1
        output.print_table(("CONTEXT", *header)[first:], [row[first:] for row in rows])
    elif not results.failed:
        output.note("There are no releases.")
    return results.show_failures()


def fleet_row(release: FleetRelease, *, wide: bool) -> tuple[str, ...]:
    """Return the cells of a release."""
    names = [_with_move(one) for one in release.clusters]
    newer = [
        str(one.version) if one.kubernetes == release.name.kubernetes else f"{one.kubernetes}-{one.version}"
        for one in release.newer
    ]
    return (
        release.namespace,
        release.name.release,
        str(release.ready) if release.exists else "Missing",
        release.kubernetes,
        str(len(names)),
        ", ".join(newer),
        and_more(names, len(names) if wide else SHOWN_CLUSTERS),
    )


def _with_move(cluster: ClusterSummary) -> str:
    _, arrow, wanted = cluster.release_change.partition("→")
    return f"{cluster.key} {arrow}{wanted}".rstrip()


async def _read(management: ManagementCluster, selector: str) -> list[FleetRelease]:
    queries = [
        ObjectQuery(GROUP, Kind.CLUSTER_STACK_RELEASE),
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, labels=selector),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, consequence="Clusters count for the release of their class"),
    ]
    releases, clusters, addons = (one or [] for one in await read_objects_of(management, queries))
    known = addons_by_cluster(addons)
    summaries = [summarize(one, known.get((one["metadata"]["namespace"], one["metadata"]["name"]))) for one in clusters]
    return group_by_release(releases, summaries)
