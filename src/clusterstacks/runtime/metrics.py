"""Prometheus metrics of the operator.

Only ``object_problem_metrics`` has labels per object, within a bound, so the number of series does not grow with the
number of clusters. Known results exist with 0 from the start: Prometheus sees no increase from nothing to 1. The series
of a controller are created once and kept, because a lookup costs more than an increment. Callbacks of the ``watch_``
methods are called at each scrape and, unless noted, from another thread.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from clusterstacks.runtime.controller_runtime_metrics import ControllerRuntimeMetrics
from clusterstacks.runtime.object_problem_metrics import ObjectProblemMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from clusterstacks.runtime.component_health import ComponentHealth
    from clusterstacks.runtime.object_problem_metrics import ObjectProblem

# From a reconcile without changes to a delivery over a slow link (arbitrary).
RECONCILE_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2, 10, 60)
# From a small chart (3 ms) over cilium (130 ms) to the default deadline (60 s).
RENDER_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1, 5, 60)

# From a decision from memory to the timeout of the API server for webhooks of its own kinds (10 s).
WEBHOOK_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10)

CODES: Final = frozenset(HTTPStatus)


class ControllerMetrics:
    """The series of one controller, looked up once."""

    def __init__(self, metrics: Metrics, controller: str) -> None:
        self.succeeded = metrics.reconciles.labels(controller, "success")
        self.stalled = metrics.reconciles.labels(controller, "stalled")
        self.failed = metrics.reconciles.labels(controller, "error")
        self.bugs = metrics.reconciles.labels(controller, "bug")
        self.seconds = metrics.reconcile_seconds.labels(controller)
        self.busy = metrics.workers_busy.labels(controller)
        self.max_concurrent = metrics.max_concurrent.labels(controller)
        self.queue_seconds = metrics.queue_seconds.labels(controller)
        self._depth = metrics.queue_depth.labels(controller)
        self._stalled = metrics.stalled_objects.labels(controller)
        self._added = metrics.queue_added.labels(controller)
        self._retried = metrics.queue_retried.labels(controller)
        self._oldest_wait = metrics.queue_oldest_wait.labels(controller)
        self._longest = metrics.longest_reconcile.labels(controller)
        self._unfinished = metrics.unfinished_reconciles.labels(controller)
        self._noted = (0, 0)

    def watch_depth(self, depth: Callable[[], int]) -> None:
        """Measure the number of waiting keys with ``depth``."""
        self._depth.set_function(depth)

    def watch_stalled(self, count: Callable[[], int]) -> None:
        """Measure the number of stalled objects with ``count``."""
        self._stalled.set_function(count)

    def note_queue(self, added: int, retried: int, oldest_wait: float) -> None:
        """Record the keys added and retried so far (totals), and the wait of the oldest key in seconds."""
        self._added.inc(added - self._noted[0])
        self._retried.inc(retried - self._noted[1])
        self._noted = (added, retried)
        self._oldest_wait.set(oldest_wait)

    def note_running(self, *, longest: float, together: float) -> None:
        """Record the seconds of the longest running reconcile, and the sum over all running reconciles."""
        self._longest.set(longest)
        self._unfinished.set(together)


class Metrics:
    """All metrics of the process in their own registry, so that two operators in one test do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self._build = gauge(
            "clusterstacks_build_info", "Version and shard of the operator; always 1.", ("version", "shard")
        )
        self.leader = gauge("clusterstacks_leader", "1 while this process may write (it is the leader), otherwise 0.")
        self._requests = counter(
            "clusterstacks_api_requests",
            "Responses of API servers by target (management or workload clusters), HTTP method and status code.",
            ("target", "method", "code"),
        )
        self._applied = counter(
            "clusterstacks_objects_applied",
            "Objects sent to a cluster by result: changed, unchanged, failed.",
            ("result",),
        )
        self._drifted = counter(
            "clusterstacks_drifted_objects",
            "Delivered objects that another writer changed or deleted by result: found, corrected, failed.",
            ("result",),
        )
        self._unhonoured_holds = counter(
            "clusterstacks_upgrade_holds_not_honoured",
            "Upgrades that Cluster API began although they were held.",
        )
        self._before_scrape: list[Callable[[], None]] = []
        self._add_reconciles()
        self._add_queues()
        self._add_webhooks()
        self._add_objects()
        self._add_renders()
        self._add_health()
        self._add_support()
        self.count_applied()
        self.count_drift()
        self.registry.register(
            ControllerRuntimeMetrics(
                self.reconciles,
                self.reconcile_seconds,
                self.workers_busy,
                self.max_concurrent,
                self.queue_depth,
                self.queue_added,
                self.queue_retried,
                self.queue_seconds,
                self.longest_reconcile,
                self.unfinished_reconciles,
                self._decisions,
                self._webhook_seconds,
                self._webhook_requests,
                self._requests,
                self.leader,
            )
        )

    def _add_reconciles(self) -> None:
        labels = ("controller",)
        self.reconciles = Counter(
            "clusterstacks_reconcile",
            "Reconciles by result: success, stalled (a person must act), error (of a dependency), bug (anything else).",
            ("controller", "result"),
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "clusterstacks_reconcile_seconds",
            "Duration of reconciles.",
            labels,
            buckets=RECONCILE_SECONDS,
            registry=self.registry,
        )
        gauge = partial(Gauge, labelnames=labels, registry=self.registry)
        self.workers_busy = gauge("clusterstacks_workers_busy", "Workers in a reconcile.")
        self.max_concurrent = gauge("clusterstacks_max_concurrent_reconciles", "Number of workers.")
        self.longest_reconcile = gauge(
            "clusterstacks_longest_running_reconcile_seconds", "Duration so far of the longest running reconcile."
        )
        self.unfinished_reconciles = gauge(
            "clusterstacks_running_reconciles_seconds", "Duration so far of all running reconciles together."
        )
        self.stalled_objects = gauge(
            "clusterstacks_stalled_objects", "Objects whose last reconcile ended stalled: a person must act."
        )

    def _add_queues(self) -> None:
        labels = ("controller",)
        gauge = partial(Gauge, labelnames=labels, registry=self.registry)
        counter = partial(Counter, labelnames=labels, registry=self.registry)
        self.queue_depth = gauge("clusterstacks_queue_depth", "Keys waiting for a worker.")
        self.queue_oldest_wait = gauge(
            "clusterstacks_queue_oldest_wait_seconds", "Waiting time of the key that has waited longest for a worker."
        )
        self.queue_added = counter("clusterstacks_queue_added", "Keys queued, each once until a worker takes it.")
        self.queue_retried = counter("clusterstacks_queue_retried", "Keys queued again with back-off after a failure.")
        self.queue_seconds = Histogram(
            "clusterstacks_queue_wait_seconds",
            "Time that keys waited for a worker.",
            labels,
            buckets=RECONCILE_SECONDS,
            registry=self.registry,
        )

    def _add_webhooks(self) -> None:
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
        self._webhook_seconds = Histogram(
            "clusterstacks_webhook_seconds",
            "Time from the header of a request of the webhooks to its response, by kind; other: not one of our kinds, "
            "or a request that was not read.",
            ("kind",),
            buckets=WEBHOOK_SECONDS,
            registry=self.registry,
        )
        self._webhook_responses = Counter(
            "clusterstacks_webhook_responses",
            "Responses of the webhooks by HTTP status code; other than 200 there is no decision (413: too large).",
            ("code",),
            registry=self.registry,
        )
        for code in (200, 429, 500, 503, 504):
            self._webhook_responses.labels(str(code))
        self._webhook_requests = Gauge(
            "clusterstacks_webhook_requests_in_flight",
            "Requests that the webhooks are answering.",
            registry=self.registry,
        )

    def _add_objects(self) -> None:
        self._unreadable = Gauge(
            "clusterstacks_unreadable_objects",
            "Objects that are nested too deeply or too large to be read, by kind; they are skipped.",
            ("kind",),
            registry=self.registry,
        )
        self._problems = ObjectProblemMetrics()
        self.registry.register(self._problems)

    def _add_renders(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        self.render_seconds = Histogram(
            "clusterstacks_render_seconds", "Duration of chart renders.", buckets=RENDER_SECONDS, registry=self.registry
        )
        self._render_queue_depth = gauge("clusterstacks_render_queue_depth", "Renders waiting for a worker process.")
        self._render_oldest_wait = gauge(
            "clusterstacks_render_oldest_wait_seconds", "Waiting time of the oldest waiting render."
        )
        self._render_failures = Counter(
            "clusterstacks_render_failures",
            "Renders that were stopped: timeout (deadline), died (no worker, or it ended), busy (too long queued).",
            ("cause",),
            registry=self.registry,
        )
        for cause in ("timeout", "died", "busy"):
            self._render_failures.labels(cause)

    def _add_health(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        self._failing_since = gauge(
            "clusterstacks_failing_since_timestamp_seconds",
            "Unix time of the first failure of a part since its last success; 0 while it works.",
            ("part",),
        )
        self._last_success = gauge(
            "clusterstacks_last_success_timestamp_seconds",
            "Unix time of the last success of a part; 0 before the first.",
            ("part",),
        )
        self._checks = gauge(
            "clusterstacks_readiness_check_failing", "1 while a check of /readyz fails, otherwise 0.", ("check",)
        )
        self._sources_failing = gauge("clusterstacks_sources_failing", "Release sources whose last listing failed.")
        self._source_success = gauge(
            "clusterstacks_sources_oldest_success_timestamp_seconds",
            "Unix time of the oldest last successful listing of a source; NaN if no source is listed.",
        )

    def _add_support(self) -> None:
        gauge = partial(Gauge, labelnames=("minor",), registry=self.registry)
        self._clusters_of_minor = gauge(
            "clusterstacks_kubernetes_clusters",
            "Clusters of cluster stacks by the oldest Kubernetes minor of the control plane; other: no fact knows it.",
        )
        self._support_days = gauge(
            "clusterstacks_kubernetes_support_days",
            "Days until a Kubernetes minor in use leaves upstream support; negative after that.",
        )
        self._unserved = Gauge(
            "clusterstacks_unserved_clusters",
            "Clusters of shards that do not run; of the main instance. other: not one of --shards.",
            ("shard",),
            registry=self.registry,
        )

    def before_scrape(self, measure: Callable[[], None]) -> None:
        """Call ``measure``, which must not block, on the event loop before each scrape."""
        self._before_scrape.append(measure)

    def measure(self) -> None:
        """Call the functions of ``before_scrape``; before ``expose``, on the event loop."""
        for measure in self._before_scrape:
            measure()

    def watch_problems(self, kind: str, find: Callable[[], Iterable[ObjectProblem]]) -> None:
        """Measure the problems of the objects of a kind with ``find``."""
        self._problems.watch(kind, find)

    def watch_checks(self, failing: Callable[[], Mapping[str, bool]]) -> None:
        """Measure with ``failing`` which readiness checks fail, on the event loop."""

        def measure() -> None:
            for check, fails in failing().items():
                self._checks.labels(check).set(fails)

        self.before_scrape(measure)

    def watch_support(self, clusters: Callable[[], Mapping[str, int]], days: Callable[[str], int | None]) -> None:
        """Measure the Clusters by Kubernetes minor, and with ``days`` how long a minor is supported; None: no fact.

        The minors are those that facts know, and other: users may ask for any version.
        """

        def measure() -> None:
            self._clusters_of_minor.clear()
            self._support_days.clear()
            for minor, number in clusters().items():
                self._clusters_of_minor.labels(minor).set(number)
                if (left := days(minor)) is not None:
                    self._support_days.labels(minor).set(left)

        self.before_scrape(measure)

    def watch_webhook_requests(self, count: Callable[[], int]) -> None:
        """Measure the requests that the webhooks are answering with ``count``."""
        self._webhook_requests.set_function(count)

    def count_webhook_response(self, kind: str, code: int, seconds: float) -> None:
        """Count one response of the webhooks; ``kind`` is one that they are registered for, or other."""
        self._webhook_seconds.labels(kind).observe(seconds)
        self._webhook_responses.labels(str(code)).inc()

    def count_decision(self, kind: str, decision: str) -> None:
        """Count one response of the webhooks; ``kind`` is one that they are registered for."""
        self._decisions.labels(kind, decision).inc()

    def watch_certificate(self, expiry: Callable[[], float]) -> None:
        """Measure when the webhook certificate expires (Unix time) with ``expiry``."""
        self._certificate.set_function(expiry)

    def watch_source_age(self, success: Callable[[], float]) -> None:
        """Measure the Unix time of the oldest last success of the sources with ``success``."""
        self._source_success.set_function(success)

    def set_version(self, version: str, shard: str = "") -> None:
        """Publish the version of the operator and its shard, empty for the main instance, in the build info."""
        self._build.labels(version, shard).set(1)

    def watch_unserved(self, count: Callable[[], Mapping[str, int]], shards: Collection[str]) -> None:
        """Measure with ``count`` the Clusters of shards that do not run; users may have written other names."""

        def measure() -> None:
            self._unserved.clear()
            for shard, number in count().items():
                self._unserved.labels(shard if shard in shards else "other").inc(number)

        self.before_scrape(measure)

    def watch_failing_sources(self, count: Callable[[], int]) -> None:
        """Measure the number of sources whose last listing failed with ``count``."""
        self._sources_failing.set_function(count)

    def watch_unreadable(self, kind: str, count: Callable[[], int]) -> None:
        """Measure the number of unreadable objects of a kind with ``count``."""
        self._unreadable.labels(kind).set_function(count)

    def watch_health(self, part: str, health: ComponentHealth) -> None:
        """Export the health of a part; ``part`` is one of a few fixed names, never chosen by users."""
        self._failing_since.labels(part).set_function(lambda: health.failing_since)
        self._last_success.labels(part).set_function(lambda: health.last_success)

    def controller(self, name: str) -> ControllerMetrics:
        """Create the series of a controller; call it once and keep them."""
        return ControllerMetrics(self, name)

    def count_request(self, target: str, method: str, code: int) -> None:
        """Count one response of an API server; codes that HTTP does not define are counted together."""
        self._requests.labels(target, method, str(code) if code in CODES else "other").inc()

    def count_applied(self, *, changed: int = 0, unchanged: int = 0, failed: int = 0) -> None:
        """Count objects that were sent to a cluster, by result."""
        self._applied.labels("changed").inc(changed)
        self._applied.labels("unchanged").inc(unchanged)
        self._applied.labels("failed").inc(failed)

    def count_drift(self, *, found: int = 0, corrected: int = 0, failed: int = 0) -> None:
        """Count the drifted objects of one sweep by result."""
        self._drifted.labels("found").inc(found)
        self._drifted.labels("corrected").inc(corrected)
        self._drifted.labels("failed").inc(failed)

    def count_unhonoured_hold(self) -> None:
        """Count one upgrade that Cluster API began although it was held."""
        self._unhonoured_holds.inc()

    def count_render_failure(self, cause: str) -> None:
        """Count a render that was stopped; ``cause`` is timeout, died or busy."""
        self._render_failures.labels(cause).inc()

    def watch_renders(self, waiting: Callable[[], int], oldest_wait: Callable[[], float]) -> None:
        """Measure the number of waiting renders, and the seconds that the oldest has waited."""
        self._render_queue_depth.set_function(waiting)
        self._render_oldest_wait.set_function(oldest_wait)

    def expose(self) -> bytes:
        """Return all series in the text format; blocks for milliseconds, so call it in a thread."""
        return generate_latest(self.registry)
