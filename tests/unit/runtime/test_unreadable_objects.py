"""Naming objects that cannot be read."""

from __future__ import annotations

import asyncio

import pytest

from clusterstacks.net.kube.resources import Resource, UnreadableObject
from clusterstacks.runtime.component_health import REPEAT_INTERVAL
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.unreadable_objects import BATCH_SIZE, UnreadableObjectReporter
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import VirtualClock, in_virtual_time

EVENTS = Resource("", "v1", "Event", "events", namespaced=True)


def unreadable(name: str) -> UnreadableObject:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid of {name}"} if name else {}
    return UnreadableObject(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}, "has too many values"
    )


@pytest.mark.regression("SEC-1")
@in_virtual_time
async def test_each_object_is_reported_once_per_interval_and_many_in_batches(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api, metrics, clock = FakeApi(EVENTS), Metrics(), VirtualClock()
    informer = Informer(api, "example.com", "Widget")
    naming = UnreadableObjectReporter(EventRecorder(api, "test", clock=clock), metrics, clock=clock)
    naming.follow(informer)
    task = asyncio.create_task(naming.run())
    for one in (unreadable(""), *(unreadable(f"w{number}") for number in range(2 * BATCH_SIZE))):
        informer.unreadable[one.key] = one
        informer.on_unreadable()
    await asyncio.sleep(1)

    lines = [record.message for record in caplog.records]
    assert lines[0] == (
        "An object of Widget.example.com whose name cannot be read has too many values, so it is skipped: "
        "simplify or delete it"
    )
    assert lines[1].startswith("Widget.example.com ns/w0 has too many values, so it is skipped")
    assert lines[BATCH_SIZE] == f"{BATCH_SIZE + 1} more objects cannot be read"
    labels = {"kind": "Widget.example.com"}
    assert metrics.registry.get_sample_value("clusterstacks_unreadable_objects", labels) == 2 * BATCH_SIZE + 1
    await asyncio.sleep(60)
    assert len(api.objects(EVENTS)) == 2 * BATCH_SIZE
    informer.unreadable = {key: one for key, one in informer.unreadable.items() if key.name == "w3"}
    caplog.clear()
    await asyncio.sleep(2 * REPEAT_INTERVAL.total_seconds())
    assert [record.message.split()[1] for record in caplog.records] in (["ns/w3"], ["ns/w3"] * 2)
    task.cancel()
