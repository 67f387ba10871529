"""The registries that the tests start."""

from __future__ import annotations

import base64
import http.client
import ssl
import subprocess
from typing import TYPE_CHECKING

from clusterstacks.dev.loopback import LOOPBACK
from tests.support.servers.registries import registry_binary, running_registry

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer


def ask(server: RegistryServer, method: str, path: str, *, password: str | None = None) -> http.client.HTTPResponse:
    connection: http.client.HTTPConnection = http.client.HTTPConnection(LOOPBACK, server.port)
    if server.secure:
        context = ssl.create_default_context(cadata=server.ca)
        connection = http.client.HTTPSConnection(LOOPBACK, server.port, context=context)
    headers = {"Content-Length": "0"}
    if password is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"{server.username}:{password}".encode()).decode()
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_open_registry_accepts_anonymous_pushes(registry: RegistryServer) -> None:
    assert ask(registry, "GET", "/v2/").status == 200
    assert ask(registry, "POST", "/v2/fixture/open/blobs/uploads/").status == 202


def test_private_registry_has_one_user(secure_registry: RegistryServer) -> None:
    assert ask(secure_registry, "GET", "/v2/").getheader("WWW-Authenticate") == 'Basic realm="test"'
    assert ask(secure_registry, "GET", "/v2/", password="wrong").status == 401
    answer = ask(secure_registry, "POST", "/v2/fixture/private/blobs/uploads/", password=secure_registry.password)
    assert answer.status == 202


def test_own_registry_keeps_its_content_across_a_restart(tmp_path: Path) -> None:
    with running_registry(tmp_path) as server:
        assert ask(server, "POST", "/v2/fixture/own/blobs/uploads/").status == 202
        server.process.restart()
        assert list(server.storage.rglob("_uploads"))
    assert not server.process.running


def test_registry_has_the_documented_version() -> None:
    told = subprocess.run([registry_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    assert "distribution" in told
