"""The other processes of the management side: command lines and probes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from clusterstacks.dev.capi_managers import ORC, ROLE, read_definitions
from clusterstacks.dev.kube_components import serving_keys
from clusterstacks.dev.kubeconfig_writer import kubeconfig, to_bytes
from clusterstacks.dev.loopback import LOOPBACK, answers_ok, free_port
from clusterstacks.dev.private_files import private_directory, write_private
from clusterstacks.dev.processes import Command, Process
from clusterstacks.dev.provider.kinds import GROUP, TEMPLATES
from clusterstacks.dev.toolchain import WORKLOAD_CLUSTER, WORKLOADS
from clusterstacks.model.yaml import load
from clusterstacks.net.kube.pki import Authority

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.capi_managers import Manager
    from clusterstacks.dev.kube_components import Components
    from clusterstacks.model.objects import Manifest


def cluster_api_manager(
    bench: Components, server: ApiServer, manager: Manager, webhook_port: int, *, rate_limits: bool
) -> Process:
    """Return one of Cluster API's managers; they share their flags.

    It listens on all interfaces at ``webhook_port``, which its webhook configurations name. ``rate_limits`` keeps
    Cluster API's default of one reconcile per second and object.
    """
    health = f"{LOOPBACK}:{free_port()}"
    gates = ["ClusterTopology=true", "RuntimeSDK=true"]
    if not rate_limits:
        gates.append("ReconcilerRateLimiting=false")
    serving = serving_keys(bench.directory(manager.name), server.keys.authority, "tls")
    return Process(
        Command(
            name=manager.name,
            argv=(
                str(bench.binaries[manager.program].path),
                f"--kubeconfig={server.kubeconfig_path}",
                f"--webhook-port={webhook_port}",
                f"--webhook-cert-dir={serving.certificate.parent}",
                f"--webhook-cert-name={serving.certificate.name}",
                f"--webhook-key-name={serving.key.name}",
                f"--health-addr={health}",
                f"--diagnostics-address={LOOPBACK}:{free_port()}",
                "--insecure-diagnostics=true",
                f"--feature-gates={','.join(gates)}",
            ),
            log=bench.state.log(manager.name),
            ready=lambda: answers_ok(f"http://{health}/readyz"),
            environment=bench.environment,
        )
    )


def image_controller(bench: Components, server: ApiServer, port: int) -> Process:
    """Return the OpenStack Resource Controller (ORC), which may do what its own role says."""
    authority = server.keys.authority.read()
    path = bench.directory(ORC.name) / "kubeconfig"
    client = Authority(authority).issue(ORC.name)
    write_private(path, to_bytes(kubeconfig(ORC.name, server.url, authority.certificate, client)))
    health = f"{LOOPBACK}:{port}"
    return Process(
        Command(
            name=ORC.name,
            argv=(
                str(bench.binaries[ORC.program].path),
                f"--kubeconfig={path}",
                f"--health-probe-bind-address={health}",
            ),
            log=bench.state.log(ORC.name),
            ready=lambda: answers_ok(f"http://{health}/readyz"),
            environment=bench.environment,
        )
    )


def image_controller_objects(manifests: Path) -> list[Manifest]:
    """Return the CRDs of ORC, and its role with the binding to the user of its kubeconfig."""
    role = load((manifests / ROLE).read_bytes())
    role["metadata"]["name"] = ORC.name
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ORC.name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ORC.name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ORC.name}],
    }
    return [*read_definitions(manifests), role, binding]


def provider(bench: Components, server: ApiServer, etcd_port: int, *, workloads: bool = False) -> Process:
    """Return the local Cluster API provider, which starts the workload API servers.

    They listen on the address of the management API server: who reaches one must reach the others. With ``workloads``
    it also starts what makes Pods run beside each of them.
    """
    state = bench.state
    programs = [bench.binaries[name] for name in (*WORKLOAD_CLUSTER, *(WORKLOADS if workloads else ()))]
    state.provider_ready.unlink(missing_ok=True)
    return Process(
        Command(
            name="provider",
            argv=(
                sys.executable,
                "-m",
                "clusterstacks.dev.provider",
                f"--state-dir={state.root}",
                f"--etcd-port={etcd_port}",
                f"--address={server.settings.address}",
                *(f"--program={binary.name}={binary.version}={binary.path}" for binary in programs),
            ),
            log=state.log("provider"),
            ready=state.provider_ready.exists,
            environment=bench.environment,
        )
    )


def operator(bench: Components, server: ApiServer, port: int, releases: Path) -> Process:
    """Return our operator with releases from a directory, whose node images it serves."""
    kinds = ",".join(f"{kind}.{GROUP}" for kind in TEMPLATES)
    webhooks, images = free_port(), free_port()
    return Process(
        Command(
            name="operator",
            argv=(
                sys.executable,
                "-m",
                "clusterstacks.operator.main",
                f"--kubeconfig={server.kubeconfig_path}",
                "--source=directory",
                f"--release-dir={releases}",
                f"--cache-dir={private_directory(bench.state.operator_cache)}",
                f"--class-kinds={kinds}",
                # One operator runs at a time: with a fixed identity the next one does not wait for the Lease.
                "--leader-elect-namespace=default",
                "--leader-elect-identity=csctl-dev",
                f"--webhook-port={webhooks}",
                f"--webhook-url=https://{LOOPBACK}:{webhooks}",
                f"--node-image-bind-address={LOOPBACK}:{images}",
                f"--node-image-url=http://{LOOPBACK}:{images}",
                "--operator-namespace=kube-system",
                f"--metrics-bind-address={LOOPBACK}:{free_port()}",
                f"--health-probe-bind-address={LOOPBACK}:{port}",
            ),
            log=bench.state.log("operator"),
            ready=lambda: answers_ok(f"http://{LOOPBACK}:{port}/readyz"),
            environment=bench.environment,
        )
    )
