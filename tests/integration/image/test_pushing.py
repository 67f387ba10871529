"""An image goes into a real registry with its SBOM, and gets the signatures that cosign reads."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.sources.oci_signatures import cosign_tag, find_evidence
from tests.support.builders.signatures import ecdsa_key, ed25519_key
from tools.image.layers import File, archive
from tools.image.layout import Layout, Origin
from tools.image.pushing import open_layout, push
from tools.image.sbom import MEDIA_TYPE, bill_of_materials
from tools.image.signatures import sign, signed_by
from tools.image.wheels import PROJECT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer
    from tools.image.pushing import Stored


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """An image of two architectures with a layer each, and the lists of what is in them."""
    layout, origin = Layout(tmp_path / "layout"), Origin("0.1.0", 0, "")
    images = {
        architecture: layout.add_image(architecture, {"all": archive({"a": File(architecture.encode())})}, origin)
        for architecture in ("amd64", "arm64")
    }
    sboms = [layout.add_sbom(image, bill_of_materials(one, "0.1.0", [], [])) for one, image in images.items()]
    layout.finish(images, sboms, "0.1.0")
    return open_layout(tmp_path / "layout")


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
