"""Credentials of each registry."""

from __future__ import annotations

import base64
import json
import stat
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.net.oci.credential_helpers import ask_helper
from clusterstacks.net.oci.credentials import (
    ANONYMOUS,
    RegistryCredentials,
    find_credentials,
    from_docker_config,
)
from clusterstacks.net.oci.reference import Reference

if TYPE_CHECKING:
    from pathlib import Path

HERE = Reference.parse("r.example:5000/kaas/stacks")
SECRET = "hunter2-never-shown"


def auth(username: str = "me", password: str = SECRET) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{username}:{password}".encode()).decode()}


def config(tmp_path: Path, **document: Any) -> dict[str, str]:
    tmp_path.joinpath("config.json").write_text(json.dumps(document))
    return {"DOCKER_CONFIG": str(tmp_path), "PATH": str(tmp_path / "bin")}


def helper(tmp_path: Path, name: str, body: str) -> None:
    program = tmp_path / "bin" / f"docker-credential-{name}"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!{sys.executable}\nimport json, sys, time\nserver = sys.stdin.readline().strip()\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


async def test_without_configuration_access_is_anonymous(tmp_path: Path) -> None:
    assert await find_credentials(HERE, {"HOME": str(tmp_path)}) == ANONYMOUS


async def test_oci_variables_apply_to_their_registry_only() -> None:
    environ = {"OCI_REGISTRY": "r.example:5000", "OCI_USERNAME": "me", "OCI_PASSWORD": SECRET}

    assert await find_credentials(HERE, environ) == RegistryCredentials("me", SECRET)
    assert await find_credentials(Reference.parse("evil.example/a"), environ) == ANONYMOUS
    assert await find_credentials(HERE, {**environ, "OCI_REGISTRY": ""}) == ANONYMOUS


async def test_access_token_is_sent_in_base64_as_in_go_csctl() -> None:
    environ = {"OCI_REGISTRY": "r.example:5000", "OCI_ACCESS_TOKEN": "abc", "OCI_USERNAME": "me"}

    assert await find_credentials(HERE, environ) == RegistryCredentials(token="YWJj")


@pytest.mark.parametrize("key", ["r.example:5000", "https://r.example:5000/v1/", "r.example:5000/kaas"])
async def test_docker_configuration_is_read(tmp_path: Path, key: str) -> None:
    assert await find_credentials(HERE, config(tmp_path, auths={key: auth()})) == RegistryCredentials("me", SECRET)


async def test_longest_matching_path_wins(tmp_path: Path) -> None:
    auths = {"r.example:5000": auth("host"), "r.example:5000/kaas/stacks": auth("repository")}

    assert (await find_credentials(HERE, config(tmp_path, auths=auths))).username == "repository"


async def test_port_is_part_of_the_registry_name(tmp_path: Path) -> None:
    assert await find_credentials(HERE, config(tmp_path, auths={"r.example": auth()})) == ANONYMOUS


async def test_podman_file_is_read_after_the_docker_file(tmp_path: Path) -> None:
    environ = config(tmp_path, auths={"elsewhere.example": auth()})
    tmp_path.joinpath("containers").mkdir()
    tmp_path.joinpath("containers", "auth.json").write_text(json.dumps({"auths": {"r.example:5000": auth("podman")}}))

    found = await find_credentials(HERE, {**environ, "XDG_RUNTIME_DIR": str(tmp_path)})

    assert found.username == "podman"


async def test_identity_token_is_distinguished_from_a_password(tmp_path: Path) -> None:
    environ = config(tmp_path, auths={"r.example:5000": {"identitytoken": SECRET, "username": "me"}})

    assert (await find_credentials(HERE, environ)).identity == SECRET


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
async def test_credential_helper_is_called(tmp_path: Path, key: str) -> None:
    environ = config(tmp_path, **{key: {"r.example:5000": "test"} if key == "credHelpers" else "test"})
    helper(tmp_path, "test", f"print(json.dumps({{'Username': server, 'Secret': {SECRET!r}}}))")

    assert await find_credentials(HERE, environ) == RegistryCredentials("r.example:5000", SECRET)


async def test_credential_helper_may_return_an_identity_token(tmp_path: Path) -> None:
    environ = config(tmp_path, credsStore="test")
    helper(tmp_path, "test", f"print(json.dumps({{'Username': '<token>', 'Secret': {SECRET!r}}}))")

    assert await find_credentials(HERE, environ) == RegistryCredentials(identity=SECRET)


async def test_credential_helper_without_an_entry_gives_anonymous_access(tmp_path: Path) -> None:
    environ = config(tmp_path, credsStore="test")
    helper(tmp_path, "test", "print('credentials not found in native keychain'); sys.exit(1)")

    assert await find_credentials(HERE, environ) == ANONYMOUS


@pytest.mark.parametrize(
    "body",
    [
        f"print({SECRET!r}); sys.exit(3)",
        f"print('{{{SECRET}')",
        "print('[]')",
        "sys.stdout.write('x' * 1000000)",
    ],
)
async def test_failing_credential_helper_is_an_error_without_its_output(tmp_path: Path, body: str) -> None:
    environ = config(tmp_path, credsStore="test")
    helper(tmp_path, "test", body)

    with pytest.raises(DependencyError, match="docker-credential-test") as caught:
        await find_credentials(HERE, environ)
    assert SECRET not in str(caught.value)


async def test_hanging_credential_helper_is_killed(tmp_path: Path) -> None:
    environ = config(tmp_path)
    helper(tmp_path, "test", "time.sleep(60)")

    with pytest.raises(DependencyError, match="did not finish within"):
        await ask_helper("test", "r.example", environ, timedelta(milliseconds=300))


@pytest.mark.parametrize("name", ["missing", "../test", "a/b", ""])
async def test_credential_helper_is_searched_in_path_only(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path, "missing", "print('{}')")
    monkeypatch.chdir(tmp_path / "bin")

    with pytest.raises(DependencyError, match="not on PATH"):
        await ask_helper(name, "r.example", {"PATH": ".:/nowhere"})


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"auths": []}',
        '{"auths": {"r.example:5000": {"auth": "%%%"}}}',
        '{"auths": {"r.example:5000": {"auth": "\\u0080"}}}',
        '{"auths": {"r.example:5000": {"registrytoken": "a\\nb"}}}',
        '{"auths": {"r.example:5000": {"username": 1}}}',
        '{"credsStore": 3}',
        '{"credHelpers": {"a": []}}',
    ],
)
async def test_invalid_file_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    tmp_path.joinpath("config.json").write_text(text)

    with pytest.raises(SpecError, match=r"config\.json"):
        await find_credentials(HERE, {"DOCKER_CONFIG": str(tmp_path)})


def test_docker_config_secret_of_kubernetes_is_read() -> None:
    text = json.dumps({"auths": {"r.example:5000": {"username": "me", "password": SECRET}}})

    assert from_docker_config(text, HERE) == RegistryCredentials("me", SECRET)
    assert from_docker_config(text, Reference.parse("other.example/a")) == ANONYMOUS


def test_credentials_are_not_in_their_repr() -> None:
    assert SECRET not in repr(RegistryCredentials(SECRET, SECRET, SECRET, SECRET))
