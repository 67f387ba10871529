"""ClusterResourceSyncs with inputs and clusters that are hostile, broken, huge, or not there."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from base64 import b64encode
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from clusterstacks.deliver.apply.record_store import SECRETS, RecordStore
from clusterstacks.deliver.apply.source_objects import SOURCE_SECRET_TYPE
from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import binding_name
from clusterstacks.model.kinds.names import CLUSTER_KIND
from clusterstacks.net.kube.pki import Authority
from clusterstacks.operator.controllers.clusterresourcesync import binding_reconciler
from tests.integration.controllers.test_resource_syncs import (
    BINDING,
    CLASS,
    ONE,
    SYNC,
    is_synced,
    source,
    sync,
    until_gone,
    written,
)
from tests.support.builders.manifests import config_map, crd, named
from tests.support.fakes.scripted_server import ScriptedServer, says
from tests.support.fakes.silent_server import silent_server
from tests.support.running.mortal_client import MortalClients
from tests.support.running.world import condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.net.kube.client import Client
    from tests.support.running.world import World

SLOW = 400
"""Seconds that hundreds of clusters or objects may take."""


def at_port(world: World, port: int) -> dict[str, Any]:
    """Return the kubeconfig of the workload cluster with another port."""
    clusters = [
        {**one, "cluster": {**one["cluster"], "server": f"https://127.0.0.1:{port}"}}
        for one in world.workload_kubeconfig["clusters"]
    ]
    return {**world.workload_kubeconfig, "clusters": clusters}


def zipped(content: str) -> str:
    return b64encode(gzip.compress(content.encode())).decode()


def numbered(name: str, word: str) -> str:
    return written(config_map(f"{word}-{name}", key=name))


HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: WORD-%s}\n"
REFUSED = {
    "a1-bomb": "v: &v [1]\n" + "\n".join(f"{b}: &{b} [{f'*{a},' * 20}]" for a, b in pairwise("vwxyz")),
    "a2-deep": "[" * 100_000,
    "a3-deep": "- " * 100_000,
    "a4-self": "x: &x [*x]",
    "a5-infinite": "x: .inf",
    "a6-tag": "x: !!python/object/apply:os.system [ls]",
    "a7-key": "? [a]\n: b",
    "a8-control": 'x: "\x01"',
    "a9-open": "x: [",
}
"""Documents that cannot be read."""

REJECTED = {
    "b1-huge": HEAD % "b1" + "data: {x: " + "9" * 100_000 + "}",
    "b2-float": HEAD % "b2" + "immutable: 1e308",
    "b3-path": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ../../../api/v1/namespaces/kube-system}",
    "b4-path": "apiVersion: v1/../../x\nkind: ConfigMap\nmetadata: {name: a}",
    "b5-name": 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "WORD-b5\\r\\nX: y"}',
    "b6-name": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + "n" * 100_000 + "}",
    "b7-namespace": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: WORD-b7, namespace: a/../b?dryRun=All}",
    "b8-label": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: WORD-b8, labels: {a: [{b: c}]}}",
    "b9-kind": "apiVersion: v1\nkind: Configmap/../x\nmetadata: {name: WORD-b9}",
    "b10-data": HEAD % "b10" + "data: {'a/b': x, '': y, 'c d': z}",
    "b11-deep": HEAD % "b11" + "data: {x: " + "[" * 150 + "]" * 150 + "}",
    "b12-uid": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: WORD-b12, uid: x, ownerReferences: x}",
}
"""Objects that the API server does not take."""


@pytest.mark.regression("CAPI-3291")
@pytest.mark.parametrize("hostile", [REFUSED, REJECTED], ids=["unreadable", "rejected"])
async def test_hostile_documents_are_named_one_by_one_and_their_neighbours_arrive(
    world: World, hostile: dict[str, str]
) -> None:
    """Each document is between two good ones of its key."""
    word = world.namespace
    values = {key: text.replace("WORD", word) for key, text in hostile.items()}
    documents = {
        key: "\n---\n".join([written(config_map(f"{word}-{key}-0", key=key)), text, numbered(f"{key}-1", word)])
        for key, text in values.items()
    }
    await source(world, **documents)
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        for key in hostile:
            await world.shows(f"{word}-{key}-0", {"key": key})
            await world.shows(f"{word}-{key}-1", {"key": f"{key}-1"})
        told = await world.says(BINDING, ONE, "Ready")
        assert len(told["message"]) < 4096
        faults = await world.get(BINDING, ONE)
        failed = {one["name"] for one in faults["status"]["resources"] if one["status"] != "synced"}
        unread = condition_of(faults, "SourcesRead").get("message", "")
        assert "key a1-bomb.yaml, document 2" in unread if hostile is REFUSED else "key b10-" not in unread
        assert failed == (
            set() if hostile is REFUSED else {f"{word}-{key}" for key in ("b10", "b11", "b12", "b2", "b8")}
        )

        # The record holds all of it, and nothing is left when the documents are corrected.
        await source(world, a=numbered("last", word))
        await world.shows(f"{word}-last", {"key": "last"})
        await until_gone(world, f"{word}-{min(hostile)}-0")
        await world.until(BINDING, ONE, is_synced)


async def test_sync_with_200_bindings_is_deleted_but_for_three_black_holes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One API server plays 197 clusters, each of which has the record in a namespace of its own."""
    word = world.namespace
    names = [f"{word}c{number}" for number in range(197)]
    dark = [f"{word}dark{number}" for number in range(3)]

    def store(client: Client, _namespace: str, cluster: str, **how: Any) -> RecordStore:
        return RecordStore(client, cluster.rpartition("/")[2], cluster, **how)

    monkeypatch.setattr(binding_reconciler, "RecordStore", store)
    namespaces = await world.workload.resource("", "Namespace")
    await asyncio.gather(*(world.workload.create(namespaces, named("v1", "Namespace", name)) for name in names))
    await source(world, a=yaml.dump({"apiVersion": "v1", "kind": "List", "items": []}))
    async with silent_server() as port:
        await asyncio.gather(*(world.cluster(name, CLASS) for name in names))
        for name in dark:
            await world.cluster(name, CLASS, kubeconfig=at_port(world, port))
        async with world.operator():
            made = await sync(world, interval="24h")
            await world.until(
                SYNC, "extra", lambda one: (one.get("status") or {}).get("synced") == len(names), seconds=SLOW
            )
            records = await world.workload.list_metadata(SECRETS, labels="clusterstack.x-k8s.io/delivery-record=sync")
            assert len(records.items) == len(names)

            await world.delete(made)
            told = await world.says(
                SYNC, "extra", "Ready", "BindingsRemain", words=["the objects in 3 clusters"], seconds=SLOW
            )
            for name in dark:
                assert name in told["message"]
            assert "deletion-policy=Orphan" in told["message"]
            records = await world.workload.list_metadata(SECRETS, labels="clusterstack.x-k8s.io/delivery-record=sync")
            assert records.items == []

            for name in dark:
                binding = await world.get(BINDING, binding_name("extra", name))
                annotation = {"addons.clusterstack.x-k8s.io/deletion-policy": "Orphan"}
                await world.patch(binding, {"metadata": {"annotations": annotation}})
            await world.gone(SYNC, "extra", seconds=SLOW)


