"""Reconciles of ClusterAddons that deliver nothing."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from clusterstacks.model.kinds.names import API_VERSION, AddonCondition, Kind
from clusterstacks.model.objects import ObjectId, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusteraddon.awaited_objects import AwaitedObjects
from clusterstacks.operator.controllers.clusteraddon.reconciler import AddonReconciler
from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
from clusterstacks.operator.controllers.object_reader import CachedReader
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import VirtualClock, in_virtual_time
from tests.unit.operator.controllers.clusteraddon.test_snapshot import CLUSTERS, RELEASES

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
ADDON = ObjectKey("team", "cluster-addon-one")
CLASS = "local-demo-1-36-v1"


@in_virtual_time
@pytest.mark.regression("LIVE-LV-11")
async def test_a_paused_addon_does_not_watch_what_its_held_upgrade_waited_for() -> None:
    api, workload, enqueued = FakeApi(CLUSTERS, RELEASES), FakeApi(WIDGETS), list[ObjectKey]()
    topology = {"classRef": {"name": CLASS}, "version": "v1.36.1"}
    named = {"name": "one", "namespace": "team"}
    cluster = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": named}
    await api.create(CLUSTERS, cluster | {"spec": {"topology": topology}})
    await api.create(RELEASES, {"apiVersion": API_VERSION, "kind": RELEASES.kind, "metadata": named | {"name": CLASS}})
    awaited = AwaitedObjects(enqueued.append)
    awaited.follow(ADDON, workload, [ObjectId("example.com", "Widget", "ns", "a")])
    await asyncio.sleep(1)
    parts: dict[str, Any] = {field.name: None for field in fields(AddonReconciler)}
    parts |= {"client": api, "cached_reads": CachedReader(client=api, informers={}), "contracts": ContractKinds(api)}
    parts["awaited"] = awaited
    parts["hold"] = SimpleNamespace(describe=lambda *_: "", note_removal=lambda *_: False)
    parts["drift"] = SimpleNamespace(stop=lambda _: None)
    parts["sweep"], parts["clock"] = SimpleNamespace(forget=lambda _: None), VirtualClock()
    addon: dict[str, Any] = {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_ADDON.value}
    addon["metadata"] = {"name": ADDON.name, "namespace": ADDON.namespace}
    addon["spec"] = {"clusterRef": {"name": "one"}, "paused": True}
    true = {"status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    addon["status"] = {"conditions": [{"type": kind, **true} for kind in ("Healthy", "InSync")]}
    patch = StatusPatch(addon)

    await AddonReconciler(**parts).work(patch)
    widget = {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": "a", "namespace": "ns"}}
    await workload.create(WIDGETS, widget, "ns")
    await asyncio.sleep(1)

    assert workload.count("watch") == 1
    assert enqueued == []
    for kind in (AddonCondition.HEALTHY, AddonCondition.IN_SYNC):
        condition = patch.condition(kind)
        assert condition is not None
        assert condition.status == "Unknown"
        assert re.match("not compared since 20.*Z: nothing is delivered because spec.paused", condition.message)
