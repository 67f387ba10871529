"""ClusterResourceSyncs with inputs and clusters that are hostile, broken, huge, or not there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml as plain_yaml

from clusterstacks.deliver.apply import source_objects
from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.record_store import SECRETS, SYNC_RECORD, record_name
from clusterstacks.model.kinds.clusterresourcesync import binding_name
from clusterstacks.model.kinds.names import ADOPT_ANNOTATION
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers import workload_clients
from clusterstacks.operator.controllers.clusterresourcesync import binding_reconciler, sync_sources
from clusterstacks.operator.controllers.workload_clients import Workloads
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
from tests.support.fakes.silent_server import silent_server
from tests.support.running.mortal_client import MortalClients
from tests.support.running.world import condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.running.world import World

TWO = binding_name("extra", "two")


def at_port(world: World, port: int) -> dict[str, Any]:
    """Return the kubeconfig of the workload cluster with another port."""
    clusters = [
        {**one, "cluster": {**one["cluster"], "server": f"https://127.0.0.1:{port}"}}
        for one in world.workload_kubeconfig["clusters"]
    ]
    return {**world.workload_kubeconfig, "clusters": clusters}


def other_kubeconfig(world: World) -> Mapping[str, Any]:
    """Return another workload cluster: the management cluster plays it."""
    found: Mapping[str, Any] = plain_yaml.safe_load(world.management_kubeconfig.read_text())
    return found


async def delivered_uid(world: World, name: str) -> str:
    found = await world.delivered(name)
    assert found is not None
    uid: str = found["metadata"]["uid"]
    return uid


@pytest.mark.regression("CAPI-3399")
async def test_sources_belong_to_the_user_and_a_replaced_one_deletes_nothing(world: World) -> None:
    """Two sources of together more than 1 MiB; one is replaced by force, and both outlive the sync."""
    word = world.namespace
    large = "x" * 700_000
    first = await source(world, a=written(config_map(word, key="one", large=large)))
    await source(world, "more", a=written(config_map(f"{word}-2", key="two", large=large)))
    await world.cluster("one", CLASS)
    async with world.operator():
        made = await sync(world, resources=[{"kind": "ConfigMap", "name": name} for name in ("objects", "more")])
        await world.until(BINDING, ONE, is_synced)
        uids = [await delivered_uid(world, name) for name in (word, f"{word}-2")]

        await world.delete(first)
        await world.says(BINDING, ONE, "SourcesRead", words=["does not exist"])
        await source(world, a=written(config_map(word, key="changed", large=large)))
        await world.shows(word, {"key": "changed", "large": large})
        await world.until(BINDING, ONE, is_synced)
        assert [await delivered_uid(world, name) for name in (word, f"{word}-2")] == uids

        await world.delete(made)
        await world.gone(SYNC, "extra")
        for name in ("objects", "more"):
            assert "ownerReferences" not in (await world.get("ConfigMap", name))["metadata"]


@pytest.mark.regression("CAPI-10655")
async def test_each_cluster_has_its_state_and_one_that_left_while_it_was_away_is_named_until_it_is_back(
    world: World,
) -> None:
    word, labels = world.namespace, {"ring": "a"}
    await source(world, a=written(config_map(word, key="one")))
    first = await world.cluster("one", CLASS)
    second = await world.cluster("two", CLASS, kubeconfig=other_kubeconfig(world))
    for cluster in (first, second):
        await world.patch(cluster, {"metadata": {"labels": labels}})
    async with world.operator():
        # One with an empty selector disables no other one, and each has the state of its objects.
        await sync(world, "everywhere", resources=[{"kind": "ConfigMap", "name": "missing"}], clusterSelector={})
        await sync(world, clusterSelector={"matchLabels": labels})
        await world.until(BINDING, ONE, is_synced)
        await world.until(BINDING, TWO, is_synced)
        await world.until(SYNC, "everywhere", lambda one: (one.get("status") or {}).get("clusters") == 2)

        await world.connect("one", at_port(world, 9))
        await source(world, a=written(config_map(word, key="changed")))
        await world.nudge(await world.get(SYNC, "extra"))
        told = await world.says(SYNC, "extra", "Ready", "ClustersNotSynced", words=["1 of 2 clusters", "one: "])
        assert "two" not in told["message"]

        await world.patch(first, {"metadata": {"labels": {"ring": None}}})
        told = await world.says(SYNC, "extra", "Ready", "BindingsRemain", words=["not selected any more", "=Orphan"])
        assert f"crsyncbinding {ONE}" in told["message"]
        await world.shows(word, {"key": "one"})

        await world.connect("one")
        await world.nudge(await world.get(BINDING, ONE))
        await until_gone(world, word)
        await world.until(SYNC, "extra", lambda one: condition_of(one, "Ready").get("status") == "True")


async def test_cluster_that_replaces_another_adopts_the_objects_of_its_syncs(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    first = await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)
        uid = await delivered_uid(world, word)
        await world.delete(first)
        await world.gone(BINDING, ONE)

        second = await world.cluster("two", CLASS)
        told = await world.says(BINDING, TWO, "Ready", "RecordOfAnotherCluster")
        assert f"{ADOPT_ANNOTATION}={word}/one" in told["message"]
        await world.patch(second, {"metadata": {"annotations": {ADOPT_ANNOTATION: f"{word}/one"}}})
        await world.until(BINDING, TWO, is_synced)
        assert await delivered_uid(world, word) == uid
        await world.delete(await world.get(SYNC, "extra"))
        await world.gone(SYNC, "extra")
        assert await world.delivered(word) is None


async def test_syncs_of_one_name_in_two_namespaces_have_records_of_their_own(world: World) -> None:
    word, other = world.namespace, await world.other_namespace()
    resource = await world.client.resource("", "ConfigMap")
    for namespace in (word, other):
        content = {**config_map("objects", namespace), "data": {"a.yaml": written(config_map(word, key=namespace))}}
        await world.client.create(resource, content, namespace)
        kubeconfig = other_kubeconfig(world) if namespace == other else None
        await world.cluster("one", CLASS, namespace=namespace, kubeconfig=kubeconfig)

    async def data(client: Client) -> Any:
        return ((await client.find(resource, word, "kube-system")) or {}).get("data")

    async with world.operator(namespace=""):
        made = [await sync_in(world, namespace) for namespace in (word, other)]
        for namespace in (word, other):
            await world.until(BINDING, ONE, is_synced, namespace=namespace)
        assert await data(world.workload) == {"key": word}
        assert await data(world.client) == {"key": other}

        await world.delete(made[0])
        await world.gone(SYNC, "extra", word)
        assert await data(world.workload) is None
        assert await data(world.client) == {"key": other}
        assert await world.client.find(SECRETS, record_name("extra", SYNC_RECORD), "kube-system")

        # A kubeconfig of the other namespace's cluster reaches no object of its sync.
        await world.connect("one", other_kubeconfig(world))
        await sync(world)
        told = await world.says(BINDING, ONE, "Ready", "RecordOfAnotherCluster")
        assert f"addons of Cluster {other}/one" in told["message"]
        assert await data(world.client) == {"key": other}


async def sync_in(world: World, namespace: str) -> Manifest:
    manifest = named(
        "addons.clusterstack.x-k8s.io/v1alpha1",
        SYNC,
        "extra",
        namespace,
        spec={"resources": [{"kind": "ConfigMap", "name": "objects"}]},
    )
    return await world.create(manifest)


async def test_object_of_an_addon_is_refused_to_a_sync_whose_other_clusters_get_it(world: World) -> None:
    word = world.namespace
    await Delivery(world.workload).install("network", Revision.of([config_map(word, key="addon")], "inputs"))
    await source(world, a=written(config_map(word, key="sync"), config_map(f"{word}-2", key="sync")))
    await world.cluster("one", CLASS)
    await world.cluster("two", CLASS, kubeconfig=other_kubeconfig(world))
    async with world.operator():
        await sync(world)
        await world.says(BINDING, ONE, "Ready", "ObjectClaimedTwice", words=["sync extra and addon network", word])
        await world.until(BINDING, TWO, is_synced)
        await world.shows(word, {"key": "addon"})


@pytest.mark.regression("CAPI-4807")
async def test_source_is_parsed_once_for_all_clusters(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    read = source_objects.read_source

    def noted(kind: str, key: ObjectKey, found: Manifest | None) -> Any:
        parsed.append(key)
        return read(kind, key, found)

    monkeypatch.setattr(sync_sources, "read_source", noted)
    # Each read asks the API server, so that only the version of the source decides.
    monkeypatch.setattr(sync_sources, "FRESH_SECONDS", 0.0)
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    await world.cluster("two", CLASS, kubeconfig=other_kubeconfig(world))
    bindings = (ONE, TWO)
    async with world.operator():
        made = await sync(world)
        for binding in bindings:
            await world.until(BINDING, binding, is_synced)
        assert len(parsed) == 1
        before = [(await world.get(BINDING, binding))["status"]["observedInputs"] for binding in bindings]
        await source(world, a=written(config_map(word, key="two")))
        await world.patch(made, {"metadata": {"annotations": {"example.org/nudge": "1"}}})
        for binding, inputs in zip(bindings, before, strict=True):
            await world.until(
                BINDING,
                binding,
                lambda one, inputs=inputs: is_synced(one) and one["status"]["observedInputs"] != inputs,  # type: ignore[misc]
            )
        assert len(parsed) == 2


async def test_sync_is_complete_whatever_writes_the_operator_dies_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, group = world.namespace, f"{world.namespace}.example.org"
    clients = MortalClients.installed(monkeypatch)
    widget = named(f"{group}/v1", "Widget", word, "default")
    kept = [crd("Widget", group), widget, config_map(word, key="one")]
    await source(world, a=written(*kept, config_map(f"{word}-left", key="left")))
    maps = await world.workload.resource("", "ConfigMap")
    foreign = await world.workload.create(maps, config_map(f"{word}-foreign"), "kube-system")
    await world.cluster("one", CLASS)

    async def lives_until(ended: Callable[[], Awaitable[bool]]) -> None:
        """Run operators that die after every third write until the last one has nothing to do."""

        async def dead_or_ended() -> bool:
            return clients.dead.is_set() or await ended()

        while not await ended():
            async with clients.operator(world, writes=3):
                await eventually(dead_or_ended, about="death or the end")

    async def synced() -> bool:
        found = await world.find(SYNC, "extra")
        return (
            condition_of(found or {}, "Ready").get("status") == "True"
            and (found or {})["status"].get("synced") == 1
            and is_synced(await world.get(BINDING, ONE))
        )

    async def changed() -> bool:
        return (
            await synced()
            and await world.delivered(f"{word}-left") is None
            and ((await world.delivered(word)) or {}).get("data") == {"key": "two"}
        )

    async def gone() -> bool:
        return await world.find(SYNC, "extra") is None

    made = await sync(world)
    await lives_until(synced)
    assert await world.delivered(f"{word}-left")
    await source(world, a=written(*kept[:2], config_map(word, key="two")))
    await lives_until(changed)
    await world.delete(made)
    await lives_until(gone)

    assert clients.lives > 6
    assert await world.find(BINDING, ONE) is None
    assert await world.delivered(word) is None
    assert await world.workload.find(SECRETS, record_name("extra", SYNC_RECORD), "kube-system") is None
    crds = await world.workload.resource("apiextensions.k8s.io", "CustomResourceDefinition")
    await eventually(lambda: absent(world.workload, crds, f"widgets.{group}"), about="the end of the CRD")
    assert await world.workload.get(maps, f"{word}-foreign", "kube-system") == foreign


async def absent(client: Client, resource: Any, name: str) -> bool:
    return await client.find(resource, name) is None


@pytest.mark.regression("CAPI-10655")
async def test_cluster_that_does_not_answer_occupies_no_workers_with_its_many_syncs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its syncs would wait in a worker for the one before, so the next cluster came after all of them."""
    attempts: list[ObjectKey] = []
    connect = Workloads.connect

    async def noted(self: Workloads, cluster: ObjectKey) -> Client:
        attempts.append(cluster)
        return await connect(self, cluster)

    monkeypatch.setattr(Workloads, "connect", noted)
    monkeypatch.setattr(workload_clients, "READY_DEADLINE", timedelta(minutes=10))
    monkeypatch.setattr(binding_reconciler, "PATIENCE", timedelta(seconds=0.1))
    word, many = world.namespace, 20
    await source(world, a=written(config_map(word, key="one")))
    async with silent_server() as port:
        await world.cluster("dark", CLASS, kubeconfig=at_port(world, port))
        for number in range(many):
            await sync(world, f"s{number}")
        async with world.operator(workers=dict.fromkeys(("clusterstack", "clusterstackrelease", "clusteraddon"), 2)):

            async def occupied() -> bool:
                return ObjectKey(word, "dark") in attempts

            await eventually(occupied, about="a connection to the cluster")
            await world.cluster("one", CLASS)
            await world.shows(word, {"key": "one"})
            assert attempts.count(ObjectKey(word, "dark")) < many // 2
            waiting = [await world.get(BINDING, binding_name(f"s{number}", "dark")) for number in range(many)]
            told = [condition_of(one, "Ready").get("message", "") for one in waiting]
            assert any(f"another delivery to Cluster {word}/dark is running" in message for message in told)
