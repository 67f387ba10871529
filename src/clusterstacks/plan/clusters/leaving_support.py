"""Finds the Kubernetes minors of Clusters that leave upstream support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.plan.compat.support import SupportState, Uses, calendar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from clusterstacks.model.versions import KubernetesMinor
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary
    from clusterstacks.plan.compat.support import SupportEnd, VersionInUse


def leaving_support(
    summaries: Iterable[ClusterSummary], minors: Mapping[KubernetesMinor, SupportEnd], today: date
) -> list[VersionInUse]:
    """Return the Kubernetes minors of Clusters that left support, or leave it soon."""
    uses = [Uses(str(summary.key), minor_in_use(summary)) for summary in summaries if summary.of_cluster_stack]
    return [one for one in calendar(uses, minors) if one.state(today) in (SupportState.ENDED, SupportState.ENDS_SOON)]


def minor_in_use(summary: ClusterSummary) -> KubernetesMinor | None:
    """Return the oldest minor of the nodes, else the one that the Cluster asks for; None for texts that are none."""
    try:
        return KubernetesVersion.parse(summary.running or summary.wanted).series
    except InvalidVersion:
        return None
