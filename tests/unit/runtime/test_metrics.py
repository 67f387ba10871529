from __future__ import annotations

from http import HTTPStatus

import pytest

from clusterstacks.runtime.metrics import Metrics


def test_everything_counted_is_exposed_as_text() -> None:
    metrics = Metrics()
    metrics.count_request("workload", "PATCH", 200)
    metrics.count_request("workload", "PATCH", 200)
    metrics.count_applied(changed=2, unchanged=3, failed=1)
    metrics.render_seconds.observe(0.2)
    metrics.controller("clusteraddon").succeeded.inc()
    text = metrics.expose().decode()

    assert 'clusterstacks_api_requests_total{code="200",method="PATCH",target="workload"} 2.0' in text
    assert 'clusterstacks_objects_applied_total{result="unchanged"} 3.0' in text
    assert 'clusterstacks_render_seconds_bucket{le="0.25"} 1.0' in text
    assert 'clusterstacks_reconcile_total{controller="clusteraddon",result="success"} 1.0' in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.regression("LIVE-M1")
def test_codes_that_http_does_not_define_are_one_series() -> None:
    metrics = Metrics()
    for code in range(1000):
        metrics.count_request("workload", "GET", code)
    series = [line for line in metrics.expose().decode().splitlines() if "api_requests_total{" in line]

    assert len(series) == len(HTTPStatus) + 1
    other = len(range(1000)) - len(HTTPStatus)
    assert f'clusterstacks_api_requests_total{{code="other",method="GET",target="workload"}} {other}.0' in series


@pytest.mark.regression("LIVE-M1")
def test_metrics_of_the_process_support_alerts() -> None:
    metrics = Metrics()
    metrics.set_version("1.2.3")
    metrics.count_decision("Cluster", "refused")
    metrics.watch_certificate(lambda: 1800000000.0)
    metrics.watch_source_age(lambda: 1600000000.0)
    metrics.controller("clusteraddon").watch_stalled(lambda: 3)
    lines = metrics.expose().decode().splitlines()

    assert 'clusterstacks_build_info{shard="",version="1.2.3"} 1.0' in lines
    assert 'clusterstacks_admission_decisions_total{decision="refused",kind="Cluster"} 1.0' in lines
    assert "clusterstacks_webhook_certificate_expiry_timestamp_seconds 1.8e+09" in lines
    assert "clusterstacks_sources_oldest_success_timestamp_seconds 1.6e+09" in lines
    assert 'clusterstacks_stalled_objects{controller="clusteraddon"} 3.0' in lines


def test_known_results_are_exposed_before_the_first_one() -> None:
    lines = Metrics().expose().decode().splitlines()

    for series in (
        'clusterstacks_objects_applied_total{result="failed"}',
        'clusterstacks_drifted_objects_total{result="found"}',
        'clusterstacks_render_failures_total{cause="timeout"}',
        'clusterstacks_webhook_responses_total{code="503"}',
    ):
        assert f"{series} 0.0" in lines


def test_readiness_checks_are_measured_before_a_scrape() -> None:
    metrics = Metrics()
    failing = {"releases": True, "render workers": False}
    metrics.watch_checks(lambda: failing)
    metrics.measure()
    text = metrics.expose().decode()

    assert 'clusterstacks_readiness_check_failing{check="releases"} 1.0' in text
    assert 'clusterstacks_readiness_check_failing{check="render workers"} 0.0' in text


def test_two_processes_in_one_test_do_not_mix() -> None:
    one, other = Metrics(), Metrics()
    one.count_request("management", "GET", 200)

    assert b'method="GET"' not in other.expose()


def test_no_series_is_made_per_object() -> None:
    metrics = Metrics()
    ours = [metric for metric in metrics.registry.collect() if metric.name.startswith("clusterstacks_")]
    labels = {name for metric in ours for sample in metric.samples for name in sample.labels}

    few = {"controller", "result", "method", "code", "le", "part", "kind", "clock", "version", "decision", "cause"}
    assert labels <= few
