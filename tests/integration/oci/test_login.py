"""``csctl login`` and ``csctl logout`` with a real registry and a credential helper."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import select
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import ServerUnavailable
from clusterstacks.net.oci.credentials import RegistryCredentials
from clusterstacks.net.oci.reference import Reference
from clusterstacks.release.sources import registry_login
from clusterstacks.release.sources.registry_login import check_login
from tests.support.fakes.registry import RegistryDouble
from tests.support.fakes.silent_server import silent_server
from tests.support.servers.registries import PASSWORD, USERNAME

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer


HELPER = """#!/usr/bin/env python3
import json, os, sys
store = os.path.join(os.environ["HOME"], "chain.json")
chain = json.load(open(store)) if os.path.exists(store) else {}
action, text = sys.argv[1], sys.stdin.read().strip()
if action == "store":
    entry = json.loads(text)
    chain[entry["ServerURL"]] = entry
elif text not in chain:
    print("credentials not found in native keychain")
    sys.exit(1)
elif action == "erase":
    del chain[text]
else:
    print(json.dumps(chain[text]))
json.dump(chain, open(store, "w"))
"""


class Shell:
    """Runs csctl with a home directory of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / ".docker" / "config.json"
        programs = os.pathsep.join((str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
        self.environ = {"HOME": str(home), "PATH": programs}

    def __call__(self, *arguments: object, typed: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "clusterstacks.csctl.main", *map(str, arguments)],
            env={**self.environ, **environ},
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def login(self, registry: RegistryServer, *arguments: object, password: str = PASSWORD, **environ: str) -> str:
        ca = ("--ca", self.home / "ca.pem") if registry.secure else ()
        command = ("login", registry.host, "-u", USERNAME, "--password-stdin", *ca, *arguments)
        run = self(*command, typed=f"{password}\n", **environ)
        assert password not in run.stdout + run.stderr
        assert base64.b64encode(f"{USERNAME}:{password}".encode()).decode() not in run.stdout + run.stderr
        assert run.returncode == 0, run.stderr
        return run.stdout + run.stderr

    def stored(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.config.read_text())
        return found


@pytest.fixture
def shell(tmp_path: Path, secure_registry: RegistryServer) -> Shell:
    (tmp_path / "ca.pem").write_text(secure_registry.ca)
    return Shell(tmp_path)


def test_login_is_stored_as_docker_does_and_logout_removes_it(shell: Shell, secure_registry: RegistryServer) -> None:
    host = secure_registry.host
    place, ca = f"{host}/login/stacks", ("--ca", shell.home / "ca.pem")
    shell.config.parent.mkdir()
    before = {"auths": {"other.example": {"auth": "eDp5"}}, "HttpHeaders": {"X": "ä"}, "proxies": {"default": {}}}
    shell.config.write_text(json.dumps(before))
    assert shell("list", place, *ca).returncode == 1

    printed = shell.login(secure_registry)

    assert printed == f"logged in to {host} as {USERNAME}; the credentials are in {shell.config}\n"
    entry = {"auth": base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()}
    assert shell.stored() == before | {"auths": {"other.example": {"auth": "eDp5"}, host: entry}}
    assert shell.config.stat().st_mode & 0o777 == 0o600
    assert shell("list", place, *ca).returncode == 0
    assert shell("logout", host).stdout == f"logged out of {host}\n"
    assert shell.stored() == before
    assert json.loads(shell("logout", host, "-o", "json").stdout) == {"registry": host, "removed": False}


def test_refused_login_stores_nothing(shell: Shell, secure_registry: RegistryServer) -> None:
    arguments = ("login", secure_registry.host, "-u", USERNAME, "--password-stdin", "--ca", shell.home / "ca.pem")

    run = shell(*arguments, "-v", typed="hunter2")

    assert run.returncode == 1
    assert f"{secure_registry.host} refuses access with status 401 (credentials were sent: user name and" in run.stderr
    assert "hunter2" not in run.stderr
    assert not shell.config.exists()


def test_first_login_creates_private_directory_and_link_stays_a_link(
    shell: Shell, secure_registry: RegistryServer
) -> None:
    real, linked = shell.home / "real.json", shell.home / "linked"
    linked.mkdir()
    real.write_text("{}")
    (linked / "config.json").symlink_to(real)

    shell.login(secure_registry)
    shell.login(secure_registry, DOCKER_CONFIG=str(linked))

    assert shell.config.parent.stat().st_mode & 0o777 == 0o700
    assert (linked / "config.json").is_symlink()
    assert secure_registry.host in json.loads(real.read_text())["auths"]


@pytest.mark.parametrize("setting", ["credsStore", "credHelpers"])
def test_credential_helper_keeps_the_password(shell: Shell, secure_registry: RegistryServer, setting: str) -> None:
    host = secure_registry.host
    helper = shell.home / "bin" / "docker-credential-chain"
    helper.parent.mkdir()
    helper.write_text(HELPER)
    helper.chmod(0o755)
    shell.config.parent.mkdir()
    shell.config.write_text(json.dumps({setting: "chain" if setting == "credsStore" else {host: "chain"}}))

    printed = shell.login(secure_registry)
    listed = shell("list", f"{host}/login/stacks", "--ca", shell.home / "ca.pem")
    chain = json.loads((shell.home / "chain.json").read_text())
    stored = shell.stored()
    out = shell("logout", host)

    assert printed == f"logged in to {host} as {USERNAME}; the credentials are in docker-credential-chain\n"
    assert (listed.returncode, chain[host]["Secret"], stored["auths"]) == (0, PASSWORD, {host: {}})
    assert (out.returncode, out.stdout) == (0, f"logged out of {host}\n")
    assert json.loads((shell.home / "chain.json").read_text()) == {}
    assert shell.stored()["auths"] == {}


def test_registry_without_login_and_variables_with_precedence_are_reported(
    shell: Shell, registry: RegistryServer
) -> None:
    variables = {"OCI_REGISTRY": registry.host, "OCI_USERNAME": "robot", "OCI_PASSWORD": "another"}

    printed = shell.login(registry, **variables)
    out = shell("logout", registry.host, **variables)

    assert f"{registry.host} accepts requests without credentials, so these may be wrong\n" in printed
    assert "Warning: csctl uses other credentials first: OCI_USERNAME and OCI_PASSWORD\n" in printed
    assert out.stderr == "Warning: csctl still finds credentials: OCI_USERNAME and OCI_PASSWORD\n"


@pytest.mark.parametrize(
    ("arguments", "typed", "message"),
    [
        (("registry.example.org/kaas",), "", "is not a registry (expected a host"),
        (("example",), "", "is not a registry (expected a host"),
        (("registry.example.org",), "", "the user name is missing: add --username"),
        (
            ("registry.example.org", "-u", "me"),
            "",
            "there is no terminal to ask for the password: use --password-stdin",
        ),
        (("registry.example.org", "-u", "me", "--password-stdin"), "\n", "the password is empty"),
        (("registry.example.org", "-u", "me", "--password-stdin"), "a\nb\n", "is not a single line of text"),
        (("registry.example.org", "-u", "me", "--password-stdin"), "x" * 70000, "it is not a password"),
        (("registry.example.org", "-u", "a:b", "--password-stdin"), "x", "the user name contains a colon"),
    ],
)
def test_unusable_input_is_refused_before_any_request(
    shell: Shell, arguments: tuple[str, ...], typed: str, message: str
) -> None:
    run = shell("login", *arguments, typed=typed)

    assert run.returncode == 2
    assert message in run.stderr
    assert not shell.config.exists()


def test_password_is_asked_for_without_echo(shell: Shell, registry: RegistryServer) -> None:
    command = [sys.executable, "-m", "clusterstacks.csctl.main", "login", registry.host]
    pid, terminal = pty.fork()
    if not pid:
        os.execve(command[0], command, shell.environ)
    shown = b""

    def read_until(text: bytes) -> None:
        nonlocal shown
        while text not in shown:
            assert select.select([terminal], [], [], 120)[0], shown
            shown += os.read(terminal, 4096)

    read_until(b"user name: ")
    os.write(terminal, b"me\n")
    read_until(b"password: ")
    os.write(terminal, b"hidden-word\n")
    read_until(b"logged in to ")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)

    assert b"hidden-word" not in shown
    assert base64.b64encode(b"me:hidden-word").decode() in shell.config.read_text()


async def test_silent_registry_ends_the_login_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_login, "CHECK_DEADLINE", timedelta(seconds=0.2))
    async with silent_server() as port, HTTPClient() as web:
        registry = Reference.parse(f"127.0.0.1:{port}/login")

        with pytest.raises(ServerUnavailable, match=rf"127.0.0.1:{port} is not available: no answer within 0 s; check"):
            await check_login(web, registry, RegistryCredentials("me", "right"), plain_http=False)


async def test_login_at_a_registry_with_tokens_requests_no_repository(shell: Shell) -> None:
    async with RegistryDouble.started() as double:
        double.users = {"me": "right"}
        arguments = ("login", double.host, "-u", "me", "--password-stdin")
        good = await asyncio.to_thread(shell, *arguments, typed="right")
        bad = await asyncio.to_thread(shell, *arguments, typed="wrong")

    assert (good.returncode, bad.returncode) == (0, 1), good.stderr + bad.stderr
    assert "status 401" in bad.stderr
    assert all("scope" not in request.query for request in double.token_requests)
