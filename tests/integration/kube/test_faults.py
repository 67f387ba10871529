"""Frozen and stopped servers, and changed credentials, with real API servers."""

from __future__ import annotations

import asyncio
import base64
import signal
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev.private_files import write_private
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.kube.kubeconfig import load_kubeconfig, parse_kubeconfig, parse_secret_kubeconfig
from clusterstacks.net.kube.pki import Authority
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.pool import Pool

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
REVIEWS = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)


async def who_am_i(client: Client) -> str:
    review = await client.create(REVIEWS, {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind})
    return str(review["status"]["userInfo"]["username"])


@contextmanager
def frozen(server: ApiServer) -> Iterator[None]:
    server.process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send(signal.SIGCONT)
        server.process.wait_ready()


async def test_frozen_server_is_unreachable_at_the_deadline_and_delays_no_other_server(
    workload_server: ApiServer, client: Client, pool: Pool
) -> None:
    victim = Client(
        parse_kubeconfig(workload_server.kubeconfig, base=None), pool, budget=2, deadline=timedelta(seconds=12)
    )
    metadata = {"name": "frozen", "namespace": "default"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await victim.apply(CONFIG_MAPS, config_map, manager="tests")

    with frozen(workload_server):
        began = time.monotonic()
        stuck = [asyncio.create_task(victim.apply(CONFIG_MAPS, config_map, manager="tests")) for _ in range(40)]
        for _ in range(3):
            await client.list(CONFIG_MAPS)
        assert not any(request.done() for request in stuck)
        errors = await asyncio.gather(*stuck, return_exceptions=True)
        all_done = time.monotonic() - began

    assert 12 <= all_done < 120, "forty, two at a time, would take 240 seconds if waiting in line did not count"
    assert {type(error) for error in errors} == {Unreachable}
    assert str(errors[0]).endswith("did not answer within 12 s")
    await victim.apply(CONFIG_MAPS, config_map, manager="tests")


async def test_watch_of_a_frozen_server_ends(
    workload_server: ApiServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.net.kube.client.IDLE_TIMEOUT", timedelta(seconds=10))
    watcher = Client(parse_kubeconfig(workload_server.kubeconfig, base=None), pool)
    version = (await watcher.list(CONFIG_MAPS)).resource_version
    events = watcher.watch(CONFIG_MAPS, resource_version=version)
    first = asyncio.ensure_future(anext(events))
    metadata = {"name": "watched", "namespace": "default"}
    await watcher.apply(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, manager="tests")
    await first  # the watch is open

    with frozen(workload_server), pytest.raises(Unreachable, match="no data for 10 s"):
        await anext(events)


async def test_stopped_server_is_unreachable_and_comes_back(workload_server: ApiServer, pool: Pool) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    caller = Client(parse_kubeconfig(workload_server.kubeconfig, base=None), pool, retries=RetryPolicy(sleep=sleep))
    await caller.ready()
    workload_server.process.stop(timedelta(0))
    try:
        with pytest.raises(Unreachable, match=r"get /readyz: 127\.0\.0\.1:\d+ cannot be reached: Connection refused"):
            await caller.ready()
    finally:
        workload_server.process.restart()

    assert len(slept) == 4
    await caller.ready()


async def test_renewed_client_certificate_is_used_from_the_next_request_on(
    api_server: ApiServer, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.net.kube.auth.READ_INTERVAL", timedelta(0))
    authority = Authority(api_server.keys.authority.read())

    def hand_out(name: str) -> None:
        pair = authority.issue(name, organizations=("system:masters",))
        write_private(tmp_path / "client.crt", pair.certificate)
        write_private(tmp_path / "client.key", pair.key)

    hand_out("first")
    document = kubeconfig_of(api_server, {"client-certificate": "client.crt", "client-key": "client.key"})
    client = Client(parse_kubeconfig(document, base=tmp_path), pool)
    before = await who_am_i(client)
    hand_out("second")

    assert (before, await who_am_i(client)) == ("first", "second")


async def test_half_renewed_certificate_pair_does_not_interrupt_requests(
    api_server: ApiServer, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.net.kube.auth.READ_INTERVAL", timedelta(0))
    authority = Authority(api_server.keys.authority.read())
    first, second = (authority.issue(name, organizations=("system:masters",)) for name in ("first", "second"))
    write_private(tmp_path / "client.crt", first.certificate)
    write_private(tmp_path / "client.key", first.key)
    document = kubeconfig_of(api_server, {"client-certificate": "client.crt", "client-key": "client.key"})
    client = Client(parse_kubeconfig(document, base=tmp_path), pool)
    await who_am_i(client)

    write_private(tmp_path / "client.crt", second.certificate)
    between = await who_am_i(client)
    write_private(tmp_path / "client.key", second.key)

    assert (between, await who_am_i(client)) == ("first", "second")


async def test_client_certificate_of_a_plugin_is_used(api_server: ApiServer, pool: Pool, tmp_path: Path) -> None:
    pair = Authority(api_server.keys.authority.read()).issue("plugged", organizations=("system:masters",))
    write_private(tmp_path / "pair.crt", pair.certificate)
    write_private(tmp_path / "pair.key", pair.key)
    (tmp_path / "plugin.py").write_text(
        "import json, os, pathlib\n"
        "asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "here = pathlib.Path(__file__).parent\n"
        "assert asked['spec']['cluster']['server'].startswith('https://')\n"
        "status = {'clientCertificateData': (here / 'pair.crt').read_text(),\n"
        "          'clientKeyData': (here / 'pair.key').read_text()}\n"
        "print(json.dumps({'apiVersion': asked['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py")],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    client = Client(parse_kubeconfig(kubeconfig_of(api_server, {"exec": plugin}), base=tmp_path), pool)

    assert await who_am_i(client) == "plugged"


async def test_server_is_refused_under_a_name_its_certificate_does_not_have(api_server: ApiServer, pool: Pool) -> None:
    document = kubeconfig_of(api_server, user_of(api_server))
    document["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes.default.svc"
    await Client(parse_kubeconfig(document, base=None), pool).ready()
    document["clusters"][0]["cluster"]["tls-server-name"] = "elsewhere.example"

    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        await Client(parse_kubeconfig(document, base=None), pool).ready()


async def test_server_of_another_authority_is_refused_without_a_retry(api_server: ApiServer, pool: Pool) -> None:
    document = kubeconfig_of(api_server, user_of(api_server))
    stranger = base64.b64encode(Authority.create("stranger").certificate).decode()
    document["clusters"][0]["cluster"]["certificate-authority-data"] = stranger

    async def no_sleep(_seconds: float) -> None:
        pytest.fail("a certificate does not get better by waiting")

    client = Client(parse_kubeconfig(document, base=None), pool, retries=RetryPolicy(sleep=no_sleep))
    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        await client.ready()


async def test_kubeconfigs_as_files_and_out_of_secrets_lead_to_the_server(api_server: ApiServer, pool: Pool) -> None:
    text = api_server.kubeconfig_path.read_bytes()

    await Client(load_kubeconfig([api_server.kubeconfig_path]), pool).ready()
    await Client(parse_secret_kubeconfig(text, origin="Secret default/c-kubeconfig"), pool).ready()


def user_of(server: ApiServer) -> Manifest:
    return dict(server.kubeconfig["users"][0]["user"])


def kubeconfig_of(server: ApiServer, user: Manifest) -> Manifest:
    """Make a kubeconfig for another user of the server."""
    return {
        "clusters": [{"name": "c", "cluster": dict(server.kubeconfig["clusters"][0]["cluster"])}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
