"""Kubernetes' own garbage collector on the management API server, for the time of a test."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.devcluster import binaries
from clusterstacks.devcluster.loopback import LOOPBACK, answers_ok, client_context
from clusterstacks.devcluster.private_files import key_files
from clusterstacks.devcluster.processes import Command, Process, start_on_free_port
from clusterstacks.kube.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.devcluster.apiserver import ApiServer


@contextmanager
def garbage_collector(server: ApiServer, directory: Path) -> Iterator[None]:
    """Run kube-controller-manager with its garbage collector alone: it knows the kinds served at its start."""
    binary = binaries.resolve(["kube-controller-manager"])["kube-controller-manager"].path
    process = start_on_free_port(lambda port: _controller_manager(binary, server, directory, port))
    try:
        yield
    finally:
        process.stop(timedelta(0))


def _controller_manager(binary: Path, server: ApiServer, directory: Path, port: int) -> Process:
    keys = server.keys
    context = client_context(keys.authority.certificate, keys.admin.certificate, keys.admin.key)
    authority = Authority(keys.authority.read())
    serving = key_files(directory, "collector", lambda: authority.issue("localhost", addresses=(LOOPBACK,)))
    return Process(
        Command(
            name="garbage-collector",
            argv=(
                str(binary),
                f"--kubeconfig={server.kubeconfig_path}",
                f"--authentication-kubeconfig={server.kubeconfig_path}",
                f"--authorization-kubeconfig={server.kubeconfig_path}",
                "--leader-elect=false",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={port}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                "--use-service-account-credentials=false",
                "--controllers=garbage-collector-controller",
            ),
            log=directory / "garbage-collector.log",
            ready=lambda: answers_ok(f"https://{LOOPBACK}:{port}/healthz", context=context),
        )
    )
