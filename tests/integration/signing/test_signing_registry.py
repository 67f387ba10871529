"""Signatures in a real registry: creation, transfer, and those of cosign."""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusterstackrelease import PASSED
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.descriptor import describe
from clusterstacks.net.oci.manifests import OCI_MANIFEST
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.contents import read_contents
from clusterstacks.release.signing.keys import parse_private_key
from clusterstacks.release.signing.stage_evidence import StageFacts, StageStatement
from clusterstacks.release.sources.oci_signatures import attach, cosign_tag
from clusterstacks.release.sources.signature_store import attest_beside
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.signatures import ecdsa_key, ed25519_key, public_pem, signed
from tests.support.running.csctl import csctl_run

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.release.signing.keys import PrivateKey
    from tests.support.servers.registries import RegistryServer


def csctl(*arguments: object) -> subprocess.CompletedProcess[str]:
    return csctl_run(*arguments, environ={**os.environ, "OCI_REPOSITORY": "", "DOCKER_CONFIG": "/nowhere"})


def done(*arguments: object) -> str:
    run = csctl(*arguments)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def keys(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("old", "new")]
    for path in paths:
        done("sign", "--new-key", path)
    return [path.with_name(f"{path.name}.pub") for path in paths]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "releases" / STAGED.release, staged_release())


@pytest.fixture
def place(registry: RegistryServer, request: pytest.FixtureRequest) -> Reference:
    """A repository of this test's own."""
    return Reference(
        registry.host, f"signing/{re.sub('[^a-z0-9]+', '-', request.node.name).strip('-')}", STAGED.release
    )


@pytest.fixture
async def repository(place: Reference) -> AsyncIterator[Registry]:
    async with HTTPClient(plain_http=True) as web:
        yield Registry(web, place, plain_http=True)


def test_published_release_is_signed_in_the_registry_by_several_keys(
    release: Path, place: Reference, keys: list[Path]
) -> None:
    done("push", release, place)
    unsigned = csctl("verify", place, "--key", keys[0])
    for key in keys:
        assert f"{STAGED} signed by {key.with_suffix('')}" in done("sign", place, "--key", key.with_suffix(""))
        assert f"{STAGED} was signed before by" in done("sign", place, "--key", key.with_suffix(""))

    told = json.loads(done("verify", place, "--key", keys[0], "--key", keys[1], "-o", "json"))

    assert unsigned.returncode == 3
    assert "it has no signature" in unsigned.stderr
    assert told["signedBy"] == [str(key) for key in keys]
    assert told["problems"] == []


def test_signatures_are_pushed_and_pulled_with_the_release(
    release: Path, place: Reference, keys: list[Path], tmp_path: Path
) -> None:
    done("sign", release, "--key", keys[0].with_suffix(""))
    done("push", release, place)
    done("pull", place, "-o", tmp_path / "pulled")

    assert done("verify", place, "--key", keys[0]).startswith(f"{STAGED} is signed by {keys[0]}\n")
    assert done("verify", tmp_path / "pulled" / STAGED.release, "--key", keys[0]).startswith(
        f"{STAGED} is signed by {keys[0]}\n"
    )
    assert done("verify", f"{tmp_path / 'pulled'}:{STAGED}", "--key", keys[0]).startswith(
        f"{STAGED} is signed by {keys[0]}\n"
    )


@pytest.mark.parametrize("key", [ecdsa_key(), ed25519_key()], ids=["ecdsa", "ed25519"])
async def test_cosign_signature_is_valid_only_for_its_manifest(
    release: Path, place: Reference, repository: Registry, key: PrivateKey, tmp_path: Path
) -> None:
    done("push", release, place)
    pem = write_public(key, tmp_path)
    digest = (await repository.manifest(STAGED.release)).digest

    await cosign(repository, digest, f"sha256:{'0' * 64}", key)
    other = csctl("verify", place, "--key", pem)
    await cosign(repository, digest, digest, key)

    assert other.returncode == 3
    assert "it is for the manifest 'sha256:0000" in other.stderr
    assert done("verify", place, "--key", pem).startswith(f"{STAGED} is signed by {pem}\n")


