"""``csctl why``: whether a Cluster may be upgraded now, and if not, which facts forbid it and what to do first."""

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
from clusterstacks.cli.shared.options import form_option
from clusterstacks.cli.shared.plan_output import (
    NO_WAY,
    UNDECIDED,
    live_commands,
    patch_command,
    print_document,
    print_refusal,
    print_steps,
    print_warnings,
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
"""Steps told of a plan; ``csctl plan`` tells all."""


@click.command(short_help="Say why an upgrade is refused, and what to do first.")
@click.argument("cluster", metavar="NAMESPACE/CLUSTER", type=ClusterName())
@click.argument("target", metavar="RELEASE|VERSION")
@management_options
@form_option("text", "json", "yaml")
@timeout_option
def why(
    cluster: ObjectKey, target: str, management: ManagementCluster, releases: Path | None, form: str, timeout: float
) -> int:
    """Say whether a Cluster may be moved to a release or a Kubernetes version by one write now.

    If not: which facts forbid it and where they are from, and the first steps of the plan that gets there. The decision
    is that of the operator's webhooks; nothing is written. Releases are found as by 'csctl plan'.

    Exits with 0 when it is allowed, or there is a way; 3 when there is none; 4 when the search stopped undecided.
    """
    from clusterstacks.planner.state_file import parse_target

    goal = parse_target(target)
    outlook, patch, decision = asyncio.run(_asked(management, cluster, releases, goal))
    way: dict[str, Any] = {"steps": [], "refused": None, "warnings": outlook.hints(goal)}
    if not decision.answer.allowed:
        found = search_live_plan(outlook, goal, timeout)
        if found is None:
            return UNDECIDED
        way = found[1]
    document = _document(decision, patch, way)
    if form != "text":
        print_document(document, form)
    else:
        _print_text(document, management, cluster, goal)
    return NO_WAY if document["noWay"] is not None else 0


@dataclass(frozen=True, slots=True)
class _LiveReleases:
    """The releases that admission would know, from the outlook."""

    outlook: Outlook

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:  # noqa: ARG002 - all of the stack is known
        from clusterstacks.webhooks.cluster_rules import ClassOffer

        known = {one.name: one for one in self.outlook.world.candidates}
        if release not in known:
            return None
        return ClassOffer(known[release].kubernetes.text, self.outlook.offered.policy(release), known)

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:  # noqa: ARG002 - see below
        """Leave namespaces to admission: users of csctl may lack the right to read the labels that decide."""
        return ""

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:  # noqa: ARG002 - there is one cluster
        delivered = self.outlook.cluster.delivered
        return {addon: one.release for addon, one in delivered.items() if one.release is not None}


async def _asked(
    management: ManagementCluster, cluster: ObjectKey, releases: Path | None, goal: Target
) -> tuple[Outlook, Manifest, Decision]:
    """Ask what the webhooks would say to the one write that goes all the way; returns its patch, too."""
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
        rules=lambda release, labels: rules,  # noqa: ARG005 - the outlook has those that count for this cluster
        upstream=outlook.world.upstream,
    )
    return outlook, merge_diff(old, new), await validator.decide(request)


def _document(decision: Decision, patch: Manifest, way: dict[str, Any]) -> dict[str, Any]:
    answer = decision.answer
    return {
        "allowed": answer.allowed,
        "patch": patch,
        "refusal": answer.refusal or None,
        "facts": [{"id": one.fact, "text": one.text, "addon": one.addon or None} for one in decision.against],
        "steps": way["steps"],
        "noWay": way["refused"],
        "warnings": list(dict.fromkeys([*way["warnings"], *answer.warnings])),
    }


def _print_text(document: dict[str, Any], management: ManagementCluster, cluster: ObjectKey, goal: Target) -> None:
    print_warnings(document["warnings"])
    if document["allowed"]:
        if not document["patch"]:
            output.say(f"Cluster {cluster} asks for {goal} already.")
            return
        output.say(f"Allowed: Cluster {cluster} may move to {goal} now:")
        output.say(f"  {patch_command(management, cluster, document['patch'])}")
        return
    output.say(f"Refused: Cluster {cluster} may not move to {goal} now:")
    for fact in document["facts"]:
        output.say(f"  {fact['id']}: {fact['text']}")
    if not document["facts"]:
        output.say(f"  {document['refusal']}")
    if document["noWay"] is not None:
        print_refusal(document["noWay"])
        return
    steps = document["steps"]
    output.say("What to do instead:")
    print_steps(steps[:SHOWN_STEPS], live_commands(management, cluster))
    if len(steps) > SHOWN_STEPS:
        output.say(f"'{output.program()} plan {cluster} --to {goal}' shows all {len(steps)} steps.")
