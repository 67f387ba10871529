from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.plan.clusters.cluster_summary import summarize
from clusterstacks.plan.clusters.cluster_tree import NodeState, Snapshot, ViewNode, cluster_status, overview, picture


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "generation": 1}, **fields}


def ready(status: str, severity: str = "", message: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "severity": severity, "message": message, "lastTransitionTime": "x"}
    return {"conditions": [condition]}


def lines(snapshot: Snapshot) -> list[tuple[int, str, NodeState]]:
    return [(depth, node.title, node.state) for root in picture(snapshot) for depth, node in root.lines()]


def test_a_stack_shows_its_releases_and_their_classes() -> None:
    spec = {"provider": "local", "name": "demo", "kubernetesVersion": "1.35"}
    status = {"ready": True, "kubernetesVersion": "v1.35.4"}
    snapshot = Snapshot(
        stacks=[named("demo", spec=spec, status={"usableVersions": "v1", **ready("True")})],
        releases=[named(f"local-demo-{minor}-v1", status=status) for minor in ("1-35", "1-36")],
        classes=[named("local-demo-1-35-v1", status={"observedGeneration": 1})],
    )

    assert lines(snapshot) == [
        (0, "ClusterStack demo", NodeState.DONE),
        (1, "ClusterStackRelease local-demo-1-35-v1", NodeState.DONE),
        (2, "ClusterClass local-demo-1-35-v1", NodeState.DONE),
    ]


def test_error_is_failed_and_other_unready_states_are_in_progress() -> None:
    broken = named("a", status=ready("False", "Error", "metadata.yaml is missing"))
    waiting = named("b", status=ready("False", "Info", "downloading"))

    drawn = picture(Snapshot(stacks=[broken, waiting]))

    assert [(node.state, node.detail) for node in drawn] == [
        (NodeState.FAILED, "metadata.yaml is missing"),
        (NodeState.WORKING, "downloading"),
    ]


def test_cluster_is_done_if_control_plane_and_addons_are_ready() -> None:
    cluster = named(
        "one",
        spec={"topology": {"classRef": {"name": "local-demo-1-35-v1"}}},
        status={
            "initialization": {"controlPlaneInitialized": True},
            "controlPlane": {"versions": [{"version": "v1.35.4"}]},
        },
    )
    stage = {"name": "network", "action": "apply", "phase": "done", "hook": "AfterControlPlaneInitialized"}
    addon = named("cluster-addon-one", spec={"clusterRef": {"name": "one"}}, status={"ready": False, "stages": [stage]})
    done = {**addon, "status": {"ready": True, "addons": [{"name": "network", "objects": 10, "release": "r"}]}}

    before = lines(Snapshot(clusters=[cluster], addons=[addon]))
    after = lines(Snapshot(clusters=[cluster], addons=[done]))

    assert before == [
        (0, "Cluster one", NodeState.WORKING),
        (1, "control plane", NodeState.DONE),
        (1, "addons", NodeState.WORKING),
        (2, "AfterControlPlaneInitialized: apply network", NodeState.DONE),
    ]
    assert after[0] == (0, "Cluster one", NodeState.DONE)
    assert after[-1] == (2, "network", NodeState.DONE)


def machine(name: str, version: str, phase: str = "Running", pool: str = "pool") -> dict[str, Any]:
    labels = {"topology.cluster.x-k8s.io/deployment-name": pool}
    spec = {"clusterName": "one", "version": version}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}}


