"""Observes how a release does in a management cluster, as 'csctl attest' states it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.kinds.names import READY_CONDITION, AddonCondition
from clusterstacks.plan.clusters.cluster_summary import addons_by_cluster, summarize_all
from clusterstacks.release.signing.stage_evidence import StageFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary

_CONDITIONS: Final = (READY_CONDITION, AddonCondition.HEALTHY, AddonCondition.IN_SYNC)


def observe_stage(
    name: ReleaseName,
    digest: str,
    *,
    clusters: Sequence[Manifest],
    addons: Sequence[Manifest],
    releases: Sequence[Manifest],
    not_read: Sequence[str] = (),
) -> StageFacts:
    """Return what Clusters, ClusterAddons and ClusterStackReleases show about the release with a digest."""
    addon_of = addons_by_cluster(addons)
    digests = {
        text(release, "metadata", "namespace"): text(release, "status", "digest")
        for release in releases
        if text(release, "metadata", "name") == name.release
    }
    versions: Counter[str] = Counter()
    since, troubles = [], []
    for summary in summarize_all(clusters, addons, ()):
        if summary.class_name != name.class_name:
            continue
        versions[summary.running or summary.wanted] += 1
        times = _delivered_since(addon_of.get((summary.key.namespace, summary.key.name), {}), name)
        if other := _other_content(digests.get(summary.class_namespace, ""), digest):
            troubles.append(f"{summary.key}: {other}")
        elif trouble := _trouble(summary, name):
            troubles.append(f"{summary.key}: {trouble}")
        else:
            since += [*times, *(summary.conditions[kind].last_transition_time for kind in _CONDITIONS)]
    return StageFacts(
        clusters=dict(sorted(versions.items())),
        since=max(since, default="") if not troubles else "",
        upgrades=_upgrades(addons, name),
        troubles=tuple(troubles),
        not_read=tuple(not_read),
    )


def _other_content(found: str, digest: str) -> str:
    if found == digest:
        return ""
    return f"its ClusterStackRelease has the content {found}" if found else "its ClusterStackRelease cannot be read"


def _trouble(summary: ClusterSummary, name: ReleaseName) -> str:
    """Return why a Cluster is not ready, healthy and in sync with the release; empty if it is."""
    if summary.delivered != name.class_name:
        return "the addons of the release are not delivered yet"
    if summary.ready.status != "True":
        return f"Ready is {summary.ready.status}: {summary.ready.message or summary.ready.reason}"
    for kind in _CONDITIONS:
        if (condition := summary.conditions.get(kind)) is None:
            return f"{kind} is not reported"
        if condition.status != "True":
            return f"{kind} is {condition.status}: {condition.message or condition.reason}"
    return ""


def _delivered_since(addon: Manifest, name: ReleaseName) -> list[str]:
    """Return when the addons of the release were first delivered since another release; none if it is not known.

    Conditions may be older than that: an upgrade that goes well need not change them.
    """
    ended = []
    for entry in mappings(addon, "status", "history"):
        if text(entry, "release") != name.release:
            break
        ended.append(text(entry, "ended"))
    return ended[-1:]


def _upgrades(addons: Sequence[Manifest], name: ReleaseName) -> dict[tuple[str, str, str], int]:
    counted: Counter[tuple[str, str, str]] = Counter()
    for addon in addons:
        for entry in mappings(addon, "status", "history"):
            before, after = text(entry, "fromRelease"), text(entry, "release")
            if before and before != after and name.release in (before, after):
                counted[before, after, text(entry, "result")] += 1
    return dict(sorted(counted.items()))
