"""A management cluster with a real node, for tests of installations: pods run, and Cluster API is a Deployment.

Kubelet, kube-proxy and containerd are in namespaces of their own, beside the processes of this machine. The control
plane is those of ``csctl dev`` and a kube-scheduler. It reaches pods and Services by a pair of network interfaces.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clusterstacks.dev import binaries, components, installation, kube_components, process_records, teardown, toolchain
from clusterstacks.dev.apiserver import ApiServer, ApiServerSettings
from clusterstacks.dev.etcd import Etcd
from clusterstacks.dev.processes import start_on_free_port
from clusterstacks.dev.provider.kinds import GROUP, TEMPLATES, definitions
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.net.kube.pki import Authority
from tests.support.node import cgroups, cluster_api_deployment, node_files, node_network
from tests.support.node.node_process import NodeProcess
from tests.support.node.program_images import write_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clusterstacks.dev.kube_components import Components
    from clusterstacks.dev.processes import Process
    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.model.objects import Manifest
    from tests.support.node.host_requirements import Host
    from tests.support.node.node_network import NodeNetwork

PROGRAMS: Final = (*toolchain.ALWAYS, "kubelet", "kube-proxy", "kube-scheduler")
"""The programs that are built; this machine provides the others."""
AT_ONCE: Final = timedelta(0)
PROVIDER_GRACE: Final = timedelta(seconds=6)
"""Grace period of the provider, which stops the API servers of workload clusters."""


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """A running environment with a node.

    Args:
        state: The state directory of the environment.
        server: The management API server.
        node: The node, which can be restarted.
        network: The addresses of the node; it reaches this machine at ``network.host``.
        groups: The cgroups of the node.
    """

    state: StateDirectory
    server: ApiServer
    node: NodeProcess
    network: NodeNetwork
    groups: tuple[Path, ...]

    @property
    def authority(self) -> Authority:
        """The authority of the management API server."""
        return Authority(self.server.keys.authority.read())

    def traces(self) -> list[str]:
        """Return what is left of the environment on this machine, to be called after its end."""
        processes = [f"process {record.pid} ({record.name})" for record in teardown.marked(self.state.root)]
        interfaces = sorted({self.network.link, self.network.peer} & node_network.interfaces())
        mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.state.root) in line]
        return [*processes, *interfaces, *mounts, *(str(path) for path in self.groups if path.exists())]


@contextmanager
def running_node(state: StateDirectory, host: Host, report: Callable[[str], None]) -> Iterator[NodeEnvironment]:
    """Run an environment with a node and without an operator; all its processes are children of this one.

    Raises:
        ClusterStacksError: A part of it does not start; nothing is left.
    """
    bench = kube_components.Components(state, binaries.resolve(PROGRAMS, report=report))
    with ExitStack() as running:
        # At last: the API servers of a provider that was killed.
        running.callback(lambda: process_records.end(teardown.marked(state.root)))
        network = node_network.claim()
        running.callback(node_network.remove, network)
        groups = cgroups.paths(network.link)
        running.callback(cgroups.remove, groups)
        cgroups.create(groups)
        server, etcd_port = _start_servers(bench, network, running)
        _start_controllers(bench, server, running)
        parts = node_files.NodeParts(
            state=state,
            host=host,
            network=network,
            binaries=bench.binaries,
            server=server,
            environment=bench.environment,
        )
        core = bench.binaries[toolchain.CORE]
        write_image(
            node_files.images(state) / "core.tar", cluster_api_deployment.image(core.version), core.path.read_bytes()
        )
        node = NodeProcess(parts, groups)
        _launch(node, running, AT_ONCE)
        report(f"node {bench.binaries['kubelet'].version} is ready")
        installation.install(server.kubeconfig_path, [*all_crds(), *definitions(), *roles()])
        environment = NodeEnvironment(state, server, node, network, tuple(groups))
        _deploy_cluster_api(bench, environment, report)
        _launch(components.provider(bench, server, etcd_port), running, PROVIDER_GRACE)
        yield environment


def _start_servers(bench: Components, network: NodeNetwork, running: ExitStack) -> tuple[ApiServer, int]:
    """Start etcd and the management API server; return the latter, and the port of etcd."""
    state = bench.state
    etcd = start_on_free_port(
        lambda port: Etcd(
            binary=bench.binaries["etcd"].path,
            directory=state.etcd,
            port=port,
            log=state.log("etcd"),
            environment=bench.environment,
        )
    )
    running.callback(etcd.stop, AT_ONCE)
    settings = ApiServerSettings(
        name="management",
        binary=bench.binaries["kube-apiserver"].path,
        directory=state.management,
        etcd=etcd.access,
        prefix="/mgmt",
        port=0,
        log=state.log("management"),
        environment=bench.environment,
    )
    with_node = node_files.with_node(settings, network)
    server = start_on_free_port(lambda port: ApiServer(replace(with_node, port=port)))
    running.callback(server.stop, AT_ONCE)
    return server, etcd.port


def _start_controllers(bench: Components, server: ApiServer, running: ExitStack) -> None:
    """Start the controllers and the scheduler of a cluster with nodes."""
    controllers = kube_components.ALL_CONTROLLERS  # also Deployments, EndpointSlices and aggregated ClusterRoles
    makers: tuple[Callable[[int], Process], ...] = (
        lambda port: kube_components.controller_manager(bench, server, port, controllers),
        lambda port: kube_components.scheduler(bench, server, port),
    )
    for make in makers:
        running.callback(start_on_free_port(make).stop, AT_ONCE)


def _launch(process: Process, running: ExitStack, grace: timedelta) -> None:
    process.launch()
    running.callback(process.stop, grace)


def _deploy_cluster_api(bench: Components, environment: NodeEnvironment, report: Callable[[str], None]) -> None:
    server, version = environment.server, bench.binaries[toolchain.CORE].version
    text = cluster_api_deployment.components(bench.binaries["kubectl"], binaries.cache_directory(), report)
    objects, webhooks = cluster_api_deployment.deployment(text, version, environment.authority)
    installation.install_in_order(server.kubeconfig_path, objects)
    cluster_api_deployment.await_available(server)
    installation.install(server.kubeconfig_path, webhooks)
    report(f"Cluster API {version} is available as a Deployment")


def roles() -> list[Manifest]:
    """Return the ClusterRoles that add the provider's kinds to the rights of Cluster API and of our operator."""
    templates = [f"{kind.lower()}s" for kind in TEMPLATES]
    manager = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}
    objects = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get"]}
    classes = {"apiGroups": [GROUP], "resources": templates, "verbs": ["create", "patch", "delete"]}
    return [
        _role("manager", {"cluster.x-k8s.io/aggregate-to-manager": "true"}, manager),
        _role("operator", {"clusterstack.x-k8s.io/aggregate-to-operator": "true"}, objects, classes),
    ]


def _role(name: str, labels: dict[str, str], *rules: Manifest) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{GROUP}-{name}", "labels": labels},
        "rules": list(rules),
    }
