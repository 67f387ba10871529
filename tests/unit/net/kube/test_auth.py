"""Credentials from files and plugins, their renewal, and 401 responses."""

from __future__ import annotations

import asyncio
import ssl
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web

from clusterstacks.net.kube import auth as credentials_module
from clusterstacks.net.kube.auth import READ_INTERVAL, Clocks, ConnectionCredentials, ReloadingFile
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection, DataOrFile, ExecPlugin, User
from clusterstacks.net.kube.errors import CredentialsFailed, Unauthorized
from clusterstacks.net.kube.exec_plugin import PluginCredentials, run_plugin
from clusterstacks.net.kube.pki import Authority
from clusterstacks.net.kube.resources import Resource

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.net.pool import Pool
    from tests.support.fakes.scripted_server import ScriptedServer

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
V1 = "client.authentication.k8s.io/v1"


class Time:
    """Two clocks moved by hand."""

    start = datetime(2026, 11, 21, tzinfo=UTC)

    def __init__(self) -> None:
        self.seconds = 1000.0

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.start + timedelta(seconds=self.seconds), lambda: self.seconds)


@pytest.fixture
def time() -> Time:
    return Time()


def test_file_is_reread_once_a_second(tmp_path: Path, time: Time) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    file = ReloadingFile(DataOrFile(file=path), lambda: time.seconds)
    assert file.read() == b"one"

    path.write_text("number two")
    assert file.read() == b"one"
    time.seconds += READ_INTERVAL.total_seconds()
    assert file.read() == b"number two"


def test_deleted_file_keeps_its_last_content_and_missing_file_is_an_error(tmp_path: Path, time: Time) -> None:
    path = tmp_path / "token"
    file = ReloadingFile(DataOrFile(file=path), lambda: time.seconds)
    with pytest.raises(CredentialsFailed, match="token cannot be read: No such file"):
        file.read()

    path.write_text("one")
    assert file.read() == b"one"
    path.unlink()
    time.seconds += 3600
    assert file.read() == b"one"


async def test_credentials_are_the_same_object_while_nothing_changes(time: Time) -> None:
    authority = Authority.create("test")
    user = User(token=DataOrFile(b"t"))
    credentials = ConnectionCredentials(
        Connection("https://one", DataOrFile(authority.certificate), user=user), time.clocks()
    )

    first = await credentials.current()

    assert await credentials.current() is first
    assert first.headers == (("Authorization", "Bearer t"),)
    assert isinstance(first.context, ssl.SSLContext)
    assert first.context.verify_mode is ssl.CERT_REQUIRED
    assert len(first.context.get_ca_certs()) == 1
    assert "Bearer" not in repr(first)


async def test_new_token_keeps_tls_context_and_connections(tmp_path: Path, time: Time) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    user = User(token=DataOrFile(file=path))
    credentials = ConnectionCredentials(Connection("https://one", verify=False, user=user), time.clocks())
    first = await credentials.current()

    path.write_text("number two\n")
    time.seconds += 5
    second = await credentials.current()

    assert second.headers == (("Authorization", "Bearer number two"),)
    assert second.context is first.context


async def test_basic_and_impersonation_headers(time: Time) -> None:
    user = User(username="jane", password="secret", impersonation=(("Impersonate-User", "joe"),))
    identity = await ConnectionCredentials(Connection("http://one", user=user), time.clocks()).current()

    assert identity.headers == (("Authorization", "Basic amFuZTpzZWNyZXQ="), ("Impersonate-User", "joe"))


async def test_error_about_invalid_certificate_does_not_quote_it(tmp_path: Path, time: Time) -> None:
    (tmp_path / "pem").write_text("hunter2")
    material = DataOrFile(file=tmp_path / "pem")
    user = User(certificate=material, key=material)

    with pytest.raises(CredentialsFailed, match="the certificates for https://one cannot be used") as caught:
        await ConnectionCredentials(Connection("https://one", verify=False, user=user), time.clocks()).current()
    assert "hunter2" not in str(caught.value)


class Plugin:
    """Plays the command: each run gives the next token, good for an hour."""

    def __init__(self, time: Time, lifetime: timedelta | None = timedelta(hours=1)) -> None:
        self.time = time
        self.lifetime = lifetime
        self.runs = 0

    async def run_plugin(self, _plugin: ExecPlugin) -> PluginCredentials:
        await asyncio.sleep(0)
        self.runs += 1
        now = self.time.clocks().utc()
        return PluginCredentials(f"token-{self.runs}", b"", b"", now + self.lifetime if self.lifetime else None)

    user = User(plugin=ExecPlugin(V1, "login"))


