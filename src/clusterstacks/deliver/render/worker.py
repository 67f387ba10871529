"""Main program of a render worker: answers one request after the other until its input ends.

Started as ``python -I -m clusterstacks.deliver.render.worker MEMORY_BYTES`` with frames on standard input and
output. Helm and CEL are imported on first use, so a worker that only reads values stays small.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import traceback
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from clusterstacks.deliver.render import protocol
from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.model.errors import ClusterStacksError

if TYPE_CHECKING:
    from collections.abc import Callable

CHART_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Size of the charts that a worker keeps (arbitrary: about twenty releases)."""


RESERVED_BYTES: Final = 3 * 1024**3
"""Address space in addition to the memory limit: an idle worker with seven threads maps 1.8 GiB (measured)."""


class WorkerChart(NamedTuple):
    """A packed chart, and its nulls as values of the user."""

    packed: bytes
    nulls: dict[str, Any]


class WorkerChartCache:
    """The charts that this worker received; the least recently used are dropped first."""

    def __init__(self, limit: int = CHART_CACHE_BYTES) -> None:
        self._limit = limit
        self._charts: OrderedDict[str, WorkerChart] = OrderedDict()

    def chart(self, digest: str, sent: WorkerChart | None) -> WorkerChart | None:
        """Return the chart of a digest and keep it if it was sent; None if it must be sent."""
        chart = sent or self._charts.pop(digest, None)
        if chart is None:
            return None
        self._charts[digest] = chart
        self._charts.move_to_end(digest)
        while len(self._charts) > 1 and sum(len(chart.packed) for chart in self._charts.values()) > self._limit:
            self._charts.popitem(last=False)
        return chart


class Worker:
    """The operations of a worker; each takes the request and its blob and returns the reply."""

    def __init__(self) -> None:
        self._charts = WorkerChartCache()
        self._operations: dict[str, Callable[[dict[str, Any], bytes], dict[str, Any]]] = {
            "chart": self._chart,
            "examine": self._chart,
            "template": self._template,
            "values": self._values,
            "overlay": self._overlay,
            "holds": self._holds,
        }

    def answer(self, request: dict[str, Any], blob: bytes) -> dict[str, Any]:
        """Perform one request; errors are part of the reply."""
        try:
            return self._operations[request["operation"]](request, blob)
        except ClusterStacksError as error:
            return {"error": type(error).__name__, "message": error.message}
        except MemoryError:
            return {"exhausted": True}
        except Exception as error:  # noqa: BLE001 - a bug; the parent raises it
            # Only positions: the text of an error may contain values.
            places = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            return {"bug": f"{type(error).__name__} at {' > '.join(places[-4:])}"}

    def _chart(self, request: dict[str, Any], blob: bytes) -> dict[str, Any]:
        from clusterstacks.deliver.render import helm, helm_output
        from clusterstacks.deliver.render.default_nulls import separated_nulls
        from clusterstacks.deliver.render.values_document import helm_values, merge_values

        sent = WorkerChart(*separated_nulls(_repacked(blob))) if blob else None
        chart = self._charts.chart(request["digest"], sent)
        if chart is None:
            return {"wanted": True}
        options = {
            "name": request["release_name"],
            "namespace": request["namespace"],
            "kube_version": request["kube_version"],
        }
        values = merge_values(chart.nulls, helm_values(request["values"]))
        templates, crds = helm.render(chart.packed, values, options)
        included = crds if request["include_crds"] else ()
        if request["operation"] == "chart":
            return {"result": helm_output.manifests(templates, included)}
        return {
            "result": {
                "documents": [list(document) for document in helm_output.documents(templates, included)],
                "repetitions": [list(repetition) for repetition in helm_output.repetitions(templates)],
                "hooks": [list(hook) for hook in helm_output.hooks(templates)],
            }
        }

    def _template(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.deliver.render import gotemplate

        return {"result": gotemplate.render(request["text"], request["data"], request["file"])}

    def _values(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.deliver.render.values_document import values_document

        return {"result": values_document(request["text"])}

    def _overlay(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.deliver.render.values_document import overlaid_document

        return {"result": overlaid_document(request["text"], request["over"])}

    def _holds(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.deliver.render import cel

        return {"result": cel.holds(request["expression"], request["variables"])}


def _repacked(chart: bytes) -> bytes:
    from clusterstacks.release.charts.chart import repack
    from clusterstacks.release.charts.errors import UnsafeArchive

    try:
        return repack(chart, "its archive")
    except UnsafeArchive as error:
        raise RenderFailed(error.message) from None


def main() -> None:
    """Serve requests until the parent closes the input or sends an invalid frame."""
    confine(memory_bytes=int(sys.argv[1]))
    source, sink = private_channel()
    worker = Worker()
    # The parent distinguishes a worker that cannot start from one that an input killed.
    sink.write(protocol.encode({"ready": True}))
    sink.flush()
    while (frame := read_frame(source)) is not None:
        # The parent enforces the deadline; the alarm is for a worker without a parent. It works during native code.
        signal.alarm(frame.message["alarm_seconds"])
        reply = worker.answer(frame.message, frame.blob)
        sink.write(encode_reply(reply))
        sink.flush()
        signal.alarm(0)
        if "exhausted" in reply:
            return


def confine(memory_bytes: int) -> None:
    """Limit the memory, be the first choice of the OOM killer, disable core dumps, and ignore Ctrl-C.

    RLIMIT_DATA counts writable memory. Go and glibc reserve more than a gibibyte of address space in advance, so
    RLIMIT_AS only stops allocations that RLIMIT_DATA does not count.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes + RESERVED_BYTES, memory_bytes + RESERVED_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # a container may have no /proc
        Path("/proc/self/oom_score_adj").write_text("1000")
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def private_channel() -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes of the frames to other descriptors, so that output of libraries cannot corrupt them."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, sink


def read_frame(source: BinaryIO) -> protocol.Frame | None:
    """Read the next request; None if the parent is gone."""
    header = source.read(protocol.HEADER_BYTES)
    if not header:
        return None
    text, blob = protocol.lengths(header)
    return protocol.decode(source.read(text), source.read(blob))


def encode_reply(reply: dict[str, Any]) -> bytes:
    """Encode a reply; a reply that is too large becomes an error."""
    try:
        return protocol.encode(reply)
    except protocol.BrokenFrameError as error:
        return protocol.encode({"error": "RenderFailed", "message": str(error)})
    except MemoryError:
        return protocol.encode({"exhausted": True})


if __name__ == "__main__":
    main()
