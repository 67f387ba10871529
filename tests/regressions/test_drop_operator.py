"""The Go operator's Deployment starts this operator, and leftovers are found."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.names import Kind
from clusterstacks.operator.go_operator import EXTENSIONS, WEBHOOKS, GoLeftovers
from clusterstacks.operator.rbac import TAKE_OVER_RIGHTS, RightScope
from tests.support.builders.manifests import crd, named
from tests.support.running.world import install, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

RBAC = "rbac.authorization.k8s.io"
PROGRAM = Path(sys.executable).parent / "cluster-stack-operator"
PROVIDERS = ("bootstrap", "controlplane", "infrastructure")
GO_RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "update", "watch"]},
    {
        "apiGroups": [
            "cluster.x-k8s.io",
            "infrastructure.clusterstack.x-k8s.io",
            *(f"{one}.cluster.x-k8s.io" for one in PROVIDERS),
        ],
        "resources": ["*"],
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    {
        "apiGroups": ["clusterstack.x-k8s.io"],
        "resources": ["clusteraddons", "clusterstackreleases", "clusterstacks"],
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    {
        "apiGroups": ["clusterstack.x-k8s.io"],
        "resources": ["clusteraddons/status", "clusterstackreleases/status", "clusterstacks/status"],
        "verbs": ["get", "patch", "update"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "patch", "update"]},
]
"""Rights of the Go operator, its Role for leader election included."""


def go_webhooks(world: World, name: str, namespace: str) -> Manifest:
    """The Go operator's configuration, for the test's own namespace alone and for what no other test writes."""
    service = {"name": "cso-webhook-service", "namespace": namespace}
    webhook = {
        "name": "validation.clusterstack.clusterstack.x-k8s.io",
        "clientConfig": {"service": {**service, "path": "/validate-clusterstack-x-k8s-io-v1alpha1-clusterstack"}},
        "rules": [
            {
                "apiGroups": ["clusterstack.x-k8s.io"],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["clusterstacks"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return named("admissionregistration.k8s.io/v1", WEBHOOKS[1], name, webhooks=[webhook])


async def there(world: World, kind: tuple[str, str], *names: str) -> list[str]:
    found = await world.client.list(await world.client.resource(*kind))
    return [one["metadata"]["name"] for one in found.items if one["metadata"]["name"] in names]


@asynccontextmanager
async def looking(world: World, *, remove: bool) -> AsyncIterator[None]:
    leftovers = GoLeftovers(client=world.client, namespace=world.namespace, remove=remove)
    task = asyncio.create_task(leftovers.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.regression("DROP-H2")
async def test_leftovers_of_the_go_operator_are_named_and_removed_on_request(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    own, other = f"{world.namespace}-webhooks", f"{world.namespace}-other"
    extension = f"{world.namespace}-hook-server-extensionconfig"
    await install(world.client, [crd("ExtensionConfig", EXTENSIONS[0], scope="Cluster", versions=("v1beta2",))])
    await world.create(go_webhooks(world, own, world.namespace))
    await world.create(go_webhooks(world, other, "cso-system"))
    service = {"clientConfig": {"service": {"name": "cso-hook-server-svc", "namespace": world.namespace}}}
    await world.create(named(f"{EXTENSIONS[0]}/v1beta2", EXTENSIONS[1], extension, spec=service))

    async def logged(*words: str) -> bool:
        assert any(all(word in line for word in words) for line in caplog.messages), caplog.messages
        return True

    async with looking(world, remove=False):
        command = f"kubectl delete validatingwebhookconfiguration {own}"
        await eventually(lambda: logged(f"calls Service {world.namespace}/cso-webhook-service", command))
        await eventually(lambda: logged(f"kubectl delete extensionconfig {extension}"))
        assert set(await there(world, WEBHOOKS, own, other)) == {own, other}

    async with looking(world, remove=True):
        await eventually(lambda: logged(f"{WEBHOOKS[1]} {own} ", "deleted (--take-over)"))
        await eventually(lambda: logged(f"{EXTENSIONS[1]} {extension} ", "deleted (--take-over)"))
        await eventually(lambda: logged(f"delete validatingwebhookconfiguration {other}", "another namespace"))
    assert await there(world, WEBHOOKS, own, other) == [other]
    await world.delete(go_webhooks(world, other, "cso-system"))
    assert await there(world, EXTENSIONS, extension) == []


async def go_account(world: World, directory: Path) -> Path:
    """Write the kubeconfig of an account with the Go operator's rights and those to find its Service."""
    name = f"go-{world.namespace}"
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": name}]
    own: Sequence[Any] = [right.rule() for right in TAKE_OVER_RIGHTS if right.scope is RightScope.OWN]
    for prefix, namespace, rules in (("Cluster", "", GO_RULES), ("", world.namespace, own)):
        reference = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name}
        await world.create(named(f"{RBAC}/v1", f"{prefix}Role", name, namespace, rules=rules))
        binding = named(f"{RBAC}/v1", f"{prefix}RoleBinding", name, namespace, subjects=subjects)
        await world.create({**binding, "roleRef": reference})
    document = yaml.safe_load(world.management_kubeconfig.read_text())
    document["users"][0]["user"]["as"] = name
    path = directory / "go"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.regression("DROP-H3")
async def test_container_command_of_the_go_operator_starts_the_operator(world: World, tmp_path: Path) -> None:
    labels = {"control-plane": f"cso-{world.namespace}"}
    container = {"name": "manager", "image": "cso", "ports": [{"name": "webhook-server", "containerPort": 9443}]}
    pod = named("v1", "Pod", "cso-1", world.namespace, spec={"containers": [container]})
    pod["metadata"]["labels"] = labels
    await world.create(pod)
    ports = [{"port": 443, "targetPort": 9443}]
    service = named("v1", "Service", "cso-webhook-service", world.namespace, spec={"selector": labels, "ports": ports})
    await world.create(service)
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    manager = tmp_path / "manager"
    manager.symlink_to(PROGRAM)
    environ = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(await go_account(world, tmp_path)),
        "HOSTNAME": "cso-1",
        "POD_NAMESPACE": world.namespace,
        "TMPDIR": str(tmp_path),
        "OCI_REGISTRY": "",
        "GIT_ORG_NAME": "",
    }
    arguments = ["-leader-elect=true", "-log-level", "warn", "-local=true", f"-release-dir={world.releases}"]
    # Other tests run on this machine, so two ports and the cache cannot be the Go operator's.
    probes = [f"-health-probe-bind-address=127.0.0.1:{free_port()}", "-metrics-bind-address=0"]
    probes += [f"-namespace={world.namespace}", f"-cache-dir={world.cache}"]
    log = tmp_path / "log"
    with log.open("wb") as file:
        running = await asyncio.create_subprocess_exec(manager, *arguments, *probes, env=environ, stderr=file)
    try:
        assert is_ready(await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready))

        async def reported() -> bool:
            text = log.read_text()
            assert "lacks rights" in text
            assert "compatibilityrules" in text
            assert "validatingwebhookconfigurations" in text
            return True

        await eventually(reported, about="the rights to add")
        assert "No Service" not in log.read_text()
        assert running.returncode is None
    finally:
        if running.returncode is None:
            running.terminate()
        assert await asyncio.wait_for(running.wait(), 250) == 0
