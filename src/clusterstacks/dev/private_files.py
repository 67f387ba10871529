"""Private files of the environment: written atomically, readable by the owner only; keys; locks."""

from __future__ import annotations

import contextlib
import fcntl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.net.kube.pki import Authority, KeyPair, signing_keys
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600; readers see the old or the new content, never a part."""
    private_directory(path.parent)
    replace_file(path, content, mode=0o600, durable=False)


def private_directory(path: Path) -> Path:
    """Create a directory with mode 0700, and its parents; return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Paths of a certificate and its private key, both PEM."""

    certificate: Path
    key: Path

    def read(self) -> KeyPair:
        """Read both."""
        return KeyPair(self.certificate.read_bytes(), self.key.read_bytes())


def key_files(directory: Path, name: str, make: Callable[[], KeyPair]) -> KeyFiles:
    """Return the key files ``name.crt`` and ``name.key`` of ``directory``; create missing ones.

    The key is written first, so that a certificate never exists without its key.
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


def server_keys(directory: Path, addresses: Sequence[str]) -> ServerKeys:
    """Return the keys of the kube-apiserver in ``directory``, created once.

    ``addresses`` are its own and the first one of its service network. A new authority would disconnect every client of
    a server that ran before.
    """
    authority = key_files(directory, "ca", lambda: Authority.create("kubernetes-ca").pair)
    issuer = Authority(authority.read())
    return ServerKeys(
        authority=authority,
        serving=key_files(
            directory,
            "apiserver",
            lambda: issuer.issue(
                "kube-apiserver",
                addresses=addresses,
                hosts=("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
            ),
        ),
        admin=key_files(
            directory, "admin", lambda: issuer.issue("kubernetes-admin", organizations=("system:masters",))
        ),
        service_accounts=key_files(directory, "service-accounts", signing_keys),
        # A separate authority: a client with its certificate may act as any user.
        front_proxy=key_files(directory, "front-proxy-ca", lambda: Authority.create("front-proxy-ca").pair),
    )


POLL_SECONDS = 0.2


@contextlib.contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on ``path``; call ``waiting`` once if it is taken. The kernel releases it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not _try_lock(file.fileno()):
            waiting()
            while not _try_lock(file.fileno()):
                time.sleep(POLL_SECONDS)
        yield  # Closing the file releases the lock.


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
