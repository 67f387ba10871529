"""The environment as `csctl dev` runs it, with the real Cluster API core manager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev import binaries, inspection, process_records, restart, state_directory, supervisor, teardown
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.state_directory import EnvironmentPhase, StateDirectory
from clusterstacks.model.errors import DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCAL = "local.clusterstack.x-k8s.io/v1alpha1"


def template(kind: str) -> dict[str, Any]:
    return {
        "apiVersion": LOCAL,
        "kind": kind,
        "metadata": {"name": "plain", "namespace": "default"},
        "spec": {"template": {"spec": {}}},
    }


def reference(kind: str) -> dict[str, Any]:
    return {"templateRef": {"apiVersion": LOCAL, "kind": kind, "name": "plain"}}


CLASS = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "ClusterClass",
    "metadata": {"name": "plain", "namespace": "default"},
    "spec": {
        "infrastructure": reference("LocalClusterTemplate"),
        "controlPlane": reference("LocalControlPlaneTemplate"),
    },
}
CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "default"},
    "spec": {"topology": {"classRef": {"name": "plain"}, "version": "v1.35.0"}},
}


class Running:
    """An environment and the questions the tests ask it."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.binary = str(binaries.resolve(["kubectl"])["kubectl"].path)

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None) -> str:
        done = subprocess.run(
            [self.binary, f"--kubeconfig={kubeconfig or self.state.kubeconfig}", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=330,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def component(self, name: str) -> inspection.ComponentState:
        seen = inspection.inspect(self.state)
        assert seen is not None
        return next(component for component in seen.components if component.name == name)

    def emulated_minor(self) -> str:
        path = self.state.cluster_kubeconfig("default", "prod")
        return str(json.loads(self.kubectl("get", "--raw", "/version", kubeconfig=path))["emulationMinor"])


def settings(root: Path, *files: Path) -> EnvironmentSettings:
    return EnvironmentSettings(state=StateDirectory(root), operator=False, clusters_from=files)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    manifests = tmp_path / "clusters.yaml"
    documents = [template("LocalClusterTemplate"), template("LocalControlPlaneTemplate"), CLASS, CLUSTER]
    manifests.write_text("\n---\n".join(json.dumps(document) for document in documents))
    state = StateDirectory(tmp_path / "state" / "default")
    try:
        supervisor.detach(settings(state.root, manifests), binaries.silent)
        yield Running(state)
    finally:
        teardown.down(state, binaries.silent)


def eventually(holds: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.1)


def test_cluster_is_created_upgraded_repaired_and_deleted(running: Running) -> None:
    running.kubectl("wait", "--for=condition=Available", "cluster/prod", "--timeout=120s")
    assert running.emulated_minor() == "35"

    running.kubectl("patch", "cluster", "prod", "--type=merge", "-p", '{"spec":{"topology":{"version":"v1.36.0"}}}')
    upgraded = "--for=jsonpath={.status.controlPlane.versions[0].version}=v1.36.0"
    running.kubectl("wait", upgraded, "cluster/prod", "--timeout=120s")
    assert running.emulated_minor() == "36"

    before = running.component("default/prod").pid
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running.component("default/prod").pid != before and running.component("default/prod").running)
    assert running.emulated_minor() == "36"
    assert "was ended by SIGKILL" in "".join(state_directory.read_log(running.state, "provider"))

    running.kubectl("delete", "cluster", "prod", "--timeout=120s")
    # The garbage collector deletes what the Cluster owned.
    eventually(lambda: not running.kubectl("get", "localclusters,localcontrolplanes,secrets", "-o", "name"))
    assert not running.state.cluster_kubeconfig("default", "prod").exists()
    seen = inspection.inspect(running.state)
    assert seen is not None
    assert seen.healthy
    assert "default/prod" not in {component.name for component in seen.components}


def test_killed_process_is_reported_and_down_leaves_no_process(running: Running) -> None:
    running.kubectl("wait", "--for=condition=Available", "cluster/prod", "--timeout=120s")
    processes = {record.name: record.pid for record in process_records.read_all(running.state.records)}
    open_to_others = {name for name, pid in processes.items() if listening(pid) - {"127.0.0.1"}}
    assert open_to_others == {"cluster-api"}, "its webhook port has no address flag"

    with pytest.raises(
        SpecError, match=r"'csctl dev status --state-dir .+' shows it, 'csctl dev down --state-dir .+' ends it"
    ):
        supervisor.detach(settings(running.state.root), binaries.silent)

    os.kill(running.component("controller-manager").pid, signal.SIGKILL)
    eventually(lambda: running.component("controller-manager").state.startswith("was ended by SIGKILL at "))
    seen = inspection.inspect(running.state)
    assert seen is not None
    assert not seen.healthy
    assert seen.message.startswith("controller-manager was ended by SIGKILL")
    noted = "controller-manager was ended by SIGKILL"
    eventually(lambda: noted in "".join(state_directory.read_log(running.state, "supervisor")))

    for name in ("supervisor", "provider"):
        os.kill(running.component(name).pid, signal.SIGKILL)
    eventually(lambda: not (running.component("supervisor").running or running.component("provider").running))
    seen = inspection.inspect(running.state)
    assert seen is not None
    assert seen.message.startswith("the supervisor has ended")
    (running.state.records / "default.prod.json").unlink()  # as if the provider had died before writing it

    assert teardown.down(running.state, binaries.silent)

    assert [name for name, pid in processes.items() if process_records.identity_of(pid)] == []
    assert not running.state.root.parent.exists()
    assert not teardown.down(running.state, binaries.silent)


@pytest.mark.regression("LIVE-L10")
def test_killed_operator_is_reported_and_restarts_with_an_empty_cache(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state" / "default")
    try:
        supervisor.detach(EnvironmentSettings(state=state), binaries.silent)
        here = Running(state)
        first = here.component("operator")
        os.kill(first.pid, signal.SIGKILL)
        eventually(lambda: here.component("operator").state.startswith("was ended by SIGKILL at "))
        seen = inspection.inspect(state)
        assert seen is not None
        assert seen.phase == "Degraded"
        assert seen.message.endswith(f"run 'csctl dev restart{state.options} operator'")

        restart.ask(state, restart.RestartRequest("operator"))
        second = here.component("operator")
        assert (second.running, second.port) == (True, first.port)
        (state.operator_cache / "rest").mkdir()
        (state.operator_cache / "rest" / "file").write_text("x")
        restart.ask(state, restart.RestartRequest("operator", fresh_cache=True))
        third = here.component("operator")
        assert len({first.pid, second.pid, third.pid}) == 3
        assert not (state.operator_cache / "rest").exists()
        seen = inspection.inspect(state)
        assert seen is not None
        assert (seen.healthy, seen.phase) == (True, "Running")
    finally:
        teardown.down(state, binaries.silent)


def test_interrupted_start_leaves_no_process(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    child = subprocess.Popen(
        [sys.executable, "-m", "clusterstacks.dev.supervisor", f"--state-dir={state.root}", "--no-operator"],
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: process_records.read(state.records, "etcd") is not None)

    child.send_signal(signal.SIGINT)

    assert child.wait(120) == 130
    assert teardown.marked(state.root) == []
    assert not state.root.exists()


def test_failed_start_names_the_reason_and_leaves_no_process(tmp_path: Path) -> None:
    broken = tmp_path / "clusters.yaml"
    broken.write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No_Name"}}')
    state = StateDirectory(tmp_path / "state")

    with pytest.raises(DependencyError, match="No_Name"):
        supervisor.detach(settings(state.root, broken), binaries.silent)

    summary = state.read()
    assert summary is not None
    assert summary.phase is EnvironmentPhase.FAILED
    assert teardown.marked(state.root) == []
    assert "cluster-api" in state_directory.components(state)
    assert teardown.down(state, binaries.silent)
    assert not state.root.exists()


def listening(pid: int) -> set[str]:
    """The addresses a process listens on, out of /proc."""
    sockets = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address = fields[1].split(":")[0]
                found.add("127.0.0.1" if address == "0100007F" else "any")
    return found
