"""The bindings of annotated ClusterResourceSets, without servers: what leaves them alone, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    STRATEGY_ANNOTATION,
    SYNC_DELETION_POLICY_ANNOTATION,
    SYNC_GROUP,
    Kind,
    sync_name,
)
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusterresourcesync.reconciler import SYNC_INDEX, SyncBindings
from clusterstacks.operator.controllers.clusterresourcesync.set_reconciler import ResourceSetReconciler
from clusterstacks.runtime.cache import ObjectCache, key_of
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer
from tests.support.builders.manifests import named
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

SETS = Resource(RESOURCE_SET_GROUP, "v1beta1", RESOURCE_SET_KIND, "clusterresourcesets", namespaced=True)
BINDINGS = Resource(
    SYNC_GROUP, "v1alpha1", Kind.CLUSTER_RESOURCE_SYNC_BINDING, "clusterresourcesyncbindings", namespaced=True
)
CLUSTERS = Resource(CLUSTER_API_GROUP, "v1beta2", CLUSTER_KIND, "clusters", namespaced=True)
KEY = ObjectKey("team", "cni")
ANNOTATED = {STRATEGY_ANNOTATION: "Continuous"}


def resource_set(annotations: dict[str, str], **metadata: Any) -> Manifest:
    selector = {"matchLabels": {"cni": "yes"}}
    spec = {"clusterSelector": selector, "resources": [{"kind": "ConfigMap", "name": "cni"}]}
    manifest = named(f"{RESOURCE_SET_GROUP}/v1beta1", RESOURCE_SET_KIND, "cni", "team", spec=spec)
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations, **metadata}}


def binding() -> Manifest:
    name = binding_name(sync_name("cni"), "prod")
    spec = {"syncName": sync_name("cni"), "clusterName": "prod"}
    return named(SYNC_API_VERSION, Kind.CLUSTER_RESOURCE_SYNC_BINDING, name, "team", spec=spec)


async def reconciled(api: FakeApi, found: Manifest | None, **labels: str) -> dict[str, Any] | None:
    """Reconcile a set with one binding; return the annotations of the binding, None if it was deleted."""
    indexes = {SYNC_INDEX: lambda one: [f"team/{one['spec']['syncName']}"]}
    bindings = Informer(api, SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING, indexes=indexes)
    clusters, sets = ObjectCache(), ObjectCache()
    cluster = named(f"{CLUSTER_API_GROUP}/v1beta2", CLUSTER_KIND, "prod", "team", spec={})
    cluster["metadata"]["labels"] = labels
    for resource, cache, manifest in (
        (BINDINGS, bindings.cache, binding()),
        (CLUSTERS, clusters, cluster),
        (SETS, sets, found),
    ):
        if manifest is not None:
            made = await api.create(resource, manifest, "team")
            cache.put(key_of(made), made)
    kept = SyncBindings(client=api, clusters=clusters, informer=bindings, watch_filter="")
    await ResourceSetReconciler(client=api, sets=sets, bindings=kept, events=EventRecorder(api, "tests")).reconcile(KEY)
    left = api.objects(BINDINGS).get(key_of(binding()))
    return None if left is None else left["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    "found",
    [
        resource_set({**ANNOTATED, "cluster.x-k8s.io/paused": ""}),
        resource_set({"cluster.x-k8s.io/paused": ""}),
        resource_set({"clusterctl.cluster.x-k8s.io/delete-for-move": ""}),
        resource_set({STRATEGY_ANNOTATION: "Sometimes"}),
    ],
)
async def test_set_that_is_paused_moved_or_not_valid_is_left_alone(found: Manifest) -> None:
    assert await reconciled(FakeApi(SETS, BINDINGS, CLUSTERS), found) == {}


async def test_nothing_is_deleted_where_the_kind_is_not_served() -> None:
    assert await reconciled(FakeApi(BINDINGS, CLUSTERS), None) == {}


@pytest.mark.parametrize("found", [None, resource_set({}), resource_set(ANNOTATED)])
async def test_binding_goes_with_the_set_its_annotation_or_the_selection(found: Manifest | None) -> None:
    assert await reconciled(FakeApi(SETS, BINDINGS, CLUSTERS), found) is None


@pytest.mark.parametrize(("policy", "told"), [("Orphan", {}), ("Delete", {SYNC_DELETION_POLICY_ANNOTATION: "Delete"})])
async def test_binding_says_that_its_objects_are_deleted_with_it(policy: str, told: dict[str, str]) -> None:
    found = resource_set({**ANNOTATED, SYNC_DELETION_POLICY_ANNOTATION: policy})
    assert await reconciled(FakeApi(SETS, BINDINGS, CLUSTERS), found, cni="yes") == told
