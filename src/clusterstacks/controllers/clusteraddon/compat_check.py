"""The live check: whether a settled cluster is still inside its ranges, found out from what is in memory."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.api.clusterapi import topology_variables
from clusterstacks.api.names import AddonCondition
from clusterstacks.api.untyped import mappings, text
from clusterstacks.clusters.nodes import reported_workers
from clusterstacks.compat.constraints import Judges
from clusterstacks.compat.kubernetes import skew_rules
from clusterstacks.compat.live_check import CheckedCluster, LiveFacts, concerns, told_together
from clusterstacks.compat.removed_apis import judge_api
from clusterstacks.compat.rules.combination import Setup
from clusterstacks.compat.world import Candidate
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.domain.names import ReleaseName, release_named
from clusterstacks.sources.pinned_digests import Pins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.compat.verdicts import Upstream
    from clusterstacks.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.compatibility import Component, Rule
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.releases.store import ReleaseStore

    Counting: TypeAlias = Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...] | None]

ADVISORY = frozenset({AddonCondition.WITHIN_RANGES, AddonCondition.SETTINGS_USED, AddonCondition.PAUSED})
"""Conditions that tell of what may come: they do not count for Ready."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCheck:
    """Says in condition ``WithinRanges`` what speaks against a cluster as it is.

    No request is made. As long as the rules have not been read, or a release is not on disk, the condition stays as it
    is.

    Args:
        store: The releases on disk.
        counting: Returns the provider's rules for a Cluster, by the release of its class and its labels; None until
            they have been read.
        upstream: What upstream projects state.
    """

    store: ReleaseStore
    counting: Counting
    upstream: Upstream
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look(self, draft: StatusPatch, seen: ClusterSnapshot) -> None:
        """Judge a cluster that has all its addons."""
        labels = seen.cluster.labels
        rules = self.counting(seen.release, labels)
        candidates = await self._candidates(seen)
        if rules is None or candidates is None:
            return
        cluster = CheckedCluster(
            key=seen.cluster.key,
            setup=_setup(draft.status, seen, candidates),
            control_plane=max(seen.control_plane.reported, default=seen.control_plane.wanted),
            workers=reported_workers(seen.cluster),
            apis=_apis(draft.status),
        )
        judges = Judges(rules, self.upstream, labels, topology_variables(seen.cluster.raw))
        found = concerns(cluster, LiveFacts(judges, skew_rules(), judge_api))
        if found:
            worst = found[0]
            draft.false(AddonCondition.WITHIN_RANGES, worst.reason, told_together(found), worst.severity)
        else:
            draft.true(AddonCondition.WITHIN_RANGES)

    async def _candidates(self, seen: ClusterSnapshot) -> dict[ReleaseName, Candidate] | None:
        """Return what the releases of the cluster state; None while one is not on disk."""
        found: dict[ReleaseName, Candidate] = {}
        try:
            for name, manifest in seen.objects.items():
                pins = Pins.of(manifest or {})
                if not pins.digest:
                    return None
                async with self._opening:  # after a restart all clusters of a release come at once
                    release = await self.store.open(name, pins.digest, pins.charts)
                if release is None:
                    return None
                found[name] = Candidate(name, release.metadata.kubernetes, release.compatibility)
        except ClusterStacksError as error:
            log.debug("The ranges of Cluster %s are not known: %s", seen.cluster.key, error)
            return None
        return found


def _setup(status: Manifest, seen: ClusterSnapshot, candidates: Mapping[ReleaseName, Candidate]) -> Setup | None:
    own = candidates[seen.release]
    if own.is_bundle:
        return None
    addons: dict[str, tuple[Component, ...]] = {}
    for one in mappings(status, "addons"):
        name, release = text(one, "name"), release_named(text(one, "release"))
        origin = candidates.get(release) if release is not None else None
        stated = origin.compatibility if origin is not None else None
        addons[name] = stated.of_addon(name) if stated is not None else ()
    return Setup(own, seen.running, addons)


def _apis(status: Manifest) -> dict[tuple[str, str], list[str]]:
    """Sort the delivered objects by apiVersion and kind."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in mappings(status, "resources"):
        api_version = "/".join(filter(None, (text(one, "group"), text(one, "version"))))
        name = "/".join(filter(None, (text(one, "namespace"), text(one, "name"))))
        found.setdefault((api_version, text(one, "kind")), []).append(f"{text(one, 'kind')} {name}")
    return found
