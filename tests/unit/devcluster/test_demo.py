from __future__ import annotations

from typing import Any

from clusterstacks.devcluster.demo.await_state import LiveObject
from clusterstacks.devcluster.demo.scenario import compare
from clusterstacks.devcluster.demo.view import NodeState, Snapshot, ViewNode, picture
from clusterstacks.domain.objects import ObjectId


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


def test_an_error_is_a_failure_and_everything_else_unready_is_work() -> None:
    broken = named("a", status=ready("False", "Error", "metadata.yaml is missing"))
    waiting = named("b", status=ready("False", "Info", "downloading"))

    drawn = picture(Snapshot(stacks=[broken, waiting]))

    assert [(node.state, node.detail) for node in drawn] == [
        (NodeState.FAILED, "metadata.yaml is missing"),
        (NodeState.WORKING, "downloading"),
    ]


def test_a_cluster_is_done_when_its_api_server_and_its_addons_are() -> None:
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
        (1, "API server", NodeState.DONE),
        (1, "addons", NodeState.WORKING),
        (2, "apply network", NodeState.DONE),
    ]
    assert after[0] == (0, "Cluster one", NodeState.DONE)
    assert after[-1] == (2, "network", NodeState.DONE)


def test_a_cluster_without_addons_is_not_done() -> None:
    assert [node.state for node in picture(Snapshot(clusters=[named("one")]))] == [NodeState.WORKING]


def test_a_node_lists_itself_before_what_is_below_it() -> None:
    tree = ViewNode(
        "a", NodeState.DONE, children=(ViewNode("b", NodeState.DONE, children=(ViewNode("c", NodeState.DONE),)),)
    )

    assert [(depth, node.title) for depth, node in tree.lines()] == [(0, "a"), (1, "b"), (2, "c")]


def test_an_upgrade_is_compared_object_by_object() -> None:
    def identity(name: str) -> ObjectId:
        return ObjectId("", "ConfigMap", "kube-system", name)

    before = {identity(name): LiveObject(f"uid-{name}", "1") for name in ("same", "changed", "removed", "recreated")}
    after = {
        identity("same"): LiveObject("uid-same", "1"),
        identity("changed"): LiveObject("uid-changed", "2"),
        identity("recreated"): LiveObject("another uid", "3"),
        identity("new"): LiveObject("uid-new", "4"),
    }

    changes = compare(before, after)

    assert [one.name for one in changes.created] == ["new", "recreated"]
    assert [one.name for one in changes.changed] == ["changed"]
    assert [one.name for one in changes.removed] == ["removed"]
    assert [one.name for one in changes.untouched] == ["same"]
