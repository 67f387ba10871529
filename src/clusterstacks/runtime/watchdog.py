"""Measures for how long the event loop stands still, and names the task that held it."""

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
"""Between two beats. A stall is measured too short by this at most: one of ``BEAT_SECONDS + WORTH_A_LINE`` is always
logged, a shorter one by chance. Each beat of an idle operator costs about 0.1 ms of CPU time."""

LATE_SECONDS: Final = 0.75
"""Age of a beat from which on the loop is taken to stand still: half a beat is more than an idle loop is ever late."""

LOOK_SECONDS: Final = 1.0
"""Between two looks of the thread: the task of a stall of ``LATE_SECONDS + LOOK_SECONDS`` is always named. Each look
costs as much as a beat."""

WORTH_A_LINE: Final = 0.5
"""Seconds from which on a stall is logged (arbitrary; probes and webhooks bear with seconds)."""

PACKAGE: Final = "clusterstacks"

log = logging.getLogger(__name__)


class Watchdog:
    """A task that beats on the event loop, and a thread that looks at the loop when a beat is late.

    While C code holds the interpreter, e.g. a parser, the thread cannot look either: it does so right after.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._beat = 0.0
        self._culprit = ""
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Watch the running loop until cancelled."""
        self._beat = time.monotonic()
        watching = (asyncio.get_running_loop(), threading.get_ident())
        thread = threading.Thread(target=self._watch, args=watching, name="watchdog", daemon=True)
        thread.start()
        try:
            while True:
                self._culprit = ""
                cpu = time.process_time()
                self._beat = time.monotonic()
                await asyncio.sleep(BEAT_SECONDS)
                self._note(time.monotonic() - self._beat - BEAT_SECONDS, time.process_time() - cpu)
        finally:
            self._stopped.set()

    def _note(self, late: float, cpu: float) -> None:
        """Note how late a beat is, and how much CPU time the process used since the one before."""
        self._metrics.note_stall(late, min(late, cpu))
        if late > WORTH_A_LINE:
            log.warning(
                "The event loop stood still for %.2f s (%.2f s of CPU time) in %s",
                late,
                cpu,
                self._culprit or "a task that is unknown",
            )

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            if time.monotonic() - self._beat > LATE_SECONDS and not self._culprit:
                frame = sys._current_frames().get(thread)  # noqa: SLF001  # documented, in spite of its name
                task = asyncio.current_task(loop)
                self._culprit = f"{task.get_name() if task else 'a callback'} ({_place(frame)})"


def _place(frame: FrameType | None) -> str:
    """Name the innermost function of our own that a thread is in."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == PACKAGE:
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "code of a library"