async def test_cluster_that_answers_a_byte_a_second_delays_no_other_one(world: World, tmp_path: Path) -> None:
    authority = Authority.create("slow")
    keys = authority.issue("api-server", addresses=("127.0.0.1",))
    (tmp_path / "slow.pem").write_bytes(keys.certificate + keys.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "slow.pem")
    word = world.namespace
    await source(world, a=numbered("one", word))
    async with ScriptedServer.started(context) as server:
        server.plays(says("ok"), drips)
        cluster = {"server": server.url, "certificate-authority-data": b64encode(authority.certificate).decode()}
        [known] = world.workload_kubeconfig["clusters"]
        kubeconfig = {**world.workload_kubeconfig, "clusters": [{**known, "cluster": cluster}]}
        await world.cluster("slow", CLASS, kubeconfig=kubeconfig)
        async with world.operator():
            await sync(world)

            async def is_asked() -> bool:
                return len(server.requests) > 1

            await eventually(is_asked, about="a request that is answered slowly")
            await world.cluster("one", CLASS)
            await world.shows(f"{word}-one", {"key": "one"})
            await world.until(BINDING, ONE, is_synced)
            slow = await world.get(BINDING, binding_name("extra", "slow"))
            assert condition_of(slow, "Ready").get("status") != "True"


async def drips(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(1)


async def test_secret_of_a_megabyte_has_300_crds_after_their_custom_resources(
    world: World, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, group, number = world.namespace, f"{world.namespace}.example.org", 300
    crds = [crd(f"Kind{index}", group) for index in range(number)]
    for one in crds:
        schema = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {**schema, "description": "x" * 2850}
    resources = [named(f"{group}/v1", f"Kind{index}", "one", "default") for index in range(number)]
    content = written(*reversed([*crds, *resources]))
    assert 2**20 * 0.9 < len(content) < 2**20
    data = {"a.yaml": b64encode(content.encode()).decode()}
    await world.create(named("v1", "Secret", "large", word, type=SOURCE_SECRET_TYPE, data=data))
    await world.cluster("one", CLASS, kubeconfig=server.kubeconfig)
    clients = MortalClients.installed(monkeypatch)
    async with clients.operator(world):
        await sync(world, resources=[{"kind": "Secret", "name": "large"}], deletionPolicy="Orphan")
        found = await world.until(BINDING, ONE, is_synced, seconds=SLOW)
        assert len(found["status"]["resources"]) == 2 * number
        of_objects = [call for call in clients.calls if group in call.path or "customresourcedef" in call.path]
        assert len(of_objects) <= 2 * 2 * number
        # Nothing is written to the objects again.
        before = len(clients.calls)
        await world.look_again(world.running, "clusterresourcesyncbinding", await world.get(CLUSTER_KIND, "one"))  # type: ignore[arg-type]
        assert not [call for call in clients.calls[before:] if group in call.path]
