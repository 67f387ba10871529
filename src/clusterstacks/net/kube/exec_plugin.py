"""Runs credential plugins: commands that print an ``ExecCredential``.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.net.kube.errors import CredentialsFailed
from clusterstacks.net.kube.process_group import kill_process_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.net.kube.connection import ExecPlugin

DEADLINE = timedelta(seconds=60)
"""Maximum duration of a plugin run (arbitrary; the deadline of the waiting call is shorter)."""

MAX_OUTPUT_BYTES = 1024 * 1024
"""Maximum size of the output (arbitrary; a token or a certificate chain has a few KB)."""


@dataclass(frozen=True, slots=True)
class PluginCredentials:
    """Credentials that a plugin printed; without ``expires`` they are valid until the server refuses them."""

    token: str = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    expires: datetime | None


async def run_plugin(plugin: ExecPlugin, *, deadline: timedelta = DEADLINE) -> PluginCredentials:
    """Run the command and read its output.

    Its standard error goes to the standard error of this process, as with kubectl, and never into a message, because it
    may contain secrets.

    Raises:
        CredentialsFailed: The command cannot be started, fails, times out, or prints no usable credentials.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **plugin.environ, "KUBERNETES_EXEC_INFO": _exec_info(plugin)},
            start_new_session=True,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise _failed(plugin, f"cannot be started: {error.strerror}{hint}") from None
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            output = await _read_output(plugin, process)
    except TimeoutError:
        raise _failed(plugin, f"did not finish within {deadline.total_seconds():g} s") from None
    finally:
        await kill_process_group(process)
    if process.returncode:
        raise _failed(plugin, f"failed with exit code {process.returncode}")
    return _parse_output(plugin, output)


def _exec_info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    return orjson.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


async def _read_output(plugin: ExecPlugin, process: asyncio.subprocess.Process) -> bytes:
    output = bytearray()
    while process.stdout and (piece := await process.stdout.read(65536)):
        output += piece
        if len(output) > MAX_OUTPUT_BYTES:
            raise _failed(plugin, f"printed more than {MAX_OUTPUT_BYTES} bytes")
    await process.wait()
    return bytes(output)


def _parse_output(plugin: ExecPlugin, output: bytes) -> PluginCredentials:
    try:
        document = orjson.loads(output)
    except orjson.JSONDecodeError:
        raise _failed(plugin, "did not print valid JSON") from None
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != "ExecCredential":
        raise _failed(plugin, "did not print an ExecCredential with a status")
    if document.get("apiVersion") != plugin.api_version:
        raise _failed(plugin, f"printed an ExecCredential of another version than {plugin.api_version}")
    token, certificate, key = (
        _text(plugin, status, name) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise _failed(plugin, "printed a certificate without a key or a key without a certificate")
    if not token and not certificate:
        raise _failed(plugin, "printed neither a token nor a certificate")
    return PluginCredentials(token, certificate.encode(), key.encode(), _expiry(plugin, status))


def _text(plugin: ExecPlugin, status: Mapping[str, Any], name: str) -> str:
    value = status.get(name) or ""
    if not isinstance(value, str):
        raise _failed(plugin, f"printed a status.{name} that is not a string")
    return value


def _expiry(plugin: ExecPlugin, status: Mapping[str, Any]) -> datetime | None:
    text = _text(plugin, status, "expirationTimestamp")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _failed(plugin, "printed a status.expirationTimestamp that is not an RFC 3339 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _failed(plugin: ExecPlugin, problem: str) -> CredentialsFailed:
    return CredentialsFailed(f"the credential plugin {plugin.command} {problem}")
