"""The end of a child process whose output nobody reads to its end."""

from __future__ import annotations

import asyncio
import sys

from clusterstacks.net.programs import kill_process_group


async def test_kill_of_a_process_whose_output_fills_buffer_and_pipe_does_not_wait_for_a_reader() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "while True: print('x' * 65536)",
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=1024,
    )
    assert process.stdout is not None
    await process.stdout.readexactly(1)

    async with asyncio.timeout(60):
        await kill_process_group(process)

    assert process.returncode == -9
