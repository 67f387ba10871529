"""Renders charts and templates, reads values and evaluates conditions in worker processes.

Helm and CEL are never loaded into this process: their memory, crashes and endless loops stay in workers that can be
killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import orjson

from clusterstacks.deliver.render import protocol
from clusterstacks.deliver.render.errors import (
    CelFailed,
    CelUndecided,
    NotStarted,
    RenderFailed,
    RenderTimeout,
    WorkerDied,
    WorkersBusy,
)
from clusterstacks.deliver.render.failure_cache import Failure, Failures
from clusterstacks.deliver.render.protocol import BrokenFrameError, Examined, HelmHook, RenderedDocument, Repetition
from clusterstacks.deliver.render.render_queue import WorkerQueue
from clusterstacks.deliver.render.worker_pool import MEMORY_BYTES, WorkerPool, WorkerProcess
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.runtime.tracing import span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesVersion


DEADLINE: Final = timedelta(seconds=60)
"""Maximum time of a render (arbitrary: the largest chart measured takes 0.2 s)."""

FIRST_TRY: Final = timedelta(seconds=2)
"""Time after which a render is stopped and tried again as a slow one (arbitrary: ten times the largest chart measured;
forty charts that hang delay one worker by 80 s)."""

LONGEST_WAIT: Final = timedelta(minutes=2)
"""Maximum waiting time of each try (arbitrary: both tries take much less than the 10 min of a reconcile)."""

LONGEST_RETRY: Final = timedelta(minutes=2)
"""Maximum retry delay proposed to a caller whose input failed: the input may change earlier."""

IDLE: Final = timedelta(seconds=10)
"""Time that a worker without requests is kept (arbitrary: a start costs 0.2 s, an idle worker 70 MB)."""

MAX_LEVELS: Final = 254
"""Levels of nesting that orjson writes; it reads more."""

MAX_EXPRESSION: Final = 2 * 1024
MAX_VARIABLE: Final = 256 * 1024
"""Maximum size of a CEL expression and of each of its objects in bytes: CEL limits iterations, but not bytes."""

_ORPHAN_SECONDS: Final = 10
"""Time after the deadline at which a worker without a parent ends (arbitrary: the parent kills at the deadline)."""

_Failed: TypeAlias = RenderTimeout | WorkerDied | WorkersBusy

_ERRORS: Final[dict[str, type[RenderFailed | CelFailed | CelUndecided]]] = {
    error.__name__: error for error in (RenderFailed, CelFailed, CelUndecided)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequest:
    """A chart to render, and the options of ``helm template``."""

    chart: bytes
    """A tgz that Helm loads, with vendored dependencies."""
    label: str
    """Its name in errors, e.g. ``addon cni of openstack-scs-1-35-v2``."""
    release_name: str
    """The Helm release name; it is part of object names."""
    namespace: str
    values: str = ""
    """YAML text, as for ``helm template -f``."""
    kube_version: str
    """``.Capabilities.KubeVersion``, e.g. ``v1.35.4``."""
    include_crds: bool = False
    """Return the files of ``crds/`` first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderLimits:
    """Limits of each request to a worker."""

    memory_bytes: int = MEMORY_BYTES
    """Writable memory, at least 384 MiB."""
    deadline: timedelta = DEADLINE
    """Wall-clock time, without waiting."""
    first_try: timedelta = FIRST_TRY
    """Time after which the request counts as slow: it is stopped and tried again with the deadline."""
    longest_wait: timedelta = LONGEST_WAIT
    """Waiting time of each of the two tries."""


def _ignore(_: str) -> None:
    """Count nothing."""


