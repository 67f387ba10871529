"""``csctl dev`` as its users type it: everything, our operator included, and two environments side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.devcluster import records, teardown
from clusterstacks.devcluster.binaries import silent
from clusterstacks.devcluster.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Csctl:
    """Runs ``csctl dev`` with its state below one directory."""

    def __init__(self, states: Path) -> None:
        self.states = states

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).with_name("csctl"), "dev", *arguments],
            env={**os.environ, "XDG_STATE_HOME": str(self.states)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tried(self, *arguments: str) -> tuple[int, str]:
        with self.start(*arguments) as run:
            out, err = run.communicate(timeout=100)
        return run.returncode, out + err

    def __call__(self, *arguments: str) -> str:
        code, text = self.tried(*arguments)
        assert code == 0, text
        return text

    def components(self, *arguments: str) -> dict[str, dict[str, Any]]:
        _, text = self.tried("status", "--output=json", *arguments)
        return {component["name"]: component for component in json.loads(text)["components"]}


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
        csctl("up", "--detach", "--default-rate-limits", f"--clusters-from={clusters}")
        assert other.wait(100) == 0

    csctl("kubectl", "-n", "tenant", "wait", "--for=condition=Available", "cluster/prod", "--timeout=90s")
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
    }
    assert all(component["state"] == "running" and component["memory_bytes"] for component in first.values())
    ports = [component["port"] for found in (first, csctl.components(*second)) for component in found.values()]
    assert len([port for port in ports if port]) == len({port for port in ports if port})

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
    assert [pid for pid in pids if records.identity_of(pid)] == []
    assert [path.name for path in tmp_path.iterdir()] == ["clusters.yaml"]
