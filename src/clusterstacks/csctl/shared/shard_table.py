"""The table of ``csctl status --shards``, and the commands that would balance them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.management_objects import BINDINGS, ObjectQuery
from clusterstacks.csctl.shared.options import TEXT
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.kinds.shards import shard_of
from clusterstacks.plan.clusters.cluster_summary import summarize_all
from clusterstacks.plan.clusters.shard_balance import balancing_moves, shards_in_use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.csctl.shared.cluster_options import ListScope, ManagementCluster
    from clusterstacks.csctl.shared.contexts import ContextResults
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.shard_balance import Shard

HEADER: Final = ("SHARD", "HOLDER", "CLUSTERS", "LOAD")

SHOWN_MOVES: Final = 20
"""Commands below the table (arbitrary); they can be asked for again."""


def shard_queries(management: ManagementCluster, scope: ListScope) -> list[ObjectQuery]:
    """Return what is read for the table."""
    own = management.connection().namespace
    holders = "shards without Clusters and holders of Leases are not shown"
    return [
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, scope.namespace, scope.labels, fallback=own),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, scope.namespace, consequence="loads are not shown", fallback=own),
        replace(BINDINGS, namespace=scope.namespace, consequence="syncs do not count", fallback=own),
        ObjectQuery("coordination.k8s.io", "Lease", consequence=holders),
    ]


def print_shards(results: ContextResults[list[list[Manifest] | None]], form: str) -> None:
    """Print the shards of each context, and the commands that would balance those that run."""
    found = {context: _shards(objects) for context, objects in results.found.items()}
    if form != TEXT:
        output.print_document(
            [results.named(context, shard.document()) for context, shards in found.items() for shard in shards], form
        )
        return
    for context, shards in found.items():
        if results.several:
            output.say(f"{context}:")
        rows = [(one.title, one.holder or "-", str(len(one.clusters)), str(one.load)) for one in shards]
        output.print_table(HEADER, rows)
        moves = balancing_moves([shard for shard in shards if shard.holder])
        if moves:
            output.say("To balance them, label:")
        for move in moves[:SHOWN_MOVES]:
            output.say(f"  {move.command}")


def _shards(objects: Sequence[list[Manifest] | None]) -> list[Shard]:
    clusters, addons, bindings, leases = ([*(one or ())] for one in objects)
    loads = {one.key: one.objects + 1 for one in summarize_all(clusters, addons, bindings) if one.has_deliveries}
    wanted = {(one["metadata"]["namespace"], one["metadata"]["name"]): shard_of(one) for one in clusters}
    return shards_in_use({key: (wanted[key.namespace, key.name], load) for key, load in loads.items()}, leases)
