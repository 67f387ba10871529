"""Runs of programs: how long, how much CPU, how much memory at most."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.report import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

WATCH_SECONDS = 0.01
_PEAK = "VmHWM:"


class Spent(NamedTuple):
    """What one run of a program took.

    Args:
        seconds: From its start to its end.
        cpu: Its own and that of the processes it waited for, in seconds.
        memory: The most it had resident, in bytes; without its children.
        printed: Its standard output.
    """

    seconds: float
    cpu: float
    memory: int
    printed: str = ""


def run(command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> Spent:
    """Run a program; it must succeed."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=printed, stderr=said, env=environ)
        peak = _Peak(process.pid)
        peak.start()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        peak.join()
        printed.seek(0)
        said.seek(0)
        assert process.returncode == 0, f"{command}: {said.read()}"
        return Spent(seconds, used.ru_utime + used.ru_stime, peak.size, printed.read())


def interleaved(commands: Mapping[str, Sequence[str | Path]], runs: int) -> dict[str, list[Spent]]:
    """Run programs in turns, so that they share the load of the machine; a first turn fills the caches."""
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            found = run(command)
            if turn:
                spent[name].append(found)
    return spent


def ratio(what: str, ours: Sequence[Spent], theirs: Sequence[Spent], field: str = "seconds") -> Figure:
    """Compare runs that took turns."""
    pairs = zip(ours, theirs, strict=True)
    return Figure(what, [getattr(one, field) / getattr(other, field) for one, other in pairs], "x")


class _Peak(threading.Thread):
    """Reads a process's own peak, which what is waited for would not tell: that one counts its parent's memory, too."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.size = 0
        self._pid = pid

    def run(self) -> None:
        with suppress(FileNotFoundError, ProcessLookupError, StopIteration):  # the process has ended
            while True:
                self.size = max(self.size, peak(self._pid))
                time.sleep(WATCH_SECONDS)


def peak(pid: int) -> int:
    """Return the most that a process had resident so far, in bytes."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 - 100 times a second
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(_PEAK))
