"""Checks the versions of a running cluster, between two changes.

A cluster that was allowed can leave its ranges without a write: a rule of the provider appears, the facts change,
workers stay behind, or Kubernetes removes an API that its addons use. The messages are those of a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.rules.ranged_releases import ClusterChange, judge_change, one_line_refusal
from clusterstacks.plan.compat.rules.skew import judge_skew
from clusterstacks.plan.compat.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.compat.rules.skew import SkewRule
    from clusterstacks.plan.compat.verdicts import Judgement
    from clusterstacks.plan.compat.world import ClusterVersions

SHOWN_CONCERNS = 3
"""Number of concerns in a message, and of objects of one API; arbitrary."""


class ConcernReason(StrEnum):
    """Reasons of the condition, the worst first."""

    OUTSIDE = "OutsideRanges"
    """A fact forbids the combination of versions that the cluster has."""
    WORKERS_LAG = "WorkersLag"
    """Workers are too old for the control plane, or for the next minor."""
    API_ENDS = "ApiEnds"
    """Objects of the addons use an API version that this or the next minor does not serve."""
    RULE_WARNS = "RuleWarns"
    """A rule that only warns matches."""


@dataclass(frozen=True, slots=True)
class Concern:
    """A fact that speaks against a running cluster, and what to do."""

    reason: ConcernReason
    text: str
    severity: Severity = Severity.WARNING
    """Warning for the present, Info for the next minor and for rules that only warn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCluster:
    """A running cluster."""

    key: ObjectKey
    versions: ClusterVersions
    """The versions it has; ranges and rules do not apply where the release of the class is a bundle."""
    control_plane: KubernetesVersion
    """The newest version of its API servers."""
    apis: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """The objects of its addons, by apiVersion and kind."""


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """The facts by which a running cluster is checked; ``api`` judges an apiVersion and kind with a minor."""

    judges: Judges
    skew: tuple[SkewRule, ...]
    api: Callable[[str, str, KubernetesMinor], Judgement]


def concerns(cluster: CheckedCluster, facts: LiveFacts) -> tuple[Concern, ...]:
    """Return the facts that speak against a cluster, the worst first."""
    unsorted = [*_of_ranges(cluster, facts.judges), *_of_workers(cluster, facts.skew), *_of_apis(cluster, facts)]
    order = list(ConcernReason)
    return tuple(
        sorted(unsorted, key=lambda concern: (concern.severity is not Severity.WARNING, order.index(concern.reason)))
    )


def joined_concerns(listed: Sequence[Concern]) -> str:
    """Write concerns as one message."""
    return and_more([concern.text for concern in listed], SHOWN_CONCERNS, separator="; ")


def _of_ranges(cluster: CheckedCluster, judges: Judges) -> Iterator[Concern]:
    """Judge the versions as if they were asked for now; untested and unknown combinations are not reported."""
    if cluster.versions.release.is_bundle:
        return
    judged = judge_change(ClusterChange(wanted=cluster.versions, judges=judges))
    against = [finding for finding in judged.findings if finding.verdict is Verdict.INCOMPATIBLE]
    if against:
        # Rules state themselves what to do.
        all_rules = all(finding.fact.startswith("rule:") for finding in against)
        way = "" if all_rules else f"; 'csctl plan {cluster.key} --to RELEASE' shows the way to a release that fits"
        yield Concern(ConcernReason.OUTSIDE, f"{one_line_refusal(cluster.versions, against)}{way}")
    for warning in judged.warnings:
        yield Concern(ConcernReason.RULE_WARNS, warning, Severity.INFO)


def _of_workers(cluster: CheckedCluster, rules: tuple[SkewRule, ...]) -> Iterator[Concern]:
    workers = cluster.versions.workers
    if not workers:
        return
    oldest, present = min(workers), cluster.control_plane.series
    for reference, severity in ((present, Severity.WARNING), (_next(present), Severity.INFO)):
        judgement = judge_skew(rules, "kubelet", oldest.series, reference)
        if judgement.verdict is Verdict.INCOMPATIBLE:
            when = "stay behind" if reference == present else "are too old for the next minor"
            text = f"workers of {oldest} {when}: {judgement.text} ({judgement.source})"
            yield Concern(ConcernReason.WORKERS_LAG, f"{text}; let the workers follow the control plane", severity)
            return


def _of_apis(cluster: CheckedCluster, facts: LiveFacts) -> Iterator[Concern]:
    present = cluster.control_plane.series
    for (api_version, kind), names in sorted(cluster.apis.items()):
        for minor, severity in ((present, Severity.WARNING), (_next(present), Severity.INFO)):
            judgement = facts.api(api_version, kind, minor)
            if judgement.verdict is Verdict.INCOMPATIBLE:
                text = f"{and_more(names, SHOWN_CONCERNS)}: {judgement.text} ({judgement.source})"
                way = "move the addon to a version that does not use it"
                yield Concern(ConcernReason.API_ENDS, f"{text}; {way}", severity)
                break


def _next(minor: KubernetesMinor) -> KubernetesMinor:
    return KubernetesMinor(minor.major, minor.minor + 1)
