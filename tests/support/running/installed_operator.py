"""The operator as a process with the account, arguments and environment of its Deployment in a real API server."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

import yaml

from clusterstacks.dev.loopback import free_port
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client


def account_kubeconfig(administrator: Path, deployment: Manifest, directory: Path) -> Path:
    """Write the kubeconfig of the Deployment's ServiceAccount."""
    kubectl = Kubectl(administrator, deployment["metadata"]["namespace"])
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    document = yaml.safe_load(administrator.read_text())
    document["users"][0]["user"] = {"token": kubectl("create", "token", account).strip()}
    path = directory / "account"
    path.write_text(yaml.safe_dump(document))
    return path


def reachable_address() -> str:
    """Return an address of this machine that is valid in an EndpointSlice, so not a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
    return "" if ip_address(address).is_loopback else address


async def lead(client: Client, service: str, address: str, port: int) -> None:
    """Route a Service to this machine, as its selector would route it to a pod."""
    namespace, _, name = service.partition("/")
    metadata = {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}}
    common = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    endpoint = {"addresses": [address], "conditions": {"ready": True}}
    ports = [{"name": "webhook", "port": port, "protocol": "TCP"}]
    resource = await client.resource("discovery.k8s.io", "EndpointSlice")
    await client.create(resource, {**common, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports})


@asynccontextmanager
async def running(
    client: Client, deployment: Manifest, kubeconfig: Path, log: Path, releases: Path
) -> AsyncIterator[None]:
    """Run the container's command as a process: only directories and ports are others.

    Where this machine has no address but loopback, the webhooks are called at a URL instead of the chart's Service.

    Args:
        client: An administrator of the management cluster.
        deployment: The Deployment as the server has it.
        kubeconfig: That of the Deployment's ServiceAccount.
        log: Gets what the operator logs; the cache is created beside it.
        releases: The directory of releases.
    """
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    port, address = free_port(), reachable_address()
    instead = {
        "--cache-dir": str(log.with_name("cache")),
        "--metrics-bind-address": "0",
        "--health-probe-bind-address": "0",
        "--webhook-port": str(port),
    }
    arguments = [f"--release-dir={releases}"]
    for one in container["args"]:
        flag, _, value = one.partition("=")
        if flag == "--webhook-service" and address:
            await lead(client, value, address, port)
        if flag == "--webhook-service" and not address:
            arguments.append(f"--webhook-url=https://127.0.0.1:{port}")
        else:
            arguments.append(f"{flag}={instead.get(flag, value)}")
    (variable,) = container["env"]
    assert variable["valueFrom"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    environment = {variable["name"]: deployment["metadata"]["namespace"], "KUBECONFIG": str(kubeconfig)}
    environment["PATH"] = os.environ["PATH"]
    program = (sys.executable, "-m", "clusterstacks.operator.main")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*program, *arguments, stderr=output, env=environment)
        try:
            yield
            assert process.returncode is None, said(log)
            process.terminate()
            assert await process.wait() == 0, said(log)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def said(log: Path) -> str:
    return log.read_text()
