"""Questions about Clusters: the decision, and the way out where facts refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.webhooks.cluster_validator import Knowledge, annotation_warnings, weigh

if TYPE_CHECKING:
    from clusterstacks.compat.verdicts import Upstream
    from clusterstacks.webhooks.answers import AdmissionResponse
    from clusterstacks.webhooks.cluster_validator import Case
    from clusterstacks.webhooks.known_releases import KnownReleases
    from clusterstacks.webhooks.provider_rules import ProviderRules
    from clusterstacks.webhooks.reviews import Review
    from clusterstacks.webhooks.rules.cluster_versions import Decision
    from clusterstacks.webhooks.suggester import Adviser


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJudge:
    """Judges Clusters.

    Args:
        offers: Knows the releases.
        rules: The provider's.
        upstream: What upstream projects state.
        adviser: Finds the way out.
    """

    offers: KnownReleases
    rules: ProviderRules
    upstream: Upstream
    adviser: Adviser

    async def judge(self, review: Review) -> AdmissionResponse:
        """Judge a write of a Cluster."""
        known = Knowledge(offers=self.offers, counting=self.rules.counting, upstream=self.upstream)
        decision, case = await weigh(review, known)
        answer = await self._completed(decision, case)
        return replace(answer, warnings=(*answer.warnings, *await annotation_warnings(review, self.offers)))

    async def _completed(self, decision: Decision, case: Case | None) -> AdmissionResponse:
        if case is None or not decision.against:
            return decision.completed()
        way_out = await self.adviser.way_out(case.cluster, case.write, decision, case.offer, case.judges)
        return decision.completed(way_out)
