"""Decides the next action of an upgrade from what is observed of the Cluster.

Nothing is remembered between two decisions: a plan is made from the present state of the Cluster each time, and its
first step is taken when the Cluster has settled. So no step is taken twice, whoever was stopped in between, and a
change by somebody else leads to another plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.conditions import Condition, from_documents
from clusterstacks.model.documents import mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.addon_annotations import annotations_digest
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.clusterapi import is_paused, unpause_hint
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, PENDING_HOOKS_ANNOTATION, READY_CONDITION, Reason
from clusterstacks.model.names import ReleaseName
from clusterstacks.operator.controllers.clusteraddon.snapshot import upgrade_state
from clusterstacks.operator.controllers.clusteraddon.upgrade_wait import find_wait
from clusterstacks.plan.planner.plan_document import plan_document
from clusterstacks.plan.planner.planner import NoPlan, Undecided, find_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.clusters.live_cluster import LiveCluster
    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.model_builder import Target
    from clusterstacks.plan.planner.plan_document import Document
    from clusterstacks.plan.planner.planner import Plan

TOPOLOGY_RECONCILED: Final = "TopologyReconciled"
"""Condition of a Cluster whose topology Cluster API has written to its objects. Source: sigs.k8s.io/cluster-api."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The Cluster has its target, and is settled."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The Cluster changes, or somebody has to act, before the next step."""

    what: str
    since: str = ""
    """When the wait began (RFC 3339); empty if it is not known."""


@dataclass(frozen=True, slots=True)
class Patch:
    """The Cluster is to be patched."""

    steps: list[Document]
    """All steps that are left, as in the document of a plan; the first of them is the present one and has a patch."""
    resource_version: str
    """Resource version of the Cluster that the plan was made from."""

    @property
    def patch(self) -> Document:
        """Merge patch of the Cluster."""
        return dict(self.steps[0]["patch"])


@dataclass(frozen=True, slots=True)
class Blocked:
    """The upgrade cannot go on unless somebody changes something."""

    why: str
    """The cause, and what to do."""
    facts: tuple[Document, ...] = ()
    """The facts that exclude each plan, as in the document of a plan."""


Action = Arrived | Unsettled | Patch | Blocked


def next_action(context: UpgradeContext, target: Target, budget: Budget) -> Action:
    """Decide what comes next on the way to a target; ``budget`` limits the search for a plan."""
    found = obstacle(context.cluster)
    if found is not None:
        return found
    try:
        if isinstance(target, ReleaseName):
            context.candidate(target)
        answer = find_plan(context.world, context.state, target, budget)
    except SpecError as error:
        return Blocked(error.message)
    if isinstance(answer, Undecided):
        return Blocked("the search for a plan stopped without a result: choose a nearer target")
    return _first(context, answer, plan_document(context.world, context.state, target, answer))


def _first(context: UpgradeContext, answer: Plan | NoPlan, document: Document) -> Action:
    if isinstance(answer, NoPlan):
        return Blocked(document["refused"]["message"], tuple(document["refused"]["facts"]))
    steps = document["steps"]
    if not steps:
        return Arrived()
    missing = context.preparations(answer.steps[:1])
    return Blocked(missing[0]) if missing else _begin(context.cluster, steps)


def _begin(cluster: LiveCluster, steps: list[Document]) -> Unsettled | Patch:
    if steps[0]["patch"] is None:
        return Unsettled(f"nodes of {steps[0]['from']} are updated to {steps[0]['to']}")
    return Patch(steps, text(cluster.view.raw, "metadata", "resourceVersion"))


def obstacle(cluster: LiveCluster) -> Unsettled | Blocked | None:
    """Return why no step of any plan may begin now; None if the Cluster has settled.

    A Cluster has settled when no upgrade runs, Cluster API has reconciled its topology, and the operator reports the
    addons of its class and annotations as ready.
    """
    return next(_obstacles(cluster), None)


def _obstacles(cluster: LiveCluster) -> Iterator[Unsettled | Blocked]:
    view, addon = cluster.view, cluster.addon
    if view.paused:
        yield Unsettled(unpause_hint(view.key))
    if is_paused(addon):
        yield Unsettled(f"the ClusterAddon of Cluster {view.key} is paused")
    ready = _addons_ready(addon)
    if ready.reason == Reason.ROLLED_BACK:
        yield Blocked(f"an addon was rolled back: {_one_line(ready.message)}")
    running = find_wait(view, addon, cluster.control_plane, upgrade_state(view, cluster.control_plane))
    if running is not None:
        yield Unsettled(running.message, running.since)
    topology = condition_view(view.raw, TOPOLOGY_RECONCILED)
    if not (topology.true and topology.current):
        yield Unsettled(_one_line(topology.message) or "Cluster API has not reconciled the topology of the Cluster yet")
    if view.annotations.get(PENDING_HOOKS_ANNOTATION):
        yield Unsettled("Cluster API has not called the hooks after the last upgrade yet")
    yield from _undelivered(cluster)


def _undelivered(cluster: LiveCluster) -> Iterator[Unsettled]:
    view, addon, ready = cluster.view, cluster.addon, _addons_ready(cluster.addon)
    digest, reported = (
        text(addon, "status", "observedAddonAnnotations"),
        condition_view(view.raw, ADDONS_READY_CONDITION),
    )
    if digest != annotations_digest(view.annotations) or not reported.current:
        yield Unsettled("the operator has not seen the last change of the Cluster yet: check that it runs")
    if ready.status != "True":
        yield Unsettled(_one_line(ready.message) or "its addons are not ready", ready.last_transition_time)
    if not reported.true:
        yield Unsettled(_one_line(reported.message) or "its addons are not reported as ready")
    if not text(addon, "status", "observedInputs"):  # several reconciles delivered them, with different values
        yield Unsettled("its addons are delivered once more with the values after the change")


def _addons_ready(addon: Manifest) -> Condition:
    conditions = from_documents(mapping(addon, "status").get("conditions"))
    return next((one for one in conditions if one.type == READY_CONDITION), Condition(READY_CONDITION, "Unknown"))


def _one_line(message: str) -> str:
    return " ".join(message.split())
