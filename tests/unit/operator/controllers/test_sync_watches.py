"""Syncs and bindings that the change of a Cluster enqueues."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION
from clusterstacks.model.kinds.names import Kind
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.operator.controllers.clusterresourcesync.registration import REGISTRATION, SyncWatches
from clusterstacks.runtime.cache import CacheChange, ObjectCache, key_of
from tests.support.builders.manifests import named

CLUSTERS = 200


def cluster(
    number: int = 7, *, namespace: str = "team", status: Any = None, spec: Any = None, **metadata: Any
) -> Manifest:
    made = named("cluster.x-k8s.io/v1beta2", "Cluster", f"c{number}", namespace, spec=spec or {}, status=status or {})
    made["metadata"] |= {"labels": {"one": f"c{number}"}, "generation": 1, **metadata}
    return made


def watches() -> SyncWatches:
    """Return the watches of 200 Clusters with one sync each, one sync of all of them, and a broken one."""
    (indexes,) = (one.indexes for one in REGISTRATION.caches if one.kind == Kind.CLUSTER_RESOURCE_SYNC_BINDING)
    syncs, bindings = ObjectCache(), ObjectCache(indexes)
    selectors: dict[str, Any] = {f"s{number}": {"matchLabels": {"one": f"c{number}"}} for number in range(CLUSTERS)}
    for name, selector in {**selectors, "all": {}, "broken": {"matchLabels": 1}}.items():
        for namespace in ("team", "other"):
            resources = [{"kind": "ConfigMap", "name": "objects"}]
            spec = {"clusterSelector": selector, "resources": resources}
            syncs.put(
                ObjectKey(namespace, name), named(SYNC_API_VERSION, "ClusterResourceSync", name, namespace, spec=spec)
            )
    for number in range(CLUSTERS):
        for sync in (f"s{number}", "all"):
            spec = {"syncName": sync, "clusterName": f"c{number}"}
            binding = named(SYNC_API_VERSION, "ClusterResourceSyncBinding", f"{sync}.c{number}", "team", spec=spec)
            bindings.put(key_of(binding), binding)
    return SyncWatches(syncs, bindings, "")


def enqueued(old: Manifest | None, new: Manifest | None) -> tuple[set[str], set[str]]:
    """Return the names of syncs and bindings that a change enqueues."""
    change, of_fleet = CacheChange(key_of(new or old or {}), old, new), watches()
    syncs, bindings = list(of_fleet.syncs_of_cluster(change)), list(of_fleet.bindings_of_cluster(change))
    assert {key.namespace for key in (*syncs, *bindings)} <= {"team"}
    return {key.name for key in syncs}, {key.name for key in bindings}


SELECTING, BOUND = {"s7", "all"}, {"s7.c7", "all.c7"}
INITIALIZED: dict[str, Any] = {"initialization": {"controlPlaneInitialized": True}}


@pytest.mark.parametrize(
    ("old", "new", "syncs", "bindings"),
    [
        pytest.param(cluster(), cluster(status={"phase": "Provisioned"}), set(), set(), id="other status"),
        pytest.param(cluster(), cluster(resourceVersion="2", managedFields=[]), set(), set(), id="no change"),
        pytest.param(cluster(), cluster(status=INITIALIZED), set(), BOUND, id="available"),
        pytest.param(cluster(), cluster(spec={"paused": True}), set(), BOUND, id="paused"),
        pytest.param(cluster(), cluster(generation=2), set(), BOUND, id="other spec"),
        pytest.param(cluster(), cluster(annotations={"a": "b"}), set(), BOUND, id="annotation"),
        pytest.param(cluster(), cluster(labels={"one": "c8"}), {"s7", "s8", "all"}, BOUND, id="other label"),
        pytest.param(cluster(), cluster(labels={}), SELECTING, BOUND, id="no label"),
        pytest.param(cluster(), cluster(deletionTimestamp="now"), SELECTING, set(), id="being deleted"),
        pytest.param(None, cluster(), SELECTING, BOUND, id="new"),
        pytest.param(cluster(), None, SELECTING, BOUND, id="gone"),
    ],
)
def test_change_of_a_cluster_enqueues_what_it_concerns(
    old: Manifest | None, new: Manifest | None, syncs: set[str], bindings: set[str]
) -> None:
    assert enqueued(old, new) == (syncs, bindings)
