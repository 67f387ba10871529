"""``csctl why``: explain why an upgrade of a Cluster is refused, and print the first steps of a plan."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    management_options,
    read_cluster_outlook,
)
from clusterstacks.cli.shared.options import TEXT, form_option
from clusterstacks.cli.shared.plan_output import (
    NO_PLAN,
    UNDECIDED,
    live_commands,
    patch_command,
    print_fact,
    print_refusal,
    print_steps,
    search_live_plan,
    timeout_option,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.clusters.context import Outlook
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.planner.model_builder import Target
    from clusterstacks.webhooks.cluster_rules import ClassOffer, Decision

SHOWN_STEPS = 3
"""Number of steps to print; ``csctl plan`` prints all."""


@click.command(short_help="Explain why an upgrade is refused, and what to do first.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@click.argument("target", metavar="RELEASE|VERSION")
@management_options
@form_option("text", "json", "yaml")
@timeout_option
def why(
    cluster: ObjectKey, target: str, management: ManagementCluster, releases: Path | None, form: str, timeout: float
) -> int:
    """Check if one write may change a Cluster to a release or a Kubernetes version now.

    If not, csctl prints the facts that block it, their sources, and the first steps of a plan. The decision is the one
    of the operator's webhooks. Nothing is written. Releases are found as with 'csctl plan'.

    Exits with 0 if the change is allowed or there is a plan, 3 if there is no plan, and 4 if the search stopped without
    a result.
    """
    from clusterstacks.planner.state_file import parse_target

    goal = parse_target(target)
    outlook, patch, decision = asyncio.run(_validate(management, cluster, releases, goal))
    plan: dict[str, Any] = {"steps": [], "refused": None, "warnings": outlook.hints(goal)}
    if not decision.answer.allowed:
        found = search_live_plan(outlook, goal, timeout)
        if found is None:
            return UNDECIDED
        plan = found[1]
    document = _document(decision, patch, plan)
    if form != TEXT:
        output.print_document(document, form)
    else:
        _print_text(document, management, cluster, goal)
    return NO_PLAN if document["noWay"] is not None else 0


@dataclass(frozen=True, slots=True)
class _LiveReleases:
    """Releases and deliveries for the webhook's validation, from the outlook."""

    outlook: Outlook

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:  # noqa: ARG002 - all releases of the stack are known
        from clusterstacks.webhooks.cluster_rules import ClassOffer

        known = {one.name: one for one in self.outlook.world.candidates}
        if release not in known:
            return None
        return ClassOffer(known[release].kubernetes.text, self.outlook.offered.policy(release), known)

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:  # noqa: ARG002 - see below
        """Skip the check of namespaces: users of csctl may not be allowed to read the labels of namespaces."""
        return ""

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:  # noqa: ARG002 - there is one cluster
        delivered = self.outlook.cluster.delivered
        return {addon: one.release for addon, one in delivered.items() if one.release is not None}


async def _validate(
    management: ManagementCluster, cluster: ObjectKey, releases: Path | None, goal: Target
) -> tuple[Outlook, Manifest, Decision]:
    """Validate the one write that reaches the goal as the webhooks do; also return its patch."""
    from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND
    from clusterstacks.clusters.context import moved_to
    from clusterstacks.domain.objects import merge_diff
    from clusterstacks.webhooks.cluster_validator import ClusterValidator
    from clusterstacks.webhooks.reviews import AdmissionRequest, Operation

    async with management.connected() as client:
        outlook = await read_cluster_outlook(client, cluster, releases, goal)
    rules, old = outlook.world.rules, outlook.cluster.view.raw
    new = moved_to(outlook, goal)
    request = AdmissionRequest("", Operation.UPDATE, CLUSTER_API_GROUP, CLUSTER_KIND, new, old, dry_run=True)
    validator = ClusterValidator(
        releases=_LiveReleases(outlook),
        rules=lambda release, labels: rules,  # noqa: ARG005 - the outlook contains only rules that apply to this cluster
        upstream=outlook.world.upstream,
    )
    return outlook, merge_diff(old, new), await validator.decide(request)


def _document(decision: Decision, patch: Manifest, plan: dict[str, Any]) -> dict[str, Any]:
    answer = decision.answer
    return {
        "allowed": answer.allowed,
        "patch": patch,
        "refusal": answer.refusal or None,
        "facts": [{"id": one.fact, "text": one.text, "addon": one.addon or None} for one in decision.against],
        "steps": plan["steps"],
        "noWay": plan["refused"],
        "warnings": list(dict.fromkeys([*plan["warnings"], *answer.warnings])),
    }


def _print_text(document: dict[str, Any], management: ManagementCluster, cluster: ObjectKey, goal: Target) -> None:
    output.warn_all(document["warnings"])
    if document["allowed"]:
        if not document["patch"]:
            output.say(f"Nothing to do: Cluster {cluster} already has {goal}.")
            return
        output.say(f"Allowed: Cluster {cluster} can change to {goal} now:")
        output.say(f"  {patch_command(management, cluster, document['patch'])}")
        return
    output.say(f"Refused: Cluster {cluster} cannot change to {goal} now:")
    for fact in document["facts"]:
        print_fact(fact)
    if not document["facts"]:
        output.say(f"  {document['refusal']}")
    if document["noWay"] is not None:
        print_refusal(document["noWay"])
        return
    steps = document["steps"]
    output.say("Do this first:")
    print_steps(steps[:SHOWN_STEPS], live_commands(management, cluster))
    if len(steps) > SHOWN_STEPS:
        output.say(f"'{output.program()} plan {cluster} --to {goal}' shows all {len(steps)} steps.")
