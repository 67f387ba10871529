"""ClusterResourceSyncs: objects of ConfigMaps and Secrets are kept in place on the selected Clusters."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.record_store import SECRETS, SYNC_RECORD, record_name
from clusterstacks.deliver.apply.source_objects import SOURCE_SECRET_TYPE
from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, CONFIRM_PRUNE_ANNOTATION, RECONCILE_ANNOTATION, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers import addon_sweep, held_reports
from clusterstacks.runtime import informer
from tests.support.builders.manifests import config_map, crd, named
from tests.support.running.mortal_client import MortalClients
from tests.support.running.world import condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

SYNC, BINDING = Kind.CLUSTER_RESOURCE_SYNC, Kind.CLUSTER_RESOURCE_SYNC_BINDING
ONE = binding_name("extra", "one")
CLASS = "plain"
"""A class of no cluster stack."""


def written(*manifests: Manifest) -> str:
    return "---\n".join(map(yaml.dump, manifests))


async def source(world: World, name: str = "objects", **values: str) -> Manifest:
    """Write a ConfigMap with these values."""
    manifest = {**config_map(name, world.namespace), "data": {f"{key}.yaml": text for key, text in values.items()}}
    resource = await world.client.resource("", "ConfigMap")
    return await world.client.apply(resource, manifest, manager="tests", force=True)


async def sync(world: World, name: str = "extra", **spec: Any) -> Manifest:
    spec = {"resources": [{"kind": "ConfigMap", "name": "objects"}], "interval": "10s", **spec}
    return await world.create(named(SYNC_API_VERSION, SYNC, name, world.namespace, spec=spec))


async def until_gone(world: World, name: str) -> None:
    async def look() -> bool:
        return await world.delivered(name) is None

    await eventually(look, seconds=60, about=f"the end of ConfigMap {name}")


def is_synced(binding: Manifest) -> bool:
    return (
        bool((binding.get("status") or {}).get("ready"))
        and condition_of(binding, "Ready").get("status") == "True"
        and bool(binding["status"].get("observedInputs"))
    )


async def test_changed_config_map_is_delivered_long_before_the_interval(world: World) -> None:
    await source(world, a=written(config_map(f"{world.namespace}-a", key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, interval="24h")
        await world.until(BINDING, ONE, is_synced)
        await source(world, a=written(config_map(f"{world.namespace}-a", key="two")))

        async def is_changed() -> bool:
            found = await world.delivered(f"{world.namespace}-a")
            return found is not None and found["data"]["key"] == "two"

        await eventually(is_changed, seconds=30, about="the changed ConfigMap in the cluster")


async def test_first_delivery_reads_and_writes_nothing_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # What happens within these times depends on the load of the machine otherwise.
    monkeypatch.setattr(held_reports, "HOLD", timedelta(minutes=2))
    monkeypatch.setattr(informer, "OWN_WRITE_SECONDS", 120.0)
    word = world.namespace
    await source(world, a=written(*(config_map(f"{word}-{number}", key="one") for number in range(10))))
    await world.cluster("one", CLASS)
    clients = MortalClients.installed(monkeypatch)
    async with clients.operator(world):
        await world.at_rest()
        before = len(clients.calls)
        await sync(world)
        await world.until(SYNC, "extra", lambda one: (one.get("status") or {}).get("synced") == 1)
        sent = Counter(" ".join(call.about.split()[:2]) for call in clients.calls[before:] if "watch=" not in call.path)
    assert sent.pop("list ConfigMap") == 1  # of all syncs
    group = "addons.clusterstack.x-k8s.io"
    assert sent["apply ConfigMap"] == 10
    assert sent[f"patch ClusterResourceSync.{group}"] == 2, "finalizer and status"
    assert sent[f"patch ClusterResourceSyncBinding.{group}"] == 1, "status"
    assert sent["get Cluster.cluster.x-k8s.io"] == 1
    assert sent[f"get ClusterResourceSyncBinding.{group}"] <= 1, "if its event is faster"
    needless = ("get /api", "create Event", f"get ClusterResourceSync.{group}")
    assert not [one for one in needless if sent[one]]


@pytest.mark.regression("CAPI-4807")
async def test_operator_and_its_custom_resource_arrive_together_and_leave_with_the_sync(world: World) -> None:
    word, group = world.namespace, f"{world.namespace}.example.org"
    widget = named(f"{group}/v1", "Widget", word, "default")
    await source(world, a=written(widget), b=written(crd("Widget", group), config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        made = await sync(world)
        await world.until(BINDING, ONE, is_synced)
        summed = await world.until(SYNC, "extra", lambda one: (one.get("status") or {}).get("synced") == 1)
        assert (summed["status"]["clusters"], summed["status"]["drifted"]) == (1, 0)
        widgets = await world.workload.resource(group, "Widget")
        assert await world.workload.find(widgets, word, "default")
        await world.shows(word, {"key": "one"})

        await world.delete(made)
        await world.gone(SYNC, "extra")
        assert await world.find(BINDING, ONE) is None
        assert await world.delivered(word) is None
        assert await world.workload.find(SECRETS, record_name("extra", SYNC_RECORD), "kube-system") is None


@pytest.mark.regression("CAPI-3447", "CAPI-4799", "CAPI-5467", "CAPI-5555", "CAPI-9775", "CAPHV-39")
async def test_change_of_a_source_edit_and_deletion_in_the_cluster_are_followed(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one"), config_map(f"{word}-2", key="two")))
    cluster = await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)

        await source(world, a=written(config_map(word, key="changed")))
        await world.shows(word, {"key": "changed"})
        await until_gone(world, f"{word}-2")

        maps = await world.workload.resource("", "ConfigMap")
        await world.workload.merge_patch(maps, word, {"data": {"key": "by hand"}}, "kube-system")
        await world.patch(cluster, {"metadata": {"annotations": {RECONCILE_ANNOTATION: "first"}}})
        await world.shows(word, {"key": "changed"})

        await world.workload.delete(maps, word, "kube-system")
        await world.shows(word, {"key": "changed"})
        found = await world.until(BINDING, ONE, lambda one: len(one["status"].get("drift") or ()) > 1)
        assert {entry["addon"] for entry in found["status"]["drift"]} == {"extra"}


async def test_source_that_is_missing_broken_or_empty_deletes_nothing(world: World) -> None:
    word = world.namespace
    both = written(config_map(word, key="one"), config_map(f"{word}-2", key="two"))
    made = await source(world, a=both)
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)

        await world.delete(made)
        await world.says(BINDING, ONE, "SourcesRead", "SourceIncomplete", words=["does not exist"])
        await source(world, a=written(config_map(word, key="new")), b="key: [")
        told = await world.says(BINDING, ONE, "SourcesRead", "SourceIncomplete", words=["key b.yaml, document 1"])
        assert f"ConfigMap {word}/objects" in told["message"]
        await world.shows(word, {"key": "new"})
        await world.shows(f"{word}-2", {"key": "two"})

        await source(world, a="", b="")
        held = await world.says(BINDING, ONE, "Ready", "PruneHeld", words=["2 objects"])
        maps = await world.workload.resource("", "ConfigMap")
        await world.workload.delete(maps, f"{word}-2", "kube-system")
        await world.shows(f"{word}-2", {"key": "two"})
        confirmation = held["message"].rsplit("=", 1)[1]
        extra = await world.get(SYNC, "extra")
        await world.patch(extra, {"metadata": {"annotations": {CONFIRM_PRUNE_ANNOTATION: confirmation}}})
        await until_gone(world, word)
        await until_gone(world, f"{word}-2")


async def test_secrets_of_other_types_and_other_namespaces_are_no_sources(world: World) -> None:
    word = world.namespace
    other = await world.other_namespace()
    content = {"a.yaml": b64encode(written(config_map(word, key="secret")).encode()).decode()}
    await world.create(named("v1", "Secret", "opaque", word, data=content))
    await world.create(named("v1", "Secret", "objects", other, type=SOURCE_SECRET_TYPE, data=content))
    await world.create(named("v1", "Secret", "good", word, type=SOURCE_SECRET_TYPE, data=content))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, resources=[{"kind": "Secret", "name": "opaque"}])
        told = await world.says(BINDING, ONE, "SourcesRead", words=[SOURCE_SECRET_TYPE, "create secret generic"])
        assert "secret generic opaque-objects" in told["message"]
        await sync(world, "elsewhere", resources=[{"kind": "Secret", "name": "objects"}])
        await world.says(BINDING, binding_name("elsewhere", "one"), "SourcesRead", words=["does not exist"])
        assert await world.delivered(word) is None

        await sync(world, "good", resources=[{"kind": "Secret", "name": "good"}])
        await world.shows(word, {"key": "secret"})


async def test_binding_that_nobody_asked_for_delivers_nothing(world: World) -> None:
    """Neither for a Cluster that the sync does not select, nor under another name than that of both."""
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, clusterSelector={"matchLabels": {"ring": "a"}})
        await world.until(SYNC, "extra", lambda one: (one.get("status") or {}).get("clusters") == 0)
        spec = {"syncName": "extra", "clusterName": "one"}
        for name in (ONE, "other"):
            await world.create(named(SYNC_API_VERSION, BINDING, name, word, spec=spec))
        await world.gone(BINDING, ONE)
        await world.gone(BINDING, "other")
        await world.at_rest()
        assert await world.delivered(word) is None


async def test_cluster_that_is_no_longer_selected_loses_the_objects_unless_they_are_orphaned(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    cluster = await world.cluster("one", CLASS)
    selector = {"matchLabels": {"ring": "a"}}
    async with world.operator():
        made = await sync(world, clusterSelector=selector)
        await world.until(SYNC, "extra", lambda one: (one.get("status") or {}).get("clusters") == 0)
        await world.patch(cluster, {"metadata": {"labels": {"ring": "a"}}})
        await world.shows(word, {"key": "one"})
        await world.patch(cluster, {"metadata": {"labels": {"ring": None}}})
        await until_gone(world, word)

        await world.patch(cluster, {"metadata": {"labels": {"ring": "a"}}})
        await world.shows(word, {"key": "one"})
        await world.patch(made, {"spec": {"deletionPolicy": "Orphan"}})
        await world.delete(made)
        await world.gone(SYNC, "extra")
        await world.shows(word, {"key": "one"})
        assert await world.workload.find(SECRETS, record_name("extra", SYNC_RECORD), "kube-system") is None


def all_have_the_objects(made: Manifest) -> bool:
    status = made.get("status") or {}
    return condition_of(made, "Ready").get("status") == "True" and status.get("synced") == 1


def nobody_looks(made: Manifest) -> bool:
    return [condition_of(made, kind).get("status") for kind in ("Ready", "ClustersSynced")] == ["Unknown"] * 2 and not (
        made["status"]["synced"]
    )


@pytest.mark.regression("LIVE-LV-11")
async def test_suspended_sync_and_paused_cluster_stand_still(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    cluster = await world.cluster("one", CLASS)
    async with world.operator():
        made = await sync(world, suspend=True)
        await world.until(BINDING, ONE, lambda one: condition_of(one, "Paused").get("status") == "True")
        assert await world.delivered(word) is None
        await world.patch(made, {"spec": {"suspend": False}})
        await world.shows(word, {"key": "one"})
        await world.until(SYNC, "extra", all_have_the_objects)

        await world.patch(cluster, {"spec": {"paused": True}})
        await world.until(BINDING, ONE, lambda one: condition_of(one, "Paused").get("status") == "True")
        seen = await world.until(SYNC, "extra", nobody_looks)
        assert "one: nothing is delivered because" in condition_of(seen, "ClustersSynced")["message"]
        for kind in ("Healthy", "InSync"):
            assert condition_of(await world.get(BINDING, ONE), kind).get("status", "Unknown") == "Unknown"

        await world.patch(cluster, {"spec": {"paused": False}})
        await world.until(SYNC, "extra", all_have_the_objects)


@pytest.mark.regression("LIVE-LV-11")
async def test_live_lv_11_sync_does_not_say_that_an_unreachable_cluster_has_the_objects(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addon_sweep, "INTERVAL", timedelta(seconds=0.2))
    monkeypatch.setattr(addon_sweep, "SOON_INTERVAL", timedelta(seconds=0.2))
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator() as operator:
        await sync(world)
        await world.until(SYNC, "extra", all_have_the_objects)

        await world.client.delete(SECRETS, "one-kubeconfig", word)
        await operator._workloads.forget(ObjectKey(word, "one"))
        seen = await world.until(SYNC, "extra", nobody_looks)
        assert (
            f"one: Secret {word}/one-kubeconfig does not exist yet" in condition_of(seen, "ClustersSynced")["message"]
        )

        # A new content is not applied, although the last one was.
        await source(world, a=written(config_map(word, key="two")))
        await world.nudge(await world.get(BINDING, ONE))
        await world.says(BINDING, ONE, "Ready", words=["one-kubeconfig does not exist yet"])
        assert not condition_of(await world.get(BINDING, ONE), "ObjectsApplied")

        await world.connect("one")
        await world.nudge(await world.get(BINDING, ONE))
        await world.until(SYNC, "extra", all_have_the_objects)
        await world.shows(word, {"key": "two"})


async def test_object_in_two_syncs_is_refused_to_the_second_with_both_names(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="first")))
    await source(world, "others", a=written(config_map(word, key="second")))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)
        await sync(world, "second", resources=[{"kind": "ConfigMap", "name": "others"}])
        await world.says(
            BINDING, binding_name("second", "one"), "Ready", "ObjectClaimedTwice", words=["sync second and sync extra"]
        )
        await world.shows(word, {"key": "first"})


async def test_unreachable_cluster_does_not_keep_a_deleted_sync_for_ever(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        made = await sync(world)
        await world.until(BINDING, ONE, is_synced)
        dead = {**world.workload_kubeconfig, "clusters": [
            {**one, "cluster": {**one["cluster"], "server": "https://127.0.0.1:9"}}
            for one in world.workload_kubeconfig["clusters"]
        ]}  # fmt: skip
        await world.connect("one", dead)
        await world.delete(made)
        told = await world.says(SYNC, "extra", "Ready", "BindingsRemain", words=["deletion-policy=Orphan"])
        assert ONE in told["message"]
        binding = await world.get(BINDING, ONE)
        annotation = {"addons.clusterstack.x-k8s.io/deletion-policy": "Orphan"}
        await world.patch(binding, {"metadata": {"annotations": annotation}})
        await world.gone(SYNC, "extra")
        await world.shows(word, {"key": "one"})


@pytest.mark.parametrize("name", ["with.dot", "a" * 64])
async def test_name_that_cannot_be_part_of_a_binding_is_refused_by_the_api_server(world: World, name: str) -> None:
    with pytest.raises(Exception, match="at most 63 lower-case letters, digits and dashes"):
        await sync(world, name)


async def test_restart_with_nothing_changed_writes_nothing(world: World) -> None:
    word = world.namespace
    await source(world, a=written(config_map(word, key="one")))
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world)
        await world.until(BINDING, ONE, is_synced)
        await world.until(SYNC, "extra", lambda one: condition_of(one, "Ready").get("status") == "True")
        await world.at_rest()
    before = [
        (await world.get(kind, name))["metadata"]["resourceVersion"] for kind, name in ((SYNC, "extra"), (BINDING, ONE))
    ]
    record = await world.workload.get(SECRETS, record_name("extra", SYNC_RECORD), "kube-system")
    async with world.operator() as operator:
        await world.look_again(operator, "clusterresourcesyncbinding", await world.get(CLUSTER_KIND, "one"))
        await world.at_rest()
    after = [
        (await world.get(kind, name))["metadata"]["resourceVersion"] for kind, name in ((SYNC, "extra"), (BINDING, ONE))
    ]
    again = await world.workload.get(SECRETS, record_name("extra", SYNC_RECORD), "kube-system")
    assert after == before
    assert again["metadata"]["resourceVersion"] == record["metadata"]["resourceVersion"]
