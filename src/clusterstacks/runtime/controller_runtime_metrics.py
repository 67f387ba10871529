"""Serves the operator's metrics also under the names of controller-runtime and client-go.

Dashboards and alerts for Go operators work with them. The series are computed at each scrape, so nothing is counted
twice. Source of names and labels: controller-runtime's pkg/internal/controller/metrics, pkg/metrics and
pkg/webhook/internal/metrics.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Labels = Mapping[str, str]

_FAILED: Final = frozenset({"error", "bug"})
"""Results of a reconcile that controller-runtime counts as errors."""


@dataclass(frozen=True, slots=True)
class Alias:
    """One of our metrics under another name; both names are without the suffixes of the series."""

    source: str
    name: str
    labels: Callable[[Labels], Labels | None]
    """Returns the other labels; None leaves a series out. Series with equal labels are added up."""


def _reconcile(labels: Labels) -> Labels:
    return {"controller": labels["controller"], "result": "error" if labels["result"] in _FAILED else "success"}


def _reconcile_error(labels: Labels) -> Labels | None:
    return {"controller": labels["controller"]} if labels["result"] in _FAILED else None


def _with_result(result: str) -> Callable[[Labels], Labels | None]:
    return lambda labels: {"controller": labels["controller"]} if labels["result"] == result else None


def _queue(labels: Labels) -> Labels:
    return {"name": labels["controller"], **labels}


def _request(labels: Labels) -> Labels:
    return {"host": labels["target"], "method": labels["method"], "code": labels["code"]}


def _webhook(labels: Labels) -> Labels:
    return {"webhook": labels["kind"], **{name: value for name, value in labels.items() if name == "le"}}


def _review(labels: Labels) -> Labels:
    return {"webhook": labels["kind"], "code": "500" if labels["decision"] == "failed" else "200"}


ALIASES: Final = (
    Alias("clusterstacks_reconcile", "controller_runtime_reconcile", _reconcile),
    Alias("clusterstacks_reconcile", "controller_runtime_reconcile_errors", _reconcile_error),
    Alias("clusterstacks_reconcile", "controller_runtime_terminal_reconcile_errors", _with_result("stalled")),
    Alias("clusterstacks_reconcile", "controller_runtime_reconcile_panics", _with_result("bug")),
    Alias("clusterstacks_reconcile_seconds", "controller_runtime_reconcile_time_seconds", dict),
    Alias("clusterstacks_workers_busy", "controller_runtime_active_workers", dict),
    Alias("clusterstacks_max_concurrent_reconciles", "controller_runtime_max_concurrent_reconciles", dict),
    Alias("clusterstacks_admission_decisions", "controller_runtime_webhook_requests", _review),
    Alias("clusterstacks_webhook_seconds", "controller_runtime_webhook_latency_seconds", _webhook),
    Alias(
        "clusterstacks_webhook_requests_in_flight",
        "controller_runtime_webhook_requests_in_flight",
        lambda _: {"webhook": "all"},
    ),
    Alias("clusterstacks_queue_depth", "workqueue_depth", _queue),
    Alias("clusterstacks_queue_added", "workqueue_adds", _queue),
    Alias("clusterstacks_queue_retried", "workqueue_retries", _queue),
    Alias("clusterstacks_queue_wait_seconds", "workqueue_queue_duration_seconds", _queue),
    Alias("clusterstacks_running_reconciles_seconds", "workqueue_unfinished_work_seconds", _queue),
    Alias("clusterstacks_longest_running_reconcile_seconds", "workqueue_longest_running_processor_seconds", _queue),
    Alias("clusterstacks_reconcile_seconds", "workqueue_work_duration_seconds", _queue),
    Alias("clusterstacks_api_requests", "rest_client_requests", _request),
    Alias("clusterstacks_leader", "leader_election_master_status", lambda _: {"name": "clusterstack.x-k8s.io"}),
)
"""All aliases; the metrics of controller-runtime that are not here have no counterpart."""


class ControllerRuntimeMetrics(Collector):
    """Collects the metrics of ``sources`` under the names in ``ALIASES``."""

    def __init__(self, *sources: Collector) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Return the aliases of those metrics that ``sources`` have."""
        metrics = {metric.name: metric for source in self._sources for metric in source.collect()}
        return (_renamed(metrics[alias.source], alias) for alias in ALIASES if alias.source in metrics)


def _renamed(metric: Metric, alias: Alias) -> Metric:
    renamed = Metric(alias.name, metric.documentation, metric.type)
    for (suffix, labels), value in _sums(metric, alias):
        renamed.add_sample(f"{alias.name}{suffix}", dict(labels), value)
    return renamed


def _sums(metric: Metric, alias: Alias) -> Iterable[tuple[tuple[str, tuple[tuple[str, str], ...]], float]]:
    """Return the sum of the values for each suffix and labels, in the order of the samples."""
    values: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
    for sample in metric.samples:
        suffix = sample.name.removeprefix(metric.name)
        labels = alias.labels(sample.labels)
        if labels is not None and suffix != "_created":
            values[suffix, tuple(labels.items())] += sample.value
    return values.items()
