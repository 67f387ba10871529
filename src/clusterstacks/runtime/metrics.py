"""Prometheus metrics of the operator.

No metric has a label per object, so the number of series does not grow with the number of clusters. The series of a
controller are created once and kept, because a lookup costs more than an increment.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.runtime.health import Health

# From a reconcile without changes to a delivery over a slow link (arbitrary).
RECONCILE_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2, 10, 60)
# From a small chart (3 ms) over cilium (130 ms) to the default deadline (60 s).
RENDER_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1, 5, 60)

CODES: Final = frozenset(HTTPStatus)

# From tasks of a busy loop to the timeout of a probe (arbitrary).
STALL_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1, 5, 30)


class Unready(NamedTuple):
    """Objects of one kind that are not ready: their number, and the Unix time since the oldest is not ready, or 0."""

    number: int
    since: float


class ControllerMetrics:
    """The series of one controller."""

    def __init__(self, metrics: Metrics, controller: str) -> None:
        self.succeeded = metrics.reconciles.labels(controller, "success")
        self.stalled = metrics.reconciles.labels(controller, "stalled")
        self.failed = metrics.reconciles.labels(controller, "error")
        self.bugs = metrics.reconciles.labels(controller, "bug")
        self.seconds = metrics.reconcile_seconds.labels(controller)
        self.busy = metrics.workers_busy.labels(controller)
        self._depth = metrics.queue_depth.labels(controller)
        self._stalled = metrics.stalled_objects.labels(controller)

    def watch_depth(self, depth: Callable[[], int]) -> None:
        """Call ``depth`` for the number of waiting keys at each scrape, from another thread."""
        self._depth.set_function(depth)

    def watch_stalled(self, count: Callable[[], int]) -> None:
        """Call ``count`` for the number of stalled objects at each scrape, from another thread."""
        self._stalled.set_function(count)


class Metrics:
    """All metrics of the process in their own registry, so that two operators in one test do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.reconciles = Counter(
            "clusterstacks_reconcile",
            "Reconciles by result: success, stalled (a person must act), error (of a dependency), bug (anything else).",
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
        self.stalled_objects = Gauge(
            "clusterstacks_stalled_objects",
            "Objects whose last reconcile ended stalled: a person must act.",
            ("controller",),
            registry=self.registry,
        )
        self.workers_busy = Gauge(
            "clusterstacks_workers_busy", "Workers in a reconcile.", ("controller",), registry=self.registry
        )
        self.leader = Gauge(
            "clusterstacks_leader",
            "1 while this process may write (it is the leader), otherwise 0.",
            registry=self.registry,
        )
        self._requests = Counter(
            "clusterstacks_api_requests",
            "Responses of API servers by target (management or workload clusters), HTTP method and status code.",
            ("target", "method", "code"),
            registry=self.registry,
        )
        self.render_seconds = Histogram(
            "clusterstacks_render_seconds", "Duration of chart renders.", buckets=RENDER_SECONDS, registry=self.registry
        )
        self._render_queue_depth = Gauge(
            "clusterstacks_render_queue_depth", "Renders waiting for a worker process.", registry=self.registry
        )
        self._render_oldest_wait = Gauge(
            "clusterstacks_render_oldest_wait_seconds",
            "Waiting time of the oldest waiting render.",
            registry=self.registry,
        )
        self._render_failures = Counter(
            "clusterstacks_render_failures",
            "Renders that were stopped: timeout (deadline), died (no worker, or it ended), busy (too long queued).",
            ("cause",),
            registry=self.registry,
        )
        self._applied = Counter(
            "clusterstacks_objects_applied",
            "Objects sent to a cluster by result: changed, unchanged, failed.",
            ("result",),
            registry=self.registry,
        )

        self._failing_since = Gauge(
            "clusterstacks_failing_since_timestamp_seconds",
            "Unix time of the first failure of a part since its last success; 0 while it works.",
            ("part",),
            registry=self.registry,
        )
        self._last_success = Gauge(
            "clusterstacks_last_success_timestamp_seconds",
            "Unix time of the last success of a part; 0 before the first.",
            ("part",),
            registry=self.registry,
        )
        self._unreadable = Gauge(
            "clusterstacks_unreadable_objects",
            "Objects that are nested too deeply or too large to be read, by kind; they are skipped.",
            ("kind",),
            registry=self.registry,
        )
        self._sources_failing = Gauge(
            "clusterstacks_sources_failing",
            "Release sources whose last listing failed.",
            registry=self.registry,
        )
        self._stalls = Histogram(
            "clusterstacks_loop_stall_seconds",
            "Duration of stalls of the event loop longer than 5 ms.",
            buckets=STALL_SECONDS,
            registry=self.registry,
        )
        self._longest_stall = Gauge(
            "clusterstacks_loop_longest_stall_seconds",
            "Longest stall of the event loop since the process started: wall time, and CPU time used during it.",
            ("clock",),
            registry=self.registry,
        )
        self._watch_objects()
        self._longest = dict.fromkeys(("wall", "cpu"), 0.0)

    def _watch_objects(self) -> None:
        self._build = Gauge(
            "clusterstacks_build_info", "Version of the operator; always 1.", ("version",), registry=self.registry
        )
        self._not_ready = Gauge(
            "clusterstacks_not_ready_objects",
            "Objects whose condition Ready is not True, by kind.",
            ("kind",),
            registry=self.registry,
        )
        self._not_ready_since = Gauge(
            "clusterstacks_not_ready_since_timestamp_seconds",
            "Unix time since which the oldest object of a kind that is not ready is not ready; 0 if all are ready.",
            ("kind",),
            registry=self.registry,
        )
        self._decisions = Counter(
            "clusterstacks_admission_decisions",
            "Responses of the webhooks by kind and decision: allowed, warned, refused, failed (no decision).",
            ("kind", "decision"),
            registry=self.registry,
        )
        self._certificate = Gauge(
            "clusterstacks_webhook_certificate_expiry_timestamp_seconds",
            "Unix time of the expiry of the webhook server certificate; 0 before there is one.",
            registry=self.registry,
        )
        self._source_success = Gauge(
            "clusterstacks_sources_oldest_success_timestamp_seconds",
            "Unix time of the oldest last successful listing of a source; NaN if no source is listed.",
            registry=self.registry,
        )

    def watch_not_ready(self, kind: str, unready: Callable[[], Unready]) -> None:
        """Call ``unready`` for the objects of a kind that are not ready at each scrape, from another thread."""
        self._not_ready.labels(kind).set_function(lambda: unready().number)
        self._not_ready_since.labels(kind).set_function(lambda: unready().since)

    def count_decision(self, kind: str, decision: str) -> None:
        """Count one response of the webhooks; ``kind`` is one that they are registered for."""
        self._decisions.labels(kind, decision).inc()

    def watch_certificate(self, expiry: Callable[[], float]) -> None:
        """Call ``expiry`` for the expiry of the webhook certificate at each scrape, from another thread."""
        self._certificate.set_function(expiry)

    def watch_source_age(self, success: Callable[[], float]) -> None:
        """Call ``success`` for the oldest last success of the sources at each scrape, from another thread."""
        self._source_success.set_function(success)

    def set_version(self, version: str) -> None:
        """Set the version of the operator."""
        self._build.labels(version).set(1)

    def watch_failing_sources(self, count: Callable[[], int]) -> None:
        """Call ``count`` for the number of failing sources at each scrape, from another thread."""
        self._sources_failing.set_function(count)

    def note_stall(self, wall: float, cpu: float) -> None:
        """Record the delay of a heartbeat of the event loop: wall time and CPU time in seconds."""
        if wall < STALL_SECONDS[0]:
            return
        self._stalls.observe(wall)
        for clock, seconds in (("wall", wall), ("cpu", cpu)):
            if seconds > self._longest[clock]:
                self._longest[clock] = seconds
                self._longest_stall.labels(clock).set(seconds)

    def watch_unreadable(self, kind: str, count: Callable[[], int]) -> None:
        """Call ``count`` for the number of unreadable objects at each scrape, from another thread."""
        self._unreadable.labels(kind).set_function(count)

    def watch_health(self, part: str, health: Health) -> None:
        """Export the health of a part; ``part`` is one of a few fixed names, never chosen by users."""
        self._failing_since.labels(part).set_function(lambda: health.failing_since)
        self._last_success.labels(part).set_function(lambda: health.last_success)

    def controller(self, name: str) -> ControllerMetrics:
        """Return the series of a controller; call it once and keep them."""
        return ControllerMetrics(self, name)

    def count_request(self, target: str, method: str, code: int) -> None:
        """Count one response of an API server; called by the client's pool.

        A workload cluster may return any code, so codes that HTTP does not define are counted together.
        """
        self._requests.labels(target, method, str(code) if code in CODES else "other").inc()

    def count_applied(self, *, changed: int = 0, unchanged: int = 0, failed: int = 0) -> None:
        """Count the objects of one delivery."""
        self._applied.labels("changed").inc(changed)
        self._applied.labels("unchanged").inc(unchanged)
        self._applied.labels("failed").inc(failed)

    def count_render_failure(self, cause: str) -> None:
        """Count a render that was stopped; ``cause`` is timeout, died or busy."""
        self._render_failures.labels(cause).inc()

    def watch_renders(self, waiting: Callable[[], int], oldest_wait: Callable[[], float]) -> None:
        """Call these for the number and the oldest wait of waiting renders at each scrape, from another thread."""
        self._render_queue_depth.set_function(waiting)
        self._render_oldest_wait.set_function(oldest_wait)

    def expose(self) -> bytes:
        """Return all series in the text format; blocks for milliseconds, so call it in a thread."""
        return generate_latest(self.registry)
