"""The etcd of an environment; every kube-apiserver has its own prefix in it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.dev.loopback import LOOPBACK, answers_ok, client_context, free_port, request
from clusterstacks.dev.private_files import KeyFiles, key_files, private_directory
from clusterstacks.dev.processes import Command, Process
from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.pki import Authority

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Address and client keys of an etcd, which requires client certificates because it holds every Secret."""

    url: str
    authority: Path
    client: KeyFiles

    @classmethod
    def at(cls, port: int, directory: Path) -> EtcdAccess:
        """Return the access to the etcd on ``port`` with its keys in ``directory``."""
        keys = directory / "keys"
        client = KeyFiles(keys / "client.crt", keys / "client.key")
        return cls(f"https://{LOOPBACK}:{port}", keys / "ca.crt", client)

    def flags(self) -> tuple[str, ...]:
        """The flags with which a kube-apiserver uses it."""
        return (
            f"--etcd-servers={self.url}",
            f"--etcd-cafile={self.authority}",
            f"--etcd-certfile={self.client.certificate}",
            f"--etcd-keyfile={self.client.key}",
        )

    def context(self) -> ssl.SSLContext:
        """The TLS settings of a client."""
        return client_context(self.authority, self.client.certificate, self.client.key)

    def delete_prefix(self, prefix: str) -> int:
        """Delete every key below ``prefix`` and return how many there were.

        Raises:
            DependencyError: etcd refuses.
            OSError: etcd does not answer.
        """
        first = prefix.rstrip("/") + "/"
        after = first[:-1] + chr(ord("/") + 1)
        question = {"key": _base64(first), "range_end": _base64(after)}
        status, answer = request(
            f"{self.url}/v3/kv/deleterange", context=self.context(), body=json.dumps(question).encode()
        )
        if status != 200:
            message = f"etcd at {self.url} did not delete {prefix}: HTTP {status}; see the log of etcd"
            raise DependencyError("EtcdRefused", message)
        return int(json.loads(answer).get("deleted", 0))


class Etcd:
    """An etcd process on the loopback address; data and keys below ``directory``."""

    def __init__(
        self,
        *,
        binary: Path,
        directory: Path,
        port: int,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        issue_keys(directory)
        self.port = port
        self.access = EtcdAccess.at(port, directory)
        context = self.access.context()
        self.process = Process(
            Command(
                name="etcd",
                argv=(str(binary), *_flags(directory, self.access.url)),
                log=log or directory / "etcd.log",
                ready=lambda: answers_ok(f"{self.access.url}/health", context=context),
                environment=environment or {},
            )
        )

    def launch(self) -> None:
        """Start it and return once it answers; raises ProcessError."""
        self.process.launch()

    def stop(self, grace: timedelta = timedelta(seconds=5)) -> None:
        """Stop it; without fsync its data survives a kill but not a power cut."""
        self.process.stop(grace)


def issue_keys(directory: Path) -> None:
    """Create the missing keys below ``directory``."""
    keys = directory / "keys"
    authority = Authority(key_files(keys, "ca", lambda: Authority.create("etcd-ca").pair).read())
    key_files(keys, "server", lambda: authority.issue("etcd", addresses=(LOOPBACK,)))
    key_files(keys, "client", lambda: authority.issue("kube-apiserver"))


def _flags(directory: Path, url: str) -> tuple[str, ...]:
    keys = directory / "keys"
    peer = f"https://{LOOPBACK}:{free_port()}"
    return (
        f"--data-dir={private_directory(directory / 'data')}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--cert-file={keys / 'server.crt'}",
        f"--key-file={keys / 'server.key'}",
        f"--trusted-ca-file={keys / 'ca.crt'}",
        "--client-cert-auth",
        f"--peer-cert-file={keys / 'server.crt'}",
        f"--peer-key-file={keys / 'server.key'}",
        f"--peer-trusted-ca-file={keys / 'ca.crt'}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
