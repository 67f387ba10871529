"""Credential helpers of docker: programs that keep credentials in a key chain (docker-credential-helpers protocol)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.net.kube.process_group import kill_process_group
from clusterstacks.net.oci.errors import HelperFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

HELPER_DEADLINE = timedelta(seconds=30)
"""Longest run of a helper (arbitrary; some ask a cloud)."""

MAX_HELPER_ANSWER_BYTES = 64 * 1024
"""Largest answer read (arbitrary; a token has a few KB)."""

_PREFIX = "docker-credential-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOT_FOUND = b"credentials not found"
"""Output of a helper without credentials for the server, as the protocol defines it."""


async def ask_helper(
    helper: str, server: str, environ: Mapping[str, str], deadline: timedelta = HELPER_DEADLINE
) -> tuple[str, str] | None:
    """Return user name and secret of a server from a helper; None when it has none.

    Args:
        helper: Program name without ``docker-credential-``.
        server: Name of the registry in the configuration.
        environ: Environment of the helper; its ``PATH`` is searched.
        deadline: Longest run.

    Raises:
        HelperFailed: The program is missing or fails.
    """
    answer = await _run(helper, "get", server, environ, deadline)
    if answer is None:
        return None
    try:
        document = json.loads(answer)
        username, secret = document["Username"], document["Secret"]
    except (ValueError, LookupError, TypeError, RecursionError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str):
        raise HelperFailed(f"{_PREFIX}{helper}", "printed no credentials")
    return username, secret


async def store_in_helper(helper: str, server: str, username: str, secret: str, environ: Mapping[str, str]) -> None:
    """Store the credentials of a server.

    Raises:
        HelperFailed: The program is missing or fails.
    """
    document = json.dumps({"ServerURL": server, "Username": username, "Secret": secret})
    if await _run(helper, "store", document, environ) is None:
        raise HelperFailed(f"{_PREFIX}{helper}", "did not store the credentials")


async def erase_from_helper(helper: str, server: str, environ: Mapping[str, str]) -> bool:
    """Delete the credentials of a server; return whether there were any.

    Raises:
        HelperFailed: The program is missing or fails.
    """
    if await ask_helper(helper, server, environ) is None:
        return False
    await _run(helper, "erase", server, environ)
    return True


async def _run(
    helper: str, action: str, text: str, environ: Mapping[str, str], deadline: timedelta = HELPER_DEADLINE
) -> bytes | None:
    """Run a helper and return its output; None if it has no credentials for the server."""
    program = f"{_PREFIX}{helper}"
    path = shutil.which(program, path=environ.get("PATH", os.defpath)) if _NAME.fullmatch(helper) else None
    if path is None or not os.path.isabs(path):  # noqa: PTH117 - never one out of the working directory
        raise HelperFailed(
            program, "is not on PATH", "install it, or remove it from the configuration that 'docker login' wrote"
        )
    code, answer = await _output(program, [path, action], text, environ, deadline)
    if not code:
        return answer
    if _NOT_FOUND in answer.lower():
        return None
    raise HelperFailed(program, f"ended with exit code {code}")


async def _output(
    program: str, command: list[str], text: str, environ: Mapping[str, str], deadline: timedelta
) -> tuple[int, bytes]:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
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
            answer = await _converse(program, process, text)
            return await process.wait(), answer
    except TimeoutError:
        raise HelperFailed(program, f"gave no answer within {deadline.total_seconds():g} s") from None
    finally:
        await kill_process_group(process)


async def _converse(program: str, process: asyncio.subprocess.Process, text: str) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise HelperFailed(program, "cannot be communicated with")
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(f"{text}\n".encode())
        await process.stdin.drain()
        process.stdin.close()
    answer = bytearray()
    while piece := await process.stdout.read(65536):
        answer += piece
        if len(answer) > MAX_HELPER_ANSWER_BYTES:
            raise HelperFailed(program, f"printed more than {MAX_HELPER_ANSWER_BYTES} bytes")
    return bytes(answer)
