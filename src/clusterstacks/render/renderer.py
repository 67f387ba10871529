"""What the rest of the program asks for: charts, templates, values and conditions, evaluated in worker processes.

Nothing of Helm or CEL is ever loaded into this process: their memory, crashes and endless loops stay in workers that
can be killed (DEPENDENCIES 3 and 5).
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from clusterstacks.render.errors import CelFailed, CelUndecided, RenderFailed, RenderTimeout, WorkerDied
from clusterstacks.render.examined import Document, Examined, Repetition
from clusterstacks.render.frames import BrokenFrameError
from clusterstacks.render.processes import WorkerPool, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.domain.objects import Manifest

MEMORY_BYTES: Final = 768 * 1024**2
"""Writable memory of one worker (arbitrary: 144 MiB are taken once Helm is loaded, a Cilium render needs 40 more)."""

DEADLINE: Final = timedelta(seconds=60)
"""Longest render (arbitrary: the largest chart measured takes 0.2 s)."""

IDLE: Final = timedelta(seconds=30)
"""How long a worker waits for more work (arbitrary: a start costs 0.2 s, a waiting worker 90 MB)."""

MAX_EXPRESSION: Final = 2 * 1024
MAX_VARIABLE: Final = 256 * 1024
"""Bytes of a CEL expression and of each object it sees: the library bounds iterations, not bytes (DEPENDENCIES 3)."""

_ORPHAN_SECONDS: Final = 10
"""How long after the deadline a worker without a parent ends itself (arbitrary: the parent kills at the deadline)."""

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


class Renderer:
    """Renders in up to ``workers`` child processes, started when first needed.

    Args:
        workers: Processes at once; more requests wait in line.
        memory_bytes: Writable memory of each, at least 384 MiB.
        deadline: Wall-clock time of one request, waiting in line not counted.
        idle: How long a process without work stays.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        memory_bytes: int = MEMORY_BYTES,
        deadline: timedelta = DEADLINE,
        idle: timedelta = IDLE,
    ) -> None:
        self._deadline = deadline
        self._pool = WorkerPool(workers, memory_bytes, idle)

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
            tuple(Document(*document) for document in answer["documents"]),
            tuple(Repetition(*repetition) for repetition in answer["repetitions"]),
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
        seconds = self._deadline.total_seconds()
        request = {"operation": operation, "alarm_seconds": int(seconds) + _ORPHAN_SECONDS, **message}
        try:
            async with self._pool.worker() as worker, asyncio.timeout(seconds):
                reply = await _exchange(worker, request, chart)
        except TimeoutError:
            raise RenderTimeout(f"{label}: took longer than {seconds:g} s and was stopped") from None
        except WorkerDied as error:
            raise WorkerDied(f"{label}: {error.message}") from None
        except BrokenFrameError as error:
            raise RenderFailed(f"{label}: {error}") from None
        if "result" in reply:
            return reply["result"]
        raise _failure(reply, label)


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
