"""Builds the Grafana dashboard from a table of panels: ``make manifests`` writes it.

A test runs every query against a Prometheus that scrapes a live operator, and none may be empty.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

JOB: Final = '{job=~"$job"}'
COLUMNS: Final = 24
"""Width of a dashboard in Grafana."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the dashboard.

    Args:
        title: What it shows.
        query: PromQL; every selector has ``JOB``.
        legend: Template of the names of series.
        unit: Unit of Grafana.
        width: In columns.
        form: Grafana's type of panel.
    """

    title: str
    query: str
    legend: str = ""
    unit: str = "short"
    width: int = 8
    form: str = "timeseries"

    def document(self, number: int, column: int, row: int) -> dict[str, Any]:
        """Return the panel at a place as Grafana stores it."""
        instant = self.form != "timeseries"
        target = {
            "refId": "A",
            "datasource": {"type": "prometheus", "uid": "$datasource"},
            "expr": self.query,
            "legendFormat": self.legend or "__auto",
            "instant": instant,
            "range": not instant,
            **({"format": "table"} if self.form == "table" else {}),
        }
        return {
            "id": number,
            "type": self.form,
            "title": self.title,
            "datasource": {"type": "prometheus", "uid": "$datasource"},
            "gridPos": {"x": column, "y": row, "w": self.width, "h": 4 if self.form == "stat" else 8},
            "fieldConfig": {"defaults": {"unit": self.unit, **({} if instant else {"min": 0})}, "overrides": []},
            "targets": [target],
        }


def _rate(metric: str, labels: str) -> str:
    return f"sum by ({labels}) (rate({metric}{JOB}[$__rate_interval]))"


def _p99(metric: str, labels: str = "") -> str:
    by = f"le, {labels}" if labels else "le"
    return f"histogram_quantile(0.99, sum by ({by}) (rate({metric}_bucket{JOB}[$__rate_interval])))"


def _stat(title: str, query: str, unit: str = "short") -> Panel:
    return Panel(title, query, unit=unit, width=4, form="stat")


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Overview": (
        _stat("Replicas", f"count(clusterstacks_build_info{JOB})"),
        _stat("Leaders", f"sum(clusterstacks_leader{JOB})"),
        _stat("Failing readiness checks", f"sum(clusterstacks_readiness_check_failing{JOB})"),
        _stat("Objects that are not ready", f"sum(max by (kind) (clusterstacks_not_ready_objects{JOB}))"),
        _stat("Failing sources", f"max(clusterstacks_sources_failing{JOB})"),
        _stat(
            "Webhook certificate expires in",
            f"min(clusterstacks_webhook_certificate_expiry_timestamp_seconds{JOB} > 0) - time()",
            "s",
        ),
        Panel(
            "Problems of objects by age",
            "sort_desc(time() - max by (kind, object_namespace, object_name, problem, reason) "
            f"(clusterstacks_object_problem_since_timestamp_seconds{JOB}))",
            unit="s",
            width=16,
            form="table",
        ),
        Panel(
            "Versions",
            f"count by (version) (clusterstacks_build_info{JOB})",
            form="table",
        ),
    ),
    "Objects": (
        Panel(
            "Objects with a problem",
            f"max by (kind, problem, reason) (clusterstacks_object_problems{JOB})",
            "{{kind}} {{problem}}: {{reason}}",
        ),
        Panel(
            "Objects that need a change by a person",
            f"max by (controller) (clusterstacks_stalled_objects{JOB})",
            "{{controller}}",
        ),
        Panel("Unreadable objects", f"max by (kind) (clusterstacks_unreadable_objects{JOB})", "{{kind}}"),
    ),
    "Reconciles": (
        Panel(
            "Reconciles",
            _rate("clusterstacks_reconcile_total", "controller, result"),
            "{{controller}} {{result}}",
            "ops",
        ),
        Panel("Duration (99 %)", _p99("clusterstacks_reconcile_seconds", "controller"), "{{controller}}", "s"),
        Panel(
            "Busy workers",
            f"sum by (controller) (clusterstacks_workers_busy{JOB}) "
            f"/ sum by (controller) (clusterstacks_max_concurrent_reconciles{JOB})",
            "{{controller}}",
            "percentunit",
        ),
        Panel("Queue", f"sum by (controller) (clusterstacks_queue_depth{JOB})", "{{controller}}"),
        Panel(
            "Wait for a worker (99 %)", _p99("clusterstacks_queue_wait_seconds", "controller"), "{{controller}}", "s"
        ),
        Panel("Retries", _rate("clusterstacks_queue_retried_total", "controller"), "{{controller}}", "ops"),
        Panel(
            "Longest running reconcile",
            f"max by (controller) (clusterstacks_longest_running_reconcile_seconds{JOB})",
            "{{controller}}",
            "s",
        ),
    ),
    "Deliveries": (
        Panel("Objects applied", _rate("clusterstacks_objects_applied_total", "result"), "{{result}}", "ops"),
        Panel("Drifted objects", _rate("clusterstacks_drifted_objects_total", "result"), "{{result}}", "ops"),
        Panel("Duration of renders (99 %)", _p99("clusterstacks_render_seconds"), "renders", "s"),
        Panel("Waiting renders", f"sum(clusterstacks_render_queue_depth{JOB})", "renders"),
        Panel("Stopped renders", _rate("clusterstacks_render_failures_total", "cause"), "{{cause}}", "ops"),
        Panel(
            "Age of the oldest listing of a source",
            f"time() - min(clusterstacks_sources_oldest_success_timestamp_seconds{JOB})",
            "age",
            "s",
        ),
    ),
    "API servers": (
        Panel(
            "Requests",
            _rate("clusterstacks_api_requests_total", "target, method"),
            "{{target}} {{method}}",
            "reqps",
        ),
        Panel(
            "Responses with an error",
            'sum by (target, code) (rate(clusterstacks_api_requests_total{job=~"$job", code!~"2.."}'
            "[$__rate_interval]))",
            "{{target}} {{code}}",
            "reqps",
        ),
        Panel(
            "Time since the last answer",
            f"time() - min by (part) (clusterstacks_last_success_timestamp_seconds{JOB} > 0)",
            "{{part}}",
            "s",
        ),
    ),
    "Webhooks": (
        Panel(
            "Decisions",
            _rate("clusterstacks_admission_decisions_total", "kind, decision"),
            "{{kind}} {{decision}}",
            "reqps",
        ),
        Panel("Responses", _rate("clusterstacks_webhook_responses_total", "code"), "{{code}}", "reqps"),
        Panel("Duration (99 %)", _p99("clusterstacks_webhook_seconds", "kind"), "{{kind}}", "s"),
    ),
    "Process": (
        Panel("Memory", f"process_resident_memory_bytes{JOB}", "{{instance}}", "bytes"),
        Panel("CPU", f"rate(process_cpu_seconds_total{JOB}[$__rate_interval])", "{{instance}}"),
        Panel("Open files", f"process_open_fds{JOB} / process_max_fds{JOB}", "{{instance}}", "percentunit"),
    ),
}
"""The panels by row of the dashboard."""


def text() -> str:
    """Return the dashboard as Grafana imports it."""
    return json.dumps(_document(), indent=1) + "\n"


def _document() -> dict[str, Any]:
    return {
        "uid": "cluster-stack-operator",
        "title": "Cluster Stacks operator",
        "tags": ["cluster-api", "cluster-stacks"],
        "schemaVersion": 38,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_data_source(), _job()]},
        "panels": _panels(),
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _job() -> dict[str, Any]:
    query = "label_values(clusterstacks_build_info, job)"
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "definition": query,
        "query": {"query": query, "refId": "job"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panels() -> list[dict[str, Any]]:
    """Place the panels from left to right below the title of their row."""
    placed: list[dict[str, Any]] = []
    top = 0
    for title, panels in ROWS.items():
        heading = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        placed.append({"id": len(placed) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": heading})
        top, column, height = top + 1, 0, 0
        for panel in panels:
            if column + panel.width > COLUMNS:
                top, column, height = top + height, 0, 0
            document = panel.document(len(placed) + 1, column, top)
            placed.append(document)
            column += panel.width
            height = max(height, document["gridPos"]["h"])
        top += height
    return placed
