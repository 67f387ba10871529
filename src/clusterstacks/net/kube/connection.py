"""Address of an API server and credentials for it, as read from a kubeconfig.

No ``repr`` shows a token, a password, a key or the environment of a plugin, so values may appear in a traceback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class DataOrFile:
    """A certificate, key or token: its bytes, or its file, which is reread when it changes."""

    content: bytes = field(default=b"", repr=False)
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.content) or self.file is not None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A credential plugin: a command that prints credentials (``client.authentication.k8s.io`` v1 or v1beta1)."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the environment of this process."""
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    """Cluster information passed to the command; None without ``provideClusterInfo``."""
    install_hint: str = ""
    """Shown when the command does not exist."""


@dataclass(frozen=True, slots=True)
class User:
    """Credentials of a user. A token has precedence over a name and password, and both over a plugin."""

    token: DataOrFile = DataOrFile()
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: DataOrFile = DataOrFile()
    key: DataOrFile = DataOrFile()
    plugin: ExecPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    """``Impersonate-*`` headers, in order."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server and a user of it."""

    server: str
    """``https://host:port`` and an optional path, without a trailing slash."""
    ca: DataOrFile = DataOrFile()
    """CA certificates for the server; those of the system when empty."""
    verify: bool = True
    server_name: str = ""
    """Name expected in the server's certificate, when it differs from the host of ``server``."""
    proxy: str = field(default="", repr=False)
    """``http://`` or ``https://`` URL; may contain a password."""
    namespace: str = "default"
    user: User = User()
