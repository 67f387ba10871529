"""Files of the environment: private, and whole or absent."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.kube.pki import Authority, KeyPair, signing_keys

if TYPE_CHECKING:
    from collections.abc import Callable


def write_private(path: Path, content: bytes) -> None:
    """Write a file only its owner can read; readers see the old content or the new, never a part."""
    private_directory(path.parent)
    handle, staged = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(staged).replace(path)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise


def private_directory(path: Path) -> Path:
    """Make a directory (and its parents) only its owner can enter, and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Where a certificate and its private key lie, both PEM."""

    certificate: Path
    key: Path

    def read(self) -> KeyPair:
        """Read both."""
        return KeyPair(self.certificate.read_bytes(), self.key.read_bytes())


def key_files(directory: Path, name: str, make: Callable[[], KeyPair]) -> KeyFiles:
    """Return the key files ``name.crt`` and ``name.key`` of ``directory``, made when they are not there yet.

    The key is written first: a certificate is there only together with its key.
    """
    files = KeyFiles(directory / f"{name}.crt", directory / f"{name}.key")
    if not (files.certificate.exists() and files.key.exists()):
        pair = make()
        write_private(files.key, pair.key)
        write_private(files.certificate, pair.certificate)
    return files


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys of one kube-apiserver."""

    authority: KeyFiles
    serving: KeyFiles
    admin: KeyFiles
    service_accounts: KeyFiles
    front_proxy: KeyFiles


def server_keys(directory: Path) -> ServerKeys:
    """Return the keys of the kube-apiserver that keeps them in ``directory``; the same ones every time.

    A new authority for a server that ran before cuts off every client it has, so they are made once.
    """
    authority = key_files(directory, "ca", lambda: Authority.create("kubernetes-ca").pair)
    issuer = Authority(authority.read())
    return ServerKeys(
        authority=authority,
        serving=key_files(
            directory,
            "apiserver",
            # 10.0.0.1 is the first address of the service network: what pods would call "kubernetes.default".
            lambda: issuer.issue(
                "kube-apiserver",
                addresses=("127.0.0.1", "10.0.0.1"),
                hosts=("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
            ),
        ),
        admin=key_files(
            directory, "admin", lambda: issuer.issue("kubernetes-admin", organizations=("system:masters",))
        ),
        service_accounts=key_files(directory, "service-accounts", signing_keys),
        # A separate authority: whoever holds a certificate of it may claim to be anybody.
        front_proxy=key_files(directory, "front-proxy-ca", lambda: Authority.create("front-proxy-ca").pair),
    )
