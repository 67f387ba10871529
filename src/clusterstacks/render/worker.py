"""The child process: answers one request after the other until its input ends.

Started as ``python -I -m clusterstacks.render.worker MEMORY_BYTES`` with frames on standard input and output. Helm and
CEL are loaded when first asked for, so a worker that only reads values stays small.
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
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.render import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

CHART_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Charts a worker keeps (arbitrary: those of some twenty releases)."""


RESERVED_BYTES: Final = 3 * 1024**3
"""Address space on top of the memory limit: 1.8 GiB are mapped by an idle worker, measured with seven threads."""


class WorkerChartCache:
    """The packed charts this worker was given, the least recently used dropped first."""

    def __init__(self, limit: int = CHART_CACHE_BYTES) -> None:
        self._limit = limit
        self._charts: OrderedDict[str, bytes] = OrderedDict()

    def chart(self, digest: str, sent: bytes) -> bytes | None:
        """Return the chart of a digest, keeping what was just sent; None when it must be sent."""
        chart = sent or self._charts.pop(digest, b"")
        if not chart:
            return None
        self._charts[digest] = chart
        self._charts.move_to_end(digest)
        while len(self._charts) > 1 and sum(map(len, self._charts.values())) > self._limit:
            self._charts.popitem(last=False)
        return chart


class Worker:
    """What this process can do; each operation takes the request and its blob and returns the reply."""

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
        """Perform one request; failures are part of the reply."""
        try:
            return self._operations[request["operation"]](request, blob)
        except ClusterStacksError as error:
            return {"error": type(error).__name__, "message": error.message}
        except MemoryError:
            return {"exhausted": True}
        except Exception as error:  # noqa: BLE001 - a bug here is reported to the parent, which raises it
            # Only places: the text of an error may hold values.
            places = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            return {"bug": f"{type(error).__name__} at {' > '.join(places[-4:])}"}

    def _chart(self, request: dict[str, Any], blob: bytes) -> dict[str, Any]:
        chart = self._charts.chart(request["digest"], blob)
        if chart is None:
            return {"wanted": True}
        from clusterstacks.render import chart_render

        perform = chart_render.examine if request["operation"] == "examine" else chart_render.render
        return {"result": perform(chart, request)}

    def _template(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.render import gotemplate

        return {"result": gotemplate.render(request["text"], request["data"], request["file"])}

    def _values(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.render.values_document import values_document

        return {"result": values_document(request["text"])}

    def _overlay(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.render.values_document import overlaid_document

        return {"result": overlaid_document(request["text"], request["over"])}

    def _holds(self, request: dict[str, Any], _: bytes) -> dict[str, Any]:
        from clusterstacks.render import cel

        return {"result": cel.holds(request["expression"], request["variables"])}


def main() -> None:
    """Serve until the parent closes the input or sends what is no frame."""
    confine(memory_bytes=int(sys.argv[1]))
    source, sink = private_channel()
    worker = Worker()
    # The parent tells a worker that cannot start from one that an input killed.
    sink.write(protocol.encode({"ready": True}))
    sink.flush()
    while (frame := read_frame(source)) is not None:
        # The parent keeps the deadline; this one is for a worker whose parent is gone. The kernel keeps it, whatever
        # native code is running.
        signal.alarm(frame.message["alarm_seconds"])
        reply = worker.answer(frame.message, frame.blob)
        sink.write(encode_reply(reply))
        sink.flush()
        signal.alarm(0)
        if "exhausted" in reply:
            return


def confine(memory_bytes: int) -> None:
    """Bound the memory, be the first to go where there is none left, write no core dumps, leave Ctrl-C to the parent.

    RLIMIT_DATA counts memory that can be written; of the address space Go and glibc reserve more than a gibibyte
    before they use any, so RLIMIT_AS only stops what that limit does not see.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes + RESERVED_BYTES, memory_bytes + RESERVED_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # in a container without /proc the kernel chooses by size
        Path("/proc/self/oom_score_adj").write_text("1000")
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def private_channel() -> tuple[BinaryIO, BinaryIO]:
    """Take the frames' pipes for ourselves, so that nothing a library prints can get among the frames."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, sink


def read_frame(source: BinaryIO) -> protocol.Frame | None:
    """Read the next request; None when the parent is gone."""
    header = source.read(protocol.HEADER_BYTES)
    if not header:
        return None
    text, blob = protocol.lengths(header)
    return protocol.decode(source.read(text), source.read(blob))


def encode_reply(reply: dict[str, Any]) -> bytes:
    """Write a reply; one that is too large becomes an error."""
    try:
        return protocol.encode(reply)
    except protocol.BrokenFrameError as error:
        return protocol.encode({"error": "RenderFailed", "message": str(error)})
    except MemoryError:
        return protocol.encode({"exhausted": True})


if __name__ == "__main__":
    main()
