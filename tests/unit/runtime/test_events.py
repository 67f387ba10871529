from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from clusterstacks.net.kube.resources import Resource
from clusterstacks.runtime import events
from clusterstacks.runtime.events import MESSAGE_LIMIT, EventRecorder
from tests.support.fakes.api_server import FakeApi, unreachable
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    import pytest

    from clusterstacks.model.objects import Manifest

EVENTS = Resource("", "v1", "Event", "events", namespaced=True)


class TickingClock(VirtualClock):
    """Never the same time twice."""

    ticks = 0

    def monotonic(self) -> float:
        self.ticks += 1
        return self.ticks


def stack(name: str = "one", namespace: str = "ns") -> Manifest:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "7"}
    return {"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack", "metadata": metadata}


def recorder(api: FakeApi) -> EventRecorder:
    return EventRecorder(api, "cluster-stack-operator", clock=TickingClock())


def written(api: FakeApi) -> list[dict[str, Any]]:
    return list(api.objects(EVENTS).values())


@in_virtual_time
async def test_event_names_its_object_and_its_reporter() -> None:
    api = FakeApi(EVENTS)
    await recorder(api).record(stack(), "Normal", "Ready", "release v1 is ready")

    (event,) = written(api)
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("one.")
    assert event["involvedObject"] == {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStack",
        "name": "one",
        "namespace": "ns",
        "uid": "uid-of-one",
        "resourceVersion": "7",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "Ready", "release v1 is ready")
    assert event["source"] == {"component": "cluster-stack-operator"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:01Z"


@in_virtual_time
async def test_one_event_per_transition() -> None:
    api = FakeApi(EVENTS)
    record = recorder(api).record
    for _ in range(3):
        await record(stack(), "Normal", "Ready", "ready")
    for _ in range(3):
        await record(stack(), "Warning", "NotReady", "not ready")
    await record(stack(), "Normal", "Ready", "ready")

    assert [event["reason"] for event in written(api)] == ["Ready", "NotReady", "Ready"]


@in_virtual_time
async def test_equal_events_at_the_same_time_are_written_once() -> None:
    api = FakeApi(EVENTS)
    record = recorder(api).record
    await asyncio.gather(*(record(stack(), "Normal", "Ready", "ready") for _ in range(3)))

    assert len(written(api)) == 1


@in_virtual_time
async def test_objects_do_not_hide_each_others_events() -> None:
    api = FakeApi(EVENTS)
    record = recorder(api).record
    for name in ("one", "two", "one", "two"):
        await record(stack(name), "Normal", "Ready", "ready")

    assert len(written(api)) == 2


@in_virtual_time
async def test_a_failure_is_logged_and_the_event_tried_again_next_time(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(EVENTS)
    api.fail("create", unreachable("no route"))
    record = recorder(api).record
    await record(stack(), "Normal", "Ready", "ready")
    assert "Event Ready was not written: no route" in caplog.text
    await record(stack(), "Normal", "Ready", "ready")

    assert len(written(api)) == 1


@in_virtual_time
async def test_events_of_cluster_wide_objects_are_written_to_the_default_namespace() -> None:
    api = FakeApi(EVENTS)
    await recorder(api).record(stack(namespace=""), "Normal", "Ready", "ready")

    assert written(api)[0]["metadata"]["namespace"] == "default"


@in_virtual_time
async def test_long_names_and_messages_are_shortened() -> None:
    api = FakeApi(EVENTS)
    await recorder(api).record(stack("a" * 229 + "." + "a" * 23), "Normal", "Ready", "x" * 5000)

    (event,) = written(api)
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]
    assert len(event["message"]) == MESSAGE_LIMIT


@in_virtual_time
async def test_the_memory_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "REMEMBERED", 2)
    api = FakeApi(EVENTS)
    record = recorder(api).record
    for name in ("one", "two", "three", "three", "two", "one"):
        await record(stack(name), "Normal", "Ready", "ready")

    assert [event["involvedObject"]["name"] for event in written(api)] == ["one", "two", "three", "one"]
