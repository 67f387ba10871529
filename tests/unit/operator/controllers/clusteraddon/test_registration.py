"""Objects that a change enqueues."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.operator.controllers.clusteraddon.registration import ClusterWatches, addons_of, concerns_addons
from clusterstacks.runtime.cache import CacheChange, ObjectCache


def cluster(*conditions: Manifest, version: str = "v1.35.4", **metadata: Any) -> Manifest:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team", "resourceVersion": "1", **metadata},
        "spec": {"topology": {"classRef": {"name": "local-demo-1-35-v1"}, "version": version}},
        "status": {"conditions": list(conditions)},
    }


def changed(old: Manifest, new: Manifest) -> bool:
    return concerns_addons(CacheChange(ObjectKey("team", "one"), old, new))


def test_change_of_our_own_cluster_condition_enqueues_nothing() -> None:
    told = {"type": "ClusterStackAddonsReady", "status": "False", "reason": "X", "message": "at 12:00:01"}
    gated = {"type": "Available", "status": "False", "message": "ClusterStackAddonsReady: at 12:00:01"}

    assert not changed(cluster(), cluster(told, gated, resourceVersion="2"))


@pytest.mark.parametrize(
    "new",
    [
        cluster(version="v1.35.5"),
        cluster(labels={"cni": "own"}),
        cluster(annotations={"cluster.x-k8s.io/paused": ""}),
        cluster(deletionTimestamp="2026-11-21T12:00:00Z"),
        cluster({"type": "TopologyReconciled", "status": "True"}),
        cluster({"type": "ControlPlaneInitialized", "status": "True"}),
    ],
)
def test_relevant_change_of_a_cluster_enqueues_its_addons(new: Manifest) -> None:
    assert changed(cluster(), new)


def rule(generation: int = 1, **spec: Any) -> Manifest:
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "CompatibilityRule",
        "metadata": {"name": "no-cilium", "generation": generation},
        "spec": {"severity": "Deny", "message": "cilium leaks", **spec},
    }


OF_OTHERS: dict[str, Any] = {"stacks": [{"name": "other"}]}
OF_GPU: dict[str, Any] = {"clusters": {"matchLabels": {"gpu": "yes"}}}
BROKEN: dict[str, Any] = {"clusters": {"matchLabels": 1}}


@pytest.mark.parametrize(
    ("old", "new", "enqueued"),
    [
        (None, rule(), ["one", "two"]),
        (rule(), None, ["one", "two"]),
        (rule(), rule(), []),
        (None, rule(**OF_OTHERS), []),
        (None, rule(**OF_GPU), ["two"]),
        (rule(**OF_GPU), rule(2, **OF_OTHERS), ["two"]),
        (rule(**OF_GPU), rule(2, **BROKEN), ["two"]),
        (None, rule(expires="2020-01-01T00:00:00Z"), ["one", "two"]),
    ],
)
def test_changed_rule_enqueues_addons_of_clusters_selected_before_or_after(
    old: Manifest | None, new: Manifest | None, enqueued: list[str]
) -> None:
    clusters = ObjectCache()
    for name, labels in (("one", {}), ("two", {"gpu": "yes"})):
        clusters.put(ObjectKey("team", name), cluster(name=name, labels=labels))
    foreign = cluster(name="foreign")
    foreign["spec"]["topology"] = {"classRef": {"name": "hand-made"}}
    clusters.put(ObjectKey("team", "foreign"), foreign)
    to_keys = addons_of(ClusterWatches(clusters, watch_filter="").of_rule)

    found = list(to_keys(CacheChange(ObjectKey("", "no-cilium"), old, new)))

    assert sorted(key.name for key in found) == [f"cluster-addon-{name}" for name in enqueued]


def plane(cluster: str = "one", **parts: Any) -> Manifest:
    labels = {"cluster.x-k8s.io/cluster-name": cluster}
    return {"kind": "Plane", "metadata": {"name": "plane", "namespace": "team", "labels": labels}, **parts}


@pytest.mark.parametrize(
    ("old", "new", "enqueued"),
    [
        (plane(), plane(status={"version": "v1.35.4"}), ["one"]),
        (plane(), plane(status={"conditions": [{"type": "Ready"}]}), []),
        (None, plane(), ["one"]),
        (plane(), None, ["one"]),
        (None, plane("gone"), []),
        (None, plane("of-another-operator"), []),
        (None, {"metadata": {"name": "without-label", "namespace": "team"}}, []),
    ],
)
def test_changed_control_plane_enqueues_the_addons_of_its_cluster_if_they_may_depend_on_it(
    old: Manifest | None, new: Manifest | None, enqueued: list[str]
) -> None:
    clusters = ObjectCache()
    for name, operator in (("one", "mine"), ("of-another-operator", "theirs")):
        labels = {"cluster.x-k8s.io/watch-filter": operator}
        clusters.put(ObjectKey("team", name), cluster(name=name, labels=labels))
    watches = ClusterWatches(clusters, "mine")

    found = watches.of_referenced(CacheChange(ObjectKey("team", "plane"), old, new))

    assert [key.name for key in found] == enqueued
