"""An operator whose webhooks the API server calls, and releases with ranges to be refused by."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clusterstacks.admission.configuration import Scope
from clusterstacks.devcluster.ports import free_port
from clusterstacks.kube.errors import ApiError, NotFound
from tests.support.stacks import TinyStack, config_map, templates
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.operator.wiring import Operator
    from tests.support.operating import World


@asynccontextmanager
async def guarded(world: World, **settings: Any) -> AsyncIterator[Operator]:
    """Run an operator, and go on when the API server asks it about every write."""
    port = free_port()
    where = {"webhook_port": port, "webhook_url": f"https://127.0.0.1:{port}", **settings}
    try:
        async with world.operator(**where) as operator:
            await eventually(lambda: _asks(world), seconds=20, about="a call of the webhooks")
            yield operator
    finally:
        await forget(world)


async def forget(world: World) -> None:
    """Have the API server ask nobody any more; another test would wait for answers."""
    resource = await world.client.resource("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
    try:
        await world.client.delete(resource, Scope(world.namespace).name)
    except NotFound:
        return


async def _asks(world: World) -> bool:
    """Try what only a webhook refuses in its own words."""
    addon: Manifest = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": "probe", "namespace": world.namespace},
        "spec": {"clusterRef": {"kind": "Cluster"}},
    }
    addons = await world.client.resource("clusterstack.x-k8s.io", "ClusterAddon")
    answer = await refusal(world.client.apply(addons, addon, manager="tests", dry_run=True))
    return "clusterRef must name" in answer


async def refusal(write: Any) -> str:
    """What the API server says to a write; empty when it is done."""
    try:
        await write
    except ApiError as error:
        return error.message
    return ""


def ranged(
    stack: TinyStack, version: str, kubernetes: str, works_with: str, **components: tuple[str, str]
) -> tuple[ReleaseName, dict[str, bytes]]:
    """A release with ranges: components by addon, each with its version and its range of Kubernetes versions."""
    stated = {
        "apiVersion": "compatibility.clusterstack.x-k8s.io/v1alpha1",
        "kubernetes": works_with,
        "components": [
            {"name": addon, "addon": addon, "version": software, "kubernetes": kube, "source": "https://example.org/m"}
            for addon, (software, kube) in components.items()
        ],
    }
    charts = {
        addon: templates(config_map(f"{stack.word}-{addon}", version=software))
        for addon, (software, _) in components.items()
    }
    files = stack.files(version, charts, kubernetes=kubernetes)
    return stack.release(version), {**files, "compatibility.yaml": json.dumps(stated).encode()}


def of_minor(stack: TinyStack, minor: str) -> TinyStack:
    """The same stack for another Kubernetes minor."""
    return replace(stack, minor=minor)
