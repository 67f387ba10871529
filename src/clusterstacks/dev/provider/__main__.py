"""The provider's process: ``python -m clusterstacks.dev.provider``."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev import process_records
from clusterstacks.dev.binaries import Binary
from clusterstacks.dev.etcd import EtcdAccess
from clusterstacks.dev.kube_components import Components
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.dev.private_files import write_private
from clusterstacks.dev.provider.control_planes import ControlPlaneReconciler, cluster_of
from clusterstacks.dev.provider.infrastructure import InfrastructureReconciler
from clusterstacks.dev.provider.kinds import BOOTSTRAP_CONFIG, CLUSTER, CONTROL_PLANE, GROUP, MACHINE
from clusterstacks.dev.provider.workers import BootstrapReconciler, MachineReconciler
from clusterstacks.dev.provider.workload_servers import WorkloadServers
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.runtime.cache import key_of
from clusterstacks.runtime.controller import Controller
from clusterstacks.runtime.informer import Informer
from clusterstacks.runtime.log_format import configure_logging
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.process import run_until_signal

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest, ObjectKey
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
    """The controllers and their event sources."""

    def __init__(self, client: Client, pool: Pool, servers: WorkloadServers) -> None:
        self.servers = servers
        index = {"cluster": _cluster_index}
        self.clusters = Informer(client, GROUP, CLUSTER, indexes=index)
        self.control_planes = Informer(client, GROUP, CONTROL_PLANE, indexes=index)
        metrics = Metrics()
        planes = ControlPlaneReconciler(client, self.control_planes, servers)
        infrastructure = InfrastructureReconciler(client, self.clusters, self.control_planes, servers)
        self.plane_host = Controller("localcontrolplane", planes.reconcile, workers=WORKERS, metrics=metrics)
        self.cluster_host = Controller("localcluster", infrastructure.reconcile, workers=WORKERS, metrics=metrics)
        self.machines = Informer(client, GROUP, MACHINE)
        self.configs = Informer(client, GROUP, BOOTSTRAP_CONFIG)
        machines = MachineReconciler(client=client, pool=pool, machines=self.machines, servers=servers)
        bootstrap = BootstrapReconciler(client, self.configs)
        self.machine_host = Controller("localmachine", machines.reconcile, workers=WORKERS, metrics=metrics)
        self.config_host = Controller("localbootstrapconfig", bootstrap.reconcile, workers=WORKERS, metrics=metrics)
        self.machines.subscribe(lambda change: self.machine_host.enqueue(change.key))
        self.configs.subscribe(lambda change: self.config_host.enqueue(change.key))
        self.clusters.subscribe(lambda change: self.cluster_host.enqueue(change.key))
        self.control_planes.subscribe(self._control_plane_changed)

    @property
    def informers(self) -> dict[str, Informer]:
        """The event sources, by kind."""
        return {
            CLUSTER: self.clusters,
            CONTROL_PLANE: self.control_planes,
            MACHINE: self.machines,
            BOOTSTRAP_CONFIG: self.configs,
        }

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """The controllers."""
        return self.plane_host, self.cluster_host, self.machine_host, self.config_host

    def _control_plane_changed(self, change: CacheChange) -> None:
        self.plane_host.enqueue(change.key)
        cluster = cluster_of(change.new or change.old or {"metadata": {}})  # one of them is there
        for infrastructure in self.clusters.cache.by_index("cluster", str(cluster)):
            self.cluster_host.enqueue(key_of(infrastructure))

    async def revive(self) -> None:
        """Enqueue the control plane of every cluster with a process that ended by itself; its reconcile restarts it."""
        told: dict[ObjectKey, str] = {}
        while True:
            ended = self.servers.ended()
            for cluster, how in ended.items():
                for plane in self.control_planes.cache.by_index("cluster", str(cluster)):
                    self.plane_host.enqueue(key_of(plane))
                if told.get(cluster) != how:
                    log.warning("%s; restarting it", how)
            told = ended
            await asyncio.sleep(WATCH_SECONDS)

    async def stand_by(self, ready_file: Path) -> None:
        """Write the ready file after every existing object was seen."""
        for informer in self.informers.values():
            await informer.synced()
        write_private(ready_file, b"")
        await asyncio.Event().wait()


async def _run(arguments: argparse.Namespace) -> None:
    state = StateDirectory(arguments.state_dir)
    programs = dict(_program(text) for text in arguments.program)
    etcd = EtcdAccess.at(arguments.etcd_port, state.etcd)
    # Servers of a killed provider: they hold the ports and keys of the ones started now.
    process_records.end(record for record in process_records.read_all(state.records) if "/" in record.name)
    servers = WorkloadServers(Components(state, programs), etcd, arguments.address)
    async with Pool() as pool:
        client = Client(load_kubeconfig([state.kubeconfig]), pool, user_agent="local-cluster-api-provider")
        provider = Provider(client, pool, servers)
        services = {
            **{f"watch of {kind}s": informer.run for kind, informer in provider.informers.items()},
            **{controller.name: controller.run for controller in provider.controllers},
            "revival": provider.revive,
            "readiness": lambda: provider.stand_by(state.provider_ready),
        }
        try:
            await run_until_signal(services)
        finally:
            await servers.stop_all()


def _cluster_index(manifest: Manifest) -> list[str]:
    cluster = cluster_of(manifest)
    return [str(cluster)] if cluster else []


def _program(text: str) -> tuple[str, Binary]:
    name, version, path = text.split("=", 2)
    return name, Binary(name, version, "csctl dev", Path(path))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clusterstacks.dev.provider", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--program", action="append", required=True, help="NAME=VERSION=PATH; repeatable")
    parser.add_argument("--etcd-port", type=int, required=True)
    parser.add_argument("--address", default=LOOPBACK, help="address of the workload API servers")
    return parser


if __name__ == "__main__":
    main()
