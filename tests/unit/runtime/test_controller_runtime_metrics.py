from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clusterstacks.model.kinds.shards import MAIN_LEASE
from clusterstacks.runtime.controller_runtime_metrics import ALIASES
from clusterstacks.runtime.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics()
    controller = metrics.controller("clusteraddon")
    controller.succeeded.inc(5)
    controller.stalled.inc(2)
    controller.failed.inc(3)
    controller.bugs.inc()
    controller.seconds.observe(0.02)
    controller.busy.set(4)
    controller.watch_depth(lambda: 7)
    controller.max_concurrent.set(8)
    controller.note_queue(20, 3, 1.5)
    controller.note_queue(21, 3, 1.5)
    controller.queue_seconds.observe(0.3)
    controller.note_running(longest=9, together=11)
    metrics.count_webhook_response("Cluster", 200, 0.02)
    metrics.watch_webhook_requests(lambda: 2)
    metrics.count_request("workload", "PATCH", 200)
    metrics.count_decision("Cluster", "refused")
    metrics.count_decision("Cluster", "allowed")
    metrics.count_decision("Cluster", "failed")
    metrics.leader.set(1)
    return metrics


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('controller_runtime_reconcile_total{controller="clusteraddon",result="success"}', 7),
        ('controller_runtime_reconcile_total{controller="clusteraddon",result="error"}', 4),
        ('controller_runtime_reconcile_errors_total{controller="clusteraddon"}', 4),
        ('controller_runtime_reconcile_time_seconds_bucket{controller="clusteraddon",le="0.025"}', 1),
        ('controller_runtime_reconcile_time_seconds_count{controller="clusteraddon"}', 1),
        ('controller_runtime_active_workers{controller="clusteraddon"}', 4),
        ('controller_runtime_max_concurrent_reconciles{controller="clusteraddon"}', 8),
        ('controller_runtime_terminal_reconcile_errors_total{controller="clusteraddon"}', 2),
        ('controller_runtime_reconcile_panics_total{controller="clusteraddon"}', 1),
        ('controller_runtime_webhook_requests_total{code="200",webhook="Cluster"}', 2),
        ('controller_runtime_webhook_latency_seconds_bucket{le="0.025",webhook="Cluster"}', 1),
        ('controller_runtime_webhook_latency_seconds_count{webhook="Cluster"}', 1),
        ('controller_runtime_webhook_requests_in_flight{webhook="all"}', 2),
        ('controller_runtime_webhook_requests_total{code="500",webhook="Cluster"}', 1),
        ('workqueue_depth{controller="clusteraddon",name="clusteraddon"}', 7),
        ('workqueue_adds_total{controller="clusteraddon",name="clusteraddon"}', 21),
        ('workqueue_retries_total{controller="clusteraddon",name="clusteraddon"}', 3),
        ('workqueue_queue_duration_seconds_bucket{controller="clusteraddon",le="0.5",name="clusteraddon"}', 1),
        ('workqueue_unfinished_work_seconds{controller="clusteraddon",name="clusteraddon"}', 11),
        ('workqueue_longest_running_processor_seconds{controller="clusteraddon",name="clusteraddon"}', 9),
        ('workqueue_work_duration_seconds_count{controller="clusteraddon",name="clusteraddon"}', 1),
        ('rest_client_requests_total{code="200",host="workload",method="PATCH"}', 1),
        (f'leader_election_master_status{{name="{MAIN_LEASE}"}}', 1),
    ],
)
def test_drop_in_dashboards_of_go_operators_find_their_series(metrics: Metrics, line: str, value: float) -> None:
    assert f"{line} {float(value)}" in metrics.expose().decode().splitlines()


def test_prometheus_reads_each_alias_once_and_with_its_type(metrics: Metrics) -> None:
    families = [family.name for family in text_string_to_metric_families(metrics.expose().decode())]

    assert {alias.name for alias in ALIASES} <= set(families)
    assert len(set(families)) == len(families)
