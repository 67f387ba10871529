"""Ends a child process and all processes that it started."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from datetime import timedelta

DRAIN = timedelta(seconds=5)
"""Maximum time for the rest of the output of a killed process (arbitrary; a pipe holds 64 KiB). A process that left the
group can keep the pipe open."""


async def kill_process_group(process: asyncio.subprocess.Process) -> None:
    """Kill the process group of a process that still runs, and wait for its end.

    The process was started with ``start_new_session``. The rest of its output is read and dropped, because ``wait``
    returns only after the end of a pipe, which asyncio does not read while its buffer is full.
    """
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN.total_seconds()):
            while process.stdout and await process.stdout.read(65536):
                pass
            await process.wait()
