"""What wakes whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.operator.event_handlers import EventHandlers, concerns_addons
from clusterstacks.runtime.cache import CacheChange, Store
from clusterstacks.runtime.controller import ReconcilerHost
from clusterstacks.runtime.metrics import Metrics

if TYPE_CHECKING:
    from datetime import timedelta


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


def test_our_own_condition_wakes_nobody_however_its_message_changes() -> None:
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
def test_what_decides_something_wakes(new: Manifest) -> None:
    assert changed(cluster(), new)


async def nothing(_: ObjectKey) -> timedelta | None:
    return None


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
    ("old", "new", "woken"),
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
async def test_a_rule_wakes_the_clusters_it_was_or_is_for(
    old: Manifest | None, new: Manifest | None, woken: list[str]
) -> None:
    hosts = [ReconcilerHost(name, nothing, workers=1, metrics=Metrics()) for name in ("s", "r", "c", "addon")]
    clusters = Store()
    for name, labels in (("one", {}), ("two", {"gpu": "yes"})):
        clusters.put(ObjectKey("team", name), cluster(name=name, labels=labels))
    foreign = cluster(name="foreign")
    foreign["spec"]["topology"] = {"classRef": {"name": "hand-made"}}
    clusters.put(ObjectKey("team", "foreign"), foreign)
    wakers = EventHandlers(
        watch_filter="",
        stack_host=hosts[0],
        release_host=hosts[1],
        creator_host=hosts[2],
        addon_host=hosts[3],
        stacks=Store(),
        releases=Store(),
        clusters=clusters,
    )

    wakers.rule_changed(CacheChange(ObjectKey("", "no-cilium"), old, new))

    assert [len(host.queue) for host in hosts] == [0, 0, 0, len(woken)]
    found = [await hosts[3].queue.get() for _ in woken]
    assert sorted(key.name for key in found) == [f"cluster-addon-{name}" for name in woken]
