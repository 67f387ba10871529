"""LIVE-L2: at the start, webhooks serve before the reconcilers write what the API server asks them about."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev.loopback import free_port
from clusterstacks.operator.webhooks.certificates import CertificateRotator, Times, create_serving
from clusterstacks.operator.webhooks.configuration import Endpoint, WebhookScope, configuration
from clusterstacks.runtime.controller import Controller
from tests.support.running.admission import guarded

if TYPE_CHECKING:
    from clusterstacks.operator.webhooks.certificates import Serving
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("LIVE-L2")


async def dead_webhooks(world: World) -> None:
    """Leave the registration of an operator that is gone."""
    url = f"https://127.0.0.1:{free_port()}"
    endpoint = Endpoint(url=url)
    serving = create_serving(endpoint.names, Times().lifetime, datetime.now(UTC), None)
    manifest = configuration(endpoint, WebhookScope(world.namespace), serving.authorities)
    resource = await world.client.resource("admissionregistration.k8s.io", manifest["kind"], "v1")
    await world.client.apply(resource, manifest, manager="cluster-stack-operator", force=True)


def noting_order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note in which order reconcilers begin and webhooks are registered."""
    order: list[str] = []
    begin, tell = Controller.run, CertificateRotator._register

    async def noted_begin(self: Controller) -> None:
        order.append("reconciler")
        await begin(self)

    async def noted_tell(self: CertificateRotator, serving: Serving) -> None:
        await tell(self, serving)
        order.append("webhooks")

    monkeypatch.setattr(Controller, "run", noted_begin)
    monkeypatch.setattr(CertificateRotator, "_register", noted_tell)
    return order


@pytest.mark.regression("LIVE-L2")
async def test_webhooks_of_an_earlier_process_block_no_write(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
    await world.cluster("one", name.class_name)
    await dead_webhooks(world)
    caplog.clear()
    order = noting_order(monkeypatch)

    with caplog.at_level(logging.INFO):
        async with guarded(world):
            await world.addons_ready("one", name.class_name)

    assert order[:5] == ["webhooks", *["reconciler"] * 4]
    assert [one.message for one in caplog.records if "connection refused" in one.message] == []
