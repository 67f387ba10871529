"""Informer and events against a real API server."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest


@asynccontextmanager
async def client_of(
    server: ApiServer,
    on_answer: Callable[[str, int], None] = lambda _method, _status: None,
) -> AsyncIterator[Client]:
    async with Pool(on_answer=on_answer) as pool:
        client = Client(parse_kubeconfig(server.kubeconfig, base=None), pool)
        yield client
        await client.close()


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def config_map(name: str, **data: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": {"suite": "runtime"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def config_maps(client: Client, **options: Any) -> Informer:
    return Informer(client, "", "ConfigMap", namespace="default", labels="suite=runtime", **options)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


async def eventually(condition: Callable[[], bool], seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_cache_follows_the_server(api_server: ApiServer, *, metadata_only: bool) -> None:
    async with client_of(api_server) as client:
        resource = await client.resource("", "ConfigMap")
        await client.create(resource, config_map("before"))
        informer = config_maps(client, metadata_only=metadata_only)
        store = informer.cache
        async with running(informer):
            await informer.synced()
            assert list(store) == [key("before")]
            await client.create(resource, config_map("after"))
            await eventually(lambda: key("after") in list(store))
            changed = await client.merge_patch(resource, "after", {"data": {"a": "b"}}, "default")
            await eventually(lambda: version(store.get(key("after"))) == version(changed))
            kept = store.get(key("after"))
            await client.delete(resource, "before", "default")
            await client.delete(resource, "after", "default")
            await eventually(lambda: len(store) == 0)

    assert kept is not None
    assert (kept["apiVersion"], kept["kind"]) == ("v1", "ConfigMap")
    assert "managedFields" not in kept["metadata"]
    assert ("data" in kept) is not metadata_only


def version(manifest: Manifest | None) -> str:
    return str(manifest["metadata"]["resourceVersion"]) if manifest else ""


async def test_changes_around_a_server_crash_are_observed(workload_server: ApiServer) -> None:
    async with client_of(workload_server) as client:
        resource = await client.resource("", "ConfigMap")
        await client.create(resource, config_map("goes"))
        informer = config_maps(client)
        async with running(informer):
            await informer.synced()
            await asyncio.to_thread(workload_server.process.restart)
            await client.delete(resource, "goes", "default")
            await client.create(resource, config_map("comes"))
            await eventually(lambda: list(informer.cache) == [key("comes")])
            await client.delete(resource, "comes", "default")


async def test_frozen_server_is_detected_and_watched_again_after_it_resumes(
    workload_server: ApiServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.net.kube.client.IDLE_TIMEOUT", timedelta(seconds=2))
    async with client_of(workload_server) as client:
        resource = await client.resource("", "ConfigMap")
        informer = config_maps(client)
        async with running(informer):
            await client.create(resource, config_map("before"))
            await eventually(lambda: list(informer.cache) == [key("before")])
            await client.create(resource, config_map("during"))
            await eventually(lambda: key("during") in informer.cache)  # the watch is open
            workload_server.process.send(signal.SIGSTOP)
            try:
                await eventually(lambda: "no data for" in caplog.text)
            finally:
                workload_server.process.send(signal.SIGCONT)
            await asyncio.to_thread(workload_server.process.wait_ready)
            for name in ("before", "during"):
                await client.delete(resource, name, "default")
            await eventually(lambda: len(informer.cache) == 0)


async def test_kind_defined_later_is_awaited(api_server: ApiServer) -> None:
    answers: list[int] = []
    async with client_of(api_server, on_answer=lambda _method, status: answers.append(status)) as client:
        definitions = await client.resource("apiextensions.k8s.io", "CustomResourceDefinition")
        informer = Informer(client, "runtime.example.com", "Gadget")
        async with running(informer):
            before = len(answers)
            await eventually(lambda: len(answers) > before + 1)  # it has asked again
            assert not informer.is_synced
            await client.create(definitions, gadget_definition())
            await eventually(lambda: informer.is_synced)
            gadget = {"apiVersion": "runtime.example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}}
            await client.create(informer.resource, gadget, "default")
            await eventually(lambda: list(informer.cache) == [key("one")])
            await client.delete(definitions, "gadgets.runtime.example.com")
            await eventually(lambda: len(informer.cache) == 0)


def gadget_definition() -> Manifest:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.runtime.example.com"},
        "spec": {
            "group": "runtime.example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [served],
        },
    }


async def test_events_are_accepted_for_namespaced_and_cluster_scoped_objects(api_server: ApiServer) -> None:
    async with client_of(api_server) as client:
        namespaces, events = await client.resource("", "Namespace"), await client.resource("", "Event", "v1")
        config_map_resource = await client.resource("", "ConfigMap")
        namespaced = await client.create(config_map_resource, config_map("subject"))
        cluster_wide = await client.get(namespaces, "default")
        recorder = EventRecorder(client, "cluster-stack-operator")
        for _ in range(2):
            await recorder.record(namespaced, "Normal", "Ready", "it is ready")
            await recorder.record(cluster_wide, "Warning", "Odd", "x" * 5000)
        listed = await client.list(events, "default", fields="source=cluster-stack-operator")
        await client.delete(config_map_resource, "subject", "default")

    assert sorted((event["involvedObject"]["kind"], event["reason"]) for event in listed.items) == [
        ("ConfigMap", "Ready"),
        ("Namespace", "Odd"),
    ]
