"""Checks from data in memory that a cluster is within its compatibility ranges: once settled, and when it was changed.

The webhook checks a change by the same facts, but the API server may have accepted it without asking the webhook.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.clusterapi import topology_variables
from clusterstacks.model.kinds.names import AddonCondition
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.operator.webhooks.cluster_rules import wanted_versions
from clusterstacks.plan.clusters.live_cluster import reported_workers
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.compat.kubernetes import judge_api, skew_rules
from clusterstacks.plan.compat.live_check import (
    CheckedCluster,
    Concern,
    ConcernReason,
    LiveFacts,
    concerns,
    joined_concerns,
)
from clusterstacks.plan.compat.release_facts import read_facts
from clusterstacks.plan.compat.rules.upgrades import bundle_refusal
from clusterstacks.plan.compat.support import SupportState
from clusterstacks.plan.compat.support_facts import support_ends
from clusterstacks.plan.compat.world import Candidate, ClusterVersions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import date

    from clusterstacks.model.files.compatibility import Component, Rule
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesMinor
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.plan.compat.verdicts import Upstream
    from clusterstacks.release.release import Release
    from clusterstacks.runtime.clock import Clock

    RulesOf: TypeAlias = Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...] | None]

ADVISORY = frozenset(
    {
        AddonCondition.DELIVERED,
        AddonCondition.HEALTHY,
        AddonCondition.IN_SYNC,
        AddonCondition.PAUSED,
        AddonCondition.SETTINGS_USED,
        AddonCondition.SUPPORTED,
        AddonCondition.WITHIN_RANGES,
    }
)
"""Conditions that only inform: they do not count for Ready."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatCheck:
    """Reports in condition ``WithinRanges`` which ranges and rules a cluster in its present state violates.

    No request is made to the cluster. As long as the rules have not been read, or the facts of a release are not known,
    the condition stays as it is.
    """

    stored: Callable[[Manifest, ReleaseName], Awaitable[Release | None]]
    """Opens a ClusterStackRelease's content that is on disk and was verified; see ``ReleaseFetcher``."""
    rules_of: RulesOf
    """Returns the provider's rules for a Cluster, by the release of its class and its labels; None until they have been
    read."""
    upstream: Upstream
    clock: Clock
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Check a cluster that has all its addons."""
        report_support(patch, snapshot.running.series, self.clock.now().date())
        labels = snapshot.cluster.labels
        rules = self.rules_of(snapshot.release, labels)
        candidates = await self._candidates(snapshot)
        if rules is None or candidates is None:
            return
        cluster = CheckedCluster(
            key=snapshot.cluster.key,
            versions=_versions(patch.status, snapshot, candidates),
            control_plane=max(snapshot.upgrade.control_plane, default=snapshot.upgrade.wanted),
            apis=_apis(patch.status),
        )
        if not self._report(patch, snapshot, cluster, rules):
            patch.true(AddonCondition.WITHIN_RANGES)

    async def check_request(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Report at once what speaks against the versions that a Cluster asks for; they may not be delivered for long.

        If nothing does, the condition stays as it is for a cluster with addons, until these are replaced.
        """
        rules = self.rules_of(snapshot.release, snapshot.cluster.labels)
        candidates = await self._candidates(snapshot)
        if rules is None or candidates is None:
            return
        own, kubernetes = candidates[snapshot.release], snapshot.upgrade.wanted
        try:
            wanted = (
                ClusterVersions(own, kubernetes)
                if own.is_bundle
                else wanted_versions(snapshot.requested, snapshot.release, kubernetes, candidates)
            )
        except SpecError as error:  # which the rollout reports
            log.debug("the versions of Cluster %s are not checked: %s", snapshot.cluster.key, error)
            return
        cluster = CheckedCluster(key=snapshot.cluster.key, versions=wanted, control_plane=kubernetes)
        if not self._report(patch, snapshot, cluster, rules) and not patch.status.get("addons"):
            patch.drop(AddonCondition.WITHIN_RANGES)

    def _report(
        self, patch: StatusPatch, snapshot: ClusterSnapshot, cluster: CheckedCluster, rules: tuple[Rule, ...]
    ) -> bool:
        """Report what speaks against the versions of a cluster; False if nothing does."""
        view, own = snapshot.cluster, cluster.versions.release
        judges = Judges(rules, self.upstream, view.labels, topology_variables(view.raw))
        problems = concerns(cluster, LiveFacts(judges, skew_rules(), judge_api))
        if own.is_bundle and (refusal := bundle_refusal(own.name, view.version, own.kubernetes.text, view.annotations)):
            problems = (Concern(ConcernReason.OUTSIDE, refusal), *problems)
        if problems:
            worst = problems[0]
            patch.false(AddonCondition.WITHIN_RANGES, worst.reason, joined_concerns(problems), worst.severity)
        return bool(problems)

    async def _candidates(self, snapshot: ClusterSnapshot) -> dict[ReleaseName, Candidate] | None:
        """Return what the releases of the cluster state; None while they are not known."""
        candidates: dict[ReleaseName, Candidate] = {}
        try:
            for name, manifest in snapshot.objects.items():
                async with self._opening:  # after a restart all clusters of a release come at once
                    release = await self.stored(manifest, name) if manifest is not None else None
                if release is not None:
                    candidates[name] = Candidate(name, release.metadata.kubernetes, release.compatibility)
                elif manifest is not None and (stated := read_facts(manifest)) is not None:
                    candidates[name] = stated
                else:
                    return None
        except ClusterStacksError as error:
            log.debug("the compatibility ranges of Cluster %s are not known: %s", snapshot.cluster.key, error)
            return None
        return candidates


