"""Real API servers that hold the recorded state of a version: one management cluster for all of its demos."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.dev import binaries, capi_managers, installation
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.kubeconfig_writer import to_bytes
from clusterstacks.dev.processes import start_on_free_port
from clusterstacks.dev.provider.kinds import definitions
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, KUBECONFIG_KEY, KUBECONFIG_SUFFIX
from clusterstacks.model.versions import KubernetesVersion
from tests.support.observing.audit_log import WRITES, audit_flags
from tests.support.observing.request_audit import RequestAudit
from tests.support.servers.api_servers import AT_ONCE
from tools.recordings import IN_JSON, put_objects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest
    from tools.recordings import Recording

Objects = Mapping[str, "Manifest"]
"""Objects of a cluster by their keys in etcd."""
Change = Callable[[str, Objects], Objects]
"""Returns what a cluster of this name holds instead of its recorded objects."""

MANAGEMENT: Final = "management"
CLUSTERS: Final = f"/{CLUSTER_API_GROUP}/clusters/"
"""Prefix of the keys of Clusters."""
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
        {"level": "Request", "verbs": WRITES},
        {"level": "Metadata"},
    ],
}
"""Audit policy: all requests, and what was sent with a write; never the content of a Secret."""


@dataclass(frozen=True, slots=True)
class RecordedCluster:
    """A cluster that holds recorded objects.

    Args:
        name: ``MANAGEMENT``, or ``<namespace>/<name>`` of a workload cluster.
        server: Its API server.
        requests: All requests to it.
        objects: The objects that it held before the server started.
    """

    name: str
    server: ApiServer
    requests: RequestAudit
    objects: Objects


@dataclass(frozen=True, slots=True)
class RecordedClusters:
    """The clusters of some demos, and the directory with their releases."""

    management: RecordedCluster
    workloads: Sequence[RecordedCluster]
    releases: Path

    @property
    def all(self) -> tuple[RecordedCluster, ...]:
        """The management cluster and the others."""
        return self.management, *self.workloads


def unchanged(_: str, objects: Objects) -> Objects:
    return objects


@contextmanager
def recorded_clusters(
    etcd: Etcd, recordings: Sequence[Recording], scratch: Path, change: Change = unchanged
) -> Iterator[RecordedClusters]:
    """Run the API servers of the recorded clusters; one management cluster has the objects of all demos.

    Args:
        etcd: Holds the objects of all clusters.
        recordings: The demos, which have no names in common.
        scratch: Directory for keys, logs and releases; its name is unique.
        change: What the clusters hold instead of their recorded objects.
    """
    management: dict[str, Manifest] = {}
    versions: dict[str, str] = {}
    objects: dict[str, Objects] = {MANAGEMENT: management}
    for one in recordings:
        shutil.copytree(one.releases, scratch / "releases", dirs_exist_ok=True)
        management |= (found := one.management())
        cluster = next(manifest for key, manifest in found.items() if key.startswith(CLUSTERS))
        name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
        objects[name], versions[name] = one.workload(), cluster["spec"]["topology"]["version"]
    with ExitStack() as stack, ThreadPoolExecutor() as threads:

        def start(name: str) -> RecordedCluster:
            held = change(name, objects[name])
            server = _start(etcd, scratch, name, held, versions.get(name, ""))
            stack.callback(server.stop, AT_ONCE)
            return RecordedCluster(name, server, RequestAudit(_directory(scratch, name) / "audit.log"), held)

        hub, *workloads = threads.map(start, objects)
        for workload in workloads:
            key = f"/secrets/{workload.name}{KUBECONFIG_SUFFIX}"
            value = base64.b64encode(to_bytes(workload.server.kubeconfig)).decode()
            put_objects(
                etcd.access, hub.server.settings.prefix, {key: {**management[key], "data": {KUBECONFIG_KEY: value}}}
            )
        installation.install(hub.server.kubeconfig_path, [*all_crds(), *definitions(), *_cluster_api()])
        yield RecordedClusters(hub, workloads, scratch / "releases")


def _start(etcd: Etcd, scratch: Path, name: str, objects: Objects, version: str) -> ApiServer:
    directory = _directory(scratch, name)
    directory.mkdir()
    prefix = f"/{scratch.name}/{name}"
    put_objects(etcd.access, prefix, objects)
    settings = ApiServerSettings(
        name=directory.name,
        binary=binaries.resolve(["kube-apiserver"])["kube-apiserver"].path,
        directory=directory,
        etcd=etcd.access,
        prefix=prefix,
        port=0,
        flags=(*WITHOUT_SERVICE_ACCOUNTS, IN_JSON, *audit_flags(directory, POLICY)),
        emulated_version=str(KubernetesVersion.parse(version).series) if version else "",
    )
    return start_on_free_port(lambda port: ApiServer(replace(settings, port=port)))


def _directory(scratch: Path, name: str) -> Path:
    return scratch / name.replace("/", "-")


def _cluster_api() -> list[Manifest]:
    """Return the CRDs of Cluster API's core without its manager, which would convert older versions."""
    found = capi_managers.definitions(capi_managers.manifests(capi_managers.CORE), "", b"")
    return [{**one, "spec": {**one["spec"], "conversion": {"strategy": "None"}}} for one in found]
