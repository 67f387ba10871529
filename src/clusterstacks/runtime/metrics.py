"""What the operator counts about itself, for Prometheus.

No metric has a label per object: the number of series does not grow with the number of clusters. The series of a
controller are made once and kept, because looking one up costs more than counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

# From a reconcile that finds nothing to do to a delivery over a slow link (arbitrary).
RECONCILE_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2, 10, 60)
# From a small chart (3 ms) over cilium (130 ms) to the default deadline (60 s); DEPENDENCIES section 5.
RENDER_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1, 5, 60)


class ControllerMetrics:
    """The series of one controller."""

    def __init__(self, metrics: Metrics, controller: str) -> None:
        self.succeeded = metrics.reconciles.labels(controller, "success")
        self.failed = metrics.reconciles.labels(controller, "error")
        self.bugs = metrics.reconciles.labels(controller, "bug")
        self.seconds = metrics.reconcile_seconds.labels(controller)
        self.busy = metrics.workers_busy.labels(controller)
        self._depth = metrics.queue_depth.labels(controller)

    def watch_depth(self, depth: Callable[[], int]) -> None:
        """Ask ``depth`` for the number of waiting keys at each scrape; called from another thread."""
        self._depth.set_function(depth)


class Metrics:
    """All series of the process in a registry of their own, so that two operators in one test do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.reconciles = Counter(
            "clusterstacks_reconcile",
            "Reconciles by result: success, error (a dependency failed), bug (anything unexpected).",
            ("controller", "result"),
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "clusterstacks_reconcile_seconds",
            "Duration of reconciles.",
            ("controller",),
            buckets=RECONCILE_SECONDS,
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "clusterstacks_queue_depth", "Keys waiting for a worker.", ("controller",), registry=self.registry
        )
        self.workers_busy = Gauge(
            "clusterstacks_workers_busy", "Workers in a reconcile.", ("controller",), registry=self.registry
        )
        self.leader = Gauge(
            "clusterstacks_leader", "1 while this process may write, 0 while another one does.", registry=self.registry
        )
        self._requests = Counter(
            "clusterstacks_api_requests",
            "Answers of API servers by HTTP method and status code.",
            ("method", "code"),
            registry=self.registry,
        )
        self.render_seconds = Histogram(
            "clusterstacks_render_seconds", "Duration of chart renders.", buckets=RENDER_SECONDS, registry=self.registry
        )
        self._applied = Counter(
            "clusterstacks_objects_applied",
            "Objects sent to a cluster by result: changed, unchanged, failed.",
            ("result",),
            registry=self.registry,
        )

    def controller(self, name: str) -> ControllerMetrics:
        """Return the series of the controller; call once and keep them."""
        return ControllerMetrics(self, name)

    def count_request(self, method: str, code: int) -> None:
        """Count one answer of an API server; the client's pool calls it."""
        self._requests.labels(method, str(code)).inc()

    def count_applied(self, *, changed: int = 0, unchanged: int = 0, failed: int = 0) -> None:
        """Count the objects of one delivery."""
        self._applied.labels("changed").inc(changed)
        self._applied.labels("unchanged").inc(unchanged)
        self._applied.labels("failed").inc(failed)

    def expose(self) -> bytes:
        """Return all series in the text format; blocks for milliseconds, so call it in a thread."""
        return generate_latest(self.registry)
