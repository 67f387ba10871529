"""Runs credential plugins: commands that print an ``ExecCredential``.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.net.kube.errors import CredentialsFailed
from clusterstacks.net.programs import run_program

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
    """Run the command and read its output; its standard error is shown, as by kubectl."""
    code, output = await run_program(
        [plugin.command, *plugin.arguments],
        environ={**os.environ, **plugin.environ, "KUBERNETES_EXEC_INFO": _exec_info(plugin)},
        show_errors=True,
        deadline=deadline,
        max_bytes=MAX_OUTPUT_BYTES,
        failed=partial(_failed, plugin),
    )
    if code:
        raise _failed(plugin, f"failed with exit code {code}")
    return _parse_output(plugin, output)


def _exec_info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    return orjson.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


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
    hint = f"; {plugin.install_hint}" if plugin.install_hint and problem.startswith("cannot be started") else ""
    return CredentialsFailed(f"the credential plugin {plugin.command} {problem}{hint}")
