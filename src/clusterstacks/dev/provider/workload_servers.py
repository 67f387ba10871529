"""Runs the workload API servers, one per control plane; keys, port and objects survive a restart."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.dev import process_records as records
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.dev.private_files import write_private
from clusterstacks.dev.processes import ProcessError, describe_exit, start_on_free_port
from clusterstacks.dev.provider.workload_components import WorkloadComponents
from clusterstacks.model.errors import SpecError
from clusterstacks.model.versions import KubernetesVersion

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.etcd import EtcdAccess
    from clusterstacks.dev.kube_components import Components
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.model.versions import KubernetesMinor

EMULATED_MINORS = 3
"""Number of earlier minors that a kube-apiserver can emulate.
Source: https://kubernetes.io/docs/concepts/cluster-administration/compatibility-version/"""
STOP_GRACE = timedelta(seconds=3)
"""Grace period; a stop takes 1.2 s with these flags, and a kill is safe because etcd has the state."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WantedServer:
    """The server that a control plane wants; the uid distinguishes it from an earlier cluster of the same name."""

    cluster: ObjectKey
    uid: str
    version: KubernetesVersion


@dataclass(slots=True)
class _Running:
    server: ApiServer
    series: KubernetesMinor
    components: WorkloadComponents

    def stop(self, grace: timedelta) -> None:
        """Stop the server after the components that use it."""
        self.components.stop()
        self.server.stop(grace)


class WorkloadServers:
    """Starts, restarts and removes workload API servers; calls for one cluster must not overlap.

    Beside each server run its components, those for Pods if ``bench`` has kwok. ``etcd`` is that of all servers.
    """

    def __init__(self, bench: Components, etcd: EtcdAccess, address: str = LOOPBACK) -> None:
        self._bench = bench
        self._etcd = etcd
        self._address = address
        self._running: dict[ObjectKey, _Running] = {}

    def serving(self, cluster: ObjectKey) -> ApiServer | None:
        """Return the running server of a cluster."""
        found = self._running.get(cluster)
        return found.server if found and found.server.process.running else None

    def runs(self, wanted: WantedServer) -> bool:
        """Return whether the server runs with the wanted minor."""
        found = self._running.get(wanted.cluster)
        return found is not None and found.server.process.running and found.series == wanted.version.series

    def ended(self) -> dict[ObjectKey, str]:
        """Return the clusters with a process that ended by itself, with its name and a description of the end."""
        ends = {}
        for cluster, found in self._running.items():
            code = found.server.process.exit_code
            if code is not None:
                ends[cluster] = f"The API server of {cluster} {describe_exit(code)}"
            elif how := found.components.ended():
                ends[cluster] = how
        return ends

    async def ensure(self, wanted: WantedServer) -> ApiServer:
        """Return the server; start it, or restart it with another minor, if necessary."""
        self._check(wanted.version)
        found = self._running.get(wanted.cluster)
        if found is None or not self.runs(wanted):
            if found:
                del self._running[wanted.cluster]  # it does not end by itself
                await asyncio.to_thread(found.stop, STOP_GRACE)
            server = await asyncio.to_thread(self._start, wanted)
            bench = replace(self._bench, cluster=str(wanted.cluster))
            found = _Running(server, wanted.version.series, WorkloadComponents(bench, server))
            self._running[wanted.cluster] = found
        await found.components.ensure(wanted.version.text)
        return found.server

    async def remove(self, cluster: ObjectKey, uid: str) -> None:
        """Stop the server and delete its objects and files, if it exists."""
        found = self._running.pop(cluster, None)
        if found:
            await asyncio.to_thread(found.stop, timedelta(0))
        records.remove(self._bench.state.records, str(cluster))
        deleted = await asyncio.to_thread(self._etcd.delete_prefix, _prefix(uid))
        shutil.rmtree(self._directory(cluster), ignore_errors=True)
        log.info("Removed the API server of %s with its %d objects", cluster, deleted)

    async def stop_all(self) -> None:
        """Stop every server and keep its files."""
        await asyncio.gather(*(asyncio.to_thread(found.stop, STOP_GRACE) for found in self._running.values()))
        for cluster in self._running:
            records.remove(self._bench.state.records, str(cluster))

    @property
    def simulates_pods(self) -> bool:
        """True if the clusters have the components for Pods."""
        return self._bench.simulates_pods

    def _check(self, version: KubernetesVersion) -> None:
        binary = self._bench.binaries["kube-apiserver"]
        newest = KubernetesVersion.parse(binary.version).series
        oldest = newest.minor - EMULATED_MINORS
        if version.series.major != newest.major or not oldest <= version.series.minor <= newest.minor:
            raise SpecError(
                "VersionNotSupported",
                f"Kubernetes {version.text} cannot be served: kube-apiserver {binary.version} offers "
                f"v{newest.major}.{oldest} to v{newest}; choose a version in that range",
            )

    def _start(self, wanted: WantedServer) -> ApiServer:
        directory = self._directory(wanted.cluster)
        memory = directory / "server.json"
        port = _remembered_port(memory, wanted.uid)
        if port is None:
            shutil.rmtree(directory, ignore_errors=True)  # keys of an earlier cluster of the same name
        server = self._start_on(wanted, directory, port)
        write_private(memory, json.dumps({"uid": wanted.uid, "port": server.settings.port}).encode())
        process = server.process
        records.write(
            self._bench.state.records,
            records.ProcessRecord(
                name=str(wanted.cluster),
                pid=process.pid,
                identity=records.identity_of(process.pid),
                version=f"v{wanted.version.series}",
                port=server.settings.port,
                log=str(process.command.log),
            ),
        )
        log.info("The API server of %s serves Kubernetes %s at %s", wanted.cluster, wanted.version.series, server.url)
        return server

    def _start_on(self, wanted: WantedServer, directory: Path, port: int | None) -> ApiServer:
        def make(port: int) -> ApiServer:
            return ApiServer(
                ApiServerSettings(
                    name=wanted.cluster.name,
                    binary=self._bench.binaries["kube-apiserver"].path,
                    directory=directory,
                    etcd=self._etcd,
                    prefix=_prefix(wanted.uid),
                    port=port,
                    flags=() if self.simulates_pods else WITHOUT_SERVICE_ACCOUNTS,
                    emulated_version=str(wanted.version.series),
                    address=self._address,
                )
            )

        if port is not None:
            server = make(port)
            try:
                server.launch()
            except ProcessError as error:
                if not error.port_taken:
                    raise
            else:
                return server
        return start_on_free_port(make)

    def _directory(self, cluster: ObjectKey) -> Path:
        return self._bench.state.clusters / cluster.namespace / cluster.name


def _prefix(uid: str) -> str:
    return f"/workload/{uid}"


def _remembered_port(memory: Path, uid: str) -> int | None:
    try:
        remembered = json.loads(memory.read_bytes())
    except (OSError, ValueError):
        return None
    return int(remembered["port"]) if remembered.get("uid") == uid else None
