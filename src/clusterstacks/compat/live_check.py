"""What speaks against a cluster as it is, before anyone moves it.

A cluster that was let through can slide out of its ranges while nobody writes to it: a rule of the provider appears,
the facts change, workers stay behind, an API its addons use comes to its end. The words are those of a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.compat.messages import told_against
from clusterstacks.compat.rules.combination import judge_setup
from clusterstacks.compat.skew import judge_skew
from clusterstacks.compat.verdicts import Verdict
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.versions import KubernetesMinor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.rules.combination import Setup
    from clusterstacks.compat.skew import SkewRule
    from clusterstacks.compat.verdicts import Judgement
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.domain.versions import KubernetesVersion

SHOWN_CONCERNS = 3
"""Concerns of one kind that are told, and objects of one API; arbitrary."""


class ConcernReason(StrEnum):
    """What is wrong, the worst first."""

    OUTSIDE = "OutsideRanges"
    """A fact forbids the combination that the cluster has."""
    WORKERS_LAG = "WorkersLag"
    """Workers are too old for the control plane, or for the next minor."""
    API_ENDS = "ApiEnds"
    """Objects of the addons are of an API version that this or the next minor does not serve."""
    RULE_WARNS = "RuleWarns"
    """A rule that only warns matches."""


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that speaks against a cluster.

    Args:
        reason: Its kind.
        text: For a person, with the way out.
        severity: Warning where it holds now, Info where it is about to, or only warns.
    """

    reason: ConcernReason
    text: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCluster:
    """A cluster as it is.

    Args:
        key: Of its Cluster.
        setup: Class, Kubernetes version and addons that it has; None where the class is a bundle's, to which no range
            and no rule applies.
        control_plane: The newest version of its API servers.
        workers: Versions of its workers, as far as they are known.
        apis: The addons' objects, by apiVersion and kind.
    """

    key: ObjectKey
    setup: Setup | None
    control_plane: KubernetesVersion
    workers: Sequence[KubernetesVersion] = ()
    apis: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """What decides.

    Args:
        judges: Rules and upstream facts.
        skew: How far kubelets may be behind.
        api: Judges the use of an apiVersion and kind with a minor.
    """

    judges: Judges
    skew: tuple[SkewRule, ...]
    api: Callable[[str, str, KubernetesMinor], Judgement]


def concerns(cluster: CheckedCluster, facts: LiveFacts) -> tuple[Concern, ...]:
    """Find what speaks against a cluster, the worst first."""
    found = [*_of_ranges(cluster, facts.judges), *_of_workers(cluster, facts.skew), *_of_apis(cluster, facts)]
    order = list(ConcernReason)
    return tuple(sorted(found, key=lambda one: (one.severity is not Severity.WARNING, order.index(one.reason))))


def told_together(found: Sequence[Concern]) -> str:
    """Write concerns as one message."""
    more = f"; and {len(found) - SHOWN_CONCERNS} more" if len(found) > SHOWN_CONCERNS else ""
    return "; ".join(one.text for one in found[:SHOWN_CONCERNS]) + more


def _of_ranges(cluster: CheckedCluster, judges: Judges) -> Iterator[Concern]:
    """Judge the combination as if it were asked for now; what nobody tried or knows is no news and not told."""
    if cluster.setup is None:
        return
    judged = judge_setup(cluster.setup, None, judges)
    against = [one for one in judged.findings if one.verdict is Verdict.INCOMPATIBLE]
    if against:
        # Rules state their own way out.
        all_rules = all(one.fact.startswith("rule:") for one in against)
        way = "" if all_rules else f"; 'csctl plan {cluster.key} --to RELEASE' shows the way to a release that fits"
        yield Concern(ConcernReason.OUTSIDE, f"{told_against(cluster.setup, against)}{way}")
    for warning in judged.warnings:
        yield Concern(ConcernReason.RULE_WARNS, warning, Severity.INFO)


def _of_workers(cluster: CheckedCluster, rules: tuple[SkewRule, ...]) -> Iterator[Concern]:
    if not cluster.workers:
        return
    oldest, present = min(cluster.workers), cluster.control_plane.series
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
                text = f"{_listed(names)}: {judgement.text} ({judgement.source})"
                way = "move the addon to a version that does not use it"
                yield Concern(ConcernReason.API_ENDS, f"{text}; {way}", severity)
                break


def _next(minor: KubernetesMinor) -> KubernetesMinor:
    return KubernetesMinor(minor.major, minor.minor + 1)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_CONCERNS} more" if len(names) > SHOWN_CONCERNS else ""
    return ", ".join(names[:SHOWN_CONCERNS]) + more