@pytest.fixture
def plugin(time: Time, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    plugin = Plugin(time)
    monkeypatch.setattr(credentials_module, "run_plugin", plugin.run_plugin)
    return plugin


async def test_plugin_runs_once_for_concurrent_requests_and_again_when_its_token_expires(
    time: Time, plugin: Plugin
) -> None:
    credentials = ConnectionCredentials(Connection("http://one", user=plugin.user), time.clocks())

    await asyncio.gather(*(credentials.current() for _ in range(10)))
    assert plugin.runs == 1
    time.seconds += 3600

    assert (await credentials.current()).headers == (("Authorization", "Bearer token-2"),)


async def test_refused_token_is_renewed_once_and_not_for_every_request(time: Time, plugin: Plugin) -> None:
    credentials = ConnectionCredentials(Connection("http://one", user=plugin.user), time.clocks())
    refused = await credentials.current()
    time.seconds += 60

    assert await asyncio.gather(*(credentials.renew(refused) for _ in range(5))) == [True] * 5
    assert plugin.runs == 2
    assert not await credentials.renew(await credentials.current())
    assert plugin.runs == 2


async def test_call_refused_with_401_is_repeated_with_the_new_token(
    server: ScriptedServer, pool: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def wants_the_new_one(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return web.json_response({"metadata": {}})
        path.write_text("new")
        return web.json_response({"reason": "Unauthorized"}, status=401)

    server.plays(wants_the_new_one)
    client = Client(Connection(server.url, user=User(token=DataOrFile(file=path))), pool)

    await client.create(CONFIG_MAPS, {"metadata": {"namespace": "a", "name": "x"}})
    assert len(server.requests) == 2


async def test_fixed_token_that_is_refused_is_not_sent_twice(server: ScriptedServer, pool: Pool) -> None:
    async def refuses(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)

    server.plays(refuses)
    client = Client(Connection(server.url, user=User(token=DataOrFile(b"hunter2"))), pool)

    with pytest.raises(Unauthorized, match="get ConfigMap a/x: 401 Unauthorized: no") as caught:
        await client.get(CONFIG_MAPS, "x", "a")
    assert len(server.requests) == 1
    assert "hunter2" not in str(caught.value)


def prints(document: Any, *, then: str = "") -> ExecPlugin:
    """A plugin that prints a document, and does something before."""
    text = document if isinstance(document, str) else orjson.dumps(document).decode()
    return ExecPlugin(V1, sys.executable, ("-c", f"import os, sys, time\n{then}\nprint({text!r})"))


def credential(**status: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "ExecCredential", "status": status}


async def test_plugin_receives_exec_info_and_its_credentials_are_used() -> None:
    asks = "assert os.environ['A'] == 'b' and '\"interactive\":false' in os.environ['KUBERNETES_EXEC_INFO']"
    command = prints(credential(token="t", expirationTimestamp="2026-11-21T10:00:00Z"), then=asks)

    issued = await run_plugin(ExecPlugin(V1, command.command, command.arguments, {"A": "b"}))

    assert (issued.token, issued.expires) == ("t", datetime(2026, 11, 21, 10, tzinfo=UTC))
    assert "'t'" not in repr(issued)


REFUSED: dict[str, tuple[ExecPlugin, str]] = {
    "exit code": (prints({}, then="sys.exit(3)"), "failed with exit code 3"),
    "no JSON": (prints("hunter2"), "did not print valid JSON"),
    "no status": (prints({"kind": "ExecCredential"}), "did not print an ExecCredential with a status"),
    "other version": (
        prints({**credential(token="t"), "apiVersion": "v9"}),
        "printed an ExecCredential of another version",
    ),
    "nothing": (prints(credential()), "printed neither a token nor a certificate"),
    "half a pair": (prints(credential(clientKeyData="hunter2")), "a key without a certificate"),
    "bad time": (prints(credential(token="hunter2", expirationTimestamp="soon")), "not an RFC 3339 time"),
    "bad type": (prints(credential(token=["hunter2"])), "status.token that is not a string"),
    "too much": (prints("x" * 10, then="print('hunter2' * 200_000)"), "printed more than"),
    "no command": (ExecPlugin(V1, "/nowhere/login", install_hint="get it"), "No such file or directory; get it"),
}


@pytest.mark.parametrize(("plugin", "message"), REFUSED.values(), ids=REFUSED)
async def test_error_about_failed_plugin_does_not_quote_its_output(plugin: ExecPlugin, message: str) -> None:
    with pytest.raises(CredentialsFailed, match=f"the credential plugin {plugin.command} .*{message}") as caught:
        await run_plugin(plugin)
    assert "hunter2" not in str(caught.value)


async def test_plugin_that_hangs_is_killed() -> None:
    with pytest.raises(CredentialsFailed, match=r"did not finish within 0\.1 s"):
        await run_plugin(prints({}, then="time.sleep(60)"), deadline=timedelta(seconds=0.1))
