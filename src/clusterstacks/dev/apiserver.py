"""A kube-apiserver with its own keys and its own prefix in etcd."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.dev.kubeconfig_writer import kubeconfig, to_bytes
from clusterstacks.dev.loopback import LOOPBACK, answers_ok, client_context
from clusterstacks.dev.private_files import ServerKeys, server_keys, write_private
from clusterstacks.dev.processes import Command, Process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.dev.etcd import EtcdAccess

WITHOUT_SERVICE_ACCOUNTS = ("--disable-admission-plugins=ServiceAccount",)
"""For a server without a kube-controller-manager: nothing creates the service account that each pod needs."""
QUICK_STOP = ("--shutdown-watch-termination-grace-period=1s",)
"""Watches end a second after SIGTERM; without this flag a stop waits for them until --request-timeout (60 s)."""

SERVICES = "10.0.0.0/24"
KUBERNETES_SERVICE = "10.0.0.1"
"""Address of the Service ``kubernetes``, the first one of ``SERVICES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """Settings of one kube-apiserver."""

    name: str
    """Cluster name in the kubeconfig, and of the process."""
    binary: Path
    directory: Path
    """For keys, kubeconfig and log; existing keys are reused."""
    etcd: EtcdAccess
    prefix: str
    """Prefix of its keys in etcd, e.g. ``/mgmt``."""
    port: int
    flags: tuple[str, ...] = ()
    """Appended to the command line."""
    emulated_version: str = ""
    """The minor whose APIs it serves, e.g. ``1.34``; empty means that of the binary."""
    log: Path | None = None
    """Log file; the default is ``kube-apiserver.log`` in the directory."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment variables of this program."""
    address: str = LOOPBACK
    """Address on which it listens; pods reach it only at one that is not the loopback address."""


class ApiServer:
    """A kube-apiserver process and how to reach it."""

    def __init__(self, settings: ApiServerSettings) -> None:
        self.settings = settings
        self.url = f"https://{settings.address}:{settings.port}"
        self.keys = server_keys(settings.directory / "keys", (settings.address, KUBERNETES_SERVICE))
        self.kubeconfig: dict[str, Any] = kubeconfig(
            settings.name, self.url, self.keys.authority.certificate.read_bytes(), self.keys.admin.read()
        )
        self.kubeconfig_path = settings.directory / "kubeconfig"
        write_private(self.kubeconfig_path, to_bytes(self.kubeconfig))
        keys = self.keys
        self.context = client_context(keys.authority.certificate, keys.admin.certificate, keys.admin.key)
        self.process = Process(
            Command(
                name=settings.name,
                argv=(str(settings.binary), *flags(settings, self.keys)),
                log=settings.log or settings.directory / "kube-apiserver.log",
                ready=lambda: answers_ok(f"{self.url}/readyz", context=self.context),
                environment=settings.environment,
            )
        )

    def launch(self) -> None:
        """Start it and return once it is ready; raises ProcessError."""
        self.process.launch()

    def stop(self, grace: timedelta = timedelta(seconds=5)) -> None:
        """Stop it; a kill is safe because etcd has its state."""
        self.process.stop(grace)


def flags(settings: ApiServerSettings, keys: ServerKeys) -> tuple[str, ...]:
    """Return the command line of a server."""
    return (
        *settings.etcd.flags(),
        f"--etcd-prefix={settings.prefix}",
        f"--bind-address={settings.address}",
        f"--advertise-address={settings.address}",
        f"--secure-port={settings.port}",
        f"--cert-dir={settings.directory / 'keys'}",
        f"--tls-cert-file={keys.serving.certificate}",
        f"--tls-private-key-file={keys.serving.key}",
        f"--client-ca-file={keys.authority.certificate}",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys.service_accounts.certificate}",
        f"--service-account-signing-key-file={keys.service_accounts.key}",
        # No endpoint is published because nothing runs inside the cluster.
        "--endpoint-reconciler-type=none",
        f"--requestheader-client-ca-file={keys.front_proxy.certificate}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-allowed-names=front-proxy-client",
        *QUICK_STOP,
        *((f"--emulated-version={settings.emulated_version}",) if settings.emulated_version else ()),
        *settings.flags,
    )
