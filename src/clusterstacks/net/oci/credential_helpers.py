"""Credential helpers of docker: programs that keep credentials in a key chain (docker-credential-helpers protocol)."""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.errors import DependencyError
from clusterstacks.net.programs import run_program

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

    ``helper`` is the program's name without ``docker-credential-``; the ``PATH`` of ``environ`` is searched. ``server``
    is the registry's name in the configuration. Raises DependencyError if the program is missing or fails.
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
        raise helper_failed(f"{_PREFIX}{helper}", "printed no credentials")
    return username, secret


async def store_in_helper(helper: str, server: str, username: str, secret: str, environ: Mapping[str, str]) -> None:
    """Store the credentials of a server; raise DependencyError if the program is missing or fails."""
    document = json.dumps({"ServerURL": server, "Username": username, "Secret": secret})
    if await _run(helper, "store", document, environ) is None:
        raise helper_failed(f"{_PREFIX}{helper}", "did not store the credentials")


async def erase_from_helper(helper: str, server: str, environ: Mapping[str, str]) -> bool:
    """Delete the credentials of a server; return whether there were any."""
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
        raise helper_failed(
            program, "is not on PATH", "install it, or remove it from the configuration that 'docker login' wrote"
        )
    code, answer = await run_program(
        [path, action],
        environ=environ,
        text=text,
        show_errors=False,
        deadline=deadline,
        max_bytes=MAX_HELPER_ANSWER_BYTES,
        failed=partial(helper_failed, program),
    )
    if not code:
        return answer
    if _NOT_FOUND in answer.lower():
        return None
    raise helper_failed(program, f"ended with exit code {code}")


def helper_failed(program: str, problem: str, remedy: str = "log in with it again") -> DependencyError:
    """Return the error of a helper; its output may contain secrets and is not shown."""
    return DependencyError("CredentialHelperFailed", f"the credential helper {program} {problem}: {remedy}")
