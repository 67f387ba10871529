"""Processes that programs under test have started."""

from __future__ import annotations

import time
from pathlib import Path


def number_in(file: Path) -> int:
    """Wait until a program has written the number of a process into a file."""
    until = time.monotonic() + 120
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < until, f"{file} was not written"
        time.sleep(0.05)
    return int(file.read_text())


def is_running(process: int) -> bool:
    """Return whether a process has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