class Renderer:
    """Renders in up to ``workers`` child processes, which are started on first use and stopped after ``idle``.

    Requests wait in :mod:`.render_queue`. Every request may raise :class:`RenderTimeout` or :class:`WorkerDied`: it
    took too long, or too much memory. An input whose render timed out or killed its worker immediately gets the same
    error again until its back-off has passed; a changed input is tried at once. ``on_failure`` is called with
    ``timeout``, ``died`` or ``busy`` if a request fails for one of these reasons.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        limits: RenderLimits = RenderLimits(),
        idle: timedelta = IDLE,
        on_failure: Callable[[str], None] = _ignore,
    ) -> None:
        self._limits = limits
        self._pool = WorkerPool(workers, limits.memory_bytes, idle)
        self._queue = WorkerQueue(workers, limits.longest_wait)
        self._failures = Failures()
        self._on_failure = on_failure
        self._owner = ObjectKey("", "")
        self._warm_ups: set[asyncio.Task[None]] = set()

    def for_object(self, owner: ObjectKey) -> Renderer:
        """Return this renderer for one object: objects, and their namespaces, take turns at the workers."""
        renderer = copy.copy(self)
        renderer._owner = owner  # noqa: SLF001 - a copy that shares workers, queue and failures
        return renderer

    def waiting(self) -> int:
        """Return the number of waiting requests; may be called from any thread."""
        return self._queue.waiting()

    def oldest_wait(self) -> float:
        """Return the waiting time of the oldest request in seconds; may be called from any thread."""
        return self._queue.oldest_wait()

    def problem(self) -> str:
        """Return why no worker could be started for minutes; empty while they start."""
        return self._pool.problem()

    async def close(self) -> None:
        """Stop all workers; running requests fail with WorkerDied. Safe to repeat."""
        await self._pool.close()
        await asyncio.gather(*self._warm_ups)

    def warm_up(self) -> None:
        """Start a worker and let it load Helm, unless one runs: a request will follow."""
        if not self._pool.running and not self._warm_ups:
            task = asyncio.get_running_loop().create_task(self._warm_up())
            self._warm_ups.add(task)
            task.add_done_callback(self._warm_ups.discard)

    async def _warm_up(self) -> None:
        # The request that follows reports what is wrong.
        with contextlib.suppress(ClusterStacksError):
            await self.template("", {}, label="the start of a render worker", file="empty")

    async def chart(self, request: ChartRequest) -> list[Manifest]:
        """Render a chart to the objects of ``helm template``, in its order.

        Raises:
            RenderFailed: The message of Helm, or an output that is not a Kubernetes object; names template and line.
        """
        return cast("list[Manifest]", await self._ask_chart("chart", request))

    async def examine(self, request: ChartRequest) -> Examined:
        """Render a chart with details for its author; raises as ``chart``."""
        answer = cast("dict[str, list[list[Any]]]", await self._ask_chart("examine", request))
        return Examined(
            tuple(RenderedDocument(*document) for document in answer["documents"]),
            tuple(Repetition(*repetition) for repetition in answer["repetitions"]),
            tuple(HelmHook(*hook) for hook in answer["hooks"]),
        )

    async def template(self, text: str, data: Manifest, *, label: str, file: str) -> str:
        """Render a Go template with sprig; ``data`` is its dot. See docs/reference/templates.md.

        Raises:
            RenderFailed: An expression is not valid; names ``file`` and line. A missing value prints nothing.
        """
        message = {"text": text, "data": data, "file": file}
        return cast("str", await self._ask("template", message, label=label))

    async def values(self, text: str, *, label: str) -> str:
        """Return the values document inside a rendered ``overwrite.yaml`` as YAML text.

        Raises:
            RenderFailed: The text is not valid YAML, or neither a mapping nor empty.
        """
        return cast("str", await self._ask("values", {"text": text}, label=label))

    async def overlay(self, text: str, over: Manifest, *, label: str) -> str:
        """Merge values into a values document and return YAML text; in a worker, because large documents are slow.

        Raises:
            RenderFailed: The text is neither a mapping nor empty, or the values are nested too deeply.
        """
        return cast("str", await self._ask("overlay", {"text": text, "over": over}, label=label))

    async def holds(self, expression: str, variables: Mapping[str, Manifest], *, label: str) -> bool:
        """Evaluate a CEL expression; a result that is not a bool counts as false.

        Raises:
            CelFailed: The expression does not compile, or it or an object is too large, or is nested too deeply.
            CelUndecided: The expression fails on these objects, e.g. on a status that is not written yet.
        """
        where = f"{label}, condition {_shown(expression)}"
        if len(expression.encode()) > MAX_EXPRESSION:
            raise CelFailed(f"{where}: is longer than {MAX_EXPRESSION} bytes")
        try:
            encoded = {name: orjson.dumps(variable) for name, variable in variables.items()}
        except orjson.JSONEncodeError:
            raise CelFailed(f"{where}: an object nests deeper than {MAX_LEVELS} levels") from None
        for name, variable in encoded.items():
            if len(variable) > MAX_VARIABLE:
                raise CelFailed(
                    f"{where}: object {name} has {len(variable)} bytes, more than the limit of {MAX_VARIABLE}"
                )
        message = {
            "expression": expression,
            "variables": {name: orjson.Fragment(variable) for name, variable in encoded.items()},
        }
        return bool(await self._ask("holds", message, label=where))

    async def _ask_chart(self, operation: str, request: ChartRequest) -> object:
        message = {
            "digest": hashlib.sha256(request.chart).hexdigest(),
            "release_name": request.release_name,
            "namespace": request.namespace,
            "values": request.values,
            "kube_version": request.kube_version,
            "include_crds": request.include_crds,
        }
        with span("render", chart=request.label):
            return await self._ask(operation, message, label=request.label, chart=request.chart)

    async def _ask(self, operation: str, message: dict[str, Any], *, label: str, chart: bytes = b"") -> object:
        work = _Work(operation, message, chart)
        try:
            reply = await self._tried(work)
        except (RenderTimeout, WorkerDied, WorkersBusy) as error:
            if isinstance(error, WorkersBusy):
                self._on_failure("busy")
            raise _labelled(error, label) from None
        except BrokenFrameError as error:
            raise RenderFailed(f"{label}: {error}") from None
        if "result" in reply:
            return reply["result"]
        raise _failure(reply, label)

    async def _tried(self, work: _Work) -> dict[str, Any]:
        first_try, deadline = self._limits.first_try, self._limits.deadline
        slow = bool(self._failures) and self._failures.is_slow(work.digest)
        if first_try < deadline and not slow:
            try:
                return await self._attempt(work, first_try, slow=False)
            except TimeoutError:
                self._failures.note_slow(work.digest)
                slow = True
        try:
            return await self._attempt(work, deadline, slow=slow)
        except TimeoutError:
            self._on_failure("timeout")
            error = RenderTimeout(f"took longer than {deadline.total_seconds():g} s and was stopped")
            raise self._remembered(work, error) from None

    async def _attempt(self, work: _Work, limit: timedelta, *, slow: bool) -> dict[str, Any]:
        self._check(work)
        async with self._queue.turn(self._owner, slow=slow):
            self._check(work)  # the same input may have failed for another object in the meantime
            reply = await self._run(work, limit.total_seconds())
        if self._failures:
            self._failures.forget(work.digest)
        return reply

    async def _run(self, work: _Work, seconds: float) -> dict[str, Any]:
        try:
            async with self._pool.worker() as worker, asyncio.timeout(seconds):
                return await _exchange(worker, work.request(int(seconds) + _ORPHAN_SECONDS), work.chart)
        except WorkerDied as error:
            self._on_failure("died")
            if isinstance(error, NotStarted):
                raise
            raise self._remembered(work, error) from None

    def _check(self, work: _Work) -> None:
        now = asyncio.get_running_loop().time()
        if self._failures and (failure := self._failures.recall(work.digest, now)):
            raise _recalled(failure, now)

    def _remembered(self, work: _Work, error: RenderTimeout | WorkerDied) -> RenderTimeout | WorkerDied:
        now = asyncio.get_running_loop().time()
        return _recalled(self._failures.remember(work.digest, error, now), now)


@dataclass(frozen=True)
class _Work:
    """A request without its deadline."""

    operation: str
    message: dict[str, Any]
    chart: bytes

    @cached_property
    def digest(self) -> bytes:
        """Identifies the input; computed only if an input has failed. Raises BrokenFrameError."""
        return hashlib.sha256(self.operation.encode() + protocol.encode(self.message)).digest()

    def request(self, alarm_seconds: int) -> dict[str, Any]:
        return {"operation": self.operation, "alarm_seconds": alarm_seconds, **self.message}


def _recalled(failure: Failure, now: float) -> RenderTimeout | WorkerDied:
    error = failure.kind(failure.message)
    error.retry = min(timedelta(seconds=max(1.0, failure.until - now)), LONGEST_RETRY)
    return error


def _labelled(error: _Failed, label: str) -> _Failed:
    labelled = type(error)(f"{label}: {error.message}")
    labelled.retry = error.retry
    return labelled


async def _exchange(worker: WorkerProcess, request: dict[str, Any], chart: bytes) -> dict[str, Any]:
    """Send a request, with the chart only if this worker does not have it."""
    if not chart:
        return await worker.ask(request)
    if request["digest"] in worker.charts:
        reply = await worker.ask(request)
        if "wanted" not in reply:
            return reply
    worker.charts.add(request["digest"])
    return await worker.ask(request, chart)


def _failure(reply: dict[str, Any], label: str) -> ClusterStacksError | RuntimeError:
    if "bug" in reply:
        return RuntimeError(f"{label}: the render worker failed: {reply['bug']}")
    return _ERRORS[reply["error"]](f"{label}: {reply['message']}")


def _shown(expression: str) -> str:
    line = " ".join(expression.split())
    return repr(line if len(line) <= 200 else f"{line[:200]}…")


ADDON_RELEASE = "cluster-addon"
"""The Helm release name of every addon; it is part of object names, so it never changes."""

ADDON_NAMESPACE = "kube-system"


def class_request(chart: bytes, name: ReleaseName, kubernetes: KubernetesVersion, *, namespace: str) -> ChartRequest:
    """Return the request for a class chart; ``namespace`` is the namespace of the ClusterStackRelease."""
    return ChartRequest(
        chart=chart,
        label=f"cluster class of {name}",
        release_name=name.series,
        namespace=namespace,
        kube_version=kubernetes.text,
    )


def addon_request(chart: bytes, *, label: str, values: str, kubernetes: KubernetesVersion) -> ChartRequest:
    """Return the request for an addon chart; ``values`` is the result of ``addon_values``."""
    return ChartRequest(
        chart=chart,
        label=label,
        release_name=ADDON_RELEASE,
        namespace=ADDON_NAMESPACE,
        values=values,
        kube_version=kubernetes.text,
        include_crds=True,
    )


async def addon_values(
    renderer: Renderer, template: str | None, data: Mapping[str, Manifest], *, label: str, file: str
) -> str:
    """Render the values of an addon from its template (overwrite.yaml or cluster-addon-values.yaml); empty without one.

    ``data`` has the objects of the template: Cluster, ControlPlane, InfraCluster. ``label`` names the addon and
    ``file`` the template in messages.

    Raises:
        RenderFailed: The template is not valid, or its output is not a mapping.
    """
    if template is None:
        return ""
    text = await renderer.template(template, dict(data), label=label, file=file)
    return await renderer.values(text, label=f"{label}: {file}")
