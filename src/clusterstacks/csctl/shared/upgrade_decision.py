"""Decides whether one write may change a live Cluster to a target now, as the operator's webhooks do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.operator.webhooks.cluster_rules import ClassOffer, Decision
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.planner.model_builder import Target


@dataclass(frozen=True, slots=True)
class _LiveReleases:
    """Releases and deliveries for the webhook's validation, as csctl has read them."""

    context: UpgradeContext

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:  # noqa: ARG002 - all releases of the stack are known
        from clusterstacks.operator.webhooks.cluster_rules import ClassOffer

        known = {candidate.name: candidate for candidate in self.context.world.candidates}
        if release not in known:
            return None
        return ClassOffer(known[release].kubernetes.text, self.context.offered.policy(release), known)

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:  # noqa: ARG002 - see below
        """Skip the check of namespaces: users of csctl may not be allowed to read the labels of namespaces."""
        return ""

    async def similar(self, cluster: ClusterView, release: ReleaseName) -> Sequence[str]:  # noqa: ARG002 - see offer
        from clusterstacks.operator.class_offer import similar_classes

        known = (candidate.name for candidate in self.context.world.candidates)
        return [name.class_name for name in similar_classes(release, known)]

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:  # noqa: ARG002 - there is one cluster
        delivered = self.context.cluster.delivered
        return {addon: state.release for addon, state in delivered.items() if state.release is not None}


async def decide(context: UpgradeContext, goal: Target) -> tuple[Manifest, Decision]:
    """Validate the one write that reaches the goal, a known release or version; also return its patch."""
    from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
    from clusterstacks.model.objects import merge_diff
    from clusterstacks.operator.webhooks.cluster_validator import ClusterValidator
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest, Operation
    from clusterstacks.plan.clusters.context import moved_to

    rules, old = context.world.rules, context.cluster.view.raw
    new = moved_to(context, goal)
    request = AdmissionRequest("", Operation.UPDATE, CLUSTER_API_GROUP, CLUSTER_KIND, new, old, dry_run=True)
    validator = ClusterValidator(
        releases=_LiveReleases(context),
        rules=lambda release, labels: rules,  # noqa: ARG005 - the context contains only rules that apply to this cluster
        upstream=context.world.upstream,
    )
    return merge_diff(old, new), await validator.decide(request)


def decision_document(decision: Decision, patch: Manifest, plan: dict[str, Any]) -> dict[str, Any]:
    """Return a decision and a plan, the document of one, as JSON."""
    answer = decision.answer
    return {
        "allowed": answer.allowed,
        "patch": patch,
        "refusal": answer.refusal or None,
        "facts": [
            {"id": finding.fact, "text": finding.text, "addon": finding.addon or None} for finding in decision.against
        ],
        "steps": plan["steps"],
        "noWay": plan["refused"],
        "warnings": list(dict.fromkeys([*plan["warnings"], *answer.warnings])),
    }
