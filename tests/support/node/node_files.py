"""The files of a node: keys, kubeconfigs, configurations and images. Paths in them are those inside the node."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from clusterstacks.dev.kubeconfig_writer import kubeconfig, to_bytes
from clusterstacks.dev.private_files import key_files, private_directory, server_keys, write_private
from clusterstacks.net.kube.pki import Authority
from tests.support.node.node_init import ROOT, SOCKET, NodeSettings
from tests.support.node.program_images import PAUSE, architecture, pause_program, write_image

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer, ApiServerSettings
    from clusterstacks.dev.binaries import Binary
    from clusterstacks.dev.state_directory import StateDirectory
    from tests.support.node.host_requirements import Host
    from tests.support.node.node_network import NodeNetwork

NAME = "node"
"""Name of the node, and of its process."""
INSIDE = ROOT / "node"
"""The node's directory inside the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts of the environment and of this machine that a node uses."""

    state: StateDirectory
    host: Host
    network: NodeNetwork
    binaries: Mapping[str, Binary]
    server: ApiServer
    environment: Mapping[str, str]


def with_node(settings: ApiServerSettings, network: NodeNetwork) -> ApiServerSettings:
    """Return the settings of an API server whose clients include a node and its pods.

    It gets its keys here, because pods find it by the first address of the node's Services.
    """
    keys = settings.directory / "keys"
    server_keys(keys, (network.host, str(ip_network(network.services)[1])))
    flags = (
        f"--service-cluster-ip-range={network.services}",
        "--authorization-mode=Node",  # beside RBAC
        "--enable-admission-plugins=NodeRestriction",
        # Pods find it in the Service "kubernetes".
        "--endpoint-reconciler-type=lease",
        # The name of the node is not in DNS; 'kubectl logs' needs its address.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={keys / 'ca.crt'}",
        f"--kubelet-client-certificate={keys / 'admin.crt'}",
        f"--kubelet-client-key={keys / 'admin.key'}",
    )
    return replace(settings, address=network.host, flags=(*settings.flags, *flags))


def directory(state: StateDirectory) -> Path:
    """Return the directory of the node's configuration, images and disk."""
    return state.root / "node"


def settings_file(state: StateDirectory) -> Path:
    """Return the path of the settings of the node's first process."""
    return directory(state) / "settings.json"


def disk(state: StateDirectory) -> Path:
    """Return the directory with everything that kubelet and containerd write."""
    return directory(state) / "disk"


def images(state: StateDirectory) -> Path:
    """Return the directory of image archives; the node imports all of them when it starts."""
    return private_directory(directory(state) / "images")


def registries(state: StateDirectory) -> Path:
    """Return the directory with containerd's ``<registry>/hosts.toml`` files."""
    return private_directory(directory(state) / "registries")


def write(parts: NodeParts) -> None:
    """Write all files of a node that is about to start."""
    state, network = parts.state, parts.network
    for folder in (disk(state) / "pods", registries(state), directory(state) / "cni"):
        private_directory(folder)
    write_image(images(state) / "pause.tar", PAUSE, pause_program(architecture()))
    _write_kubeconfigs(parts)
    write_private(directory(state) / "containerd.toml", _containerd(parts.host.plugins).encode())
    write_private(directory(state) / "cni" / "10-bridge.conflist", _json(_bridge(network.pods)))
    write_private(directory(state) / "kubelet.json", _json(_kubelet()))
    settings = NodeSettings(
        name=NAME,
        state=str(state.root),
        interface=network.peer,
        address=f"{network.node}/24",
        gateway=network.host,
        programs=_programs(parts),
    )
    write_private(settings_file(state), settings.to_json())


def _write_kubeconfigs(parts: NodeParts) -> None:
    server, files = parts.server, directory(parts.state)
    issuer = Authority(server.keys.authority.read())
    kubelet = key_files(
        files,
        "kubelet",
        lambda: issuer.issue(
            f"system:node:{NAME}", organizations=("system:nodes",), addresses=(parts.network.node,), hosts=(NAME,)
        ),
    )
    proxy = key_files(files, "kube-proxy", lambda: issuer.issue("system:kube-proxy"))
    (files / "ca.crt").write_bytes(issuer.certificate)
    for name, keys in (("kubelet", kubelet), ("kube-proxy", proxy)):
        document = kubeconfig(server.settings.name, server.url, issuer.certificate, keys.read())
        write_private(files / f"{name}.kubeconfig", to_bytes(document))


def _programs(parts: NodeParts) -> dict[str, list[str]]:
    network = parts.network
    return {
        "containerd": ["containerd", f"--config={INSIDE / 'containerd.toml'}"],
        "kubelet": [
            str(parts.binaries["kubelet"].path),
            f"--config={INSIDE / 'kubelet.json'}",
            f"--kubeconfig={INSIDE / 'kubelet.kubeconfig'}",
            f"--root-dir={INSIDE / 'disk' / 'kubelet'}",
            f"--hostname-override={NAME}",
            f"--node-ip={network.node}",
        ],
        "kube-proxy": [
            str(parts.binaries["kube-proxy"].path),
            f"--kubeconfig={INSIDE / 'kube-proxy.kubeconfig'}",
            f"--hostname-override={NAME}",
            f"--proxy-mode={parts.host.proxy_mode}",
            f"--cluster-cidr={network.pods}",
            "--conntrack-max-per-core=0",  # the setting belongs to the host
        ],
    }


def _containerd(plugins: Path) -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE, runc cannot lower the score, and no pod would start.
    return f"""version = 2
root = "{INSIDE / "disk" / "containerd"}"
state = "{SOCKET.parent}"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{INSIDE / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{INSIDE / "registries"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def _bridge(pods: str) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(INSIDE / "disk" / "networks"),
            "ranges": [[{"subnet": pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": "bridge", "plugins": [bridge]}


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(INSIDE / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(INSIDE / "kubelet.crt"),
        "tlsPrivateKeyFile": str(INSIDE / "kubelet.key"),
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,  # needs a file system that reports usage per directory
        "resolvConf": "/dev/null",
        "podLogsDir": str(INSIDE / "disk" / "pods"),
        # The disk is the host's: a full one must not evict pods long before the host itself fails.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "nodeStatusUpdateFrequency": "4s",
        "serializeImagePulls": False,
    }


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"