def test_the_tree_shows_an_upgrade_of_the_control_plane_and_then_of_the_workers() -> None:
    cluster = named(
        "one",
        spec={"topology": {"classRef": {"name": "local-demo-1-36-v1"}, "version": "v1.36.3"}},
        status={
            "initialization": {"controlPlaneInitialized": True},
            "controlPlane": {"versions": [{"version": "v1.35.4"}]},
        },
    )
    upgraded = {**cluster, "status": {**cluster["status"], "controlPlane": {"versions": [{"version": "v1.36.3"}]}}}
    pool = {
        **machine("one-pool", ""),
        "spec": {"clusterName": "one", "replicas": 2, "template": {"spec": {"version": "v1.35.4"}}},
        "status": {"availableReplicas": 2, "upToDateReplicas": 2},
    }
    spec = {**pool["spec"], "template": {"spec": {"version": "v1.36.3"}}}
    rolling = {**pool, "spec": spec, "status": {"availableReplicas": 2, "upToDateReplicas": 1}}
    old, other = machine("a", "v1.35.4"), machine("b", "v1.35.4")
    new, elsewhere = machine("c", "v1.36.3", "Provisioning"), machine("d", "v1.36.3", pool="other")

    def drawn(cluster: dict[str, Any], pool: dict[str, Any], *machines: dict[str, Any]) -> list[tuple[str, str, str]]:
        (root,) = picture(Snapshot(clusters=[cluster], pools=[pool], machines=[*machines, elsewhere]))
        return [(node.title, node.state.value, node.detail) for _, node in root.lines()][1:]

    assert drawn(cluster, pool, old, other) == [
        ("control plane", "working", "v1.35.4, not yet v1.36.3"),
        ("workers pool", "done", "2 of 2 available, v1.35.4"),
        ("Machine a", "done", "v1.35.4 Running"),
        ("Machine b", "done", "v1.35.4 Running"),
    ]
    not_seen = {**pool, "spec": spec}
    assert drawn(upgraded, not_seen, old, other)[1] == ("workers pool", "working", "2 of 2 available, v1.36.3")
    assert drawn(upgraded, rolling, old, other, new) == [
        ("control plane", "done", "v1.36.3"),
        ("workers pool", "working", "2 of 2 available, v1.36.3"),
        ("Machine a", "done", "v1.35.4 Running"),
        ("Machine b", "done", "v1.35.4 Running"),
        ("Machine c", "working", "v1.36.3 Provisioning"),
    ]


def test_the_control_plane_shows_that_an_upgrade_is_held() -> None:
    versions = {"controlPlane": {"versions": [{"version": "v1.35.4"}]}}
    cluster = named(
        "one",
        spec={"topology": {"classRef": {"name": "local-demo-1-36-v1"}, "version": "v1.36.3"}},
        status={"initialization": {"controlPlaneInitialized": True}, **versions},
    )
    for state, version, detail in (
        ("Held", "v1.36.3", "v1.35.4, waits for the stages of BeforeClusterUpgrade before v1.36.3"),
        ("Held", "v1.35.9", "v1.35.4, not yet v1.36.3"),
        ("Released", "v1.36.3", "v1.35.4, not yet v1.36.3"),
    ):
        status = {"upgradeHold": {"state": state, "version": version}}
        addon = named("cluster-addon-one", spec={"clusterRef": {"name": "one"}}, status=status)
        (root,) = picture(Snapshot(clusters=[cluster], addons=[addon]))
        assert root.children[0].detail == detail


def test_a_cluster_without_addons_is_not_done() -> None:
    assert [node.state for node in picture(Snapshot(clusters=[named("one")]))] == [NodeState.WORKING]


def test_node_is_listed_before_its_children() -> None:
    tree = ViewNode(
        "a", NodeState.DONE, children=(ViewNode("b", NodeState.DONE, children=(ViewNode("c", NodeState.DONE),)),)
    )

    assert [(depth, node.title) for depth, node in tree.lines()] == [(0, "a"), (1, "b"), (2, "c")]


SINCE = "2026-03-01T12:00:00Z"
UPGRADED = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    **named("one", spec={"topology": {"classRef": {"name": "local-demo-1-36-v2"}, "version": "v1.36.1"}}),
    "status": {
        "initialization": {"controlPlaneInitialized": True},
        "controlPlane": {"versions": [{"version": "v1.35.4"}]},
    },
}


def condition(kind: str, status: str, reason: str = "", message: str = "", severity: str = "") -> dict[str, str]:
    written = {"type": kind, "status": status, "reason": reason, "message": message, "severity": severity}
    return {**written, "lastTransitionTime": SINCE}


