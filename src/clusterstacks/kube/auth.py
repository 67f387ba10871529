"""Credentials in use: the headers and the TLS context of the moment, renewed when their source changes."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from clusterstacks.kube.errors import CredentialsFailed
from clusterstacks.kube.exec_plugin import PluginCredentials, issue
from clusterstacks.kube.tls import client_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.kube.connection import Connection, Material

LOOK_EVERY = timedelta(seconds=1)
"""How often a file's state is looked at (arbitrary: far below the minutes a new credential overlaps the old)."""

READ_EVERY = timedelta(seconds=60)
"""How often it is read whatever its state says; client-go reads token files once a minute."""

MAX_BYTES = 1024 * 1024
"""Largest file read (arbitrary; a CA bundle of all system roots has 220 KB)."""


class ReloadingFile:
    """The present content of a ``Material``.

    ``read`` may be called for every request: it costs a comparison of clocks, once a second a stat.
    """

    def __init__(self, material: Material, monotonic: Callable[[], float]) -> None:
        self._content = material.content
        self._path = material.file
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._read = float("-inf")
        self._state: tuple[int, int, int] | None = None

    def read(self) -> bytes:
        """Return the content, read again when the file changed.

        Raises:
            CredentialsFailed: The file was never readable; one that vanishes later keeps its last content.
        """
        if self._path is None:
            return self._content
        now = self._monotonic()
        if now - self._looked >= LOOK_EVERY.total_seconds():
            self._looked = now
            try:
                self._look(self._path, now)
            except OSError as error:
                if self._state is None:
                    self._looked = float("-inf")
                    raise CredentialsFailed(f"{self._path} cannot be read: {error.strerror}") from None
        return self._content

    def expire(self) -> None:
        """Make the next ``read`` read the file: the server refused what it held."""
        self._looked = self._read = float("-inf")

    def _look(self, path: Path, now: float) -> None:
        stat = path.stat()
        state = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if state == self._state and now - self._read < READ_EVERY.total_seconds():
            return
        with path.open("rb") as file:
            self._content = file.read(MAX_BYTES)
        self._state, self._read = state, now


REISSUE_EVERY = timedelta(seconds=5)
"""Shortest time between two runs of a plugin because of a 401 (arbitrary: a server that refuses all must not start a
process for every request)."""

TlsContext = ssl.SSLContext | Literal[True]
"""True stands for a connection without TLS, where it is never looked at."""


class Clocks(NamedTuple):
    """Where the time comes from; tests move it by hand."""

    utc: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """What to send with a request. A new object stands for changed credentials."""

    headers: tuple[tuple[str, str], ...] = field(repr=False)
    context: TlsContext


class ConnectionCredentials:
    """The present credentials of a connection; ``present`` is called per request and cheap while nothing changes."""

    def __init__(self, connection: Connection, clocks: Clocks | None = None) -> None:
        self._connection = connection
        self._clocks = clocks or Clocks()
        user, monotonic = connection.user, self._clocks.monotonic
        self._token = ReloadingFile(user.token, monotonic)
        self._tls = tuple(ReloadingFile(part, monotonic) for part in (connection.ca, user.certificate, user.key))
        self._plugin_turn = asyncio.Lock()
        self._issued: PluginCredentials | None = None
        self._issued_at = float("-inf")
        self._context: TlsContext | None = None
        self._context_of: tuple[bytes, ...] | None = None
        self._identity: RequestCredentials | None = None
        self._identity_of: tuple[object, ...] | None = None

    async def present(self) -> RequestCredentials:
        """Return what to send now; runs the plugin when it never ran or its credentials expired.

        Raises:
            CredentialsFailed: A file cannot be read, a certificate is broken, or the plugin failed.
        """
        if self._connection.user.plugin is not None and self._expired():
            await self._reissue(self._issued)
        token = self._token.read()
        context = self._current_context()
        sources = (token, self._issued, context)
        if self._identity is None or sources != self._identity_of:
            self._identity = RequestCredentials(self._headers(token), context)
            self._identity_of = sources
        return self._identity

    async def renew(self, refused: RequestCredentials) -> bool:
        """Look for newer credentials after a 401; True when there are some to try."""
        if refused is not self._identity:
            return True
        self._token.expire()
        for part in self._tls:
            part.expire()
        recent = self._clocks.monotonic() - self._issued_at < REISSUE_EVERY.total_seconds()
        if self._connection.user.plugin is not None and not recent:
            await self._reissue(self._issued)
        return await self.present() is not refused

    def _expired(self) -> bool:
        if self._issued is None:
            return True
        return self._issued.expires is not None and self._clocks.utc() >= self._issued.expires

    async def _reissue(self, stale: PluginCredentials | None) -> None:
        """Run the plugin once for all that wait for it."""
        plugin = self._connection.user.plugin
        async with self._plugin_turn:
            if plugin is not None and self._issued is stale:
                self._issued = await issue(plugin)
                self._issued_at = self._clocks.monotonic()

    def _headers(self, token: bytes) -> tuple[tuple[str, str], ...]:
        user = self._connection.user
        if text := _header_text(token):
            return (("Authorization", f"Bearer {text}"), *user.impersonation)
        if user.username:
            pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
            return (("Authorization", f"Basic {pair}"), *user.impersonation)
        if self._issued is not None and self._issued.token:
            return (("Authorization", f"Bearer {_header_text(self._issued.token.encode())}"), *user.impersonation)
        return user.impersonation

    def _current_context(self) -> TlsContext:
        if not self._connection.server.startswith("https:"):
            return True
        ca, certificate, key = (part.read() for part in self._tls)
        if not certificate and self._issued is not None:
            certificate, key = self._issued.certificate, self._issued.key
        material = (ca, certificate, key)
        if self._context is None or material != self._context_of:
            self._context = self._built(material)
            self._context_of = material
        return self._context

    def _built(self, material: tuple[bytes, bytes, bytes]) -> TlsContext:
        try:
            return client_context(*material, verify=self._connection.verify)
        except (ssl.SSLError, ValueError) as error:
            if self._context is not None:
                # Certificate and key are replaced one after the other: until both fit, the old pair is used.
                return self._context
            reason = error.reason if isinstance(error, ssl.SSLError) else "no PEM text"
            raise CredentialsFailed(
                f"the certificates for {self._connection.server} cannot be used: {reason}"
            ) from None


def _header_text(token: bytes) -> str:
    """Take the white space off a token and refuse what would break a header apart."""
    text = token.decode("latin-1").strip()
    if not text.isascii() or not text.isprintable():
        raise CredentialsFailed("the token holds characters that no token has: check the file or plugin it comes from")
    return text
