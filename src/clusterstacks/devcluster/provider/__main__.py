"""The provider's process: ``python -m clusterstacks.devcluster.provider``."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.devcluster import process_records
from clusterstacks.devcluster.etcd import EtcdAccess
from clusterstacks.devcluster.private_files import write_private
from clusterstacks.devcluster.provider.control_planes import ControlPlaneReconciler, cluster_of
from clusterstacks.devcluster.provider.infrastructure import InfrastructureReconciler
from clusterstacks.devcluster.provider.kinds import CLUSTER, CONTROL_PLANE, GROUP
from clusterstacks.devcluster.provider.workload_servers import ServerEnvironment, WorkloadServers
from clusterstacks.domain.versions import KubernetesVersion
from clusterstacks.kube.client import Client
from clusterstacks.kube.kubeconfig import load_kubeconfig
from clusterstacks.kube.transport import Pool
from clusterstacks.runtime.cache import key_of
from clusterstacks.runtime.controller import Controller
from clusterstacks.runtime.informer import Informer
from clusterstacks.runtime.log_format import configure_logging
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.process import run_until_signal

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.runtime.cache import CacheChange

WATCH_SECONDS = 0.5
"""Interval at which ended API servers are looked for."""
WORKERS = 8
"""Clusters reconciled at a time; starting a server takes 2 s, mostly its own CPU time."""

log = logging.getLogger(__name__)


def main() -> None:
    """Run the provider until SIGTERM."""
    arguments = _parser().parse_args()
    configure_logging()
    asyncio.run(_run(arguments))


class Provider:
    """The two controllers and their event sources."""

    def __init__(self, client: Client, servers: WorkloadServers) -> None:
        self.servers = servers
        index = {"cluster": _cluster_index}
        self.clusters = Informer(client, GROUP, CLUSTER, indexes=index)
        self.control_planes = Informer(client, GROUP, CONTROL_PLANE, indexes=index)
        metrics = Metrics()
        planes = ControlPlaneReconciler(client, self.control_planes, servers)
        infrastructure = InfrastructureReconciler(client, self.clusters, self.control_planes, servers)
        self.plane_host = Controller("localcontrolplane", planes.reconcile, workers=WORKERS, metrics=metrics)
        self.cluster_host = Controller("localcluster", infrastructure.reconcile, workers=WORKERS, metrics=metrics)
        self.clusters.subscribe(lambda change: self.cluster_host.enqueue(change.key))
        self.control_planes.subscribe(self._control_plane_changed)

    def _control_plane_changed(self, change: CacheChange) -> None:
        self.plane_host.enqueue(change.key)
        cluster = cluster_of(change.new or change.old or {"metadata": {}})  # one of them is there
        for infrastructure in self.clusters.cache.by_index("cluster", str(cluster)):
            self.cluster_host.enqueue(key_of(infrastructure))

    async def revive(self) -> None:
        """Enqueue the control plane of every server that ended by itself; its reconcile restarts it."""
        told: dict[ObjectKey, str] = {}
        while True:
            ended = self.servers.ended()
            for cluster, how in ended.items():
                for plane in self.control_planes.cache.by_index("cluster", str(cluster)):
                    self.plane_host.enqueue(key_of(plane))
                if told.get(cluster) != how:
                    log.warning("The API server of %s %s; restarting it", cluster, how)
            told = ended
            await asyncio.sleep(WATCH_SECONDS)

    async def stand_by(self, ready_file: Path) -> None:
        """Write the ready file after every existing object was seen."""
        await self.clusters.synced()
        await self.control_planes.synced()
        write_private(ready_file, b"")
        await asyncio.Event().wait()


async def _run(arguments: argparse.Namespace) -> None:
    ground = ServerEnvironment(
        binary=arguments.kube_apiserver,
        version=KubernetesVersion.parse(arguments.kube_apiserver_version),
        etcd=EtcdAccess.at(arguments.etcd_port, arguments.etcd_directory),
        clusters=arguments.clusters_directory,
        records=arguments.records_directory,
    )
    # Servers of a killed provider: they hold the ports and keys of the ones started now.
    process_records.end(record for record in process_records.read_all(ground.records) if "/" in record.name)
    servers = WorkloadServers(ground)
    async with Pool() as pool:
        client = Client(load_kubeconfig([arguments.kubeconfig]), pool, user_agent="local-cluster-api-provider")
        provider = Provider(client, servers)
        services = {
            "watch of LocalClusters": provider.clusters.run,
            "watch of LocalControlPlanes": provider.control_planes.run,
            "localcluster": provider.cluster_host.run,
            "localcontrolplane": provider.plane_host.run,
            "revival": provider.revive,
            "readiness": lambda: provider.stand_by(arguments.ready_file),
        }
        try:
            await run_until_signal(services)
        finally:
            await servers.stop_all()


def _cluster_index(manifest: Manifest) -> list[str]:
    cluster = cluster_of(manifest)
    return [str(cluster)] if cluster else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clusterstacks.devcluster.provider", description=__doc__)
    for flag in ("kubeconfig", "kube-apiserver", "etcd-directory", "clusters-directory", "records-directory"):
        parser.add_argument(f"--{flag}", type=Path, required=True)
    parser.add_argument("--kube-apiserver-version", required=True)
    parser.add_argument("--etcd-port", type=int, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
