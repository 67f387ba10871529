"""The points of an upgrade against the lifecycle hooks of the Cluster API book."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.files.addon_config import LifecycleHook
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon.snapshot import upgrade_state
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import Milestone, UpgradeState, milestone_of

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

OLD, NEW = KubernetesVersion(1, 35, 4), KubernetesVersion(1, 36, 1)
INITIALIZED, BEFORE, AFTER_CONTROL_PLANE, AFTER_WORKERS, AFTER_CLUSTER = LifecycleHook
RECONCILED = "waiting for the Cluster's condition TopologyReconciled to be True for its newest generation"
DEFERRAL = "; Cluster API defers the upgrade of a pool because of an annotation"
DEFERRED = "MachineDeploymentsUpgradeDeferred"


def state(control_plane: str, workers: str = "", reconciled: str = "True", **fields: object) -> UpgradeState:
    """Read ``old new``: some report the old version, some the new one."""
    versions = {"old": OLD, "new": NEW}
    return UpgradeState(
        control_plane=tuple(versions[word] for word in control_plane.split()),
        workers=tuple(versions[word] for word in workers.split()),
        wanted=NEW,
        topology_reconciled=reconciled == "True",
        **fields,  # type: ignore[arg-type]  # outdated and deferred
    )


BOOK = [
    # The hooks that are due, by "Implementing Lifecycle Hook Runtime Extensions" of the book, in the order of time.
    ("the Cluster is changed", state("old", "old"), {BEFORE}),
    ("before the version goes to the control plane", state("old", "old", "False"), {BEFORE}),
    ("the control plane rolls", state("old new", "old", "False"), {BEFORE}),
    ("the control plane is upgraded", state("new", "old", "False"), {BEFORE, AFTER_CONTROL_PLANE}),
    ("workers roll", state("new", "old new", "False"), {BEFORE, AFTER_CONTROL_PLANE}),
    ("workers are upgraded", state("new", "new", "False"), {BEFORE, AFTER_CONTROL_PLANE, AFTER_WORKERS}),
    ("the cluster is upgraded", state("new", "new"), {BEFORE, AFTER_CONTROL_PLANE, AFTER_WORKERS, AFTER_CLUSTER}),
    ("no workers, control plane upgraded", state("new", "", "False"), {BEFORE, AFTER_CONTROL_PLANE}),
    ("no workers, upgraded", state("new"), {BEFORE, AFTER_CONTROL_PLANE, AFTER_WORKERS, AFTER_CLUSTER}),
]


@pytest.mark.parametrize(
    ("found", "old"),
    [
        (state("new", "", "False"), 0),
        (state("new new", "new", "False"), 0),
        (state("new", "new", outdated=1), 0),
        (state("new old", "new"), 1),
        (state("new", "new old"), 1),
        (state("old"), 1),
        (state("", "new"), 1),
    ],
)
def test_a_cluster_has_the_versions_when_control_plane_and_workers_report_no_other(
    found: UpgradeState, old: int
) -> None:
    assert found.has_versions == (not old)


@pytest.mark.regression("D26")
@pytest.mark.parametrize(("state", "due"), [row[1:] for row in BOOK], ids=[row[0] for row in BOOK])
def test_stages_are_due_when_the_cluster_api_book_calls_their_hook(
    state: UpgradeState, due: set[LifecycleHook]
) -> None:
    upgrading = (BEFORE, AFTER_CONTROL_PLANE, AFTER_WORKERS, AFTER_CLUSTER)

    assert {hook for hook in upgrading if not state.missing(milestone_of(hook))} == due


@pytest.mark.parametrize(
    ("state", "milestone", "message"),
    [
        (state("old"), Milestone.CONTROL_PLANE, "waiting for the control plane to report v1.36.1; it reports v1.35.4"),
        (
            state("new old"),
            Milestone.CONTROL_PLANE,
            "waiting for the control plane to report v1.36.1; it reports v1.35.4",
        ),
        (state(""), Milestone.CLUSTER, "waiting for the control plane to report v1.36.1; it reports no version"),
        (
            state("new", "old new", "False"),
            Milestone.WORKERS,
            "waiting for the workers to report v1.36.1; some report v1.35.4",
        ),
        (
            state("new", "old", "False", deferred=True),
            Milestone.CLUSTER,
            f"waiting for the workers to report v1.36.1; some report v1.35.4{DEFERRAL}",
        ),
        (state("new", "new", "False"), Milestone.CLUSTER, RECONCILED),
        (state("new", "", "False"), Milestone.WORKERS, RECONCILED),
        (
            state("new", outdated=2),
            Milestone.WORKERS,
            "waiting for the workers to be replaced by workers with v1.36.1",
        ),
    ],
)
def test_wait_message_names_what_is_missing(state: UpgradeState, milestone: Milestone, message: str) -> None:
    assert state.missing(milestone) == message


def test_a_pool_outside_the_topology_that_keeps_its_version_holds_nothing_back() -> None:
    assert not state("new", "old new").missing(Milestone.CLUSTER)


def cluster(version: str = "v1beta2", *, pools: bool = False, **status: object) -> Manifest:
    workers = {"machinePools": [{"class": "default", "name": "pool"}]} if pools else {}
    return {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team", "generation": 2},
        "spec": {"topology": {"classRef": {"name": "local-demo-1-36-v1"}, "version": "v1.36.1", "workers": workers}},
        "status": status,
    }


def reconciled(status: str = "True", reason: str = "", **fields: object) -> list[Manifest]:
    return [{"type": "TopologyReconciled", "status": status, "reason": reason, **fields}]


DONE = {"versions": [{"version": "v1.36.1"}]}
COUNTED = {"replicas": 3, "upToDateReplicas": 1}


@pytest.mark.parametrize(
    ("manifest", "milestone", "waits"),
    [
        # Cluster API 1.14
        (cluster(controlPlane=DONE, workers=DONE, conditions=reconciled("False")), Milestone.WORKERS, ""),
        (
            cluster(controlPlane=DONE, workers={"versions": [{"version": "v1.35.4"}]}, conditions=reconciled("False")),
            Milestone.WORKERS,
            "some report v1.35.4",
        ),
        (
            cluster(
                controlPlane=DONE,
                workers={"versions": [{"version": "v1.35.4"}]},
                conditions=reconciled("False", DEFERRED),
            ),
            Milestone.WORKERS,
            "defers the upgrade of a pool",
        ),
        (cluster(controlPlane=DONE, conditions=reconciled(observedGeneration=1)), Milestone.CLUSTER, RECONCILED),
        (cluster(controlPlane=DONE, workers={"versions": [{"version": "x"}]}), Milestone.CLUSTER, RECONCILED),
        # 1.9 to 1.13: the topology may be reconciled while workers are replaced
        (cluster(controlPlane=DONE, workers=COUNTED, conditions=reconciled()), Milestone.WORKERS, "to be replaced"),
        (cluster(controlPlane=DONE, workers=COUNTED, conditions=reconciled()), Milestone.CLUSTER, "to be replaced"),
        (
            cluster(controlPlane=DONE, workers={"replicas": 3, "upToDateReplicas": 3}, conditions=reconciled()),
            Milestone.CLUSTER,
            "",
        ),
        (cluster(controlPlane=DONE, workers=COUNTED, conditions=reconciled(), pools=True), Milestone.CLUSTER, ""),
        (cluster(controlPlane=DONE, workers={"replicas": 3}, conditions=reconciled()), Milestone.CLUSTER, ""),
        # v1beta1, which Cluster API 1.10 and older serve
        (
            cluster("v1beta1", v1beta2={"workers": COUNTED, "controlPlane": DONE}, conditions=reconciled()),
            Milestone.CLUSTER,
            "to be replaced",
        ),
        (cluster("v1beta1", v1beta2={"controlPlane": DONE}, conditions=reconciled()), Milestone.CLUSTER, ""),
    ],
)
def test_upgrade_is_observed_in_what_each_version_of_cluster_api_reports(
    manifest: Manifest, milestone: Milestone, waits: str
) -> None:
    missing = upgrade_state(cluster_view(manifest), None).missing(milestone)

    assert waits in missing
    assert bool(missing) is bool(waits)
