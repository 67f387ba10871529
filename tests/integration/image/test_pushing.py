"""An image goes into a real registry with SBOM and provenance, and with signatures that csctl and cosign verify."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from base64 import b64decode
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.signing.attestation import PROVENANCE, SBOM
from clusterstacks.release.signing.envelope import PAYLOAD_TYPE
from clusterstacks.release.sources.oci_signatures import attach, cosign_tag, find_evidence
from clusterstacks.release.sources.signature_store import write_new_key
from tests.support.builders.signatures import ecdsa_key, ed25519_key, public_pem
from tests.support.running.csctl import csctl_run
from tools.image.layers import File, archive
from tools.image.layout import NAME, Layout, Origin
from tools.image.provenance import BUILDER, provenance
from tools.image.pushing import open_layout, push
from tools.image.sbom import MEDIA_TYPE, bill_of_materials
from tools.image.signatures import attest, sign, signed_by
from tools.image.wheels import PROJECT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.release.signing.keys import PrivateKey
    from tests.support.servers.registries import RegistryServer
    from tools.image.pushing import Stored

ORIGIN = Origin("0.1.0", 0, "ab" * 20)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """An image of two architectures with a layer each, and the lists of what is in them."""
    return built(tmp_path / "layout", b"a")


def built(folder: Path, content: bytes) -> Stored:
    layout = Layout(folder)
    images = {
        architecture: layout.add_image(architecture, {"all": archive({architecture: File(content)})}, ORIGIN)
        for architecture in ("amd64", "arm64")
    }
    referrers = [layout.add_sbom(image, bill_of_materials(one, "0.1.0", [])) for one, image in images.items()]
    index = layout.add_index(images)
    statement = provenance([(NAME, one.digest) for one in (index, *images.values())], ORIGIN, {}, [])
    referrers.append(layout.add_referrer(index, statement, PAYLOAD_TYPE, "provenance.intoto.json"))
    layout.finish(index, referrers, "0.1.0")
    return open_layout(folder)


@pytest.fixture
async def there(registry: RegistryServer, tmp_path: Path) -> AsyncIterator[Registry]:
    place = f"{registry.host}/image/{tmp_path.name.replace('_', '-').lower()}"
    async with HTTPClient(plain_http=True) as web:
        yield Registry(web, Reference.parse(place), plain_http=True)


async def test_an_image_is_pushed_with_the_list_of_each_architecture(stored: Stored, there: Registry) -> None:
    pushed = await push(stored, there, "0.1.0")
    again = await push(stored, there, "latest")

    assert pushed.digest == again.digest == stored.index.digest
    assert (await there.manifest("0.1.0")).raw == (await there.manifest("latest")).raw == stored.index.raw
    for image in stored.index.manifests:
        (sbom,) = (await there.referrers(image.digest, MEDIA_TYPE)).members
        manifest = await there.manifest(sbom.digest)
        listed = orjson.loads(await there.small_blob(manifest.layers[0], 10_000))
        assert listed["bomFormat"] == "CycloneDX"
        assert await there.has_blob(stored.manifest(image).layers[0].digest)


@pytest.mark.regression("U-33")
def test_the_command_pushes_the_image_and_prints_its_reference(stored: Stored, registry: RegistryServer) -> None:
    place = f"{registry.host}/image/command"
    command = [sys.executable, "-m", "tools.image", "push", place, "--layout", str(stored.folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{place}:0.1.0@{stored.index.digest}\n"


async def test_two_keys_sign_an_image_and_the_same_key_again_changes_nothing(stored: Stored, there: Registry) -> None:
    pushed = await push(stored, there, "0.1.0")
    keys = [ecdsa_key(), ed25519_key()]

    assert [await sign(there, pushed, key) for key in (*keys, *keys)] == [True, True, False, False]

    manifest = await there.manifest(pushed.digest)
    evidence = await find_evidence(there, manifest)
    assert evidence.problems == ()
    assert signed_by(evidence.cosign, manifest, [key.public for key in keys]) == [key.public for key in keys]
    assert len((await there.manifest(cosign_tag(pushed.digest))).layers) == 2


async def test_a_signature_of_another_image_does_not_count(stored: Stored, there: Registry) -> None:
    pushed = await push(stored, there, "0.1.0")
    key = ecdsa_key()
    await sign(there, pushed, key)
    evidence = await find_evidence(there, await there.manifest(pushed.digest))
    other = await there.manifest(stored.index.manifests[0].digest)

    assert signed_by(evidence.cosign, other, [key.public]) == []


async def attested(stored: Stored, there: Registry, key: PrivateKey) -> Reference:
    """Push an image with everything that is attested about it."""
    pushed = await push(stored, there, "0.1.0")
    for digest, statement in stored.statements():
        assert await attest(there, digest, statement, key)
    return pushed


def verified(reference: object, *keys: PrivateKey, folder: Path, form: str = "text") -> tuple[int, str]:
    """Call ``csctl verify``; return its exit code and all that it prints."""
    arguments = []
    for number, key in enumerate(keys):
        path = folder / f"{number}.pub"
        path.write_bytes(public_pem(key))
        arguments += ["--key", path]
    done = csctl_run("verify", reference, *arguments, "-o", form, environ={"PATH": os.environ["PATH"]})
    return done.returncode, done.stdout + done.stderr


async def test_csctl_verifies_provenance_and_sboms_of_a_pushed_image(
    stored: Stored, there: Registry, tmp_path: Path
) -> None:
    key = ecdsa_key()
    pushed = await attested(stored, there, key)
    by_tag = there.reference.at("0.1.0")

    code, said = verified(by_tag, ed25519_key(), key, folder=tmp_path)
    assert (code, said.splitlines()) == (
        0,
        [
            f"{by_tag} is attested by {tmp_path}/1.pub",
            f"  digest:  {stored.index.digest}",
            f"  source:  git+https://github.com/OWNER/cluster-stacks@{ORIGIN.revision}",
            f"  builder: {BUILDER}",
        ],
    )
    (amd64, _) = stored.index.manifests
    for reference in (there.reference.at(pushed.digest), there.reference.at(amd64.digest)):
        code, said = verified(reference, key, folder=tmp_path, form="json")
        assert (code, orjson.loads(said)["verified"]) == (0, True)


async def test_the_command_attests_what_it_pushes_and_the_same_key_again_changes_nothing(
    stored: Stored, registry: RegistryServer, tmp_path: Path
) -> None:
    place = f"{registry.host}/image/attested"
    write_new_key(tmp_path / "key")
    command = [sys.executable, "-m", "tools.image", "push", place, "--layout", f"{stored.folder}"]
    command += ["--key", f"{tmp_path}/key"]
    for _ in range(2):
        await asyncio.to_thread(subprocess.run, command, cwd=PROJECT, check=True)
    environ = {"PATH": os.environ["PATH"]}
    done = csctl_run("verify", f"{place}:0.1.0", "--key", tmp_path / "key.pub", environ=environ)

    assert done.returncode == 0, done.stderr
    async with HTTPClient(plain_http=True) as web:
        there = Registry(web, Reference.parse(place), plain_http=True)
        for digest, count in ((stored.index.digest, 1), (stored.index.manifests[0].digest, 2)):
            assert len((await find_evidence(there, await there.manifest(digest))).envelopes) == count
            assert len((await there.manifest(cosign_tag(digest, "att"))).layers) == count


async def test_an_image_with_a_changed_layer_is_refused_even_with_the_attestations_of_the_good_one(
    stored: Stored, there: Registry, tmp_path: Path
) -> None:
    key = ecdsa_key()
    good = await attested(stored, there, key)
    envelopes = (await find_evidence(there, await there.manifest(good.digest))).envelopes
    evil = built(tmp_path / "evil", b"evil")
    bad = await push(evil, there, "0.1.0")
    for envelope in envelopes:
        await attach(there, bad.digest, envelope)

    code, said = verified(there.reference.at("0.1.0"), key, folder=tmp_path)

    assert code == 3
    assert f"it is for another artifact, not for {bad.digest}" in said
    assert "SLSA provenance" in said


async def test_an_image_is_refused_with_attestations_of_another_key_or_without_all_of_them(
    stored: Stored, there: Registry, tmp_path: Path
) -> None:
    trusted, other = ecdsa_key(), ecdsa_key("other")
    await attested(stored, there, other)
    code, said = verified(there.reference.at("0.1.0"), trusted, folder=tmp_path)
    assert code == 3
    assert "SLSA provenance" in said
    assert "not by a trusted key" in said

    statements = stored.statements()
    left_out = next(
        at for at, (_, statement) in enumerate(statements) if orjson.loads(statement)["predicateType"] == SBOM
    )
    for digest, statement in [*statements[:left_out], *statements[left_out + 1 :]]:
        await attest(there, digest, statement, trusted)
    code, said = verified(there.reference.at("0.1.0"), trusted, folder=tmp_path)
    assert code == 3
    assert f"SBOM (CycloneDX) of {statements[left_out][0]}" in said
    assert "SLSA" not in said.partition("do not use it")[0]


async def test_attestations_have_the_form_that_cosign_reads(stored: Stored, there: Registry) -> None:
    """Source: cosign, specs/ATTESTATION_SPEC.md; DSSE, protocol.md; in-toto, spec/v1/statement.md."""
    key = ecdsa_key()
    await attested(stored, there, key)
    (amd64, _) = stored.index.manifests
    manifest = await there.manifest(f"sha256-{amd64.digest.removeprefix('sha256:')}.att")
    config = orjson.loads(await there.small_blob(manifest.config, 10_000))
    types = set()
    for layer in manifest.layers:
        assert layer.media_type == "application/vnd.dsse.envelope.v1+json"
        assert not layer.annotations["dev.cosignproject.cosign/signature"]
        envelope = orjson.loads(await there.small_blob(layer, 100_000))
        payload, kind = b64decode(envelope["payload"]), envelope["payloadType"].encode()
        (made,) = envelope["signatures"]
        signed = b" ".join((b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(payload), payload))
        assert key.public.verifies(signed, b64decode(made["sig"]))
        statement = orjson.loads(payload)
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        assert amd64.digest in {f"sha256:{subject['digest']['sha256']}" for subject in statement["subject"]}
        assert statement["predicateType"] == layer.annotations["predicateType"]
        types.add(statement["predicateType"])

    assert types == {PROVENANCE, SBOM}
    assert config["rootfs"]["diff_ids"] == [layer.digest for layer in manifest.layers]
    assert manifest.config.media_type == "application/vnd.oci.image.config.v1+json"


def test_provenance_has_the_fields_that_slsa_requires(stored: Stored) -> None:
    """Source: https://slsa.dev/spec/v1.0/provenance."""
    (_, statement) = next(one for one in stored.statements() if one[0] == stored.index.digest)
    predicate = orjson.loads(statement)["predicate"]

    assert predicate["buildDefinition"]["buildType"].startswith("https://")
    assert isinstance(predicate["buildDefinition"]["externalParameters"], dict)
    assert predicate["buildDefinition"]["resolvedDependencies"][0]["digest"] == {"gitCommit": ORIGIN.revision}
    assert predicate["runDetails"]["builder"]["id"] == BUILDER
