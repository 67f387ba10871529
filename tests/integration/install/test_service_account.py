"""The operator runs with the account, arguments and environment of the installed chart, and nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

import yaml

from clusterstacks.api.names import Kind
from clusterstacks.devcluster.loopback import free_port
from clusterstacks.domain.objects import split_api_version
from deploy.manifests import rendered
from tests.support.builders.operator_chart import PLAIN
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import forget, refusal
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import condition_of
from tests.support.servers.garbage_collector import garbage_collector
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.devcluster.apiserver import ApiServer
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.render.renderer import Renderer
    from tests.support.running.world import World

WEBHOOKS = ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")


async def installed(world: World, renderer: Renderer) -> Manifest:
    """Install the chart for the world's namespace in another one, and give its Deployment as the server has it."""
    home = await world.other_namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    values = {
        **PLAIN,
        "watchNamespace": world.namespace,
        "source": {"type": "directory"},
        "crds": {"install": False},  # those of the other tests are there
    }
    for one in await rendered(renderer, values, home):
        group, version = split_api_version(one["apiVersion"])
        applied = await world.client.apply(
            await world.client.resource(group, one["kind"], version), one, manager="helm", force=True
        )
        if one["kind"] == "Deployment":
            deployment = applied
    return deployment


def account_kubeconfig(world: World, deployment: Manifest, directory: Path) -> Path:
    """Write the kubeconfig of the Deployment's ServiceAccount."""
    kubectl = Kubectl(world.management_kubeconfig, deployment["metadata"]["namespace"])
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    document = yaml.safe_load(world.management_kubeconfig.read_text())
    document["users"][0]["user"] = {"token": kubectl("create", "token", account).strip()}
    path = directory / "account"
    path.write_text(yaml.safe_dump(document))
    return path


def reachable_address() -> str:
    """Give an address of this machine that an EndpointSlice may have, which no loopback address is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
    return "" if ip_address(address).is_loopback else address


async def lead(world: World, service: str, address: str, port: int) -> None:
    """Have a Service lead to this machine, as its selector would lead to a pod."""
    namespace, _, name = service.partition("/")
    metadata = {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}}
    common = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    endpoint = {"addresses": [address], "conditions": {"ready": True}}
    ports = [{"name": "webhook", "port": port, "protocol": "TCP"}]
    await world.create({**common, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports})


@asynccontextmanager
async def running(world: World, deployment: Manifest, kubeconfig: Path, log: Path) -> AsyncIterator[None]:
    """Run the container's command as a process: only directories and ports are others.

    Where this machine has no address but loopback, the webhooks are called at a URL instead of the chart's Service.
    """
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    port, address = free_port(), reachable_address()
    instead = {
        "--cache-dir": str(world.cache),
        "--metrics-bind-address": "0",
        "--health-probe-bind-address": "0",
        "--webhook-port": str(port),
    }
    arguments = [f"--release-dir={world.releases}"]
    for one in container["args"]:
        flag, _, value = one.partition("=")
        if flag == "--webhook-service" and address:
            await lead(world, value, address, port)
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


async def test_the_operator_works_with_the_account_arguments_and_environment_of_the_chart(
    world: World, renderer: Renderer, api_server: ApiServer, tmp_path: Path
) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace, done="yes"))}))
    deployment = await installed(world, renderer)
    kubeconfig = account_kubeconfig(world, deployment, tmp_path)
    log = tmp_path / "operator.log"
    configurations = await world.client.resource(*WEBHOOKS)
    configuration = f"cluster-stack-operator-{world.namespace}"

    try:
        async with running(world, deployment, kubeconfig, log):

            async def registered() -> Manifest | None:
                return await world.client.find(configurations, configuration)

            found = await eventually(registered, seconds=30, about=f"the webhooks of {said(log)}")
            stack = await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(name)
            await world.until(
                Kind.CLUSTER_STACK, world.namespace, lambda one: condition_of(one, "Ready").get("status") == "True"
            )
            cluster = await world.cluster("one", name.class_name)
            await world.addons_ready("one", name.class_name)
            await world.shows(world.namespace, {"done": "yes"})
            refused = await refusal(world.delete(stack))
            assert "denied the request" in refused, refused
            await world.delete(cluster)

        text = said(log)
        assert not [line for line in text.splitlines() if '"level":"info"' not in line], text

        role = await world.find("ClusterRole", configuration, group="rbac.authorization.k8s.io")
        assert role is not None
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ClusterRole", configuration, role["metadata"]["uid"])
        with garbage_collector(api_server, tmp_path):
            await world.delete(role)

            async def gone() -> bool:
                return await world.client.find(configurations, configuration) is None

            await eventually(gone, about="the end of the webhooks")
    finally:
        await forget(world)
