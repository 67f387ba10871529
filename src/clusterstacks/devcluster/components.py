"""The processes of the management side: command lines and probes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.devcluster.loopback import LOOPBACK, answers_ok, client_context, free_port
from clusterstacks.devcluster.private_files import KeyFiles, key_files, private_directory
from clusterstacks.devcluster.processes import Command, Process
from clusterstacks.devcluster.provider.kinds import CLUSTER, CONTROL_PLANE, GROUP
from clusterstacks.devcluster.state_directory import MARKER_VARIABLE
from clusterstacks.kube.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.devcluster.apiserver import ApiServer
    from clusterstacks.devcluster.binaries import Binary
    from clusterstacks.devcluster.capi_managers import Manager
    from clusterstacks.devcluster.state_directory import StateDirectory

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)


@dataclass(frozen=True, slots=True)
class Components:
    """State directory and binaries for all components."""

    state: StateDirectory
    binaries: Mapping[str, Binary]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that mark a process of this environment."""
        return {MARKER_VARIABLE: str(self.state.root)}


def controller_manager(bench: Components, server: ApiServer, port: int) -> Process:
    """Return the kube-controller-manager: garbage collection, namespaces, service accounts."""
    kubeconfig = server.kubeconfig_path
    keys = server.keys
    context = client_context(keys.authority.certificate, keys.admin.certificate, keys.admin.key)
    serving = _serving(bench.state.root / "controller-manager", keys.authority, "tls")
    return Process(
        Command(
            name="controller-manager",
            argv=(
                str(bench.binaries["kube-controller-manager"].path),
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--leader-elect=false",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={port}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                f"--service-account-private-key-file={keys.service_accounts.key}",
                f"--root-ca-file={keys.authority.certificate}",
                "--use-service-account-credentials=false",
                f"--controllers={','.join(CONTROLLERS)}",
            ),
            log=bench.state.log("controller-manager"),
            ready=lambda: answers_ok(f"https://{LOOPBACK}:{port}/healthz", context=context),
            environment=bench.environment,
        )
    )


def cluster_api_manager(
    bench: Components, server: ApiServer, manager: Manager, webhook_port: int, *, rate_limits: bool
) -> Process:
    """Return one of Cluster API's managers; they share their flags.

    It listens on all interfaces at ``webhook_port``, which its webhook configurations name. ``rate_limits`` keeps
    Cluster API's default of one reconcile per second and object.
    """
    health = f"{LOOPBACK}:{free_port()}"
    gates = ["ClusterTopology=true", "RuntimeSDK=true"]
    if not rate_limits:
        gates.append("ReconcilerRateLimiting=false")
    serving = _serving(bench.state.root / manager.name, server.keys.authority, "tls")
    return Process(
        Command(
            name=manager.name,
            argv=(
                str(bench.binaries[manager.program].path),
                f"--kubeconfig={server.kubeconfig_path}",
                f"--webhook-port={webhook_port}",
                f"--webhook-cert-dir={serving.certificate.parent}",
                f"--webhook-cert-name={serving.certificate.name}",
                f"--webhook-key-name={serving.key.name}",
                f"--health-addr={health}",
                f"--diagnostics-address={LOOPBACK}:{free_port()}",
                "--insecure-diagnostics=true",
                f"--feature-gates={','.join(gates)}",
            ),
            log=bench.state.log(manager.name),
            ready=lambda: answers_ok(f"http://{health}/readyz"),
            environment=bench.environment,
        )
    )


def provider(bench: Components, server: ApiServer, etcd_port: int) -> Process:
    """Return the local Cluster API provider, which starts the workload API servers."""
    state = bench.state
    binary = bench.binaries["kube-apiserver"]
    ready_file = state.root / "provider-ready"
    ready_file.unlink(missing_ok=True)
    return Process(
        Command(
            name="provider",
            argv=(
                sys.executable,
                "-m",
                "clusterstacks.devcluster.provider",
                f"--kubeconfig={server.kubeconfig_path}",
                f"--kube-apiserver={binary.path}",
                f"--kube-apiserver-version={binary.version}",
                f"--etcd-port={etcd_port}",
                f"--etcd-directory={state.etcd}",
                f"--clusters-directory={state.clusters}",
                f"--records-directory={state.records}",
                f"--ready-file={ready_file}",
            ),
            log=state.log("provider"),
            ready=ready_file.exists,
            environment=bench.environment,
        )
    )


def operator(bench: Components, server: ApiServer, port: int, releases: Path) -> Process:
    """Return our operator with releases from a directory."""
    kinds = ",".join(f"{kind}Template.{GROUP}" for kind in (CLUSTER, CONTROL_PLANE))
    webhooks = free_port()
    return Process(
        Command(
            name="operator",
            argv=(
                sys.executable,
                "-m",
                "clusterstacks.operator.main",
                f"--kubeconfig={server.kubeconfig_path}",
                "--source=directory",
                f"--release-dir={releases}",
                f"--cache-dir={private_directory(bench.state.operator_cache)}",
                f"--class-kinds={kinds}",
                # One operator runs at a time: with a fixed identity the next one does not wait for the Lease.
                "--leader-elect-namespace=default",
                "--leader-elect-identity=csctl-dev",
                f"--webhook-port={webhooks}",
                f"--webhook-url=https://{LOOPBACK}:{webhooks}",
                "--operator-namespace=kube-system",
                f"--metrics-bind-address={LOOPBACK}:{free_port()}",
                f"--health-probe-bind-address={LOOPBACK}:{port}",
            ),
            log=bench.state.log("operator"),
            ready=lambda: answers_ok(f"http://{LOOPBACK}:{port}/readyz"),
            environment=bench.environment,
        )
    )


def _serving(directory: Path, authority: KeyFiles, name: str) -> KeyFiles:
    """Return a serving certificate for the loopback address, issued by the management API server's authority."""
    return key_files(directory, name, lambda: Authority(authority.read()).issue("localhost", addresses=(LOOPBACK,)))
