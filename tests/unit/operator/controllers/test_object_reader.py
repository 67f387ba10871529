"""Reads from the caches of informers, and from the server what they do not follow."""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.object_reader import CachedReader, LiveReader
from clusterstacks.runtime.informer import Informer
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.runtime.cache import CacheChange

PLANES = Resource("controlplane.cluster.x-k8s.io", "v1beta2", "Plane", "planes", namespaced=True)
KEY = ObjectKey("team", "one")


def plane(**spec: str) -> Manifest:
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    return {"apiVersion": PLANES.api_version, "kind": PLANES.kind, "metadata": metadata, "spec": spec}


@asynccontextmanager
async def reading(api: FakeApi, changed: list[CacheChange]) -> AsyncIterator[CachedReader]:
    tasks: list[asyncio.Task[None]] = []

    def watch_kind(group: str, kind: str) -> Informer:
        informer = Informer(api, group, kind)
        tasks.append(asyncio.create_task(informer.run()))
        return informer

    try:
        yield CachedReader(client=api, informers={}, watch_kind=watch_kind, changed=changed.append)
    finally:
        for task in tasks:
            task.cancel()


@in_virtual_time
async def test_many_reads_of_a_further_kind_cost_one_list_and_its_changes_are_reported() -> None:
    api = FakeApi(PLANES)
    changed: list[CacheChange] = []
    await api.create(PLANES, plane())
    async with reading(api, changed) as reader:
        found = await asyncio.gather(*(reader.find(PLANES, KEY.name, KEY.namespace) for _ in range(5)))

        assert [one is not None for one in found] == [True] * 5
        assert await reader.find(PLANES, "missing", KEY.namespace) is None
        assert (api.count("list"), api.count("get"), changed) == (1, 0, [])

        await api.merge_patch(PLANES, KEY.name, {"spec": {"version": "v1.35.4"}}, KEY.namespace)
        await asyncio.sleep(1)
        assert [one.key for one in changed] == [KEY]


@in_virtual_time
async def test_a_kind_that_cannot_be_listed_is_read_from_the_server() -> None:
    api = FakeApi(PLANES)
    await api.create(PLANES, plane())
    api.fail("list", *[Forbidden("list: 403 Forbidden", status=403, reason="Forbidden")] * 1000)
    async with reading(api, []) as reader:
        assert await reader.find(PLANES, KEY.name, KEY.namespace) is not None
        assert await reader.find(PLANES, KEY.name, KEY.namespace) is not None
        assert api.count("get") == 2


async def test_without_watches_of_further_kinds_every_object_is_read_from_the_server() -> None:
    api = FakeApi(PLANES)
    await api.create(PLANES, plane())

    assert await CachedReader(client=api, informers={}).find(PLANES, KEY.name, KEY.namespace) is not None
    assert api.count("get") == 1


@in_virtual_time
async def test_answer_that_is_older_than_the_cache_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi(PLANES)
    old = await api.create(PLANES, plane())
    await api.merge_patch(PLANES, KEY.name, {"spec": {"version": "v1.35.4"}}, KEY.namespace)
    informer = Informer(api, PLANES.group, PLANES.kind)
    running = asyncio.create_task(informer.run())
    await informer.synced()
    reader = LiveReader(api, {(PLANES.group, PLANES.kind): informer})
    assert await reader.find(PLANES, KEY.name, KEY.namespace) is not None

    async def stale(*_: object) -> Manifest:
        return copy.deepcopy(old)

    monkeypatch.setattr(api, "find", stale)
    with pytest.raises(DependencyError, match=r"Plane.controlplane.cluster.x-k8s.io team/one: .* an earlier version"):
        await reader.find(PLANES, KEY.name, KEY.namespace)
    old["metadata"]["uid"] = "another object of that name"
    assert await reader.find(PLANES, KEY.name, KEY.namespace) == old
    running.cancel()
