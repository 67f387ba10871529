"""Start Cluster API's managers: definitions first, then the process, then the webhooks it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.devcluster import capi_managers, components, installation
from clusterstacks.devcluster.ports import LOOPBACK
from clusterstacks.devcluster.processes import start_on_free_port

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.devcluster.apiserver import ApiServer
    from clusterstacks.devcluster.capi_managers import Manager
    from clusterstacks.devcluster.processes import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerServer:
    """A manager together with its definitions and webhooks, which name its port."""

    manager: Manager
    process: Process
    manifests: Path
    server: ApiServer
    port: int

    def launch(self) -> None:
        """Install the definitions, start the manager and return once its webhooks answer.

        Raises:
            ClusterStacksError: the API server refuses them, or the manager does not start.
        """
        definitions = capi_managers.definitions(self.manifests, self._url, self._authority)
        installation.install(self.server.kubeconfig_path, definitions)
        self.process.launch()

    def install_webhooks(self) -> None:
        """Let the API server ask the running manager; errors as ``launch``.

        Only now: until the manager answers, every write to its kinds would fail.
        """
        found = capi_managers.webhook_configurations(self.manager, self.manifests, self._url, self._authority)
        installation.install(self.server.kubeconfig_path, found)

    @property
    def _url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def _authority(self) -> bytes:
        return self.server.keys.authority.certificate.read_bytes()


def start_manager(
    bench: components.Components, server: ApiServer, manager: Manager, manifests: Path, *, rate_limits: bool
) -> ManagerServer:
    """Start one manager on a free port; its webhooks are still to be installed.

    Raises:
        ClusterStacksError: it does not start, or its definitions cannot be installed.
    """

    def make(port: int) -> ManagerServer:
        process = components.cluster_api_manager(bench, server, manager, port, rate_limits=rate_limits)
        return ManagerServer(manager=manager, process=process, manifests=manifests, server=server, port=port)

    return start_on_free_port(make)
