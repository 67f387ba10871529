"""What wakes whom."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.operator.enqueuing import concerns_addons
from clusterstacks.runtime.store import Change


def cluster(*conditions: Manifest, version: str = "v1.35.4", **metadata: Any) -> Manifest:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team", "resourceVersion": "1", **metadata},
        "spec": {"topology": {"classRef": {"name": "local-demo-1-35-v1"}, "version": version}},
        "status": {"conditions": list(conditions)},
    }


def changed(old: Manifest, new: Manifest) -> bool:
    return concerns_addons(Change(ObjectKey("team", "one"), old, new))


def test_our_own_condition_wakes_nobody_however_its_message_changes() -> None:
    told = {"type": "ClusterStackAddonsReady", "status": "False", "reason": "X", "message": "at 12:00:01"}
    gated = {"type": "Available", "status": "False", "message": "ClusterStackAddonsReady: at 12:00:01"}

    assert not changed(cluster(), cluster(told, gated, resourceVersion="2"))


@pytest.mark.parametrize(
    "new",
    [
        cluster(version="v1.35.5"),
        cluster(labels={"cni": "own"}),
        cluster(annotations={"cluster.x-k8s.io/paused": ""}),
        cluster(deletionTimestamp="2026-11-21T12:00:00Z"),
        cluster({"type": "TopologyReconciled", "status": "True"}),
        cluster({"type": "ControlPlaneInitialized", "status": "True"}),
    ],
)
def test_what_decides_something_wakes(new: Manifest) -> None:
    assert changed(cluster(), new)
