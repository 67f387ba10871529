"""Creation of ClusterAddons for Clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from clusterstacks.model.kinds.names import API_VERSION, GROUP, Kind
from clusterstacks.model.kinds.shards import MAIN
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusteraddon.create_addon import REFUSED_RECHECK, AddonCreator
from clusterstacks.operator.controllers.object_reader import CachedReader
from clusterstacks.operator.controllers.shard_moves import ShardMoves
from clusterstacks.operator.controllers.workload_clients import Workloads
from clusterstacks.runtime.cache import ObjectCache, key_of
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.events import EventRecorder
from tests.support.builders.class_access import READ, class_access
from tests.support.fakes.api_server import FakeApi

ADDONS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_ADDON.value, "clusteraddons", namespaced=True)
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
NAME = "openstack-scs-1-35-v1"


def ours(kind: Kind, name: str, **parts: Any) -> Manifest:
    metadata = {"name": name, "namespace": "stacks", **parts.pop("metadata", {})}
    return {"apiVersion": API_VERSION, "kind": kind.value, "metadata": metadata, **parts}


def store(*manifests: Manifest) -> ObjectCache:
    filled = ObjectCache()
    for manifest in manifests:
        filled.put(key_of(manifest), manifest)
    return filled


async def creator(rule: Manifest | None, **labels: str) -> AddonCreator:
    """A class of namespace stacks, offered by a rule, and a Cluster in namespace team that uses it."""
    api = FakeApi(ADDONS, CLUSTERS, NAMESPACES, EVENTS, *READ)
    await api.create(NAMESPACES, {"metadata": {"name": "team", "labels": labels}})
    topology = {"classRef": {"name": NAME, "namespace": "stacks"}, "version": "v1.35.4"}
    cluster = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "one", "namespace": "team"}}
    await api.create(CLUSTERS, cluster | {"spec": {"topology": topology}})
    spec: Manifest = {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35", "versions": ["v9"]}
    spec |= {"clusterNamespaces": rule}
    owner = {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK.value, "name": "scs", "uid": "1"}
    release = ours(Kind.CLUSTER_STACK_RELEASE, NAME, metadata={"ownerReferences": [owner]})
    return AddonCreator(
        reads=CachedReader(client=api, informers={}),
        client=api,
        clock=SystemClock(),
        releases=store(release),
        addons=store(),
        access=class_access(api, stacks=[ours(Kind.CLUSTER_STACK, "scs", spec=spec)], releases=[release]),
        events=EventRecorder(api, "test"),
        shards=ShardMoves(
            own=MAIN,
            client=api,
            clusters=store(),
            workloads=Workloads(api),
            is_running=AsyncMock(return_value=True),
            unserved=dict,
        ),
    )


def created(one: AddonCreator) -> set[ObjectKey]:
    assert isinstance(one.client, FakeApi)
    return set(one.client.objects(ADDONS))


def objects(one: AddonCreator) -> dict[ObjectKey, Manifest]:
    assert isinstance(one.client, FakeApi)
    return one.client.objects(CLUSTERS)


def said(one: AddonCreator) -> dict[str, tuple[str, str | None]]:
    """Return status and reason of the conditions of the Cluster."""
    cluster = objects(one)[ObjectKey("team", "one")]
    return {one["type"]: (one["status"], one.get("reason")) for one in cluster.get("status", {}).get("conditions", [])}


SELECTED = {"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}}


@pytest.mark.parametrize("rule", [None, {"from": "All"}])
async def test_class_is_available_to_all_namespaces_by_default(rule: Manifest | None) -> None:
    one = await creator(rule)

    assert await one.reconcile(ObjectKey("team", "one")) is None
    assert created(one) == {ObjectKey("team", "cluster-addon-one")}


@pytest.mark.parametrize("rule", [{"from": "Same"}, SELECTED, {"from": "Unheard-of"}])
async def test_rejected_cluster_is_rechecked_later(rule: Manifest) -> None:
    one = await creator(rule)

    assert await one.reconcile(ObjectKey("team", "one")) == REFUSED_RECHECK
    assert not created(one)
    assert said(one) == {"ClusterStackAddonsReady": ("False", "ClassNotOffered")}


@pytest.mark.regression("LIVE-M5")
@pytest.mark.parametrize("class_name", [NAME, "openstack-scs-1-35-v9", "quick-start"])
async def test_outdated_condition_is_removed(class_name: str) -> None:
    """The stack admits the namespace, the class has no release yet, or is none of a cluster stack."""
    one = await creator({"from": "Same"})
    await one.reconcile(ObjectKey("team", "one"))
    admitting = await creator({"from": "All"})
    topology = {"topology": {"classRef": {"name": class_name}}}
    await one.client.merge_patch(CLUSTERS, "one", {"spec": topology}, "team")
    api_conditions = [{"type": "Available", "status": "True"}]
    kept = objects(one)[ObjectKey("team", "one")]["status"]["conditions"]
    await one.client.merge_patch(CLUSTERS, "one", {"status": {"conditions": api_conditions + kept}}, "team")

    await replace(one, access=admitting.access).reconcile(ObjectKey("team", "one"))

    assert said(one) == {"Available": ("True", None)}
    assert bool(created(one)) is (class_name == NAME)


@pytest.mark.regression("LIVE-M5")
async def test_condition_of_a_cluster_addon_is_kept() -> None:
    one = await creator(None)
    ready = {"type": "ClusterStackAddonsReady", "status": "True", "reason": "AddonsDelivered"}
    await one.client.merge_patch(CLUSTERS, "one", {"status": {"conditions": [ready]}}, "team")

    await one.reconcile(ObjectKey("team", "one"))

    assert said(one) == {"ClusterStackAddonsReady": ("True", "AddonsDelivered")}


async def test_selected_namespace_is_accepted() -> None:
    one = await creator(SELECTED, tier="gold")

    await one.reconcile(ObjectKey("team", "one"))

    assert created(one)
