"""Real API servers: one etcd and two kube-apiservers for each test process, started at first use."""

from __future__ import annotations

import base64
import json
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import binaries
from clusterstacks.dev.apiserver import WITHOUT_SERVICE_ACCOUNTS, ApiServer, ApiServerSettings
from clusterstacks.dev.etcd import Etcd
from clusterstacks.dev.loopback import request
from clusterstacks.dev.processes import start_on_free_port
from tests.support.servers.garbage_collector import garbage_collector

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = timedelta(0)
DEADLINE_SECONDS = 120
TO_ENDPOINTS = ("--enable-aggregator-routing=true",)
"""Webhooks behind a Service are called at its endpoints, as nothing here routes its address."""
RARE_COLLECTIONS = {"GOGC": "400"}
"""Garbage collections of the servers: about a tenth less CPU time, for half as much memory again (440 MB each)."""


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    directory = tmp_path_factory.mktemp("etcd")
    binary = binaries.resolve(["etcd"])["etcd"].path
    server = start_on_free_port(
        lambda port: Etcd(binary=binary, directory=directory, port=port, environment=RARE_COLLECTIONS)
    )
    yield server
    server.stop(AT_ONCE)


@pytest.fixture(scope="session")
def api_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The management cluster: .kubeconfig, .kubeconfig_path, .url, .process (.send(signal), .restart())."""
    yield from started_api_server("management", etcd, tmp_path_factory)


@pytest.fixture(scope="session")
def workload_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A workload cluster, which removes deleted namespaces; a test that stops or freezes it restarts it."""
    for server in started_api_server("workload", etcd, tmp_path_factory):
        with garbage_collector(server, tmp_path_factory.mktemp("controllers"), "namespace-controller"):
            yield server


@pytest.fixture(scope="session")
def bare_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    yield from started_api_server("bare", etcd, tmp_path_factory)


@pytest.fixture
def server(bare_server: ApiServer) -> Iterator[ApiServer]:
    """A management cluster without anything, for tests that install the same cluster-wide objects."""
    with emptied(bare_server):
        yield bare_server


@contextmanager
def emptied(server: ApiServer) -> Iterator[None]:
    """Delete at the end what was created in the block.

    It is deleted from etcd, which takes a moment: a start of a server costs four CPU seconds.
    """
    keys, groups = _keys(server), _groups(server)
    yield
    etcd = server.settings.etcd
    for key in _keys(server) - keys:
        body = json.dumps({"key": key}).encode()
        status, answer = request(f"{etcd.url}/v3/kv/deleterange", context=etcd.context(), body=body)
        assert status == 200, answer
    deadline = time.monotonic() + DEADLINE_SECONDS
    while _groups(server) != groups:
        assert time.monotonic() < deadline, "the API server still serves deleted definitions"
        time.sleep(0.1)


def _keys(server: ApiServer) -> set[str]:
    """Return the keys of a server in etcd, in base64."""
    etcd = server.settings.etcd
    first, after = (base64.b64encode(f"{server.settings.prefix}{end}".encode()).decode() for end in "/0")
    body = json.dumps({"key": first, "range_end": after, "keys_only": True}).encode()
    status, answer = request(f"{etcd.url}/v3/kv/range", context=etcd.context(), body=body)
    assert status == 200, answer
    return {one["key"] for one in json.loads(answer)["kvs"]}


def _groups(server: ApiServer) -> set[str]:
    status, answer = request(f"{server.url}/apis", context=server.context)
    assert status == 200, answer
    return {one["name"] for one in json.loads(answer)["groups"]}


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
                environment=RARE_COLLECTIONS,
            )
        )
    )
    yield server
    server.stop(AT_ONCE)
