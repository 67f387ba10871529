"""Run a credential plugin: a command that prints an ``ExecCredential``.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.kube.errors import CredentialsFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.kube.connection import ExecPlugin

DEADLINE = timedelta(seconds=60)
"""Longest run of a plugin (arbitrary; a call that waits for it ends by its own deadline before)."""

MAX_ANSWER_BYTES = 1024 * 1024
"""Largest answer read (arbitrary; a token or a certificate chain has a few KB)."""


@dataclass(frozen=True, slots=True)
class PluginCredentials:
    """What a plugin printed; ``expires`` is None when it is good until the server refuses it."""

    token: str = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    expires: datetime | None


async def issue(plugin: ExecPlugin, *, deadline: timedelta = DEADLINE) -> PluginCredentials:
    """Run the command and read its answer.

    Its standard error goes to ours, as with kubectl, and never into a message: it may hold anything.

    Raises:
        CredentialsFailed: No such command, an exit code, a timeout, or an answer without usable credentials.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **plugin.environ, "KUBERNETES_EXEC_INFO": _question(plugin)},
            start_new_session=True,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise _failed(plugin, f"cannot be started: {error.strerror}{hint}") from None
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            answer = await _bounded_answer(plugin, process)
    except TimeoutError:
        raise _failed(plugin, f"gave no answer within {deadline.total_seconds():g} s") from None
    finally:
        await _end(process)
    if process.returncode:
        raise _failed(plugin, f"ended with exit code {process.returncode}")
    return _read(plugin, answer)


def _question(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    return orjson.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


async def _bounded_answer(plugin: ExecPlugin, process: asyncio.subprocess.Process) -> bytes:
    answer = bytearray()
    while process.stdout and (piece := await process.stdout.read(65536)):
        answer += piece
        if len(answer) > MAX_ANSWER_BYTES:
            raise _failed(plugin, f"printed more than {MAX_ANSWER_BYTES} bytes")
    await process.wait()
    return bytes(answer)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave no process behind, whatever ended the run."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _read(plugin: ExecPlugin, answer: bytes) -> PluginCredentials:
    try:
        document = orjson.loads(answer)
    except orjson.JSONDecodeError:
        raise _failed(plugin, "printed no JSON") from None
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != "ExecCredential":
        raise _failed(plugin, "printed no ExecCredential with a status")
    if document.get("apiVersion") != plugin.api_version:
        raise _failed(plugin, f"answered in another version than {plugin.api_version}")
    token, certificate, key = (
        _text(plugin, status, name) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise _failed(plugin, "printed a certificate without key or a key without certificate")
    if not token and not certificate:
        raise _failed(plugin, "printed neither a token nor a certificate")
    return PluginCredentials(token, certificate.encode(), key.encode(), _expiry(plugin, status))


def _text(plugin: ExecPlugin, status: Mapping[str, Any], name: str) -> str:
    value = status.get(name) or ""
    if not isinstance(value, str):
        raise _failed(plugin, f"printed a status.{name} that is no text")
    return value


def _expiry(plugin: ExecPlugin, status: Mapping[str, Any]) -> datetime | None:
    text = _text(plugin, status, "expirationTimestamp")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _failed(plugin, "printed a status.expirationTimestamp that is no RFC 3339 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _failed(plugin: ExecPlugin, what: str) -> CredentialsFailed:
    return CredentialsFailed(f"the credential plugin {plugin.command} {what}")
