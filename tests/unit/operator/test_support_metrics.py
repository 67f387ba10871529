"""Metrics about the support of the Kubernetes minors in use."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from clusterstacks.operator.support_metrics import clusters_by_minor, support_days
from clusterstacks.runtime.metrics import Metrics

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest


def cluster(version: str, *running: str, of: str = "p-s-1-34-v1") -> Manifest:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team"},
        "spec": {"topology": {"classRef": {"name": of}, "version": version}},
        "status": {"controlPlane": {"versions": [{"version": each} for each in running]}},
    }


def test_clusters_are_counted_by_known_minors_and_users_add_no_series() -> None:
    clusters = [
        cluster("v1.35.4"),
        cluster("v1.35.4", "v1.34.2", "v1.35.4"),
        cluster("v1.34.9"),
        *(cluster(f"v1.{minor}.0") for minor in range(900, 1000)),
        cluster("latest"),
        cluster("v1.34.9", of="mine"),
    ]
    assert clusters_by_minor(clusters) == {"1.35": 1, "1.34": 2, "other": 100}


def test_a_minor_that_nobody_uses_any_more_has_no_series() -> None:
    metrics, in_use = Metrics(), {"1.34": 2, "other": 1}
    metrics.watch_support(lambda: in_use, lambda minor: support_days(minor, date(2026, 11, 6)))

    metrics.measure()
    value = metrics.registry.get_sample_value
    assert value("clusterstacks_kubernetes_support_days", {"minor": "1.34"}) == -10
    assert value("clusterstacks_kubernetes_support_days", {"minor": "other"}) is None
    assert value("clusterstacks_kubernetes_clusters", {"minor": "1.34"}) == 2
    del in_use["1.34"]
    metrics.measure()
    assert value("clusterstacks_kubernetes_support_days", {"minor": "1.34"}) is None
