"""Real OCI registries: Debian's docker-registry, one process per kind and test session.

Tests share them, so each uses repository names of its own. ``CLUSTERSTACKS_REGISTRY`` may name a binary of the CNCF
distribution registry, version 2.8 or newer; without it the package is fetched once into the cache of this project.
"""

from __future__ import annotations

import http.client
import os
import secrets
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.dev.binaries import cache_directory
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.dev.private_files import write_private
from clusterstacks.dev.processes import Command, Process, start_on_free_port
from clusterstacks.net.kube.pki import Authority
from tests.support.servers import debian_packages as debian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VARIABLE = "CLUSTERSTACKS_REGISTRY"
USERNAME = "author"
PASSWORD = "not-a-secret-of-anyone"
_HTPASSWD = f"{USERNAME}:$2b$05$aWQ6bKBZDaE/WJRKNNSOR.HDBc0b6zn0zWZ..YARB1txSw10RDHq.\n"
"""The password as bcrypt, the only form the registry reads; the standard library cannot make one."""
_SIGN = "X-Test-Registry"


class RegistryMissing(Exception):
    """No registry program is available; the message names the remedy."""


@dataclass(kw_only=True)
class RegistryServer:
    """A registry process.

    Args:
        binary: The registry.
        root: Where its configuration, log (``registry.log``) and storage (``storage/``) are.
        port: Where it listens.
        address: The address it listens on.
        secure: With TLS and one user; else plain HTTP, and everybody may push and pull.
    """

    binary: Path
    root: Path
    port: int
    address: str = LOOPBACK
    secure: bool = False
    ca: str = field(init=False, default="")
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        sign = secrets.token_hex(8)
        command = (str(self.binary), "serve", str(self._configure(sign)))
        self.process = Process(
            Command(name="registry", argv=command, log=self.root / "registry.log", ready=lambda: self._answers(sign))
        )

    @property
    def host(self) -> str:
        """Host and port as in a reference."""
        return f"{self.address}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.host}"

    @property
    def username(self) -> str:
        return USERNAME if self.secure else ""

    @property
    def password(self) -> str:
        return PASSWORD if self.secure else ""

    @property
    def storage(self) -> Path:
        """The storage directory, for tests that damage it: ``docker/registry/v2/blobs/sha256/..``."""
        return self.root / "storage"

    def launch(self) -> None:
        self.process.launch()

    def stop(self) -> None:
        self.process.stop(timedelta(0))

    def _configure(self, sign: str) -> Path:
        if self.secure:
            authority = Authority.create("registry-ca")
            self.ca = authority.certificate.decode()
            keys = authority.issue("registry", addresses=(self.address,), hosts=("localhost",))
            write_private(self.root / "tls.crt", keys.certificate)
            write_private(self.root / "tls.key", keys.key)
            write_private(self.root / "htpasswd", _HTPASSWD.encode())
        config = self.root / "config.json"  # its YAML reader takes JSON
        config.write_bytes(orjson.dumps(self._settings(sign)))
        return config

    def _settings(self, sign: str) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "info", "formatter": "text"},
            "storage": {"filesystem": {"rootdirectory": str(self.storage)}, "delete": {"enabled": True}},
            "http": {"addr": self.host, "secret": sign, "headers": {_SIGN: [sign]}},
        }
        if self.secure:
            settings["http"]["tls"] = {"certificate": str(self.root / "tls.crt"), "key": str(self.root / "tls.key")}
            settings["auth"] = {"htpasswd": {"realm": "test", "path": str(self.root / "htpasswd")}}
        return settings

    def _answers(self, sign: str) -> bool:
        """Return whether this process responds, and not another one on its port."""
        connection: http.client.HTTPConnection
        if self.secure:
            context = ssl.create_default_context(cadata=self.ca)
            connection = http.client.HTTPSConnection(self.address, self.port, timeout=5, context=context)
        else:
            connection = http.client.HTTPConnection(self.address, self.port, timeout=5)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().getheader(_SIGN) == sign
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def running_registry(root: Path, *, secure: bool = False, address: str = LOOPBACK) -> Iterator[RegistryServer]:
    """Run a registry for one test that stops it, damages its storage, or reaches it from pods."""
    binary = registry_binary()
    server = start_on_free_port(
        lambda port: RegistryServer(binary=binary, root=root, port=port, address=address, secure=secure)
    )
    try:
        yield server
    finally:
        server.stop()


def registry_binary(
    environ: Mapping[str, str] = os.environ, fetch: Callable[[str, str, Path], Path] = debian.program
) -> Path:
    """Return the registry's binary: the one of the environment, or Debian's.

    Raises:
        RegistryMissing: What it names cannot be run, or there is no package here.
    """
    if named := environ.get(VARIABLE):
        if os.access(named, os.X_OK) and Path(named).is_file():
            return Path(named).absolute()
        raise RegistryMissing(f"{VARIABLE} names {named}, which is no program: correct or unset it")
    try:
        return fetch("docker-registry", "usr/bin/docker-registry", cache_directory(environ).parent)
    except debian.PackageUnavailable as error:
        raise RegistryMissing(
            f"Debian's package docker-registry cannot be fetched ({error}): set {VARIABLE} to the path of a registry "
            "(github.com/distribution/distribution, 2.8 or newer)"
        ) from None


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A registry with plain HTTP and anonymous access."""
    with running_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="session")
def secure_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A registry with TLS by a private CA and one user."""
    with running_registry(tmp_path_factory.mktemp("secure-registry"), secure=True) as server:
        yield server
