"""End an environment from outside, whatever state it is in, and remove every file of it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.devcluster import process_records
from clusterstacks.devcluster.state_directory import MARKER_VARIABLE
from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.devcluster.state_directory import StateDirectory

SUPERVISOR_GRACE = timedelta(seconds=30)
"""For the supervisor to stop everything in order; it takes about two seconds."""


def down(state: StateDirectory, report: Callable[[str], None]) -> bool:
    """End every process of the environment and remove its files; False when there was nothing.

    Works as well after the supervisor or anything else was killed.

    Raises:
        DependencyError: a process or a file cannot be removed.
    """
    summary = state.read()
    if summary:
        supervisor = process_records.ProcessRecord(name="supervisor", pid=summary.pid, identity=summary.identity)
        if supervisor.alive:
            report("stopping the environment")
            process_records.end([supervisor], SUPERVISOR_GRACE)
    left = [record for record in process_records.read_all(state.records) if record.alive] + marked(state.root)
    if left:
        report(f"ending {len({record.pid for record in left})} processes that were left behind")
        process_records.end(left)
    still = [record for record in left if record.alive]
    if still:
        named = ", ".join(f"{record.name} (process {record.pid})" for record in still)
        raise DependencyError("ProcessLeft", f"cannot end {named}; end them by hand and run this again")
    found = summary is not None or bool(left)
    if summary is not None:
        remove_files(state)
    return found


def marked(root: Path) -> list[process_records.ProcessRecord]:
    """Find processes of ours that carry the mark of this environment in their environment variables."""
    mark = f"{MARKER_VARIABLE}={root}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):  # somebody else's process, or one that just ended
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    pid = int(entry.name)
                    found.append(
                        process_records.ProcessRecord(
                            name=_command(entry), pid=pid, identity=process_records.identity_of(pid)
                        )
                    )
    return found


def _command(entry: Path) -> str:
    return (entry / "comm").read_text().strip()


def remove_files(state: StateDirectory) -> None:
    """Remove the state directory, and its parent when no other environment lives there.

    Raises:
        DependencyError: something in it cannot be removed.
    """
    shutil.rmtree(state.root, ignore_errors=True)
    if state.root.exists():
        raise DependencyError("FilesLeft", f"{state.root} cannot be removed; remove it by hand")
    with suppress(OSError):  # another environment lives beside it
        state.root.parent.rmdir()
