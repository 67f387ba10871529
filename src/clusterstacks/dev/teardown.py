"""Stops an environment from outside, whatever its state, and removes its files."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev import process_records
from clusterstacks.dev.state_directory import MARKER_VARIABLE
from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.dev.state_directory import StateDirectory

SUPERVISOR_GRACE = timedelta(seconds=30)
"""Grace period of the supervisor, which stops all processes in about two seconds."""


def down(state: StateDirectory, report: Callable[[str], None]) -> bool:
    """Stop every process of the environment and remove its files; False when there was none.

    Also works after the supervisor or other processes were killed.
    """
    summary = state.read()
    if summary:
        supervisor = process_records.ProcessRecord(name="supervisor", pid=summary.pid, identity=summary.identity)
        if supervisor.alive:
            report("stopping the environment")
            process_records.end([supervisor], SUPERVISOR_GRACE)
    left = [record for record in process_records.read_all(state.records) if record.alive] + marked(state.root)
    if left:
        report(f"ending {len({record.pid for record in left})} leftover processes")
        process_records.end(left)
    still = [record for record in left if record.alive]
    if still:
        named = ", ".join(f"{record.name} (process {record.pid})" for record in still)
        raise DependencyError("ProcessLeft", f"cannot end {named}; kill them and run this again")
    found = summary is not None or bool(left)
    if summary is not None:
        remove_files(state)
    return found


def marked(root: Path) -> list[process_records.ProcessRecord]:
    """Find processes with this environment's marker in their environment variables."""
    mark = f"{MARKER_VARIABLE}={root}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):  # another user's process, or one that has just ended
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
    """Remove the state directory, and its parent when that is empty."""
    shutil.rmtree(state.root, ignore_errors=True)
    if state.root.exists():
        raise DependencyError("FilesLeft", f"{state.root} cannot be removed; remove it by hand")
    with suppress(OSError):  # another environment uses it
        state.root.parent.rmdir()
