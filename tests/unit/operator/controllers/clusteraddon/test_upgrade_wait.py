"""The message about a running upgrade, from the Cluster, its ClusterAddon and its control plane object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, PENDING_HOOKS_ANNOTATION, UPGRADE_HOLD_ANNOTATION
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
from clusterstacks.operator.controllers.clusteraddon.snapshot import upgrade_state
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import HoldState, UpgradeHold
from clusterstacks.operator.controllers.clusteraddon.upgrade_wait import UpgradeWait, WaitsFor, find_wait
from tests.support.builders.documents import JSON

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

OLD, NEW, KEY = "v1.35.4", "v1.36.1", ObjectKey("team", "prod")
SINCE = "2026-05-06T07:08:09Z"
TARGET = Target("stack-v2", NEW)
NOT_HEALTHY = "addon cni of stack-v2: 1 of 4 objects are not healthy yet:\n  DaemonSet.apps kube-system/cni"
DESCRIBED = UpgradeHold(TARGET, HoldState.HELD, SINCE).describe(KEY)
NOT_REPORTED = "the operator has not reported the state of the stages yet: check that it runs"


def cluster(
    message: str = "",
    *,
    held: bool = True,
    pending: str = "",
    control_plane: str = OLD,
    workers: str = OLD,
    reconciled: str = "False",
    paused: bool = False,
    observed: int = 2,
) -> Manifest:
    annotations = {UPGRADE_HOLD_ANNOTATION: "text"} if held else {}
    if pending:
        annotations[PENDING_HOOKS_ANNOTATION] = pending
    status = "False" if message else "True"
    addons = {"type": ADDONS_READY_CONDITION, "status": status, "message": message, "observedGeneration": observed}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"namespace": "team", "name": "prod", "generation": 2, "annotations": annotations},
        "spec": {"paused": paused, "topology": {"classRef": {"name": TARGET.class_name}, "version": NEW}},
        "status": {
            "controlPlane": {"versions": [{"version": control_plane}] if control_plane else []},
            "workers": {"versions": [{"version": workers}] if workers else []},
            "conditions": [addons, {"type": "TopologyReconciled", "status": reconciled}],
        },
    }


def addon(
    *stages: tuple[str, str], hold: UpgradeHold | None = None, target: Target = TARGET, recorded: str = "stack-v1"
) -> Manifest:
    """A ClusterAddon with stages of one addon, each by its hook and phase."""
    listed = [{"name": "cni", "action": "apply", "hook": hook, "phase": phase} for hook, phase in stages]
    status: dict[str, Any] = {}
    if recorded:
        status["deliveredKubernetesVersion"] = OLD if recorded != TARGET.class_name else NEW
    if stages:
        status |= {"target": target.class_name, "targetKubernetesVersion": target.version, "stages": listed}
    if hold is not None:
        status["upgradeHold"] = hold.document()
    return {"spec": {"clusterStack": recorded}, "status": status}


def found(seen: Manifest, its_addon: Manifest, version: str = OLD) -> UpgradeWait | None:
    control_plane = {"spec": {"version": version}} if version else {}
    view = cluster_view(seen)
    return find_wait(view, its_addon, control_plane, upgrade_state(view, control_plane))


def noted(state: HoldState = HoldState.HELD, target: Target = TARGET) -> UpgradeHold:
    return UpgradeHold(target, state, SINCE)


BEFORE, AFTER = "BeforeClusterUpgrade", "AfterClusterUpgrade"
RUNNING = ((BEFORE, "waitingForHealth"), (AFTER, "Pending"))


@pytest.mark.parametrize(
    ("seen", "its_addon", "version", "message", "since"),
    [
        pytest.param(
            cluster(f"{NOT_HEALTHY}; {DESCRIBED}"),
            addon(*RUNNING, hold=noted()),
            OLD,
            "addon cni of stack-v2: 1 of 4 objects are not healthy yet: DaemonSet.apps kube-system/cni",
            SINCE,
            id="a stage is not complete",
        ),
        pytest.param(
            cluster(f"it is not there; {UpgradeHold(TARGET, HoldState.HELD, '').describe(KEY)}"),
            addon(),
            OLD,
            "it is not there",
            "",
            id="the release does not exist, so the operator notes nothing",
        ),
        pytest.param(cluster(), addon(), OLD, NOT_REPORTED, "", id="the operator has not seen the change"),
        pytest.param(
            cluster(NOT_HEALTHY, observed=1),
            addon(),
            OLD,
            NOT_REPORTED,
            "",
            id="the condition is about an earlier rollout",
        ),
        pytest.param(
            cluster(NOT_HEALTHY, observed=1),
            addon(*RUNNING, hold=noted(target=Target("stack-v1", NEW)), target=Target("stack-v1", NEW)),
            OLD,
            NOT_REPORTED,
            "",
            id="the class changed while the upgrade was held",
        ),
        pytest.param(cluster(), {}, "", NOT_REPORTED, "", id="neither ClusterAddon nor control plane can be read"),
        pytest.param(
            cluster(f"{NOT_HEALTHY}; {DESCRIBED}"),
            addon(*RUNNING, hold=noted()) | {"spec": {}},
            OLD,
            "addon cni of stack-v2: 1 of 4 objects are not healthy yet: DaemonSet.apps kube-system/cni",
            SINCE,
            id="the ClusterAddon was deleted, so the class before the upgrade is not known",
        ),
        pytest.param(
            cluster(NOT_HEALTHY, paused=True),
            addon(),
            OLD,
            "Cluster team/prod is paused",
            "",
            id="the Cluster is paused",
        ),
    ],
)
def test_a_held_upgrade_has_a_cause_in_one_line(
    seen: Manifest, its_addon: Manifest, version: str, message: str, since: str
) -> None:
    wait = found(seen, its_addon, version)
    assert wait is not None
    assert (wait.waits_for, wait.target, wait.message, wait.since) == (WaitsFor.HOLD, TARGET, message, since)
    stages = its_addon.get("status", {}).get("stages") if since else None
    assert (wait.stage.hook if wait.stage else None) == (BEFORE if stages else None)


@pytest.mark.parametrize(
    ("seen", "its_addon", "version", "kind", "message"),
    [
        pytest.param(
            cluster(held=False),
            addon((BEFORE, "done"), (AFTER, "Pending"), hold=noted(HoldState.RELEASED)),
            OLD,
            WaitsFor.CONTROL_PLANE,
            "waiting for the control plane to report v1.36.1; it reports v1.35.4",
            id="the hold was released",
        ),
        pytest.param(
            cluster(),
            addon((BEFORE, "done"), (AFTER, "Pending"), hold=noted(HoldState.RELEASED)),
            "",
            WaitsFor.CONTROL_PLANE,
            "waiting for the control plane to report v1.36.1; it reports v1.35.4",
            id="the hold is set again, and the control plane cannot be read",
        ),
        pytest.param(
            cluster(pending=AFTER),
            addon((BEFORE, "done"), (AFTER, "Pending")),
            "",
            WaitsFor.CONTROL_PLANE,
            "waiting for the control plane to report v1.36.1; it reports v1.35.4",
            id="Cluster API has begun",
        ),
        pytest.param(
            cluster(control_plane=NEW),
            addon((BEFORE, "done"), (AFTER, "Pending")),
            NEW,
            WaitsFor.WORKERS,
            "waiting for the workers to report v1.36.1; some report v1.35.4",
            id="the workers roll",
        ),
        pytest.param(
            cluster(control_plane=NEW),
            addon(recorded=TARGET.class_name),
            NEW,
            WaitsFor.WORKERS,
            "waiting for the workers to report v1.36.1; some report v1.35.4",
            id="all addons are delivered, and the workers still roll",
        ),
        pytest.param(
            cluster(control_plane=NEW, workers=NEW),
            addon((BEFORE, "done"), (AFTER, "Pending")),
            NEW,
            WaitsFor.CLUSTER,
            "waiting for the Cluster's condition TopologyReconciled to be True for its newest generation",
            id="Cluster API is not done yet",
        ),
        pytest.param(
            cluster(NOT_HEALTHY, control_plane=NEW, workers=NEW, reconciled="True"),
            addon((BEFORE, "done"), (AFTER, "waitingForHealth")),
            NEW,
            WaitsFor.ADDONS,
            "addon cni of stack-v2: 1 of 4 objects are not healthy yet: DaemonSet.apps kube-system/cni",
            id="a stage after the upgrade is not complete",
        ),
        pytest.param(
            cluster(NOT_HEALTHY, control_plane=NEW, workers=NEW, reconciled="True"),
            addon((BEFORE, "done"), (AFTER, "waitingForHealth")) | {"spec": {}},
            NEW,
            WaitsFor.ADDONS,
            "addon cni of stack-v2: 1 of 4 objects are not healthy yet: DaemonSet.apps kube-system/cni",
            id="the ClusterAddon was deleted in the upgrade, so the class before it is not known",
        ),
        pytest.param(
            cluster(control_plane=NEW, workers=NEW),
            addon(),
            NEW,
            WaitsFor.ADDONS,
            "the operator has not reported the state of the addons yet",
            id="another class with the same version, not seen yet",
        ),
    ],
)
def test_an_upgrade_that_has_begun_waits_for_the_next_point(
    seen: Manifest, its_addon: Manifest, version: str, kind: WaitsFor, message: str
) -> None:
    wait = found(seen, its_addon, version)
    assert wait is not None
    assert (wait.waits_for, wait.message, wait.since) == (kind, message, "")


@pytest.mark.parametrize(
    ("seen", "its_addon"),
    [
        pytest.param(
            cluster(control_plane=NEW, workers=NEW, reconciled="True"), addon(recorded="stack-v2"), id="nothing changes"
        ),
        pytest.param(
            cluster(control_plane=NEW, workers=NEW),
            addon(recorded="stack-v2"),
            id="the topology is not reconciled for another reason",
        ),
        pytest.param(
            cluster(control_plane=NEW, workers=OLD, reconciled="True"),
            addon(recorded="stack-v2"),
            id="a pool outside the topology keeps its version",
        ),
        pytest.param(cluster(held=False, control_plane="", workers=""), addon(recorded=""), id="installation"),
    ],
)
def test_a_cluster_without_an_upgrade_waits_for_nothing(seen: Manifest, its_addon: Manifest) -> None:
    assert found(seen, its_addon, NEW) is None


@given(status=JSON, raw=JSON)
def test_any_status_is_read_without_an_error(status: object, raw: object) -> None:
    seen = cluster()
    seen["status"] = raw
    found(seen, {"spec": {"clusterStack": "stack-v1"}, "status": status})
