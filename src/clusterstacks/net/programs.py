"""Runs programs that print credentials, with a deadline and a limit on the output."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clusterstacks.model.errors import ClusterStacksError

DRAIN = timedelta(seconds=5)
"""Maximum time for the rest of the output of a killed process (arbitrary; a pipe holds 64 KiB). A process that left the
group can keep the pipe open."""


async def run_program(  # noqa: PLR0913  # the limits of two kinds of programs
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    text: str = "",
    show_errors: bool,
    deadline: timedelta,
    max_bytes: int,
    failed: Callable[[str], ClusterStacksError],
) -> tuple[int, bytes]:
    """Run a program and return its exit code and output; it and all processes that it started are ended.

    Standard error is never part of a message, because it may contain secrets; ``show_errors`` sends it to that of this
    process. ``text`` is one line of input, empty for none. ``failed`` returns the error for a problem, such as ``cannot
    be started: Permission denied``.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if text else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if show_errors else asyncio.subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise failed(f"cannot be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            output = bytearray()
            if process.stdin is not None:
                with suppress(BrokenPipeError, ConnectionResetError):
                    process.stdin.write(f"{text}\n".encode())
                    await process.stdin.drain()
                    process.stdin.close()
            while process.stdout and (piece := await process.stdout.read(65536)):
                output += piece
                if len(output) > max_bytes:
                    raise failed(f"printed more than {max_bytes} bytes")
            return await process.wait(), bytes(output)
    except TimeoutError:
        raise failed(f"did not finish within {deadline.total_seconds():g} s") from None
    finally:
        await kill_process_group(process)


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
