"""``csctl impact``: show what a release would change on the Clusters of management clusters, before it is published."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ListScope,
    ManagementCluster,
    contexts_options,
    filter_options,
    read_cluster_context,
)
from clusterstacks.csctl.shared.contexts import read_contexts
from clusterstacks.csctl.shared.management_objects import ObjectQuery, read_all
from clusterstacks.csctl.shared.options import DIRECTORY, TEXT, form_option
from clusterstacks.csctl.shared.plan_output import search_live_plan
from clusterstacks.csctl.shared.upgrade_impact import impact_reader
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.plan.planner.step_titles import step_title
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clusterstacks.csctl.shared.contexts import ContextResults
    from clusterstacks.csctl.shared.upgrade_impact import ImpactReader
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.names import ReleaseName

AT_ONCE: Final = 8
"""Clusters of a management cluster that are compared at a time (arbitrary: mostly their servers are waited for)."""

HEADER: Final = ("CLUSTER", "RELEASE", "STEPS", "NODES ROLL", "CREATED", "CHANGED", "REMOVED", "PROBLEM")


@click.command(short_help="Show what a release would change on live Clusters.")
@click.argument("release", metavar="RELEASE_DIR", type=DIRECTORY)
@contexts_options
@filter_options
@form_option()
def impact(release: Path, managements: Sequence[ManagementCluster], scope: ListScope, form: str) -> int:
    """Show what a release in a directory would change on the Clusters of its stack, before it is published.

    For each Cluster that it would upgrade, csctl searches a plan as 'csctl plan', renders the addons with the values of
    the Cluster, and compares them with its delivery records, and by dry runs of its API server. Nothing is written.
    PROBLEM is the fact that blocks the upgrade, what the API server would refuse, or why the objects are not known.
    Clusters of a newer release are left out. -o json has the steps, the pools of nodes and the names of the objects.

    Exits with 0 if every Cluster may take the release, and with 3 if one has a PROBLEM.
    """
    from clusterstacks.plan.compat.release_statements import read_candidates

    directory = release.resolve()
    name = next((one.name for one in read_candidates(directory) if one.name.release == directory.name), None)
    if name is None:
        problem = f"{release} is not a release (expected a directory like openstack-scs-1-35-v2 with metadata.yaml)"
        raise SpecError("NotARelease", f"{problem}: build one with 'csctl create'")
    results = read_contexts(managements, lambda management: _Preview(management, name, directory).read(scope))
    _print(results, form, name)
    if failed := results.show_failures():
        return failed
    return output.NEGATIVE if any(row["problem"] for rows in results.found.values() for row in rows) else 0


@dataclass(slots=True)
class _Preview:
    """The Clusters of one management cluster, compared with a release."""

    management: ManagementCluster
    name: ReleaseName
    directory: Path
    done: int = 0

    async def read(self, scope: ListScope) -> list[dict[str, Any]]:
        """Return a document for each Cluster that the release would upgrade."""
        query = ObjectQuery(
            CLUSTER_API_GROUP,
            CLUSTER_KIND,
            scope.namespace,
            scope.labels,
            fallback=self.management.connection().namespace,
        )
        from clusterstacks.model.kinds.clusterapi import cluster_view

        async with self.management.connected() as client:
            (clusters,) = await read_all(client, [query])
            concerned = [view for view in map(cluster_view, clusters or ()) if _is_older(view, self.name)]
            async with impact_reader(client, self.directory) as reader:

                async def row(view: ClusterView) -> dict[str, Any]:
                    found = await self._row(reader, view)
                    self.done += 1
                    if sys.stderr.isatty() and not output.SETTINGS.quiet:
                        output.show_status(f"{self.done} of {len(concerned)} Clusters are compared")
                    return found

                rows = await gather(row, concerned, at_once=AT_ONCE)
        output.clear_status()
        return rows

    async def _row(self, reader: ImpactReader, view: ClusterView) -> dict[str, Any]:
        found: dict[str, Any] = {
            "cluster": str(view.key),
            "from": view.class_name,
            "steps": [],
            "nodes": [],
            "objects": None,
        }
        try:
            context = await read_cluster_context(reader.client, view.key, self.directory, self.name)
            searched = await asyncio.to_thread(search_live_plan, context, self.name)
            if searched is None:
                return {**found, "problem": "the search for a plan stopped without a result"}
            steps, refused = searched[1]["steps"], searched[1]["refused"]
            if refused is not None:
                facts = [fact["text"] for fact in refused["facts"]]
                return {**found, "problem": "; ".join((refused["message"], *facts))}
            impact = await reader.read(context, steps)
        except ClusterStacksError as error:
            return {**found, "problem": error.message}
        problem = impact.pop("unknown") or "; ".join(impact["objects"]["refused"]) or None
        return {**found, "steps": list(map(step_title, steps)), **impact, "problem": problem}


def _is_older(view: ClusterView, name: ReleaseName) -> bool:
    """Return whether a Cluster has an older release of the same stack."""
    from clusterstacks.model.names import InvalidName, parse_class

    try:
        release = parse_class(view.class_name)
    except InvalidName:
        return False
    return not view.deleting and release.same_stack(name) and release < name


def _print(results: ContextResults[list[dict[str, Any]]], form: str, name: ReleaseName) -> None:
    rows = [(context, row) for context, found in results.found.items() for row in found]
    if form != TEXT:
        output.print_document([results.named(context, row) for context, row in rows], form)
    elif not rows:
        output.note(f"No Cluster has an older release of the stack of {name}.")
    else:
        named = ("CONTEXT",) if results.several else ()
        output.print_table(
            (*named, *HEADER), [((context,) if results.several else ()) + _cells(row) for context, row in rows]
        )
        blocked = sum(bool(row["problem"]) for _, row in rows)
        output.say(f"{len(rows)} Clusters, {blocked or 'none'} with a problem")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    objects = row["objects"] or {}
    counts = (str(objects.get(change, "")) for change in ("created", "changed", "removed"))
    nodes = str(sum(pool["nodes"] for pool in row["nodes"])) if row["steps"] else ""
    return row["cluster"], row["from"], str(len(row["steps"]) or ""), nodes, *counts, row["problem"] or ""
