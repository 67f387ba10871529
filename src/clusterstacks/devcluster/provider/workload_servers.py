"""Runs the workload API servers, one per control plane; keys, port and objects survive a restart."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.devcluster import process_records as records
from clusterstacks.devcluster.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.devcluster.private_files import write_private
from clusterstacks.devcluster.processes import ProcessError, describe_exit, start_on_free_port
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.devcluster.etcd import EtcdAccess
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.domain.versions import KubernetesMinor, KubernetesVersion

EMULATED_MINORS = 3
"""Number of earlier minors that a kube-apiserver can emulate.
Source: https://kubernetes.io/docs/concepts/cluster-administration/compatibility-version/"""
STOP_GRACE = timedelta(seconds=3)
"""Grace period; a stop takes 1.2 s with these flags, and a kill is safe because etcd has the state."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnvironment:
    """Settings that all workload API servers share.

    Args:
        version: Version of the binary, e.g. ``v1.36.3``.
        clusters: Directory with the files of each server in ``<namespace>/<cluster>``.
        records: Directory of the process records.
    """

    binary: Path
    version: KubernetesVersion
    etcd: EtcdAccess
    clusters: Path
    records: Path


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


class WorkloadServers:
    """Starts, restarts and removes workload API servers; calls for one cluster must not overlap."""

    def __init__(self, ground: ServerEnvironment) -> None:
        self._ground = ground
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
        """Return the clusters whose server ended by itself, with a description of the end."""
        return {
            cluster: describe_exit(code)
            for cluster, found in self._running.items()
            if (code := found.server.process.exit_code) is not None
        }

    async def ensure(self, wanted: WantedServer) -> ApiServer:
        """Return the server; start it, or restart it with another minor, if necessary.

        Raises:
            SpecError: The binary cannot emulate the wanted version.
            ProcessError: It does not start.
        """
        self._check(wanted.version)
        found = self._running.get(wanted.cluster)
        if found and self.runs(wanted):
            return found.server
        if found:
            del self._running[wanted.cluster]  # it does not end by itself
            await asyncio.to_thread(found.server.stop, STOP_GRACE)
        server = await asyncio.to_thread(self._start, wanted)
        self._running[wanted.cluster] = _Running(server, wanted.version.series)
        return server

    async def remove(self, cluster: ObjectKey, uid: str) -> None:
        """Stop the server and delete its objects and files, if it exists.

        Raises:
            DependencyError: Etcd rejects the deletion.
        """
        found = self._running.pop(cluster, None)
        if found:
            await asyncio.to_thread(found.server.stop, timedelta(0))
        records.remove(self._ground.records, str(cluster))
        deleted = await asyncio.to_thread(self._ground.etcd.delete_prefix, _prefix(uid))
        shutil.rmtree(self._directory(cluster), ignore_errors=True)
        log.info("Removed the API server of %s with its %d objects", cluster, deleted)

    async def stop_all(self) -> None:
        """Stop every server and keep its files."""
        await asyncio.gather(*(asyncio.to_thread(found.server.stop, STOP_GRACE) for found in self._running.values()))
        for cluster in self._running:
            records.remove(self._ground.records, str(cluster))

    def _check(self, version: KubernetesVersion) -> None:
        newest = self._ground.version.series
        oldest = newest.minor - EMULATED_MINORS
        if version.series.major != newest.major or not oldest <= version.series.minor <= newest.minor:
            raise SpecError(
                "VersionNotSupported",
                f"Kubernetes {version.text} cannot be served: kube-apiserver {self._ground.version.text} offers "
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
            self._ground.records,
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
            emulate = f"--emulated-version={wanted.version.series}"
            return ApiServer(
                ApiServerSettings(
                    name=wanted.cluster.name,
                    binary=self._ground.binary,
                    directory=directory,
                    etcd=self._ground.etcd,
                    prefix=_prefix(wanted.uid),
                    port=port,
                    flags=(*WITHOUT_SERVICE_ACCOUNTS, emulate),
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
        return self._ground.clusters / cluster.namespace / cluster.name


def _prefix(uid: str) -> str:
    return f"/workload/{uid}"


def _remembered_port(memory: Path, uid: str) -> int | None:
    try:
        remembered = json.loads(memory.read_bytes())
    except (OSError, ValueError):
        return None
    return int(remembered["port"]) if remembered.get("uid") == uid else None
