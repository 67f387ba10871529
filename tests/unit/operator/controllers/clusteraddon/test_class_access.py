"""Checks of a ClusterAddon before its delivery, and the reads they need."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model.kinds.addon_annotations import MOST_RELEASES
from clusterstacks.model.kinds.names import ADDON_FINALIZER, API_VERSION, GROUP, Kind
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.addon_sweep import AddonSweep
from clusterstacks.operator.controllers.clusteraddon.class_admission import ClassAdmission
from clusterstacks.operator.controllers.clusteraddon.hold_review import HoldReview
from clusterstacks.operator.controllers.clusteraddon.reconciler import AddonReconciler
from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds, read_snapshot
from clusterstacks.operator.controllers.held_reports import HeldReports
from clusterstacks.operator.controllers.object_reader import CachedReader
from clusterstacks.operator.controllers.status_reconciler import StatusReconciler
from clusterstacks.operator.controllers.workload_clients import Workloads
from clusterstacks.runtime.cache import ObjectCache
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.metrics import Metrics
from tests.support.builders.class_access import class_access
from tests.support.fakes.api_server import FakeApi

ADDONS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_ADDON.value, "clusteraddons", namespaced=True)
RELEASES = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK_RELEASE.value, "clusterstackreleases", namespaced=True)
STACKS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK.value, "clusterstacks", namespaced=True)
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NAME = "openstack-scs-1-35-v1"
CANONICAL = ObjectKey("team", "cluster-addon-one")


def addon(name: str = CANONICAL.name, **metadata: Any) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_ADDON.value,
        "metadata": {"name": name, "namespace": "team", "finalizers": [ADDON_FINALIZER], **metadata},
        "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}, "clusterStack": NAME},
    }


def cluster(version: str = "v1.35.4", **annotations: str) -> Manifest:
    mirrored = {"type": "ClusterStackAddonsReady", "status": "True", "reason": "AddonsDelivered"}
    return {
        "apiVersion": CLUSTERS.api_version,
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team", "annotations": annotations},
        "spec": {"topology": {"classRef": {"name": NAME, "namespace": "stacks"}, "version": version}},
        "status": {"conditions": [mirrored]},
    }


def release(name: str = NAME) -> Manifest:
    owner = {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK.value, "name": "scs", "uid": "1"}
    metadata = {"name": name, "namespace": "stacks", "ownerReferences": [owner]}
    return {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK_RELEASE.value, "metadata": metadata}


@pytest.fixture
async def api() -> FakeApi:
    return FakeApi(ADDONS, RELEASES, STACKS, CLUSTERS, NAMESPACES)


@pytest.fixture
async def frame(api: FakeApi) -> StatusReconciler:
    unused: Any = None
    sweep = AddonSweep(
        workloads=Workloads(api),
        clock=SYSTEM_CLOCK,
        changed=print,
        poll=print,
        metrics=Metrics(),
        renderer=Renderer(),
    )
    reconciler = AddonReconciler(
        client=api,
        cached_reads=CachedReader(client=api, informers={}),
        clock=SYSTEM_CLOCK,
        contracts=ContractKinds(api),
        workloads=Workloads(api),
        admission=ClassAdmission(class_access(api)),
        gate=unused,
        preparation=unused,
        rollout=unused,
        awaited=unused,
        hold=HoldReview(
            client=api,
            stacks=ObjectCache(),
            cached_reads=CachedReader(client=api, informers={}),
            clock=SYSTEM_CLOCK,
            metrics=Metrics(),
        ),
        held=HeldReports(SYSTEM_CLOCK),
        sweep=sweep,
        drift=unused,
        compat_check=unused,
        departed=unused,
    )
    return StatusReconciler(
        group=GROUP,
        kind=Kind.CLUSTER_ADDON,
        client=api,
        clock=SYSTEM_CLOCK,
        events=EventRecorder(api, "test"),
        work=reconciler.work,
    )


def conditions(manifest: Manifest) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in (manifest.get("status") or {}).get("conditions", [])}


def forbidden() -> Forbidden:
    return Forbidden("get: 403 Forbidden", status=403, reason="Forbidden")


@pytest.mark.regression("SEC-21")
@pytest.mark.parametrize("version", ["v1.35.4", "latest", ""])
async def test_deletion_of_a_cluster_addon_reads_only_its_cluster(
    api: FakeApi, frame: StatusReconciler, version: str
) -> None:
    await api.create(CLUSTERS, cluster(version))
    await api.create(ADDONS, addon(deletionTimestamp="2026-11-22T00:00:00Z"))

    await frame.reconcile(CANONICAL)

    assert api.objects(ADDONS)[CANONICAL]["metadata"]["finalizers"] == []
    assert conditions(api.objects(CLUSTERS)[ObjectKey("team", "one")]) == {}
    assert {call["resource"].kind for verb, call in api.calls if verb == "get"} == {"ClusterAddon", "Cluster"}


@pytest.mark.regression("SEC-21")
async def test_unreadable_cluster_does_not_block_deletion_of_its_cluster_addon(
    api: FakeApi, frame: StatusReconciler
) -> None:
    await api.create(ADDONS, addon(deletionTimestamp="2026-11-22T00:00:00Z"))
    forbidding = api.get

    async def get(resource: Resource, name: str, namespace: str = "") -> Manifest:
        if resource == CLUSTERS:
            raise forbidden()
        return await forbidding(resource, name, namespace)

    api.get = get  # type: ignore[method-assign]
    await frame.reconcile(CANONICAL)

    assert api.objects(ADDONS)[CANONICAL]["metadata"]["finalizers"] == []


@pytest.mark.regression("SEC-5")
async def test_second_cluster_addon_of_a_cluster_does_not_take_over(api: FakeApi, frame: StatusReconciler) -> None:
    other = ObjectKey("team", "other")
    await api.create(CLUSTERS, cluster())
    await api.create(ADDONS, addon("other"))

    await frame.reconcile(other)
    said = api.objects(ADDONS)[other]
    await api.merge_patch(ADDONS, "other", {"metadata": {"deletionTimestamp": "2026-11-22T00:00:00Z"}}, "team")
    await frame.reconcile(other)

    assert conditions(said)["Ready"] == "NameNotCanonical"
    assert api.objects(ADDONS)[other]["metadata"]["finalizers"] == []
    assert conditions(api.objects(CLUSTERS)[ObjectKey("team", "one")]) == {"ClusterStackAddonsReady": "AddonsDelivered"}


@pytest.mark.regression("SEC-5")
@pytest.mark.parametrize("admits", ["Same", "Selector"])
async def test_namespace_rule_of_an_unwatched_stack_is_read_from_the_server(
    api: FakeApi, frame: StatusReconciler, admits: str
) -> None:
    selector = {"selector": {"matchLabels": {"tier": "gold"}}} if admits == "Selector" else {}
    spec = {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35"}
    await api.create(
        STACKS,
        {
            "apiVersion": API_VERSION,
            "kind": Kind.CLUSTER_STACK.value,
            "metadata": {"name": "scs", "namespace": "stacks"},
            "spec": {**spec, "clusterNamespaces": {"from": admits, **selector}},
        },
    )
    await api.create(NAMESPACES, {"metadata": {"name": "team", "labels": {"tier": "silver"}}})
    await api.create(CLUSTERS, cluster())
    await api.create(RELEASES, release())
    await api.create(ADDONS, addon())

    await frame.reconcile(CANONICAL)

    found = api.objects(ADDONS)[CANONICAL]
    assert conditions(found)["ClusterReady"] == conditions(found)["Ready"] == "ClassNotOffered"
    assert "admitted" not in found["status"]
    assert conditions(api.objects(CLUSTERS)[ObjectKey("team", "one")]) == {"ClusterStackAddonsReady": "ClassNotOffered"}


def taking_from(count: int) -> Manifest:
    return cluster(**{f"clusterstack.x-k8s.io/addon.a{at}": f"openstack-scs-1-35-v{at}" for at in range(2, count + 1)})


@pytest.mark.regression("SEC-22")
@pytest.mark.parametrize(
    ("count", "words"), [(MOST_RELEASES + 1, "at most 32 releases"), (5000, "more than 512 annotations")]
)
async def test_too_many_referenced_releases_are_rejected_without_reading_them(
    api: FakeApi, count: int, words: str
) -> None:
    await api.create(CLUSTERS, taking_from(count))

    seen = await read_snapshot(api, ObjectKey("team", "one"), ContractKinds(api))

    assert seen is not None
    assert seen.refusal is not None
    assert words in seen.refusal.message
    assert api.count("get") <= 4


@pytest.mark.regression("SEC-22")
async def test_releases_are_read_concurrently(api: FakeApi) -> None:
    await api.create(CLUSTERS, taking_from(MOST_RELEASES))
    reading, most = 0, 0
    real = api.get

    async def get(resource: Resource, name: str, namespace: str = "") -> Manifest:
        nonlocal reading, most
        reading, most = reading + 1, max(most, reading + 1)
        await asyncio.sleep(0)
        try:
            return await real(resource, name, namespace)
        finally:
            reading -= 1

    api.get = get  # type: ignore[method-assign]
    seen = await read_snapshot(api, ObjectKey("team", "one"), ContractKinds(api))

    assert seen is not None
    assert seen.refusal is None
    assert most == len(seen.objects) == MOST_RELEASES
