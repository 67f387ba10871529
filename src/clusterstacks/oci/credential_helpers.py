"""Programs that keep credentials: ``docker-credential-<name> get`` (github.com/docker/docker-credential-helpers)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.oci.errors import HelperFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

DEADLINE = timedelta(seconds=30)
"""Longest run of a helper (arbitrary; some ask a cloud)."""

MAX_ANSWER_BYTES = 64 * 1024
"""Largest answer read (arbitrary; a token has a few KB)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOT_FOUND = b"credentials not found"
"""What a helper prints that keeps nothing for the server; it is the protocol's only way to say so."""


async def ask(
    helper: str, server: str, environ: Mapping[str, str], deadline: timedelta = DEADLINE
) -> tuple[str, str] | None:
    """Return the user name and secret a helper keeps for a server; None when it keeps none.

    Args:
        helper: The program's name without ``docker-credential-``.
        server: What the configuration calls the registry.
        environ: What the helper sees; its ``PATH`` says where it is.
        deadline: Longest run.

    Raises:
        HelperFailed: There is no such program, or it fails.
    """
    program = f"docker-credential-{helper}"
    path = shutil.which(program, path=environ.get("PATH", os.defpath)) if _NAME.fullmatch(helper) else None
    if path is None or not os.path.isabs(path):  # noqa: PTH117 - never one out of the working directory
        raise HelperFailed(
            program, "is not on PATH", "install it, or take it out of the configuration that 'docker login' wrote"
        )
    code, answer = await _run(program, path, server, environ, deadline)
    if code:
        if _NOT_FOUND in answer.lower():
            return None
        raise HelperFailed(program, f"ended with exit code {code}")
    try:
        document = json.loads(answer)
        username, secret = document["Username"], document["Secret"]
    except (ValueError, LookupError, TypeError, RecursionError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str):
        raise HelperFailed(program, "printed no credentials")
    return username, secret


async def _run(
    program: str, path: str, server: str, environ: Mapping[str, str], deadline: timedelta
) -> tuple[int, bytes]:
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise HelperFailed(program, f"cannot be started ({error.strerror})") from None
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            answer = await _converse(program, process, server)
            return await process.wait(), answer
    except TimeoutError:
        raise HelperFailed(program, f"gave no answer within {deadline.total_seconds():g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _converse(program: str, process: asyncio.subprocess.Process, server: str) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise HelperFailed(program, "cannot be talked to")
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(f"{server}\n".encode())
        await process.stdin.drain()
        process.stdin.close()
    answer = bytearray()
    while piece := await process.stdout.read(65536):
        answer += piece
        if len(answer) > MAX_ANSWER_BYTES:
            raise HelperFailed(program, f"printed more than {MAX_ANSWER_BYTES} bytes")
    return bytes(answer)
