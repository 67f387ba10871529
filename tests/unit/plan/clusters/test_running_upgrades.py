"""What csctl status and the page show of ClusterUpgrades."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.plan.clusters.cluster_summary import summarize_all
from clusterstacks.plan.clusters.cluster_tree import NodeState, findings, overview, upgrade_overview

CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "team"},
    "spec": {"topology": {"classRef": {"name": "openstack-scs-1-35-v1"}, "version": "v1.35.4"}},
}
WAITS = {
    "name": "prod",
    "phase": "Running",
    "step": "2/5",
    "doing": "update addon cni",
    "since": "2026-11-27T10:00:00Z",
}


def upgrade(
    name: str, *clusters: dict[str, str], namespace: str = "team", age: int = 1, **status: Any
) -> dict[str, Any]:
    created = f"2026-11-{10 - age:02}T00:00:00Z"
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
        "spec": {"to": "v1.36.3"},
        "status": {"clusters": list(clusters), **status},
    }


@pytest.mark.parametrize(
    ("upgrades", "name"),
    [
        ([], None),
        ([upgrade("a", WAITS)], "a"),
        ([upgrade("a", {**WAITS, "phase": "Done"})], None),
        ([upgrade("a", {**WAITS, "name": "other"})], None),
        ([upgrade("a", WAITS, namespace="other")], None),
        ([upgrade("a", WAITS), upgrade("b", WAITS, age=2)], "b"),
        ([upgrade("a", WAITS), upgrade("b", {**WAITS, "phase": "Done"}, age=2)], "a"),
        ([{"metadata": {"name": "new", "namespace": "team"}, "spec": {}}], None),
    ],
)
def test_oldest_upgrade_that_has_not_ended_for_a_cluster_counts(
    upgrades: list[dict[str, Any]], name: str | None
) -> None:
    (summary,) = summarize_all([CLUSTER], [], [], upgrades)
    assert (summary.upgrade and summary.upgrade.name) == name
    assert (summary.document()["upgrade"] or {}).get("name") == name


def test_one_line_has_name_step_and_what_it_does() -> None:
    (summary,) = summarize_all([CLUSTER], [], [], [upgrade("canary", WAITS)])
    line = next(node for node in findings(summary) if node.title == "upgrade")
    assert line.detail == "canary: Running, step 2/5, update addon cni, since 2026-11-27T10:00:00Z"
    assert line.state is NodeState.WORKING
    assert "upgrade canary 2/5" in overview(summary).detail


def test_failed_cluster_says_why() -> None:
    entry = {"name": "prod", "phase": "Failed", "message": "no plan:\n1.36 is not offered"}
    (summary,) = summarize_all([CLUSTER], [], [], [upgrade("canary", entry)])
    line = next(node for node in findings(summary) if node.title == "upgrade")
    assert (line.state, line.detail) == (NodeState.FAILED, "canary: Failed, no plan: 1.36 is not offered")


@pytest.mark.parametrize(
    ("status", "state", "detail"),
    [
        ({}, NodeState.WORKING, "to v1.36.3: not begun, 0 done, 0 running, 0 failed"),
        (
            {"phase": "Running", "done": "12/20", "running": 5, "failed": 0},
            NodeState.WORKING,
            "to v1.36.3: Running, 12/20 done, 5 running, 0 failed",
        ),
        (
            {"phase": "Stopped", "done": "1/9", "running": 0, "failed": 2},
            NodeState.FAILED,
            "to v1.36.3: Stopped, 1/9 done, 0 running, 2 failed",
        ),
        ({"phase": "Done", "done": "9/9"}, NodeState.DONE, "to v1.36.3: Done, 9/9 done, 0 running, 0 failed"),
    ],
)
def test_upgrade_is_one_line_with_the_clusters_at_work(status: dict[str, Any], state: NodeState, detail: str) -> None:
    node = upgrade_overview(
        upgrade("canary", WAITS, {"name": "b", "phase": "Done"}, {"name": "c", "phase": "Waiting"}, **status)
    )
    assert (node.title, node.state, node.detail) == ("ClusterUpgrade team/canary", state, detail)
    assert [child.title for child in node.children] == ["prod"]
