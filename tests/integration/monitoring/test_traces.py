"""Traces of a live operator, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clusterstacks.runtime.tracing import configure_tracing
from tests.support.builders.stacks import config_map, templates
from tests.support.fakes.trace_collector import running_collector

if TYPE_CHECKING:
    import pytest

    from tests.support.running.world import World


async def test_spans_of_a_delivery_are_sent_to_the_collector(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    with running_collector() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        stop = configure_tracing(variables, "0.1.0")
        try:
            async with world.operator():
                await world.create(world.stack.manifest(world.namespace, "v1", autoSubscribe=True))
                await world.release_ready(name)
                await world.cluster("one", name.class_name)
                await world.addons_ready("one", name.class_name)
        finally:
            await asyncio.to_thread(stop)
    spans = {span.id: span for span in collector.spans}

    assert {span.service for span in collector.spans} == {"cluster-stack-operator"}
    assert {"reconcile", "render", "apply", "list releases", "download release"} <= {
        span.name for span in spans.values()
    }
    (applied,) = [span for span in spans.values() if span.name == "apply"]
    assert applied.attributes == {"addon": "cni"}
    reconcile = spans[applied.parent]
    assert reconcile.name == "reconcile"
    assert reconcile.attributes["controller"] == "clusteraddon"
    assert reconcile.attributes["object"] == f"{world.namespace}/cluster-addon-one"
    assert len(reconcile.attributes["reconcileID"]) == 8
