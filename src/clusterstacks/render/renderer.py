"""What the rest of the program asks for: charts, templates, values and conditions, evaluated in worker processes.

Nothing of Helm or CEL is ever loaded into this process: their memory, crashes and endless loops stay in workers that
can be killed (DEPENDENCIES 3 and 5).
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import orjson

from clusterstacks.domain.objects import ObjectKey
from clusterstacks.render import protocol
from clusterstacks.render.errors import (
    CelFailed,
    CelUndecided,
    NotStarted,
    RenderFailed,
    RenderTimeout,
    WorkerDied,
    WorkersBusy,
)
from clusterstacks.render.examination import Examined, HelmHook, RenderedDocument, Repetition
from clusterstacks.render.failure_cache import Failure, Failures
from clusterstacks.render.protocol import BrokenFrameError
from clusterstacks.render.render_queue import WorkerQueue
from clusterstacks.render.worker_processes import WorkerPool, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.domain.objects import Manifest

MEMORY_BYTES: Final = 768 * 1024**2
"""Writable memory of one worker (arbitrary: 144 MiB are taken once Helm is loaded, a Cilium render needs 40 more)."""

DEADLINE: Final = timedelta(seconds=60)
"""Longest render (arbitrary: the largest chart measured takes 0.2 s)."""

FIRST_TRY: Final = timedelta(seconds=2)
"""How long a render may take before it is stopped and tried again as a slow one (arbitrary: ten times the largest chart
measured; forty charts that hang are out of the way in 80 s, on one worker)."""

LONGEST_WAIT: Final = timedelta(minutes=2)
"""Longest time in line of each try (arbitrary: with both tries it stays well below the 10 min of a reconcile)."""

LONGEST_RETRY: Final = timedelta(minutes=2)
"""Longest wait proposed to a caller whose input failed (ARCHITECTURE section 4): the input may change before."""

IDLE: Final = timedelta(seconds=30)
"""How long a worker waits for more work (arbitrary: a start costs 0.2 s, a waiting worker 90 MB)."""

MAX_EXPRESSION: Final = 2 * 1024
MAX_VARIABLE: Final = 256 * 1024
"""Bytes of a CEL expression and of each object it sees: the library bounds iterations, not bytes (DEPENDENCIES 3)."""

_ORPHAN_SECONDS: Final = 10
"""How long after the deadline a worker without a parent ends itself (arbitrary: the parent kills at the deadline)."""

_Failed: TypeAlias = RenderTimeout | WorkerDied | WorkersBusy

_ERRORS: Final[dict[str, type[RenderFailed | CelFailed | CelUndecided]]] = {
    error.__name__: error for error in (RenderFailed, CelFailed, CelUndecided)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequest:
    """One render of a chart.

    Args:
        chart: A tgz that Helm loads, dependencies vendored.
        label: How errors name it, e.g. ``addon cni of openstack-scs-1-35-v2``.
        release_name: Helm's release name; it appears in object names.
        namespace: Helm's release namespace.
        values: YAML text, as ``helm template -f`` takes it.
        kube_version: ``.Capabilities.KubeVersion``, e.g. ``v1.35.4``.
        include_crds: Whether the files of ``crds/`` come first.
    """

    chart: bytes
    label: str
    release_name: str
    namespace: str
    values: str = ""
    kube_version: str
    include_crds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderLimits:
    """What one request may take.

    Args:
        memory_bytes: Writable memory, at least 384 MiB.
        deadline: Wall-clock time, waiting in line not counted.
        first_try: Wall-clock time after which it counts as slow: it is stopped and starts again, with the deadline.
        longest_wait: Time in line of each of the two tries.
    """

    memory_bytes: int = MEMORY_BYTES
    deadline: timedelta = DEADLINE
    first_try: timedelta = FIRST_TRY
    longest_wait: timedelta = LONGEST_WAIT


def _ignore(_: str) -> None:
    """Count nothing."""


class Renderer:
    """Renders in up to ``workers`` child processes, started when first needed.

    Requests wait in :mod:`.render_queue`. An input whose render hung or killed its worker is
    answered with that failure, at once, until its back-off has passed; a changed input is tried at once.

    Args:
        workers: Processes at once.
        limits: What one request may take.
        idle: How long a process without work stays.
        on_failure: Called with ``timeout``, ``died`` or ``busy`` when a request fails for one of these causes.
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

    def for_object(self, owner: ObjectKey) -> Renderer:
        """Return this renderer as one object uses it: objects, and their namespaces, take turns at the workers."""
        renderer = copy.copy(self)
        renderer._owner = owner  # noqa: SLF001 - a copy that shares workers, line and failures
        return renderer

    def waiting(self) -> int:
        """Count the requests in line; may be called from any thread."""
        return self._queue.waiting()

    def oldest_wait(self) -> float:
        """Return the seconds the oldest request in line has waited; may be called from any thread."""
        return self._queue.oldest_wait()

    def problem(self) -> str:
        """Tell why no worker could be started for minutes; empty while they start."""
        return self._pool.problem()

    async def close(self) -> None:
        """End all workers; running requests fail with WorkerDied. Safe to repeat."""
        await self._pool.close()

    async def chart(self, request: ChartRequest) -> list[Manifest]:
        """Render a chart to the objects ``helm template`` prints, in its order.

        Raises:
            RenderFailed: Helm's words, or output that is no Kubernetes object; names template and line.
            RenderTimeout, WorkerDied: the chart hangs or eats memory.
        """
        return cast("list[Manifest]", await self._ask_chart("chart", request))

    async def examine(self, request: ChartRequest) -> Examined:
        """Render a chart and tell what only its author wants to know; raises as ``chart``."""
        answer = cast("dict[str, list[list[Any]]]", await self._ask_chart("examine", request))
        return Examined(
            tuple(RenderedDocument(*document) for document in answer["documents"]),
            tuple(Repetition(*repetition) for repetition in answer["repetitions"]),
            tuple(HelmHook(*hook) for hook in answer["hooks"]),
        )

    async def template(self, text: str, data: Manifest, *, label: str, file: str) -> str:
        """Render a Go template with sprig; ``data`` is its dot. See docs/reference/templates.md.

        Raises:
            RenderFailed: a wrong expression, or a missing value that would be printed; names ``file`` and line.
            RenderTimeout, WorkerDied: the template hangs or eats memory.
        """
        message = {"text": text, "data": data, "file": file}
        return cast("str", await self._ask("template", message, label=label))

    async def values(self, text: str, *, label: str) -> str:
        """Return the values document inside a rendered ``overwrite.yaml`` as YAML text.

        Raises:
            RenderFailed: not YAML, or neither a mapping nor empty.
        """
        return cast("str", await self._ask("values", {"text": text}, label=label))

    async def overlay(self, text: str, over: Manifest, *, label: str) -> str:
        """Lay values over a values document and return YAML text: slow for large ones, so a worker does it.

        Raises:
            RenderFailed: the text is neither a mapping nor empty, or the values nest too deep.
            RenderTimeout, WorkerDied: it takes too long or too much memory.
        """
        return cast("str", await self._ask("overlay", {"text": text, "over": over}, label=label))

    async def holds(self, expression: str, variables: Mapping[str, Manifest], *, label: str) -> bool:
        """Evaluate a CEL expression; a result that is no bool counts as false.

        Raises:
            CelFailed: it does not compile, or it or an object is too large.
            CelUndecided: it fails on these objects, e.g. on a status not written yet.
            RenderTimeout, WorkerDied: it takes too long or too much memory.
        """
        where = f"{label}, condition {_shown(expression)}"
        if len(expression.encode()) > MAX_EXPRESSION:
            raise CelFailed(f"{where}: is longer than {MAX_EXPRESSION} bytes")
        encoded = {name: orjson.dumps(variable) for name, variable in variables.items()}
        for name, variable in encoded.items():
            if len(variable) > MAX_VARIABLE:
                raise CelFailed(f"{where}: object {name} has {len(variable)} bytes; {MAX_VARIABLE} are allowed")
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
            self._check(work)  # the same input may have failed for another object meanwhile
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
    """A request as it is sent, but for its time."""

    operation: str
    message: dict[str, Any]
    chart: bytes

    @cached_property
    def digest(self) -> bytes:
        """Tells this input from another; computed only when one has failed. Raises BrokenFrameError."""
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
    """Ask, sending the chart only when this worker has not got it."""
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
