"""Checks that a settled cluster is still within its compatibility ranges, from data in memory."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.clusterapi import topology_variables
from clusterstacks.model.kinds.names import AddonCondition
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.plan.clusters.live_cluster import reported_workers
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.compat.kubernetes import judge_api, skew_rules
from clusterstacks.plan.compat.live_check import CheckedCluster, LiveFacts, concerns, joined_concerns
from clusterstacks.plan.compat.world import Candidate, ClusterVersions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from clusterstacks.model.files.compatibility import Component, Rule
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.plan.compat.verdicts import Upstream
    from clusterstacks.release.release import Release

    RulesOf: TypeAlias = Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...] | None]

ADVISORY = frozenset(
    {
        AddonCondition.DELIVERED,
        AddonCondition.HEALTHY,
        AddonCondition.IN_SYNC,
        AddonCondition.PAUSED,
        AddonCondition.SETTINGS_USED,
        AddonCondition.WITHIN_RANGES,
    }
)
"""Conditions that only inform: they do not count for Ready."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatCheck:
    """Reports in condition ``WithinRanges`` which ranges and rules a cluster in its present state violates.

    No request is made to the cluster. As long as the rules have not been read, or a release is not on disk or must be
    verified, the condition stays as it is.
    """

    stored: Callable[[Manifest, ReleaseName], Awaitable[Release | None]]
    """Opens a ClusterStackRelease's content that is on disk and was verified; see ``ReleaseFetcher``."""
    rules_of: RulesOf
    """Returns the provider's rules for a Cluster, by the release of its class and its labels; None until they have been
    read."""
    upstream: Upstream
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Check a cluster that has all its addons."""
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
        judges = Judges(rules, self.upstream, labels, topology_variables(snapshot.cluster.raw))
        problems = concerns(cluster, LiveFacts(judges, skew_rules(), judge_api))
        if problems:
            worst = problems[0]
            patch.false(AddonCondition.WITHIN_RANGES, worst.reason, joined_concerns(problems), worst.severity)
        else:
            patch.true(AddonCondition.WITHIN_RANGES)

    async def _candidates(self, snapshot: ClusterSnapshot) -> dict[ReleaseName, Candidate] | None:
        """Return what the releases of the cluster state; None while one is not on disk."""
        candidates: dict[ReleaseName, Candidate] = {}
        try:
            for name, manifest in snapshot.objects.items():
                async with self._opening:  # after a restart all clusters of a release come at once
                    release = await self.stored(manifest, name) if manifest is not None else None
                if release is None:
                    return None
                candidates[name] = Candidate(name, release.metadata.kubernetes, release.compatibility)
        except ClusterStacksError as error:
            log.debug("the compatibility ranges of Cluster %s are not known: %s", snapshot.cluster.key, error)
            return None
        return candidates


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
