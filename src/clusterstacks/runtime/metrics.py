"""What the operator counts about itself, for Prometheus.

No metric has a label per object: the number of series does not grow with the number of clusters. The series of a
controller are made once and kept, because looking one up costs more than counting.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.runtime.health import Health

# From a reconcile that finds nothing to do to a delivery over a slow link (arbitrary).
RECONCILE_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2, 10, 60)
# From a small chart (3 ms) over cilium (130 ms) to the default deadline (60 s); DEPENDENCIES section 5.
RENDER_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1, 5, 60)

CODES: Final = frozenset(HTTPStatus)

# From what tasks of a busy loop take to what a probe gives up at (arbitrary).
STALL_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1, 5, 30)


class Unready(NamedTuple):
    """Objects of one kind that are not ready: how many, and since when the first (Unix time; 0 when all are ready)."""

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
        """Ask ``depth`` for the number of waiting keys at each scrape; called from another thread."""
        self._depth.set_function(depth)

    def watch_stalled(self, count: Callable[[], int]) -> None:
        """Ask ``count`` for the number of stalled objects at each scrape; called from another thread."""
        self._stalled.set_function(count)


class Metrics:
    """All series of the process in a registry of their own, so that two operators in one test do not mix."""

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
            "clusterstacks_leader", "1 while this process may write, 0 while another one does.", registry=self.registry
        )
        self._requests = Counter(
            "clusterstacks_api_requests",
            "Answers of API servers by target (management or workload clusters), HTTP method and status code.",
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
            "Time the oldest of the waiting renders has waited.",
            registry=self.registry,
        )
        self._render_failures = Counter(
            "clusterstacks_render_failures",
            "Renders that were stopped: timeout (deadline), died (no worker, or it ended), busy (too long in line).",
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
            "Since when every attempt of a part has failed (Unix time); 0 while it works.",
            ("part",),
            registry=self.registry,
        )
        self._last_success = Gauge(
            "clusterstacks_last_success_timestamp_seconds",
            "When a part last succeeded (Unix time); 0 before its first success.",
            ("part",),
            registry=self.registry,
        )
        self._unreadable = Gauge(
            "clusterstacks_unreadable_objects",
            "Objects that are nested too deep or too large to be read, by kind; each is skipped.",
            ("kind",),
            registry=self.registry,
        )
        self._sources_failing = Gauge(
            "clusterstacks_sources_failing",
            "Sources of releases that could not be listed the last time.",
            registry=self.registry,
        )
        self._stalls = Histogram(
            "clusterstacks_loop_stall_seconds",
            "Stalls of the event loop, of those that last for more than 5 ms.",
            buckets=STALL_SECONDS,
            registry=self.registry,
        )
        self._longest_stall = Gauge(
            "clusterstacks_loop_longest_stall_seconds",
            "Longest stall of the event loop since the process began: by the wall clock, and the CPU time used in it.",
            ("clock",),
            registry=self.registry,
        )
        self._watch_objects()
        self._longest = dict.fromkeys(("wall", "cpu"), 0.0)

    def _watch_objects(self) -> None:
        self._build = Gauge(
            "clusterstacks_build_info", "1, with the version of the operator.", ("version",), registry=self.registry
        )
        self._not_ready = Gauge(
            "clusterstacks_not_ready_objects",
            "Objects whose condition Ready is not True, by kind.",
            ("kind",),
            registry=self.registry,
        )
        self._not_ready_since = Gauge(
            "clusterstacks_not_ready_since_timestamp_seconds",
            "Since when the object of a kind that has been not ready for longest is so (Unix time); 0 where all are.",
            ("kind",),
            registry=self.registry,
        )
        self._decisions = Counter(
            "clusterstacks_admission_decisions",
            "Answers of the webhooks by kind and decision: allowed, warned, refused, failed (no answer was possible).",
            ("kind", "decision"),
            registry=self.registry,
        )
        self._certificate = Gauge(
            "clusterstacks_webhook_certificate_expiry_timestamp_seconds",
            "When the certificate that the webhooks are served with expires (Unix time); 0 before there is one.",
            registry=self.registry,
        )
        self._source_success = Gauge(
            "clusterstacks_sources_oldest_success_timestamp_seconds",
            "When the source was last listed whose list is the oldest (Unix time); NaN while no source is listed.",
            registry=self.registry,
        )

    def watch_not_ready(self, kind: str, unready: Callable[[], Unready]) -> None:
        """Ask at each scrape for the objects of a kind that are not ready; called from another thread."""
        self._not_ready.labels(kind).set_function(lambda: unready().number)
        self._not_ready_since.labels(kind).set_function(lambda: unready().since)

    def count_decision(self, kind: str, decision: str) -> None:
        """Count one answer of the webhooks; ``kind`` is one that they are registered for."""
        self._decisions.labels(kind, decision).inc()

    def watch_certificate(self, expiry: Callable[[], float]) -> None:
        """Ask at each scrape when the certificate of the webhooks expires; called from another thread."""
        self._certificate.set_function(expiry)

    def watch_source_age(self, success: Callable[[], float]) -> None:
        """Ask at each scrape for the oldest last success of the sources; called from another thread."""
        self._source_success.set_function(success)

    def set_version(self, version: str) -> None:
        """Note the version of the operator."""
        self._build.labels(version).set(1)

    def watch_failing_sources(self, count: Callable[[], int]) -> None:
        """Ask ``count`` for the number of failing sources at each scrape; called from another thread."""
        self._sources_failing.set_function(count)

    def note_stall(self, wall: float, cpu: float) -> None:
        """Note a beat of the event loop: how late it was, and how much of that it used the CPU, in seconds."""
        if wall < STALL_SECONDS[0]:
            return
        self._stalls.observe(wall)
        for clock, seconds in (("wall", wall), ("cpu", cpu)):
            if seconds > self._longest[clock]:
                self._longest[clock] = seconds
                self._longest_stall.labels(clock).set(seconds)

    def watch_unreadable(self, kind: str, count: Callable[[], int]) -> None:
        """Ask ``count`` for the number of unreadable objects at each scrape; called from another thread."""
        self._unreadable.labels(kind).set_function(count)

    def watch_health(self, part: str, health: Health) -> None:
        """Show the health of a part at each scrape; ``part`` is one of few, never a name that users choose."""
        self._failing_since.labels(part).set_function(lambda: health.failing_since)
        self._last_success.labels(part).set_function(lambda: health.last_success)

    def controller(self, name: str) -> ControllerMetrics:
        """Return the series of the controller; call once and keep them."""
        return ControllerMetrics(self, name)

    def count_request(self, target: str, method: str, code: int) -> None:
        """Count one answer of an API server; the client's pool calls it.

        A workload cluster may answer with any code, so those that HTTP does not define are counted together.
        """
        self._requests.labels(target, method, str(code) if code in CODES else "other").inc()

    def count_applied(self, *, changed: int = 0, unchanged: int = 0, failed: int = 0) -> None:
        """Count the objects of one delivery."""
        self._applied.labels("changed").inc(changed)
        self._applied.labels("unchanged").inc(unchanged)
        self._applied.labels("failed").inc(failed)

    def count_render_failure(self, cause: str) -> None:
        """Count a render that was stopped; the renderer calls it with timeout, died or busy."""
        self._render_failures.labels(cause).inc()

    def watch_renders(self, waiting: Callable[[], int], oldest_wait: Callable[[], float]) -> None:
        """Ask at each scrape for the waiting renders and the seconds of the oldest; called from another thread."""
        self._render_queue_depth.set_function(waiting)
        self._render_oldest_wait.set_function(oldest_wait)

    def expose(self) -> bytes:
        """Return all series in the text format; blocks for milliseconds, so call it in a thread."""
        return generate_latest(self.registry)
