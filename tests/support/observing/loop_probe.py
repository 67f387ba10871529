"""Measures the CPU time between two responses of an HTTP server process, and its peak memory."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

PAUSE_SECONDS = 0.005
ANSWER_SECONDS = 60


class LoopProbe:
    """Requests ``/healthz`` repeatedly from a thread until the block ends.

    A loaded machine makes every answer late, so seconds say nothing: what counts is the CPU time that the process used,
    in all its threads, while one question was open. A loop that goes round answers within some milliseconds of work.

    Args:
        pid: The process.
        port: Where it answers ``/healthz`` on 127.0.0.1.
    """

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="loop probe", daemon=True)
        self.answers = 0
        self.longest_stall = 0.0
        """CPU seconds of the process during its slowest answer."""
        self.problem = ""
        """The first answer that did not come."""

    def __enter__(self) -> Self:
        self._resident_before = self._resident_bytes("VmRSS")
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")  # VmHWM counts from here
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def memory_growth(self) -> int:
        """Bytes between resident memory at the beginning and the peak since."""
        return self._resident_bytes("VmHWM") - self._resident_before

    def _ask(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            before = self._cpu_seconds()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS)
                connection.request("GET", "/healthz")
                status = connection.getresponse().status
                connection.close()
            except OSError as error:
                self.problem = self.problem or f"/healthz: {error}"
                continue
            self.answers += 1
            self.longest_stall = max(self.longest_stall, self._cpu_seconds() - before)
            if status != 200:
                self.problem = self.problem or f"/healthz: {status}"

    def _cpu_seconds(self) -> float:
        used = 0
        for thread in Path(f"/proc/{self._pid}/task").glob("*/schedstat"):
            try:
                used += int(thread.read_text().split()[0])
            except OSError:
                continue  # a thread that ended between the listing and the read
        return used / 1e9

    def _resident_bytes(self, field: str) -> int:
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise LookupError(field)
