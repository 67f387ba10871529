"""A local environment whose API servers log all writes, and operators as processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import binaries, supervisor, teardown
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.provider.kinds import GROUP, TEMPLATES
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from tests.support.observing.audit_log import WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.net.pool import Pool

CLASS_KINDS = ",".join(f"{kind}.{GROUP}" for kind in TEMPLATES)


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
    def operator(self, namespace: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the operator as a process of its own; it ends in order."""
        with (self.scratch / "operator.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "clusterstacks.operator.main", *self.arguments(namespace), *flags],
                stdout=log,
                stderr=log,
            )
            try:
                yield process
                assert process.poll() is None, "the operator ended by itself"
            finally:
                process.terminate()
                process.wait(timeout=200)

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


AUDIT_LOG = "audit.log"
"""Name of the audit log of each API server, beside its kubeconfig."""
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": WRITES, "resources": [{"group": "", "resources": ["secrets"]}]},
        {"level": "Request", "verbs": WRITES},
        {"level": "None"},
    ],
}
_AUDITING = """#!/bin/sh
for argument; do case $argument in --cert-dir=*) keys=${{argument#--cert-dir=}};; esac; done
test -z "$keys" || set -- "$@" --audit-policy-file={policy} --audit-log-path="$keys/../{log}"
exec {program} "$@"
"""


def _auditing_programs(directory: Path) -> Path:
    """Write a kube-apiserver that logs all writes, also for workload clusters; return its directory."""
    directory.mkdir()
    policy, program = directory / "policy.json", directory / "kube-apiserver"
    policy.write_text(json.dumps(_POLICY))
    real = binaries.resolve(["kube-apiserver"])["kube-apiserver"].path
    program.write_text(_AUDITING.format(policy=policy, log=AUDIT_LOG, program=real))
    program.chmod(0o755)
    return directory


@contextmanager
def local_environment(root: Path) -> Iterator[Local]:
    """Run an environment without operator."""
    state = StateDirectory(root / "state")
    releases = root / "releases"
    releases.mkdir()
    reports: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTERSTACKS_ASSETS", str(_auditing_programs(root / "programs")))
        supervisor.detach(EnvironmentSettings(state=state, operator=False), reports.append)
    try:
        yield Local(state, releases, root)
    finally:
        teardown.down(state, reports.append)
