from __future__ import annotations

import hashlib
import io
import re
import socket
import tarfile
import threading
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import envtest_archives
from clusterstacks.dev.toolchain import TOOLS
from clusterstacks.net.http import client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MINOR = ".".join(TOOLS["kube-apiserver"].version.split(".")[:2])


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("controller-tools/envtest/kubectl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


def test_only_expected_regular_files_are_extracted(tmp_path: Path) -> None:
    packed = archive(
        {
            "controller-tools/envtest/etcd": b"#!/bin/sh\necho etcd Version: 2.0.0\n",
            "controller-tools/envtest/kube-apiserver": f"#!/bin/sh\necho Kubernetes {MINOR}.9\n".encode(),
            "../../evil": b"x",
        }
    )

    envtest_archives.unpack(packed, hashlib.sha512(packed).hexdigest(), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [f"kube-apiserver-{MINOR}.9.published"]


def test_archive_with_a_wrong_checksum_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checksum"):
        envtest_archives.unpack(archive({}), "00", tmp_path)


def test_the_known_archive_is_a_patch_of_the_pinned_minor() -> None:
    assert TOOLS["kube-apiserver"].fits(envtest_archives.VERSION), "change version and checksums with tools/kubernetes"
    assert all(re.fullmatch(r"[0-9a-f]{128}", digest) for digest in envtest_archives.SHA512.values())


@contextmanager
def server(head: bytes, piece: bytes) -> Iterator[str]:
    """Answer one request with ``head``, and then with ``piece`` again and again until the client leaves."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(head)
                    while piece and not ended.wait(0.01):
                        connection.sendall(piece)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.regression("SEC-39")
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 70000000\r\n\r\n", b"x", id="body"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X", id="headers"),
        pytest.param(b"HTTP/1.1 20", b"0", id="status line"),
    ],
)
def test_a_server_that_sends_a_byte_now_and_then_does_not_stop_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes, piece: bytes
) -> None:
    monkeypatch.setattr(client, "DOCUMENT_DEADLINE", timedelta(seconds=0.2))
    said: list[str] = []
    with server(head, piece) as address:
        monkeypatch.setattr(envtest_archives, "ARCHIVES", address)
        envtest_archives.fetch_published(tmp_path, said.append)

    assert said[-1].endswith("building its programs instead")
    assert not list(tmp_path.iterdir())


@pytest.mark.regression("SEC-39")
def test_an_archive_with_another_checksum_than_csctl_knows_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = archive({"envtest/kubectl": f"#!/bin/sh\necho Client Version: {MINOR}.9\n".encode()})
    said: list[str] = []
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(forged), forged), b"") as address:
        monkeypatch.setattr(envtest_archives, "ARCHIVES", address)
        envtest_archives.fetch_published(tmp_path, said.append)

    assert "checksum" in said[-1]
    assert not list(tmp_path.iterdir())
