"""Credentials for requests: authentication headers and TLS contexts, renewed when their source changes."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from clusterstacks.net.kube.errors import CredentialsFailed
from clusterstacks.net.kube.exec_plugin import PluginCredentials, run_plugin
from clusterstacks.net.tls import client_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.net.kube.connection import Connection, DataOrFile

READ_INTERVAL = timedelta(seconds=1)
"""Interval between reads of a file (arbitrary; old and new credentials overlap by minutes)."""

MAX_BYTES = 1024 * 1024
"""Largest file read (arbitrary; a CA bundle of all system roots has 220 KB)."""


class ReloadingFile:
    """Reads a ``DataOrFile``; ``read`` is cheap enough for every request, because it reads the file once a second."""

    def __init__(self, credential: DataOrFile, monotonic: Callable[[], float]) -> None:
        self._content: bytes | None = None if credential.file else credential.content
        self._path = credential.file
        self._monotonic = monotonic
        self._read_at = float("-inf")

    def read(self) -> bytes:
        """Return the content, which is at most ``READ_INTERVAL`` old; if the file disappears, its last content."""
        now = self._monotonic()
        if self._path is not None and now - self._read_at >= READ_INTERVAL.total_seconds():
            try:
                with self._path.open("rb") as file:
                    self._content = file.read(MAX_BYTES)
                self._read_at = now
            except OSError as error:
                if self._content is None:
                    raise CredentialsFailed(f"{self._path} cannot be read: {error.strerror}") from None
        return self._content or b""

    def expire(self) -> None:
        """Reread the file at the next ``read``; called when the server refused its content."""
        self._read_at = float("-inf")


PLUGIN_INTERVAL = timedelta(seconds=5)
"""Minimum interval between plugin runs that are caused by a 401 (arbitrary; a server that refuses everything must not
start a process for every request)."""

TlsContext = ssl.SSLContext | Literal[True]
"""True is a placeholder for connections without TLS."""


class Clocks(NamedTuple):
    """Sources of time; tests replace them."""

    utc: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """Headers and TLS context of a request. A new object means changed credentials."""

    headers: tuple[tuple[str, str], ...] = field(repr=False)
    context: TlsContext


class ConnectionCredentials:
    """Provides the current credentials of a connection; ``current`` is called for every request."""

    def __init__(self, connection: Connection, clocks: Clocks | None = None) -> None:
        self._connection = connection
        self._clocks = clocks or Clocks()
        user, monotonic = connection.user, self._clocks.monotonic
        self._token = ReloadingFile(user.token, monotonic)
        self._tls = tuple(ReloadingFile(part, monotonic) for part in (connection.ca, user.certificate, user.key))
        self._plugin_lock = asyncio.Lock()
        self._plugin_credentials: PluginCredentials | None = None
        self._plugin_ran_at = float("-inf")
        self._context: TlsContext | None = None
        self._context_material: tuple[bytes, ...] | None = None
        self._current: RequestCredentials | None = None
        self._current_sources: tuple[object, ...] | None = None

    async def current(self) -> RequestCredentials:
        """Return the current credentials; run the plugin first if it never ran or its credentials expired."""
        if self._connection.user.plugin is not None and self._expired():
            await self._run_plugin(self._plugin_credentials)
        token = self._token.read()
        context = self._current_context()
        sources = (token, self._plugin_credentials, context)
        if self._current is None or sources != self._current_sources:
            self._current = RequestCredentials(self._headers(token), context)
            self._current_sources = sources
        return self._current

    async def renew(self, refused: RequestCredentials) -> bool:
        """Look for newer credentials after a 401; return True if there are any."""
        if refused is not self._current:
            return True
        self._token.expire()
        for part in self._tls:
            part.expire()
        recent = self._clocks.monotonic() - self._plugin_ran_at < PLUGIN_INTERVAL.total_seconds()
        if self._connection.user.plugin is not None and not recent:
            await self._run_plugin(self._plugin_credentials)
        return await self.current() is not refused

    def _expired(self) -> bool:
        if self._plugin_credentials is None:
            return True
        return self._plugin_credentials.expires is not None and self._clocks.utc() >= self._plugin_credentials.expires

    async def _run_plugin(self, stale: PluginCredentials | None) -> None:
        """Run the plugin once for all concurrent callers."""
        plugin = self._connection.user.plugin
        async with self._plugin_lock:
            if plugin is not None and self._plugin_credentials is stale:
                self._plugin_credentials = await run_plugin(plugin)
                self._plugin_ran_at = self._clocks.monotonic()

    def _headers(self, token: bytes) -> tuple[tuple[str, str], ...]:
        user = self._connection.user
        if text := _header_text(token):
            return (("Authorization", f"Bearer {text}"), *user.impersonation)
        if user.username:
            pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
            return (("Authorization", f"Basic {pair}"), *user.impersonation)
        if self._plugin_credentials is not None and self._plugin_credentials.token:
            return (
                ("Authorization", f"Bearer {_header_text(self._plugin_credentials.token.encode())}"),
                *user.impersonation,
            )
        return user.impersonation

    def _current_context(self) -> TlsContext:
        if not self._connection.server.startswith("https:"):
            return True
        ca, certificate, key = (part.read() for part in self._tls)
        if not certificate and self._plugin_credentials is not None:
            certificate, key = self._plugin_credentials.certificate, self._plugin_credentials.key
        material = (ca, certificate, key)
        if self._context is None or material != self._context_material:
            self._context = self._build_context(material)
            self._context_material = material
        return self._context

    def _build_context(self, material: tuple[bytes, bytes, bytes]) -> TlsContext:
        try:
            return client_context(*material, verify=self._connection.verify)
        except (ssl.SSLError, ValueError) as error:
            if self._context is not None:
                # Certificate and key are replaced one after the other: the old pair is used until both match.
                return self._context
            reason = error.reason if isinstance(error, ssl.SSLError) else "not valid PEM"
            raise CredentialsFailed(
                f"the certificates for {self._connection.server} cannot be used: {reason}"
            ) from None


def _header_text(token: bytes) -> str:
    """Strip a token and refuse characters that are not allowed in a header."""
    text = token.decode("latin-1").strip()
    if not text.isascii() or not text.isprintable():
        raise CredentialsFailed("the token contains invalid characters: check the file or plugin that provides it")
    return text
