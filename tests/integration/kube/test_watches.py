"""Watches on a real API server."""

from __future__ import annotations

import base64
import json
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev import binaries
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.loopback import request
from clusterstacks.dev.processes import start_on_free_port
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Expired, KindNotServed
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.kube.resources import Resource, WatchEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.pool import Pool

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


def config_map(name: str, text: str = "") -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": {"test": "watch"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


async def first_events(client: Client, count: int, version: str, **options: Any) -> list[WatchEvent]:
    events: list[WatchEvent] = []
    stream = client.watch(CONFIG_MAPS, "default", resource_version=version, labels="test=watch", **options)
    async with aclosing(stream) as watch:
        async for event in watch:
            events.append(event)
            if len(events) == count:
                break
    return events


async def start(client: Client) -> str:
    return (await client.list(CONFIG_MAPS, "default")).resource_version


async def test_watch_yields_every_change_in_order_even_of_large_objects(client: Client) -> None:
    version = await start(client)
    large = "x" * 900_000
    await client.create(CONFIG_MAPS, config_map("seen", large))
    await client.merge_patch(CONFIG_MAPS, "seen", {"data": {"text": "small"}}, "default")
    await client.delete(CONFIG_MAPS, "seen", "default")

    events = await first_events(client, 3, version)

    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event.object["data"]["text"] for event in events] == [large, "small", "small"]
    assert (events[0].object["apiVersion"], events[0].object["kind"]) == ("v1", "ConfigMap")


async def test_metadata_alone_comes_under_the_real_kind(client: Client) -> None:
    version = await start(client)
    await client.create(CONFIG_MAPS, config_map("bare"))

    (event,) = await first_events(client, 1, version, metadata_only=True)
    await client.delete(CONFIG_MAPS, "bare", "default")

    assert sorted(event.object) == ["apiVersion", "kind", "metadata"]
    assert (event.object["apiVersion"], event.object["kind"]) == ("v1", "ConfigMap")


async def test_bookmarks_advance_the_resource_version_and_the_end_of_the_stream_is_not_an_error(
    api_kubeconfig: Manifest, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server sends a bookmark two seconds before it ends the stream, here after six.
    watcher = Client(parse_kubeconfig(api_kubeconfig, base=None), pool)
    monkeypatch.setattr("clusterstacks.net.kube.client.IDLE_TIMEOUT", timedelta(seconds=7))
    version = await start(watcher)
    unseen = config_map("unseen")
    unseen["metadata"]["labels"] = {}
    changed = await watcher.create(CONFIG_MAPS, unseen)

    events: list[WatchEvent] = []
    while not events:  # a busy server leaves the bookmark out
        events = await first_events(watcher, 1000, version)

    assert {event.type for event in events} == {"BOOKMARK"}
    assert int(events[-1].object["metadata"]["resourceVersion"]) >= int(changed["metadata"]["resourceVersion"])


async def test_watch_of_an_unserved_kind_is_an_error(client: Client) -> None:
    missing = Resource("example.com", "v1", "Thing", "things", namespaced=True)
    with pytest.raises(KindNotServed):
        await anext(client.watch(missing, resource_version="0"))


def compact(etcd: Etcd) -> None:
    """Make etcd forget everything but the present."""

    def post(path: str, body: Manifest) -> Manifest:
        url = f"{etcd.access.url}/v3/kv/{path}"
        status, answer = request(url, context=etcd.access.context(), body=json.dumps(body).encode())
        assert status == 200, answer
        return dict(json.loads(answer))

    written = post("put", {"key": base64.b64encode(b"/now").decode(), "value": ""})
    post("compaction", {"revision": written["header"]["revision"], "physical": True})


@pytest.fixture(scope="module")
def cacheless(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manifest]:
    """Run a server that reads everything from etcd, so that a compaction there shows at once."""
    settings = ApiServerSettings(
        name="cacheless",
        binary=binaries.resolve(["kube-apiserver"])["kube-apiserver"].path,
        directory=tmp_path_factory.mktemp("cacheless"),
        etcd=etcd.access,
        prefix="/cacheless",
        port=0,
        flags=(*WITHOUT_SERVICE_ACCOUNTS, "--watch-cache=false"),
    )
    server = start_on_free_port(lambda port: ApiServer(replace(settings, port=port)))
    yield server.kubeconfig
    server.stop(timedelta(0))


async def test_version_that_is_compacted_away_is_expired(cacheless: Manifest, etcd: Etcd, pool: Pool) -> None:
    client = Client(parse_kubeconfig(cacheless, base=None), pool)
    version = await start(client)
    await client.apply(CONFIG_MAPS, config_map("later"), manager="tests")
    compact(etcd)

    with pytest.raises(Expired, match=r"watch ConfigMap in default: 410 Expired: The resourceVersion .* is too old"):
        await first_events(client, 1, version)


async def test_list_whose_snapshot_is_compacted_away_begins_again(
    cacheless: Manifest, etcd: Etcd, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(parse_kubeconfig(cacheless, base=None), pool)
    for number in range(4):
        await client.apply(CONFIG_MAPS, config_map(f"compacted-{number}"), manager="tests")
    monkeypatch.setattr("clusterstacks.net.kube.paged_list.PAGE_SIZE", 2)
    statuses: list[int] = []

    def compact_after_the_first_page(_method: str, status: int) -> None:
        statuses.append(status)
        if len(statuses) == 1:
            compact(etcd)

    pool.on_answer = compact_after_the_first_page
    found = await client.list(CONFIG_MAPS, "default", labels="test=watch")

    assert statuses[:2] == [200, 410]
    names = [item["metadata"]["name"] for item in found.items]
    assert [name for name in names if name.startswith("compacted-")] == [f"compacted-{number}" for number in range(4)]
