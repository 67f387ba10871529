"""``csctl dev up --with node`` as its users type it: the operator as pods, a cluster, and no traces afterwards."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import teardown
from clusterstacks.dev.binaries import silent
from clusterstacks.dev.demo.scenario import build_first, examples
from clusterstacks.dev.node import node_process
from clusterstacks.dev.state_directory import StateDirectory
from tests.support.running.csctl import Csctl
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.image.pushing import Stored

pytestmark = pytest.mark.timeout(1800)
WAIT = "--timeout=300s"


@pytest.fixture
def csctl(tmp_path: Path) -> Csctl:
    return Csctl(tmp_path, seconds=600)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path / "cluster-stacks" / "default")
    yield state
    teardown.down(state, silent)


def test_a_node_runs_the_operator_as_pods_and_leaves_no_traces(
    image: Stored, csctl: Csctl, state: StateDirectory, tmp_path: Path
) -> None:
    csctl("up", "--with=node", f"--operator-image={image.folder}", "--detach")
    kubectl = Kubectl(state.kubeconfig, "default", 600)
    release = build_first(state.releases)
    kubectl("apply", f"--filename={examples() / 'clusterstack.yaml'}")
    for condition in ("create", "jsonpath={.status.ready}=true"):
        kubectl("wait", f"--for={condition}", WAIT, f"clusterstackrelease/{release.release}")
    kubectl("apply", f"--filename={examples() / 'cluster.yaml'}")
    kubectl("wait", "--for=condition=ClusterStackAddonsReady", WAIT, "cluster/first")
    traces = node_process.read_traces(state)
    assert traces is not None
    ours = {traces.network.link, traces.network.peer}
    assert traces.network.link in _interfaces()
    assert all(path.is_dir() for path in traces.cgroups)
    assert "kubelet.go" in csctl("logs", "kubelet")

    csctl("down")

    assert teardown.marked(state.root) == []
    assert not ours & _interfaces()
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(tmp_path) in line]
    assert not [path for path in traces.cgroups if path.exists()]
    assert not state.root.exists()


def test_without_an_image_the_way_to_one_is_said(image: Stored, csctl: Csctl, tmp_path: Path) -> None:
    del image  # a node can run here
    code, text = csctl.tried("up", "--with=node", f"--operator-image={tmp_path}")

    assert code == 2
    assert "build it with 'make image'" in text


def _interfaces() -> set[str]:
    done = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True)
    return {line.split()[0].partition("@")[0] for line in done.stdout.splitlines()}
