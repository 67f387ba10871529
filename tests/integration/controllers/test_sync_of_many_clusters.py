"""One ClusterResourceSync with cluster-scoped objects and one source, on five API servers."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.source_objects import read_source
from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.clusterresourcesync import sync_sources
from tests.support.builders.manifests import config_map, crd, named
from tests.support.observing.write_counter import writes
from tests.support.running.world import condition_of
from tests.support.servers.api_servers import started_api_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.deliver.apply.source_objects import SourceObjects
    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest, ObjectKey
    from tests.support.running.world import World

CLUSTERS = [f"c{number}" for number in range(5)]
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def servers(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ApiServer]]:
    """Yield the API servers of five workload clusters."""
    with ExitStack() as stack:
        start = contextmanager(started_api_server)
        yield [stack.enter_context(start(f"many-{name}", etcd, tmp_path_factory)) for name in CLUSTERS]


def objects(word: str, verb: str) -> list[Manifest]:
    """Return a ClusterRole, a definition with a cluster-scoped object, and a ConfigMap."""
    group = f"{word}.example.org"
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": [verb]}
    return [
        named(f"{group}/v1", "Fleet", word, spec={"verb": verb}),
        named(f"{RBAC}/v1", "ClusterRole", word, rules=[rule]),
        crd("Fleet", group, scope="Cluster"),
        config_map(word, "kube-system", verb=verb),
    ]


async def test_sync_with_cluster_scoped_objects_parses_its_source_once_for_five_clusters(
    world: World, servers: list[ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    word = world.namespace
    parsed: list[str] = []

    def counted(kind: str, key: ObjectKey, source: Manifest | None) -> SourceObjects:
        parsed.append(str(key))
        return read_source(kind, key, source)

    monkeypatch.setattr(sync_sources, "read_source", counted)

    async def publish(verb: str) -> None:
        text = "---\n".join(map(yaml.dump, objects(word, verb)))
        source = {**config_map("objects", word), "data": {"all.yaml": text}}
        await world.client.apply(await world.client.resource("", "ConfigMap"), source, manager="tests", force=True)

    async with Pool() as pool:
        clients = [Client(parse_kubeconfig(server.kubeconfig, base=None), pool) for server in servers]

        async def everywhere(verb: str) -> bool:
            for client in clients:
                role = await client.find(await client.resource(RBAC, "ClusterRole"), word)
                assert role is not None, "no ClusterRole"
                assert role["rules"][0]["verbs"] == [verb]
                try:
                    fleet = await client.find(await client.resource(f"{word}.example.org", "Fleet"), word)
                except KindNotServed:
                    return False
                assert fleet is not None, "no Fleet"
                assert fleet["spec"] == {"verb": verb}
            return True

        async def settled() -> list[str]:
            """Return the versions of the sync and its bindings when they report the delivery to all clusters."""
            sync = await world.until(
                Kind.CLUSTER_RESOURCE_SYNC, "many", lambda one: condition_of(one, "Ready").get("status") == "True"
            )
            assert sync["status"]["synced"] == len(CLUSTERS)
            await world.at_rest()
            names = [binding_name("many", cluster) for cluster in CLUSTERS]
            bindings = [await world.get(Kind.CLUSTER_RESOURCE_SYNC_BINDING, name) for name in names]
            return [one["metadata"]["resourceVersion"] for one in (sync, *bindings)]

        await publish("get")
        for name, server in zip(CLUSTERS, servers, strict=True):
            await world.cluster(name, "plain", kubeconfig=server.kubeconfig)
        async with world.operator():
            spec = {"resources": [{"kind": "ConfigMap", "name": "objects"}], "interval": "10s"}
            await world.create(named(SYNC_API_VERSION, Kind.CLUSTER_RESOURCE_SYNC, "many", word, spec=spec))
            await eventually(lambda: everywhere("get"), about="the first objects in all clusters")
            await settled()
            assert parsed == [f"{word}/objects"]

            await publish("list")
            await eventually(lambda: everywhere("list"), about="the change in all clusters")
            before = await settled()
            assert parsed == [f"{word}/objects"] * 2

        written = [await writes(client) for client in clients]
        async with world.operator() as operator:
            for name in CLUSTERS:
                await world.look_again(operator, "clusterresourcesyncbinding", await world.get(CLUSTER_KIND, name))
            assert await settled() == before
        assert [await writes(client) for client in clients] == written
