"""Output of the registry verbs: digests, JSON and credential errors."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.oci.test_oci_registry import csctl
from tests.support.builders.releases import STAGED, staged_release, write_release

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_release(tmp_path / "built" / STAGED.release, staged_release())


def digests(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "digest:" in line]


@pytest.mark.regression("USER-14")
def test_push_pull_and_verify_print_the_same_named_digests(
    registry: RegistryServer, directory: Path, tmp_path: Path
) -> None:
    place = f"{registry.host}/user14/stacks"
    csctl("sign", "--new-key", tmp_path / "key")
    csctl("sign", directory, "--key", tmp_path / "key")

    pushed = csctl("push", directory, place)
    again = json.loads(csctl("push", directory, place, "-o", "json").stdout)
    pulled = csctl("pull", f"{place}:{STAGED}", "-d", tmp_path / "out")
    verified = csctl("verify", f"{place}:{STAGED}", "--key", tmp_path / "key.pub")
    on_disk = csctl("verify", directory, "--key", tmp_path / "key.pub")

    manifest, content = digests(pushed.stdout)
    assert manifest == f"manifest digest: {again['manifestDigest']}"
    assert content == f"content digest:  {again['contentDigest']}"
    assert again["manifestDigest"] in pushed.stdout.splitlines()[0]
    assert digests(pulled.stdout) == digests(verified.stdout) == [manifest, content]
    assert digests(on_disk.stdout) == [content]


@pytest.mark.regression("USER-6")
def test_copy_prints_json(registry: RegistryServer, directory: Path) -> None:
    place = f"{registry.host}/user6/stacks"
    pushed = json.loads(csctl("push", directory, place, "-o", "json").stdout)

    run = csctl("copy", f"{place}:{STAGED}", f"{place}-2", "-o", "json")
    assert run.returncode == 0, run.stderr
    copied = json.loads(run.stdout)

    assert copied == {
        "release": STAGED.release,
        "reference": f"{place}-2:{STAGED}",
        "manifestDigest": pushed["manifestDigest"],
        "new": True,
        "signatures": 0,
        "problems": [],
    }


def refused(run: subprocess.CompletedProcess[str]) -> str:
    assert run.returncode == 1, run.stderr
    return run.stderr.splitlines()[0]


@pytest.mark.regression("USER-12")
def test_authentication_error_names_the_sent_credentials(secure_registry: RegistryServer, tmp_path: Path) -> None:
    host, ca = secure_registry.host, tmp_path / "ca.pem"
    ca.write_text(secure_registry.ca)
    place = f"{host}/user12/stacks"
    docker = tmp_path / "docker" / "config.json"
    docker.parent.mkdir()
    entry = base64.b64encode(b"author:hunter2").decode()
    docker.write_text(json.dumps({"auths": {host: {"auth": entry}}}))
    empty = tmp_path / "empty" / "config.json"
    empty.parent.mkdir()
    empty.write_text("{}")
    home = {"HOME": str(tmp_path)}
    mine = {**home, "OCI_REGISTRY": host}

    def said(**environ: str) -> str:
        return refused(csctl("list", place, "--ca", ca, **environ))

    begin = f"Error: {place} refuses access with status 401 "
    assert said(**home) == (
        f"{begin}(no credentials were sent: neither a variable nor a configuration file has any); "
        "use credentials with access to it, or correct the address"
    )
    assert "OCI_USERNAME and OCI_PASSWORD are set, but OCI_REGISTRY is not)" in said(
        **home, OCI_USERNAME="a", OCI_PASSWORD="hunter2"
    )
    assert f"OCI_USERNAME is set, but OCI_REGISTRY names 'other.example' and not {host})" in said(
        **home, OCI_USERNAME="a", OCI_REGISTRY="other.example"
    )
    assert "(no credentials were sent: OCI_PASSWORD is set, but OCI_USERNAME is not)" in said(**mine, OCI_PASSWORD="p")
    assert "(credentials were sent: OCI_USERNAME, but OCI_PASSWORD is not set)" in said(**mine, OCI_USERNAME="author")
    assert "(credentials were sent: OCI_USERNAME and OCI_PASSWORD)" in said(
        **mine, OCI_USERNAME="author", OCI_PASSWORD="hunter2"
    )
    wrong = said(**home, DOCKER_CONFIG=str(docker.parent))
    assert f"(credentials were sent: {docker} (entry {host}))" in wrong
    assert f"{empty} has none for {host})" in said(**home, DOCKER_CONFIG=str(empty.parent))
    assert "hunter2" not in wrong
    assert entry not in wrong


@pytest.mark.regression("USER-12")
def test_repository_without_releases_has_an_empty_list(registry: RegistryServer) -> None:
    place = f"{registry.host}/user12/none"

    text, document = csctl("list", place), csctl("list", place, "-o", "json")

    assert (text.returncode, text.stdout) == (0, "")
    assert text.stderr == f"{registry.host} has no repository user12/none yet\nno releases in {place}\n"
    assert (document.returncode, json.loads(document.stdout)) == (0, [])
