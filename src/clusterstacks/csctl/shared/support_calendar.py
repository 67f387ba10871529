"""The support calendar of a management cluster: versions that leave support, and the way to supported ones."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import read_cluster_context
from clusterstacks.csctl.shared.management_objects import ObjectQuery, read_all
from clusterstacks.csctl.shared.options import TEXT
from clusterstacks.csctl.shared.plan_output import search_effort
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.documents import counted
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.plan.clusters.cluster_summary import summarize_all
from clusterstacks.plan.clusters.leaving_support import minor_in_use
from clusterstacks.plan.clusters.versions_in_use import versions_in_use
from clusterstacks.plan.compat.support import KUBERNETES, SupportState, supported_version
from clusterstacks.plan.compat.support_facts import support_ends
from clusterstacks.plan.planner.planner import NoPlan, Plan, find_plan
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from clusterstacks.csctl.shared.cluster_options import ManagementCluster
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.model.versions import KubernetesMinor
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary
    from clusterstacks.plan.compat.support import Uses, VersionInUse

AT_ONCE: Final = 4
"""Clusters whose way is searched at the same time (arbitrary)."""

SEARCH_SECONDS: Final = 5
"""Time limit of the search for one way (arbitrary: several are searched)."""

MARKS: Final = {
    SupportState.SUPPORTED: ResultMark.GOOD,
    SupportState.ENDS_SOON: ResultMark.WAITING,
    SupportState.ENDED: ResultMark.BAD,
    SupportState.UNKNOWN: ResultMark.OPEN,
}


@dataclass(frozen=True, slots=True)
class SupportWay:
    """The way of a Cluster to the nearest Kubernetes minor whose support does not end soon."""

    cluster: ObjectKey
    to: str = ""
    """The version; empty where no release has one."""
    steps: int = 0
    problem: str = ""
    """Why no way is known; empty where ``steps`` lead there."""

    def __str__(self) -> str:
        if self.problem:
            return f"Cluster {self.cluster}: {self.problem}"
        return f"Cluster {self.cluster}: {counted(self.steps, 'step')} to {self.to}"

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "cluster": str(self.cluster),
            "to": self.to or None,
            "steps": None if self.problem else self.steps,
            "problem": self.problem or None,
        }


async def read_calendar(
    management: ManagementCluster, cluster: ObjectKey | None, today: date
) -> tuple[list[Uses], dict[str, list[SupportWay]]]:
    """Read the versions of one or all Clusters, and the ways to supported versions, with the rights of the user.

    The ways are those of Clusters whose Kubernetes minor leaves support soon: by minor, one for each class and version.

    Raises:
        DependencyError: The Clusters cannot be read.
    """
    namespace, name = cluster if cluster is not None else (management.namespace, "")
    own = management.connection().namespace
    unknown = "the versions of addons are not shown"
    queries = [
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, namespace, name=name, fallback=own),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, namespace, consequence=unknown, fallback=own),
        ObjectQuery(GROUP, Kind.CLUSTER_STACK_RELEASE, consequence=unknown, fallback=own),
    ]
    async with management.connected() as client:
        clusters, addons, releases = [found or [] for found in await read_all(client, queries)]
        summaries = [one for one in summarize_all(clusters, addons, ()) if one.of_cluster_stack]
        ways = await _ways(client, _first_of_each_kind(summaries), today)
    return versions_in_use(summaries, addons, releases), ways


def _first_of_each_kind(summaries: Iterable[ClusterSummary]) -> list[ClusterSummary]:
    """Return one Cluster of each class and Kubernetes version: their ways differ only with addons of their own."""
    first: dict[tuple[str, str, str], ClusterSummary] = {}
    for one in summaries:
        first.setdefault((one.class_namespace, one.class_name, one.running or one.wanted), one)
    return [*first.values()]


async def _ways(client: Client, summaries: Iterable[ClusterSummary], today: date) -> dict[str, list[SupportWay]]:
    ends, ways = support_ends(), defaultdict[str, list[SupportWay]](list)
    leaving = [
        (minor, summary)
        for summary in sorted(summaries, key=lambda one: one.key)
        if (minor := minor_in_use(summary)) is not None
        and minor in ends
        and ends[minor].state(today) is not SupportState.SUPPORTED
    ]

    async def way(found: tuple[KubernetesMinor, ClusterSummary]) -> SupportWay:
        return await _way(client, *found, today)

    for (minor, _), to in zip(leaving, await gather(way, leaving, at_once=AT_ONCE), strict=True):
        ways[str(minor)].append(to)
    return ways


async def _way(client: Client, minor: KubernetesMinor, summary: ClusterSummary, today: date) -> SupportWay:
    try:
        context = await read_cluster_context(client, summary.key, None)
        world = context.world
        to = supported_version(minor, world.candidates, support_ends(), today)
        if to is None:
            return SupportWay(summary.key, problem="no release of its stack has a supported minor yet")
        answer = await asyncio.to_thread(find_plan, world, context.state, to, search_effort(SEARCH_SECONDS))
    except ClusterStacksError as error:
        return SupportWay(summary.key, problem=error.message)
    if isinstance(answer, Plan):
        return SupportWay(summary.key, to.text, len(answer.steps))
    problem = "there is no plan" if isinstance(answer, NoPlan) else "the search for a plan took too long"
    return SupportWay(summary.key, to.text, problem=f"{problem}: csctl plan {summary.key} --to {to} shows more")


def print_calendar(
    versions: Sequence[VersionInUse], ways: Mapping[str, Sequence[SupportWay]], today: date, form: str, noun: str
) -> None:
    """Print the versions in use; ``noun`` is what uses them: Cluster or release."""
    if form != TEXT:
        documents = [
            one.document(today) | {"ways": [way.document() for way in _ways_of(one, ways)]} for one in versions
        ]
        output.print_document({"today": str(today), "versions": documents}, form)
        return
    for one in versions:
        longest = max((way.steps for way in _ways_of(one, ways) if not way.problem), default=0)
        way = f", {counted(longest, 'step')}" if longest else ""
        output.say_judged(MARKS[one.state(today)], f"{one.told(today)}: {one.used(noun)}{way}")
        if one.end is not None:
            output.say(f"    {one.end.source} (read {one.end.read})")
        for found in _ways_of(one, ways):
            output.say(f"    {found}", wraps=True)
    if not versions:
        output.note("No Cluster has a class of a cluster stack." if noun == "Cluster" else "No release was found.")


def _ways_of(version: VersionInUse, ways: Mapping[str, Sequence[SupportWay]]) -> Sequence[SupportWay]:
    return ways.get(version.version, ()) if version.name == KUBERNETES else ()
