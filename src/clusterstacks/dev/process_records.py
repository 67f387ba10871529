"""Records of running processes, for ``status`` and ``down`` from another terminal and after a crash.

A record identifies a process by its id, its start time and the boot. The kernel reuses process ids, and a later process
with the same id must never be killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.private_files import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process of the environment."""

    name: str
    """``etcd``, ``operator``, ``default/prod`` for the API server of a cluster."""
    pid: int
    identity: str
    """Distinguishes this process from a later one with the same id."""
    version: str = ""
    port: int = 0
    log: str = ""
    ended: str = ""
    """Description of its end if that was seen; empty while it runs."""

    @property
    def alive(self) -> bool:
        """True while this process runs."""
        return not self.ended and bool(self.identity) and identity_of(self.pid) == self.identity


@dataclass(frozen=True, slots=True)
class Usage:
    """Resident memory in bytes, CPU time in seconds since the start, and age in seconds of a process."""

    memory_bytes: int
    cpu_seconds: float
    age_seconds: float


def identity_of(pid: int) -> str:
    """Return the identity of a running process; empty when it does not run (or is a zombie)."""
    fields = _stat(pid)
    if not fields or fields[0] == "Z":
        return ""
    return f"{BOOT_ID.read_text().strip()}:{fields[19]}"


def usage_of(pid: int) -> Usage | None:
    """Measure a process; None when it does not run."""
    fields = _stat(pid)
    if not fields:
        return None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return Usage(
        memory_bytes=int(fields[21]) * PAGE_BYTES,
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
        age_seconds=max(0.0, uptime - int(fields[19]) / TICKS_PER_SECOND),
    )


def write(directory: Path, record: ProcessRecord) -> None:
    """Write a record and replace an older one of the same name."""
    write_private(_path(directory, record.name), json.dumps(dataclasses.asdict(record)).encode())


def ended(record: ProcessRecord, how: str) -> ProcessRecord:
    """Return the record with the end of its process."""
    return dataclasses.replace(record, ended=how)


def remove(directory: Path, name: str) -> None:
    """Delete the record of a process."""
    _path(directory, name).unlink(missing_ok=True)


def read(directory: Path, name: str) -> ProcessRecord | None:
    """Read one record; None when it does not exist."""
    return _read(_path(directory, name))


def read_all(directory: Path) -> list[ProcessRecord]:
    """Read all records, oldest process first."""
    found = [record for path in directory.glob("*.json") if (record := _read(path))]
    return sorted(found, key=lambda record: (int(record.identity.rpartition(":")[2] or 0), record.pid))


def end(processes: Iterable[ProcessRecord], grace: timedelta = timedelta(0)) -> None:
    """Stop these processes together: SIGTERM, then SIGKILL for those that still run after ``grace``."""
    alive = [record for record in processes if record.alive]
    if grace and alive:
        for record in alive:
            _send(record, signal.SIGTERM)
            _send(record, signal.SIGCONT)
        _wait(alive, grace)
    for record in alive:
        _send(record, signal.SIGKILL)
    _wait(alive, timedelta(seconds=10))


def _send(record: ProcessRecord, number: signal.Signals) -> None:
    # A pidfd always refers to the same process, so the check and the signal cannot hit two processes.
    try:
        descriptor = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        if record.alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _wait(processes: list[ProcessRecord], at_most: timedelta) -> None:
    until = time.monotonic() + at_most.total_seconds()
    while any(record.alive for record in processes) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _path(directory: Path, name: str) -> Path:
    return directory / f"{name.replace('/', '.')}.json"


def _read(path: Path) -> ProcessRecord | None:
    try:
        return ProcessRecord(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on (state is 0, start time 19, memory pages 21)."""
    if pid <= 0:
        return []
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
