"""``csctl dev`` as its users type it: everything, our operator included, and two environments side by side."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import process_records, teardown
from clusterstacks.dev.binaries import silent
from clusterstacks.dev.state_directory import StateDirectory
from tests.support.running.csctl import Csctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLUSTERS = """
apiVersion: local.clusterstack.x-k8s.io/v1alpha1
kind: LocalClusterTemplate
metadata: {name: plain, namespace: tenant}
spec: {template: {spec: {}}}
---
apiVersion: local.clusterstack.x-k8s.io/v1alpha1
kind: LocalControlPlaneTemplate
metadata: {name: plain, namespace: tenant}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: plain, namespace: tenant}
spec:
  infrastructure:
    templateRef: {apiVersion: local.clusterstack.x-k8s.io/v1alpha1, kind: LocalClusterTemplate, name: plain}
  controlPlane:
    templateRef: {apiVersion: local.clusterstack.x-k8s.io/v1alpha1, kind: LocalControlPlaneTemplate, name: plain}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: tenant}
spec:
  topology: {classRef: {name: plain}, version: v1.34.2}
"""


PROD = ("--cluster=tenant/prod",)
SIMULATED = ("tenant/prod/controller-manager", "tenant/prod/scheduler", "tenant/prod/kwok")


def pods_run(csctl: Csctl) -> None:
    """A Deployment becomes available on the node, and the components have logs."""
    csctl("kubectl", *PROD, "create", "deployment", "web", "--image=example.org/web:1")
    csctl("kubectl", *PROD, "wait", "--for=condition=Available", "deployment/web", "--timeout=300s")
    assert "v1.34.2" in csctl("kubectl", *PROD, "get", "nodes")
    assert all(csctl("logs", name) for name in SIMULATED)


@pytest.fixture
def csctl(tmp_path: Path) -> Iterator[Csctl]:
    yield Csctl(tmp_path)
    for name in ("default", "second"):
        teardown.down(StateDirectory(tmp_path / "cluster-stacks" / name), silent)


def test_two_environments_run_side_by_side_and_leave_nothing(csctl: Csctl, tmp_path: Path) -> None:
    clusters = tmp_path / "clusters.yaml"
    clusters.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: tenant}\n---" + CLUSTERS)
    second = ("--name=second",)
    with csctl.start("up", "--detach", "--no-operator", *second) as other:
        csctl("up", "--detach", "--default-rate-limits", "--with=workloads", f"--clusters-from={clusters}")
        assert other.wait(400) == 0

    csctl("kubectl", "-n", "tenant", "wait", "--for=condition=Available", "cluster/prod", "--timeout=300s")
    assert "FIELD" in csctl("kubectl", "explain", "clusterstack.spec")
    assert "operator" not in csctl.components(*second)
    assert "No resources found" in csctl("kubectl", *second, "get", "clusters", "--all-namespaces")
    version = json.loads(csctl("kubectl", "--cluster=tenant/prod", "get", "--raw=/version"))
    assert version["emulationMinor"] == "34"
    assert "server: https://127.0.0.1:" in csctl("kubeconfig", "--cluster=tenant/prod").replace('"', "")

    first = csctl.components()
    assert set(first) == {
        "supervisor",
        "etcd",
        "management",
        "controller-manager",
        "cluster-api",
        "provider",
        "operator",
        "tenant/prod",
        *SIMULATED,
    }
    assert all(component["state"] == "running" and component["memoryBytes"] for component in first.values())
    ports = [component["port"] for found in (first, csctl.components(*second)) for component in found.values()]
    assert len([port for port in ports if port]) == len({port for port in ports if port})

    pods_run(csctl)
    kwok = first["tenant/prod/kwok"]["pid"]
    os.kill(kwok, signal.SIGKILL)
    while csctl.components().get("tenant/prod/kwok", {}).get("pid") in {None, kwok}:
        pass
    csctl("kubectl", *PROD, "scale", "deployment/web", "--replicas=2")
    csctl("kubectl", *PROD, "rollout", "status", "deployment/web", "--timeout=300s")
    first = csctl.components()

    os.kill(first["operator"]["pid"], signal.SIGKILL)
    for _ in range(100):
        code, text = csctl.tried("status")
        if "operator was ended by SIGKILL" in text:
            break
    assert code == 1
    assert "operator was ended by SIGKILL" in text

    pids = [component["pid"] for found in (first, csctl.components(*second)) for component in found.values()]
    csctl("down")
    assert set(csctl.components(*second)) >= {"etcd", "management"}
    csctl("down", *second)
    assert [pid for pid in pids if process_records.identity_of(pid)] == []
    assert [path.name for path in tmp_path.iterdir()] == ["clusters.yaml"]
