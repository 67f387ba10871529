"""Real API servers: one etcd and two kube-apiservers for each test process, started at first use."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import binaries
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.etcd import Etcd
from clusterstacks.dev.processes import start_on_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = timedelta(0)
TO_ENDPOINTS = ("--enable-aggregator-routing=true",)
"""Webhooks behind a Service are called at its endpoints, as nothing here routes its address."""


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    directory = tmp_path_factory.mktemp("etcd")
    binary = binaries.resolve(["etcd"])["etcd"].path
    server = start_on_free_port(lambda port: Etcd(binary=binary, directory=directory, port=port))
    yield server
    server.stop(AT_ONCE)


@pytest.fixture(scope="session")
def api_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The management cluster: .kubeconfig, .kubeconfig_path, .url, .process (.send(signal), .restart())."""
    yield from started_api_server("management", etcd, tmp_path_factory)


@pytest.fixture(scope="session")
def workload_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A workload cluster; a test that stops or freezes it restarts it."""
    yield from started_api_server("workload", etcd, tmp_path_factory)


def started_api_server(
    name: str, etcd: Etcd, paths: pytest.TempPathFactory, *, flags: tuple[str, ...] = ()
) -> Iterator[ApiServer]:
    """Run another server, for a suite whose CRDs must not conflict with those of others."""
    directory = paths.mktemp(name)
    binary = binaries.resolve(["kube-apiserver"])["kube-apiserver"].path
    server = start_on_free_port(
        lambda port: ApiServer(
            ApiServerSettings(
                name=name,
                binary=binary,
                directory=directory,
                etcd=etcd.access,
                prefix=f"/{name}",
                port=port,
                flags=(*WITHOUT_SERVICE_ACCOUNTS, *TO_ENDPOINTS, *flags),
            )
        )
    )
    yield server
    server.stop(AT_ONCE)
