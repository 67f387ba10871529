"""One local environment without an operator for all tests of a session; each test runs the operator it needs."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from clusterstacks.devcluster import supervisor, teardown
from clusterstacks.devcluster.environment import EnvironmentSettings
from clusterstacks.devcluster.state_directory import StateDirectory
from clusterstacks.kube.client import Client
from clusterstacks.kube.kubeconfig import load_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.kube.transport import Pool

CLASS_KINDS = "LocalClusterTemplate.local.clusterstack.x-k8s.io,LocalControlPlaneTemplate.local.clusterstack.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Local:
    """A running environment and what belongs to it."""

    state: StateDirectory
    releases: Path
    scratch: Path

    def management(self, pool: Pool) -> Client:
        return Client(load_kubeconfig([self.state.kubeconfig]), pool)

    def workload(self, namespace: str, cluster: str, pool: Pool) -> Client:
        return Client(load_kubeconfig([self.state.cluster_kubeconfig(namespace, cluster)]), pool)

    def arguments(self, namespace: str) -> list[str]:
        """The operator's command line, for one namespace."""
        return [
            f"--kubeconfig={self.state.kubeconfig}",
            f"--release-dir={self.releases}",
            f"--cache-dir={self.scratch / 'cache'}",
            f"--namespace={namespace}",
            f"--class-kinds={CLASS_KINDS}",
            # One operator at a time: a killed one's successor need not wait until the Lease runs out.
            "--leader-elect-namespace=default",
            "--leader-elect-identity=e2e",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ]

    @contextmanager
    def operator(self, namespace: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the operator as a process of its own; it ends in order."""
        with (self.scratch / "operator.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "clusterstacks.operator.main", *self.arguments(namespace)],
                stdout=log,
                stderr=log,
            )
            try:
                yield process
                assert process.poll() is None, "the operator ended by itself"
            finally:
                process.terminate()
                process.wait(timeout=30)

    def mortal_operator(self, namespace: str, writes: int) -> subprocess.Popen[bytes]:
        """Start an operator that is killed right after its n-th write."""
        with (self.scratch / "operator.log").open("ab") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.support.running.mortal_operator",
                    str(writes),
                    *self.arguments(namespace),
                ],
                stdout=log,
                stderr=log,
            )


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("local")
    state = StateDirectory(root / "state")
    releases = root / "releases"
    releases.mkdir()
    reports: list[str] = []
    supervisor.detach(EnvironmentSettings(state=state, operator=False), reports.append)
    yield Local(state, releases, root)
    teardown.down(state, reports.append)
