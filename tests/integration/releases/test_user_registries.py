"""What authors see of a registry: the same digests from every verb, JSON, and why credentials are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.releases.test_oci_registry import csctl
from tests.support.registries import registry, secure_registry
from tests.support.releases import STAGED, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.registries import RegistryServer

__all__ = ["registry", "secure_registry"]  # fixtures


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_release(tmp_path / "built" / STAGED.release, staged_release())


def digests(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "digest:" in line]


def test_user_14_push_pull_and_verify_print_the_same_digests_with_their_names(
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


def test_user_6_copy_prints_json(registry: RegistryServer, directory: Path) -> None:
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
