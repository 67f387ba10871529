"""Watchdog: measures stalls of the event loop and names the task that blocks it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

    from clusterstacks.runtime.metrics import Metrics

BEAT_SECONDS: Final = 0.5
"""Interval of heartbeats. The measured duration is too short by at most this, so a stall of ``BEAT_SECONDS +
LOGGED_STALL_SECONDS`` is always logged. A heartbeat of an idle operator costs about 0.1 ms of CPU time."""

LATE_SECONDS: Final = 0.75
"""Age of a heartbeat that means a stall; an idle loop is never half an interval late."""

CHECK_SECONDS: Final = 1.0
"""Interval of checks by the thread: the task of a stall of ``LATE_SECONDS + CHECK_SECONDS`` is always named. A check
costs as much as a heartbeat."""

LOGGED_STALL_SECONDS: Final = 0.5
"""Minimum duration of a stall that is logged (arbitrary; probes and webhooks tolerate seconds)."""

PACKAGE: Final = "clusterstacks"

log = logging.getLogger(__name__)


class Watchdog:
    """A heartbeat task on the event loop, and a thread that inspects the loop when a heartbeat is late.

    While C code holds the interpreter, e.g. a parser, the thread cannot run; it runs right after that.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._beat = 0.0
        self._blocking_task = ""
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Watch the running loop until cancelled."""
        self._beat = time.monotonic()
        watching = (asyncio.get_running_loop(), threading.get_ident())
        thread = threading.Thread(target=self._watch, args=watching, name="watchdog", daemon=True)
        thread.start()
        try:
            while True:
                self._blocking_task = ""
                cpu = time.process_time()
                self._beat = time.monotonic()
                await asyncio.sleep(BEAT_SECONDS)
                self._note(time.monotonic() - self._beat - BEAT_SECONDS, time.process_time() - cpu)
        finally:
            self._stopped.set()

    def _note(self, late: float, cpu: float) -> None:
        """Record the delay of a heartbeat, and the CPU time of the process since the previous one."""
        self._metrics.note_stall(late, min(late, cpu))
        if late > LOGGED_STALL_SECONDS:
            log.warning(
                "The event loop was blocked for %.2f s (%.2f s of CPU time) by %s",
                late,
                cpu,
                self._blocking_task or "an unknown task",
            )

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._stopped.wait(CHECK_SECONDS):
            if time.monotonic() - self._beat > LATE_SECONDS and not self._blocking_task:
                frame = sys._current_frames().get(thread)  # noqa: SLF001  # documented in spite of its name
                task = asyncio.current_task(loop)
                self._blocking_task = f"{task.get_name() if task else 'a callback'} ({_place(frame)})"


def _place(frame: FrameType | None) -> str:
    """Return the innermost function of this package in a stack."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == PACKAGE:
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "a library"