def report_support(patch: StatusPatch, minor: KubernetesMinor, today: date) -> None:
    """Report a Kubernetes minor that left support, or leaves it soon.

    The message has the date and not the distance, so the condition is written when the minor comes within
    :data:`SOON_DAYS` of its end, and on the day after the end.
    """
    end = support_ends().get(minor)
    state = end.state(today) if end is not None else SupportState.UNKNOWN
    if end is None or state is SupportState.SUPPORTED:
        patch.drop(AddonCondition.SUPPORTED)
        return
    severity = Severity.WARNING if state is SupportState.ENDED else Severity.INFO
    message = f"Kubernetes {minor} {end.dated(today)} ({end.source}): 'csctl compat calendar' shows the way"
    patch.false(AddonCondition.SUPPORTED, state, message, severity)


def _versions(
    status: Manifest, snapshot: ClusterSnapshot, candidates: Mapping[ReleaseName, Candidate]
) -> ClusterVersions:
    addons: dict[str, tuple[Component, ...]] = {}
    for addon in mappings(status, "addons"):
        name, release = text(addon, "name"), release_named(text(addon, "release"))
        origin = candidates.get(release) if release is not None else None
        stated = origin.compatibility if origin is not None else None
        addons[name] = stated.of_addon(name) if stated is not None else ()
    return ClusterVersions(
        candidates[snapshot.release], snapshot.running, addons, tuple(reported_workers(snapshot.cluster))
    )


def _apis(status: Manifest) -> dict[tuple[str, str], list[str]]:
    """Return the titles of the delivered objects by apiVersion and kind."""
    titles: dict[tuple[str, str], list[str]] = {}
    for entry in mappings(status, "resources"):
        api_version, kind = api_version_of(entry), text(entry, "kind")
        name = "/".join(filter(None, (text(entry, "namespace"), text(entry, "name"))))
        titles.setdefault((api_version, kind), []).append(f"{kind} {name}")
    return titles


def api_version_of(entry: Manifest) -> str:
    """Return the apiVersion of an entry of ``status.resources``, which has group and version."""
    return "/".join(filter(None, (text(entry, "group"), text(entry, "version"))))
