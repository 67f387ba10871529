"""An operator whose webhooks the API server calls, and releases with ranges to be refused by."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.net.tls import server_context
from clusterstacks.operator.webhooks import configuration
from clusterstacks.operator.webhooks.answers import ALLOWED
from clusterstacks.operator.webhooks.certificates import CertificateRotator
from clusterstacks.operator.webhooks.configuration import SECRET_NAME, Endpoint, WebhookScope
from clusterstacks.operator.webhooks.server import WebhookServer
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from clusterstacks.operator.webhooks.answers import AdmissionResponse
    from clusterstacks.operator.webhooks.certificates import Times
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest
    from tests.support.running.world import World

LONGEST_SECONDS = 30
"""Longest timeout of a webhook."""


@asynccontextmanager
async def guarded(world: World, **settings: Any) -> AsyncIterator[Operator]:
    """Run an operator, and go on when the API server asks it about every write."""
    port = free_port()
    where: dict[str, Any] = {
        "webhook_port": port,
        "webhook_url": f"https://127.0.0.1:{port}",
        "operator_namespace": world.namespace,
    }
    where |= settings
    try:
        with _patient_server():
            async with world.operator(**where) as operator:
                await eventually(lambda: _asks(world), about="a call of the webhooks")
                yield operator
    finally:
        await forget(world, settings.get("namespace", world.namespace))


def _patient_server() -> AbstractContextManager[object]:
    """Let the API server wait long for the webhook of Clusters: after its timeout it allows what must be denied."""
    return patch.object(configuration, "CLUSTER_SECONDS", LONGEST_SECONDS)


async def forget(world: World, namespace: str | None = None) -> None:
    """Have the API server ask nobody any more; another test would wait for answers."""
    resource = await world.client.resource("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
    scope = WebhookScope(world.namespace if namespace is None else namespace)
    try:
        await world.client.delete(resource, scope.name)
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


class Recorder:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self, answer: AdmissionResponse = ALLOWED) -> None:
        self.answer = answer
        self.asked: list[AdmissionRequest] = []

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        self.asked.append(request)
        return self.answer


@asynccontextmanager
async def replica(
    world: World, recorder: Recorder, times: Times | None = None, *, port: int = 0, url: str = ""
) -> AsyncIterator[tuple[WebhookServer, str]]:
    """The webhooks of one replica alone: server and certificate, without the rest of an operator."""
    port = port or free_port()
    url = url or f"https://127.0.0.1:{port}"
    context = server_context()
    server = WebhookServer("127.0.0.1", port, context, recorder.validate)
    keeper = CertificateRotator(
        client=world.client,
        secret=ObjectKey(world.namespace, SECRET_NAME),
        endpoint=Endpoint(url=url),
        scope=WebhookScope(world.namespace),
        context=context,
        listening=server.started,
        clock=SYSTEM_CLOCK,
        times=times,
    )
    between_looks = asyncio.Lock()
    look = keeper.look

    async def look_alone() -> None:
        async with between_looks:
            await look()

    keeper.look = look_alone  # type: ignore[method-assign]
    tasks = [asyncio.create_task(keeper.run()), asyncio.create_task(_serve(keeper, server))]
    try:
        with _patient_server():
            await server.started.wait()
            yield server, url
        assert not [task for task in tasks if task.done()]
    finally:
        async with between_looks:  # a write cut off here could register the webhooks again after ``forget``
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(keeper: CertificateRotator, server: WebhookServer) -> None:
    await keeper.served.wait()
    await server.run()


async def asked_about(world: World, recorder: Recorder) -> None:
    """Wait until the API server asks."""

    async def asks() -> bool:
        await _asks(world)
        return bool(recorder.asked)

    await eventually(asks, about="a question")
    recorder.asked.clear()


async def refusal(write: Any) -> str:
    """What the API server says to a write; empty when it is done."""
    try:
        await write
    except ClusterStacksError as error:
        return error.message
    return ""


def ranged(
    stack: TinyStack,
    version: str,
    kubernetes: str,
    works_with: str,
    class_versions: Sequence[str] = (),
    **components: tuple[str, str],
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
    cluster_class = stack.cluster_class(version)
    if class_versions:
        cluster_class["spec"]["kubernetesVersions"] = [*class_versions]
    objects = [cluster_class, stack.object(version)]
    files = stack.files(version, charts, kubernetes=kubernetes, class_objects=objects)
    return stack.release(version), {**files, "compatibility.yaml": json.dumps(stated).encode()}


def of_minor(stack: TinyStack, minor: str) -> TinyStack:
    """The same stack for another Kubernetes minor."""
    return replace(stack, minor=minor)
