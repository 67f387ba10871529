"""The API servers of the integration tests."""

from __future__ import annotations

import json
import signal
import stat
from typing import TYPE_CHECKING

from clusterstacks.dev import loopback
from clusterstacks.dev.loopback import answers_ok, client_context, request

if TYPE_CHECKING:
    import ssl

    import pytest

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd


def admin(server: ApiServer) -> ssl.SSLContext:
    return client_context(server.keys.authority.certificate, server.keys.admin.certificate, server.keys.admin.key)


def test_two_servers_on_one_etcd_have_separate_objects(api_server: ApiServer, workload_server: ApiServer) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}}
    status, _ = request(
        f"{api_server.url}/api/v1/namespaces", context=admin(api_server), body=json.dumps(namespace).encode()
    )

    assert status == 201
    assert request(f"{api_server.url}/api/v1/namespaces/only-here", context=admin(api_server))[0] == 200
    assert request(f"{workload_server.url}/api/v1/namespaces/only-here", context=admin(workload_server))[0] == 404


def test_binary_version_is_read(api_server: ApiServer) -> None:
    _, body = request(f"{api_server.url}/version", context=admin(api_server))

    assert json.loads(body)["gitVersion"].startswith("v1.36.")


def test_frozen_server_responds_again_after_it_resumes(
    workload_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = admin(workload_server)
    monkeypatch.setattr(loopback, "DEADLINE_SECONDS", 0.3)
    workload_server.process.send(signal.SIGSTOP)
    try:
        # The signal may reach its threads one after the other: the first answers may still come.
        assert not all(answers_ok(f"{workload_server.url}/readyz", context=context) for _ in range(100))
    finally:
        workload_server.process.send(signal.SIGCONT)
    workload_server.process.wait_ready()


def test_restarted_server_has_its_objects(workload_server: ApiServer) -> None:
    context = admin(workload_server)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "survivor"}}
    request(f"{workload_server.url}/api/v1/namespaces", context=context, body=json.dumps(namespace).encode())

    workload_server.process.restart()

    assert request(f"{workload_server.url}/api/v1/namespaces/survivor", context=context)[0] == 200


def test_etcd_requires_a_client_certificate(etcd: Etcd) -> None:
    stranger = etcd.access.context()
    anonymous = client_context(etcd.access.authority, etcd.access.client.certificate, etcd.access.client.key)
    assert answers_ok(f"{etcd.access.url}/health", context=stranger)
    anonymous = type(anonymous)(anonymous.protocol)
    anonymous.load_verify_locations(etcd.access.authority)
    assert not answers_ok(f"{etcd.access.url}/health", context=anonymous)


def test_keys_and_kubeconfig_are_private(api_server: ApiServer) -> None:
    for path in (api_server.kubeconfig_path, api_server.keys.admin.key, api_server.keys.service_accounts.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_deleted_etcd_prefix_leaves_other_prefixes(etcd: Etcd, api_server: ApiServer) -> None:
    assert etcd.access.delete_prefix("/nothing") == 0
    assert etcd.access.delete_prefix("/manage") == 0, "a prefix is a directory, not the beginning of a name"
    assert answers_ok(f"{api_server.url}/readyz", context=admin(api_server))