def addon_of_one(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    spec = {"clusterRef": {"name": "one"}, "clusterStack": "local-demo-1-35-v1"}
    return named("cluster-addon-one", spec=spec, status={"conditions": list(conditions), **status})


def described(*conditions: dict[str, str], **status: Any) -> dict[str, tuple[str, str]]:
    """Describe the Cluster: state and detail by title."""
    addon = addon_of_one(*conditions, **status)
    root = cluster_status(UPGRADED, Snapshot(addons=[addon]))
    return {node.title: (node.state.value, node.detail) for _, node in root.lines()}


def test_status_of_an_upgrading_cluster_shows_versions_stage_wait_and_hold() -> None:
    stages = [
        {"action": "apply", "name": "network", "phase": "done", "hook": "BeforeClusterUpgrade"},
        {"action": "apply", "name": "dns", "phase": "waitingForHealth", "hook": "BeforeClusterUpgrade"},
    ]
    hold = {"state": "Held", "since": SINCE, "version": "v1.36.1"}
    unready = condition("Ready", "False", "ObjectsInProgress", "Deployment dns\nis not ready", "Info")

    shown = described(unready, stages=stages, upgradeHold=hold)

    versions = "class local-demo-1-36-v2, release 1.35-v1 → 1.36-v2, Kubernetes v1.35.4 → v1.36.1"
    assert shown["Cluster default/one"] == ("working", f"{versions}, stage 2 of 2, UpgradeHeld, since {SINCE}")
    assert shown["rollout"] == ("working", "stage 2 of 2, apply dns: waitingForHealth")
    assert shown["waits for"] == ("working", f"UpgradeHeld: Deployment dns is not ready, since {SINCE}")
    assert shown["upgrade hold"] == ("working", f"Held: upgrade to v1.36.1, requested {SINCE}")


def test_status_shows_health_drift_ranges_and_the_last_change() -> None:
    shown = described(
        condition("Ready", "True"),
        condition("Healthy", "False", "ObjectsFailed", "a Pod fails", "Warning"),
        condition("InSync", "True"),
        condition("WithinRanges", "Unknown", "RangesUnknown"),
        addons=[{"name": "dns", "objects": 3}],
    )

    assert shown["health"] == ("failed", f"a Pod fails, since {SINCE}")
    assert shown["drift"] == ("done", "no object differs from what was delivered")
    assert shown["ranges"] == ("working", f"RangesUnknown, since {SINCE}")
    assert shown["last change"] == ("failed", f"Healthy became False, since {SINCE}")
    assert shown["Cluster default/one"][0] == "failed"
    assert "waits for" not in shown


@pytest.mark.regression("U-16")
@pytest.mark.regression("U-21")
@pytest.mark.parametrize(
    ("wanted", "reported", "state"),
    [("v1.36.1", [], "working"), ("v1.36.1", ["v1.35.4"], "working"), ("v1.36.1", ["v1.36.1"], "failed")],
)
def test_u_16_a_control_plane_that_starts_or_is_replaced_has_not_failed(
    wanted: str, reported: list[str], state: str
) -> None:
    cluster = {
        **UPGRADED,
        "spec": {"topology": {"classRef": {"name": "local-demo-1-36-v2"}, "version": wanted}},
        "status": {"controlPlane": {"versions": [{"version": version} for version in reported]}},
    }
    unready = condition("Ready", "False", "ControlPlaneNotReady", "it does not respond", "Warning")

    assert overview(summarize(cluster, addon_of_one(unready))).state.value == state


@pytest.mark.regression("U-20")
@pytest.mark.regression("U-50")
def test_u_20_the_tree_has_version_objects_and_release_of_each_addon() -> None:
    addons = [
        {"name": "dns", "version": "1.11.1", "objects": 1, "release": "local-demo-1-36-v1"},
        {"name": "cni", "objects": 2, "release": "local-demo-1-35-v1"},
    ]

    shown = described(condition("Ready", "True"), condition("Healthy", "True"), addons=addons)

    assert shown["dns"][1] == "1.11.1, 1 object of local-demo-1-36-v1"
    assert shown["cni"][1] == "2 objects of local-demo-1-35-v1"
    assert described(condition("Healthy", "True"), addons=addons[:1])["health"][1] == "the object is healthy"


def test_status_of_a_cluster_without_addons_says_what_it_waits_for() -> None:
    root = cluster_status(UPGRADED, Snapshot())

    assert [(node.title, node.state) for node in root.children] == [
        ("control plane", NodeState.WORKING),
        ("waits for", NodeState.WORKING),
    ]
    assert "no addons yet" not in root.detail


def test_paused_cluster_is_not_done_in_the_overview() -> None:
    addon = {**addon_of_one(condition("Ready", "True"))}
    addon["spec"] = {**addon["spec"], "paused": True}

    node = overview(summarize(UPGRADED, addon))

    assert node.state is NodeState.WORKING
    assert node.detail.endswith("Paused")


def test_summary_is_a_json_document() -> None:
    document = summarize(UPGRADED, addon_of_one(condition("Ready", "True"), condition("InSync", "True"))).document()

    assert document["kubernetes"] == {"wanted": "v1.36.1", "running": "v1.35.4"}
    assert document["class"] == {"wanted": "local-demo-1-36-v2", "delivered": "local-demo-1-35-v1"}
    assert (document["ready"], document["upgradeHold"], document["lastChange"]["type"]) == (True, None, "InSync")
