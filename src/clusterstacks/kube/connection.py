"""How to reach one API server and as whom: values read from a kubeconfig, nothing opened yet.

No ``repr`` shows a token, a password, a key or the environment of a plugin, so that a value may stand in a trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate, key or token given in place (``content``) or as a file read again when it changes."""

    content: bytes = field(default=b"", repr=False)
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.content) or self.file is not None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints credentials, as ``client.authentication.k8s.io`` v1 and v1beta1 describe it.

    Args:
        api_version: What the command is told to speak and must answer in.
        environ: Added to the environment of this process.
        cluster: What ``provideClusterInfo`` asks to tell the command; None when it does not.
        install_hint: Shown when the command does not exist.
    """

    api_version: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    install_hint: str = ""


@dataclass(frozen=True, slots=True)
class User:
    """As whom to speak. A token wins over a name and password, and both over what a plugin prints.

    Args:
        impersonation: ``Impersonate-*`` headers, in order.
    """

    token: Material = Material()
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: Material = Material()
    key: Material = Material()
    plugin: ExecPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server and a user of it.

    Args:
        server: ``https://host:port`` and an optional path, without a trailing slash.
        ca: What signs the server's certificate; the system's roots when empty.
        verify: False only where a kubeconfig file says ``insecure-skip-tls-verify``.
        server_name: Name the server's certificate must carry, when it is not the host of ``server``.
        proxy: ``http://`` or ``https://`` URL; may hold a password.
        namespace: Of the kubeconfig's context, for commands that name none.
    """

    server: str
    ca: Material = Material()
    verify: bool = True
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    namespace: str = "default"
    user: User = User()