async def test_envelope_of_another_release_is_not_accepted(
    release: Path, place: Reference, repository: Registry, tmp_path: Path
) -> None:
    done("push", release, place)
    key = ecdsa_key()
    await attach(repository, STAGED.release, signed(key))

    refused = csctl("verify", place, "--key", write_public(key, tmp_path))

    assert refused.returncode == 3
    assert "it is for other files" in refused.stderr


def test_release_directory_is_signed_beside_it(keys: list[Path]) -> None:
    for place in (f"https://127.0.0.1:1/releases:{STAGED}", f"github://owner/repository:{STAGED}"):
        refused = csctl("sign", place, "--key", keys[0].with_suffix(""))
        assert refused.returncode == 2
        assert "sign the release directory" in refused.stderr


@pytest.mark.parametrize(
    ("place", "problem"),
    [("nowhere", "nowhere does not exist"), ("registry.example.com/kaas/stacks", "has no release name")],
)
def test_invalid_release_reference_is_rejected(keys: list[Path], place: str, problem: str) -> None:
    refused = csctl("verify", place, "--key", keys[0])

    assert refused.returncode == 2
    assert problem in refused.stderr


def write_public(key: PrivateKey, directory: Path) -> Path:
    path = directory / "trusted.pub"
    path.write_bytes(public_pem(key))
    return path


async def cosign(repository: Registry, digest: str, signed_digest: str, key: PrivateKey) -> None:
    """Write the manifest that ``cosign sign --key`` leaves in a registry, under a tag of its own."""
    payload = json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": repository.reference.place},
                "image": {"docker-manifest-digest": signed_digest},
                "type": "cosign container image signature",
            },
            "optional": None,
        }
    ).encode()
    config = b"{}"
    layer = describe(payload, "application/vnd.dev.cosign.simplesigning.v1+json").document()
    layer["annotations"] = {"dev.cosignproject.cosign/signature": b64encode(key.sign(payload)).decode()}
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": describe(config, "application/vnd.oci.image.config.v1+json").document(),
        "layers": [layer],
    }
    for blob in (config, payload):
        await repository.push_blob(blob)
    await repository.push_manifest(json.dumps(manifest).encode(), OCI_MANIFEST, cosign_tag(digest))


async def test_statements_of_stages_travel_with_a_release_over_an_air_gap(
    release: Path, place: Reference, keys: list[Path], tmp_path: Path
) -> None:
    """To a registry, through a layout on a disk to another one, and through a directory to a third."""
    contents = read_contents(STAGED, release)
    statement = StageStatement(
        release=STAGED,
        place=str(place),
        stage="staging",
        verdict=PASSED,
        verified=datetime(2026, 11, 27, tzinfo=UTC),
        facts=StageFacts(clusters={"v1.35.4": 3}),
    )
    key = parse_private_key(keys[0].with_suffix("").read_bytes(), name="stage")
    await attest_beside(contents, statement.envelope(contents.files).signed(key))
    second, third = (replace(place, repository=f"{place.repository}-{name}") for name in ("b", "c"))

    steps = (
        ("push", release, place),
        ("copy", place, f"oci-layout:{tmp_path / 'disk'}"),
        ("copy", "--all", f"oci-layout:{tmp_path / 'disk'}", second.at("")),
        ("pull", second, "-o", tmp_path / "pulled"),
        ("push", tmp_path / "pulled" / STAGED.release, third),
    )
    for step in steps:
        await asyncio.to_thread(done, *step)

    for where in (place, second, tmp_path / "pulled" / STAGED.release, third):
        told = await asyncio.to_thread(done, "verify", where, "--evidence", "--key", keys[0])
        assert "2026-11-27T00:00:00Z  staging passed, 0 s on 3 clusters" in told
    unsigned = await asyncio.to_thread(csctl, "verify", third, "--key", keys[0])
    assert (unsigned.returncode, "it has no signature" in unsigned.stderr) == (3, True)
