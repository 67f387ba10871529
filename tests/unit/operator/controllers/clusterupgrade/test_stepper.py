"""The next action of an upgrade, from everything that can be observed between two steps."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.addon_annotations import ADDON_ANNOTATION, annotations_digest
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, UPGRADE_HOLD_ANNOTATION
from clusterstacks.model.names import parse_target
from clusterstacks.operator.controllers.clusterupgrade.stepper import (
    Action,
    Arrived,
    Blocked,
    Patch,
    Unsettled,
    next_action,
)
from clusterstacks.plan.planner.budget import Budget
from tests.support.fakes.management_cluster import Management, source, stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest

RELEASES = {
    "p_s_1_34_v1": stated("v1.34.2"),
    "p_s_1_35_v1": stated("v1.35.4"),
    "p_s_1_36_v1": stated("v1.36.3"),
}
"""Bundles: class and Kubernetes move in one step."""
NAMES = [name.replace("_", "-") for name in RELEASES]
FIRST, LAST = NAMES[0], NAMES[-1]


@dataclass
class Prod:
    """A Cluster of which tests move the parts one by one, as Cluster API and the operator do."""

    release: str = FIRST
    version: str = "v1.34.2"
    annotations: dict[str, str] = field(default_factory=dict)
    offered: list[str] = field(default_factory=lambda: list(NAMES))
    control_plane: str = ""
    workers: str = ""
    reconciled: bool = True
    observed: bool = True
    delivered: tuple[str, str] = ("", "")
    digest: str = ""
    inputs: str = ""
    sources: dict[str, dict[str, bytes]] = field(default_factory=lambda: RELEASES)
    classes: dict[str, Manifest] = field(default_factory=dict)
    ready: dict[str, str] = field(default_factory=lambda: {"status": "True"})

    def __post_init__(self) -> None:
        for move in self.moves():
            move()

    def patch(self, patch: Manifest) -> None:
        """Apply a merge patch; nobody has seen it yet."""
        self.annotations |= patch.get("metadata", {}).get("annotations", {})
        topology = patch.get("spec", {}).get("topology", {})
        self.release = topology.get("classRef", {}).get("name", self.release)
        self.version = topology.get("version", self.version)
        self.reconciled = self.observed = False
        self.inputs = ""

    def moves(self) -> Iterator[Any]:
        """Yield what happens after a patch, in order."""
        yield lambda: setattr(self, "control_plane", self.version)
        yield lambda: setattr(self, "workers", self.version)
        yield lambda: setattr(self, "reconciled", True)
        yield lambda: setattr(self, "observed", True)
        yield self._deliver
        yield lambda: setattr(self, "inputs", "sha256:1")

    def _deliver(self) -> None:
        self.digest, self.delivered = annotations_digest(self.annotations), (self.release, self.version)

    def cluster(self) -> Manifest:
        observed = 2 if self.observed else 1
        conditions = [
            {"type": "TopologyReconciled", "status": str(self.reconciled), "observedGeneration": 2},
            {"type": ADDONS_READY_CONDITION, "status": self.ready["status"], "observedGeneration": observed},
        ]
        return {
            "metadata": {"generation": 2, "annotations": self.annotations},
            "spec": {"topology": {"classRef": {"name": self.release}, "version": self.version}},
            "status": {
                "controlPlane": {"versions": [{"version": self.control_plane}]},
                "workers": {"versions": [{"version": self.workers}]},
                "conditions": conditions,
            },
        }

    def addon(self) -> Manifest:
        return {
            "spec": {"clusterStack": self.delivered[0]},
            "status": {
                "deliveredKubernetesVersion": self.delivered[1],
                "observedAddonAnnotations": self.digest,
                "observedInputs": self.inputs,
                "conditions": [{"type": "Ready", "lastTransitionTime": "2026-05-06T07:08:09Z", **self.ready}],
                "addons": [{"name": "cni", "release": self.delivered[0], "objects": 1}],
            },
        }

    async def _action(self, target: str, cluster: Manifest, budget: Budget) -> Action:
        there = Management(sources={"kaas/one": source(**self.sources)})
        for minor in ("1.34", "1.35", "1.36"):
            await there.has_stack(minor)
        for name in self.offered:
            await there.has_release(name)
        for name, cluster_class in self.classes.items():
            await there.has("ClusterClass", name, cluster_class)
        await there.has("Cluster", "prod", cluster)
        await there.has("ClusterAddon", "cluster-addon-prod", self.addon())
        return next_action(await there.context(), parse_target(target), budget)

    def action(self, target: str = LAST, *, changed: Manifest | None = None, looks: int = 1_000_000) -> Action:
        """Return the next action of somebody who sees the Cluster for the first time."""
        cluster = self.cluster()
        for part, fields in (changed or {}).items():
            cluster[part] = copy.deepcopy(cluster[part]) | fields
        return asyncio.run(self._action(target, cluster, Budget(looks)))


def test_each_step_is_taken_once_when_the_one_before_has_settled() -> None:
    prod, patches = Prod(), []
    waits: list[str] = []
    while not isinstance(action := prod.action(), Arrived):
        assert isinstance(action, Patch), action
        patches.append(action.patch["spec"]["topology"])
        prod.patch(action.patch)
        for move in prod.moves():
            waiting = prod.action()
            assert isinstance(waiting, Unsettled), waiting
            waits.append(waiting.what)
            move()
    assert patches == [
        {"classRef": {"name": NAMES[1]}, "version": "v1.35.4"},
        {"classRef": {"name": NAMES[2]}, "version": "v1.36.3"},
    ]
    assert len(waits) == 12
    assert waits[-2:] == [
        "the operator has not reported the state of the addons yet",
        "its addons are delivered once more with the values after the change",
    ]


def test_several_minors_are_one_step_over_the_versions_that_the_class_lists() -> None:
    versions = ["v1.34.2", "v1.35.4", "v1.36.3"]
    wide = {"p_s_1_34_v1": stated("v1.34.2", ">=1.34 <1.37", cni="1.0.0")}
    prod = Prod(offered=[FIRST], sources=wide, classes={FIRST: {"spec": {"kubernetesVersions": versions}}})
    action = prod.action("v1.36.3")
    assert isinstance(action, Patch), action
    assert [action.patch] == [step["patch"] for step in action.steps]
    assert action.patch == {"spec": {"topology": {"version": "v1.36.3"}}}
    prod.patch(action.patch)
    for move in prod.moves():
        assert isinstance(prod.action("v1.36.3"), Unsettled)
        move()
    assert prod.action("v1.36.3") == Arrived()


@pytest.mark.parametrize("lagging", range(6))
def test_no_step_begins_while_one_part_lags(lagging: int) -> None:
    prod = Prod()
    first = prod.action()
    assert isinstance(first, Patch)
    prod.patch(first.patch)
    for number, move in enumerate(prod.moves()):
        if number != lagging:
            move()
    assert isinstance(prod.action(), Unsettled)


def test_addon_step_waits_until_the_operator_has_seen_the_annotation() -> None:
    prod = Prod()
    prod.annotations = {f"{ADDON_ANNOTATION}cni": NAMES[1]}
    assert prod.action() == Unsettled(
        "the operator has not seen the last change of the Cluster yet: check that it runs"
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {
                "ready": {
                    "status": "False",
                    "reason": "ObjectsApplyingOngoing",
                    "message": "1 of 4 objects\n not applied",
                }
            },
            Unsettled("1 of 4 objects not applied", "2026-05-06T07:08:09Z"),
        ),
        (
            {"ready": {"status": "False", "reason": "RolledBack", "message": "cni is unhealthy"}},
            Blocked("an addon was rolled back: cni is unhealthy"),
        ),
        (
            {"offered": [FIRST, LAST]},
            Blocked(
                f"class {NAMES[1]} does not exist yet: add v1 to spec.versions of ClusterStack team/s-1-35 and wait "
                "until it is ready"
            ),
        ),
        ({"workers": "v1.33.0"}, Unsettled("nodes of v1.33.0 are updated to v1.34.2")),
    ],
)
def test_what_keeps_a_settled_or_broken_cluster_from_the_next_step(changed: dict[str, Any], expected: Action) -> None:
    prod = Prod()
    for name, value in changed.items():
        setattr(prod, name, value)
    assert prod.action() == expected


def test_held_upgrade_waits_with_the_cause() -> None:
    prod = Prod()
    prod.patch({"spec": {"topology": {"classRef": {"name": NAMES[1]}, "version": "v1.35.4"}}})
    action = prod.action(changed={"metadata": {"generation": 2, "annotations": {UPGRADE_HOLD_ANNOTATION: "x"}}})
    assert isinstance(action, Unsettled)
    assert "the operator has not reported the state of the stages yet" in action.what


def test_paused_cluster_waits_for_its_owner() -> None:
    action = Prod().action(changed={"spec": {**Prod().cluster()["spec"], "paused": True}})
    assert isinstance(action, Unsettled)
    assert action.what.startswith("Cluster team/prod is paused: unpause it by spec.paused")


def test_reached_target_is_done_and_a_lower_one_is_refused() -> None:
    assert Prod().action("v1.34.2") == Arrived()
    lower = Prod(LAST, "v1.36.3").action("v1.35.4")
    assert isinstance(lower, Blocked)
    assert "v1.35.4" in lower.why


def test_unknown_release_and_undecided_search_say_what_to_do() -> None:
    unknown = Prod().action("p-s-1-36-v9")
    assert isinstance(unknown, Blocked)
    assert "add v9 to spec.versions of ClusterStack team/s-1-36" in unknown.why
    assert Prod().action(looks=0) == Blocked("the search for a plan stopped without a result: choose a nearer target")


def test_missing_minor_is_named() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.RELEASES", {name: RELEASES[name] for name in ("p_s_1_34_v1", "p_s_1_36_v1")})
        action = Prod().action()
    assert isinstance(action, Blocked)
    assert action.why.endswith("Kubernetes moves one minor at a time, and no release names a version of 1.35")
