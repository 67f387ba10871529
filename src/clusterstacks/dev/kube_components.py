"""kube-controller-manager and kube-scheduler of any cluster of the environment: command lines and probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.dev.loopback import LOOPBACK, answers_ok
from clusterstacks.dev.private_files import KeyFiles, key_files
from clusterstacks.dev.processes import Command, Process
from clusterstacks.dev.state_directory import MARKER_VARIABLE
from clusterstacks.net.kube.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.binaries import Binary
    from clusterstacks.dev.state_directory import StateDirectory

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)
ALL_CONTROLLERS = ("*",)
"""The controllers of a cluster with nodes."""


@dataclass(frozen=True, slots=True)
class Components:
    """State directory and binaries for all components; ``cluster`` is the workload cluster's, ``namespace/name``."""

    state: StateDirectory
    binaries: Mapping[str, Binary]
    cluster: str = ""

    @property
    def simulates_pods(self) -> bool:
        """True if the workload clusters have the components for Pods."""
        return "kwok" in self.binaries

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that mark a process of this environment."""
        return {MARKER_VARIABLE: str(self.state.root)}

    def name(self, component: str) -> str:
        """Return the name of a component in ``csctl dev status``."""
        return f"{self.cluster}/{component}" if self.cluster else component

    def directory(self, component: str) -> Path:
        """Return the directory of a component's files."""
        return (self.state.clusters / self.cluster if self.cluster else self.state.root) / component


def controller_manager(
    bench: Components, server: ApiServer, port: int, controllers: Sequence[str] = CONTROLLERS
) -> Process:
    """Return the kube-controller-manager: garbage collection, namespaces, service accounts."""
    keys = server.keys
    flags = (
        f"--service-account-private-key-file={keys.service_accounts.key}",
        f"--root-ca-file={keys.authority.certificate}",
        "--use-service-account-credentials=false",
        f"--controllers={','.join(controllers)}",
    )
    return _kubernetes_client(bench, server, "controller-manager", port, flags)


def scheduler(bench: Components, server: ApiServer, port: int) -> Process:
    """Return the kube-scheduler, which a cluster with nodes needs."""
    return _kubernetes_client(bench, server, "scheduler", port)


def _kubernetes_client(
    bench: Components, server: ApiServer, name: str, port: int, flags: Sequence[str] = ()
) -> Process:
    """Return a program of Kubernetes beside the API server, with its version and the flags that all of them have."""
    serving = serving_keys(bench.directory(name), server.keys.authority, "tls")
    emulated = server.settings.emulated_version
    return Process(
        Command(
            name=bench.name(name),
            argv=(
                str(bench.binaries[f"kube-{name}"].path),
                f"--kubeconfig={server.kubeconfig_path}",
                f"--authentication-kubeconfig={server.kubeconfig_path}",
                f"--authorization-kubeconfig={server.kubeconfig_path}",
                "--leader-elect=false",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={port}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                *((f"--emulated-version={emulated}",) if emulated else ()),
                *flags,
            ),
            log=bench.state.log(bench.name(name)),
            ready=lambda: answers_ok(f"https://{LOOPBACK}:{port}/healthz", context=server.context),
            environment=bench.environment,
        )
    )


def serving_keys(directory: Path, authority: KeyFiles, name: str) -> KeyFiles:
    """Return a serving certificate for the loopback address, issued by the authority of the cluster's API server."""
    return key_files(directory, name, lambda: Authority(authority.read()).issue("localhost", addresses=(LOOPBACK,)))
