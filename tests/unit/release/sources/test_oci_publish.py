"""Publishing, fetching and copying releases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import parse_release
from clusterstacks.net.http.errors import NotThere
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, describe
from clusterstacks.net.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_manifest
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseNotFound, ReleaseTaken
from clusterstacks.release.release_source import image_file
from clusterstacks.release.signing.envelope import parse_envelope
from clusterstacks.release.signing.keys import new_key_pair, parse_private_key
from clusterstacks.release.signing.statement import release_envelope
from clusterstacks.release.sources.directory import publish_to_directory
from clusterstacks.release.sources.download_release import pull
from clusterstacks.release.sources.image_artifact import image_tag
from clusterstacks.release.sources.image_layout import ImageLayout
from clusterstacks.release.sources.oci_copy import copy
from clusterstacks.release.sources.oci_publish import check_tag, publish
from clusterstacks.release.sources.oci_repository import OCISource
from clusterstacks.release.sources.oci_signatures import attach, cosign_tag, find_evidence
from tests.support.builders.releases import SINGLE, STAGED, read_release, staged_release, write_release
from tests.support.fakes.registry import RegistryDouble, digest

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient

EPOCH = datetime.fromtimestamp(0, UTC)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_release(tmp_path / STAGED.release, staged_release())


async def test_published_release_is_fetched(registry: Registry, directory: Path, tmp_path: Path) -> None:
    published = await publish(directory, registry, EPOCH)
    source = OCISource(registry)

    assert published.new
    assert await source.list() == (STAGED.release,)
    assert await source.digest(STAGED) == read_contents(STAGED, directory).digest
    (tmp_path / "into").mkdir()
    await source.fetch(STAGED, tmp_path / "into")
    assert read_release(tmp_path / "into") == staged_release()


async def test_known_release_is_not_fetched_again(double: RegistryDouble, registry: Registry, directory: Path) -> None:
    await publish(directory, registry, EPOCH)
    source = OCISource(registry)
    before = await source.digest(STAGED)
    double.requests.clear()

    assert await source.digest(STAGED) == before
    assert double.asked == [f"HEAD /v2/kaas/stacks/manifests/{STAGED}"]

    double.manifests.clear()
    with pytest.raises(ReleaseNotFound):
        await source.digest(STAGED)


async def test_publishing_the_same_content_again_changes_nothing(
    double: RegistryDouble, registry: Registry, directory: Path
) -> None:
    await publish(directory, registry, EPOCH)
    double.requests.clear()

    again = await publish(directory, registry, datetime.now(UTC))

    assert not again.new
    assert {request.method for request in double.requests} <= {"GET", "HEAD"}


async def test_published_release_is_not_replaced(double: RegistryDouble, registry: Registry, directory: Path) -> None:
    await publish(directory, registry, EPOCH)
    before = dict(double.manifests)
    (directory / "hashes.json").write_text("{}")
    (directory / "more").write_text("x")

    with pytest.raises(ReleaseTaken, match=r"different: hashes\.json, more.*higher version"):
        await publish(directory, registry, EPOCH)

    assert double.manifests == before


async def test_foreign_artifact_under_the_tag_is_not_overwritten(
    double: RegistryDouble, registry: Registry, directory: Path
) -> None:
    double.tags(STAGED.release, b'{"schemaVersion": 2, "manifests": []}', OCI_INDEX)

    with pytest.raises(SpecError):
        await publish(directory, registry, EPOCH)


async def test_broken_release_is_not_published(double: RegistryDouble, registry: Registry, directory: Path) -> None:
    (directory / "metadata.yaml").write_text("no: metadata")

    with pytest.raises(SpecError):
        await publish(directory, registry, EPOCH)
    assert not double.requests


def test_tag_is_the_release_name() -> None:
    check_tag(Reference.parse("r.example/a"), STAGED)
    check_tag(Reference.parse(f"r.example/a:{STAGED}"), STAGED)
    for text in (f"r.example/a:{SINGLE}", f"r.example/a@{digest(b'')}"):
        with pytest.raises(SpecError, match=r"expected r\.example/a"):
            check_tag(Reference.parse(text), STAGED)


async def test_missing_release_is_reported(registry: Registry, tmp_path: Path) -> None:
    source = OCISource(registry)

    for call in (source.digest(STAGED), source.evidence(STAGED), source.fetch(STAGED, tmp_path)):
        with pytest.raises(ReleaseNotFound):
            await call


@pytest.mark.parametrize("listed", [True, False])
async def test_copy_has_the_same_bytes_and_signatures(
    double: RegistryDouble, registry: Registry, web: HTTPClient, directory: Path, *, listed: bool
) -> None:
    published = await publish(directory, registry, EPOCH)
    found = published.reference.digest
    await attach(registry, found, b'{"envelope": 1}')
    raw, media_type = double.manifests["kaas/stacks", STAGED.release]
    double.tags(f"{found.replace(':', '-')}.sig", raw, media_type)
    async with RegistryDouble.started() as elsewhere:
        elsewhere.referrers = listed
        target = Registry(web, elsewhere.reference)

        copied = await copy(registry, STAGED.release, target, "mirrored")
        *before, last = [line for line in elsewhere.asked if line.startswith("PUT /v2/kaas/stacks/manifests/")]
        again = await copy(registry, found, target, "mirrored")

        assert (copied.digest, copied.new, copied.signatures) == (found, True, 2)
        assert (again.new, again.signatures) == (False, 2)
        assert elsewhere.manifests["kaas/stacks", "mirrored"] == (raw, media_type)
        evidence = await find_evidence(target, await target.manifest(found))
        assert evidence.envelopes == (b'{"envelope": 1}',)
        assert elsewhere.blobs == double.blobs
        # Whoever sees the tag finds the signatures.
        assert last.endswith("/mirrored")
        assert any(line.endswith(".sig") for line in before)


async def test_release_that_crosses_in_an_image_layout_keeps_its_bytes_and_signatures(
    double: RegistryDouble, registry: Registry, web: HTTPClient, directory: Path, tmp_path: Path
) -> None:
    published = await publish(directory, registry, EPOCH)
    await attach(registry, published.reference.digest, b'{"envelope": 1}')
    raw, media_type = double.manifests["kaas/stacks", STAGED.release]
    double.tags(cosign_tag(published.reference.digest), raw, media_type)

    written = await copy(registry, STAGED.release, ImageLayout.open(tmp_path / "disk", new=True), STAGED.release)
    again = await copy(registry, STAGED.release, ImageLayout.open(tmp_path / "disk", new=True), STAGED.release)
    async with RegistryDouble.started() as elsewhere:
        target = Registry(web, elsewhere.reference)
        read = await copy(ImageLayout.open(tmp_path / "disk"), STAGED.release, target, STAGED.release)

        assert (written.digest, written.new, written.signatures) == (published.reference.digest, True, 2)
        assert (again.new, again.signatures) == (False, 2)
        assert (read.digest, read.new, read.signatures) == (published.reference.digest, True, 2)
        assert elsewhere.manifests["kaas/stacks", STAGED.release] == (raw, media_type)
        assert (await find_evidence(target, await target.manifest(read.digest))).envelopes == (b'{"envelope": 1}',)
        assert elsewhere.blobs == double.blobs


async def test_copy_to_an_image_layout_does_not_overwrite(registry: Registry, directory: Path, tmp_path: Path) -> None:
    await publish(directory, registry, EPOCH)
    layout = ImageLayout.open(tmp_path / "disk", new=True)
    await layout.push_manifest(b'{"schemaVersion":2}', OCI_INDEX, STAGED.release)

    with pytest.raises(ReleaseTaken, match=f"oci-layout:{tmp_path}/disk:{STAGED}"):
        await copy(registry, STAGED.release, layout, STAGED.release)


async def test_copy_within_a_registry_transfers_no_blobs(
    double: RegistryDouble, registry: Registry, web: HTTPClient
) -> None:
    double.holds(b"{}")
    raw = b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%b,"layers":[]}'
    config = b'{"mediaType":"x/y","digest":"%b","size":2}' % digest(b"{}").encode()
    double.tags("v1", raw % config, "application/vnd.oci.image.manifest.v1+json")
    target = Registry(web, Reference.parse(f"{double.host}/other/stacks"))
    double.hidden = {digest(b"{}")}

    await copy(registry, "v1", target, "v1")

    [sent] = [request for request in double.requests if "uploads" in request.path]
    assert dict(sent.query) == {"mount": digest(b"{}"), "from": "kaas/stacks"}


async def test_copy_does_not_overwrite(registry: Registry, web: HTTPClient, directory: Path) -> None:
    await publish(directory, registry, EPOCH)
    async with RegistryDouble.started() as elsewhere:
        elsewhere.tags(STAGED.release, b'{"schemaVersion": 2}', OCI_INDEX)

        with pytest.raises(ReleaseTaken):
            await copy(registry, STAGED.release, Registry(web, elsewhere.reference), STAGED.release)
        assert len(elsewhere.blobs) == 0


async def test_copy_of_a_missing_release_is_an_error(registry: Registry) -> None:
    with pytest.raises(NotThere):
        await copy(registry, "v1", registry, "v1")


async def test_pulled_release_is_complete_with_its_signatures(
    registry: Registry, directory: Path, tmp_path: Path
) -> None:
    await publish(directory, registry, EPOCH)

    first = await pull(OCISource(registry), STAGED, tmp_path / "here")
    again = await pull(OCISource(registry), STAGED, tmp_path / "here")

    assert (first.new, again.new, first.signed) == (True, False, False)
    assert read_release(first.path) == staged_release()
    assert [path.name for path in (tmp_path / "here").iterdir()] == [STAGED.release]


async def test_failed_pull_leaves_no_files(
    double: RegistryDouble, registry: Registry, directory: Path, tmp_path: Path
) -> None:
    await publish(directory, registry, EPOCH)
    double.blobs.popitem()

    with pytest.raises(NotThere):
        await pull(OCISource(registry), STAGED, tmp_path / "here")

    assert list((tmp_path / "here").iterdir()) == []


async def test_pull_keeps_local_signatures(registry: Registry, directory: Path, tmp_path: Path) -> None:
    published = await publish(directory, registry, EPOCH)
    files = read_contents(STAGED, directory).files
    mine, theirs = (parse_private_key(new_key_pair()[0], name=name) for name in ("mine", "theirs"))
    begun = release_envelope(STAGED, files)
    await attach(registry, published.reference.digest, begun.signed(theirs).text())
    (tmp_path / "here").mkdir()
    beside = tmp_path / "here" / f"{STAGED}.dsse.json"
    beside.write_bytes(begun.signed(mine).text())

    pulled = await pull(OCISource(registry), STAGED, tmp_path / "here")

    assert pulled.signed
    assert len(parse_envelope(beside.read_bytes()).signers([mine.public, theirs.public])) == 2


async def test_foreign_envelope_beside_a_release_replaces_no_signature(
    registry: Registry, directory: Path, tmp_path: Path
) -> None:
    published = await publish(directory, registry, EPOCH)
    files = read_contents(STAGED, directory).files
    ours, stranger = (parse_private_key(new_key_pair()[0], name=name) for name in ("ours", "stranger"))
    foreign = release_envelope(STAGED, dict.fromkeys(files, "0" * 64)).signed(stranger)
    for envelope in (foreign, release_envelope(STAGED, files).signed(ours), foreign.signed(ours)):
        await attach(registry, published.reference.digest, envelope.text())

    pulled = await pull(OCISource(registry), STAGED, tmp_path)

    beside = parse_envelope((tmp_path / f"{STAGED}.dsse.json").read_bytes())
    assert pulled.signed
    assert beside.payload == release_envelope(STAGED, files).payload
    assert beside.signers([ours.public]) == (ours.public,)


async def test_copy_keeps_signatures_of_the_target(registry: Registry, web: HTTPClient, directory: Path) -> None:
    subject = (await publish(directory, registry, EPOCH)).reference.digest

    async def sign(repository: Registry, *signatures: str) -> None:
        await repository.push_blob(EMPTY)
        layers = [replace(describe(EMPTY, "a/b"), annotations={"signature": one}) for one in signatures]
        raw = write_manifest(artifact_type="", layers=layers, config=describe(EMPTY, EMPTY_TYPE))
        await repository.push_manifest(raw, OCI_MANIFEST, cosign_tag(subject))

    async def there(repository: Registry) -> list[str]:
        manifest = await repository.manifest(cosign_tag(subject))
        return [layer.annotations["signature"] for layer in manifest.layers]

    async with RegistryDouble.started() as elsewhere:
        target = Registry(web, elsewhere.reference)
        await sign(registry, "author")
        assert (await copy(registry, STAGED.release, target, STAGED.release)).signatures == 1
        await sign(registry, "author", "auditor")
        assert (await copy(registry, STAGED.release, target, STAGED.release)).signatures == 1
        assert await there(target) == ["author", "auditor"]

        await sign(target, "author", "mirror")
        assert (await copy(registry, STAGED.release, target, STAGED.release)).signatures == 0
        assert await there(target) == ["author", "mirror"]


async def test_referrers_of_another_manifest_are_not_copied(
    double: RegistryDouble, registry: Registry, web: HTTPClient, directory: Path
) -> None:
    double.referrers = False
    release = (await publish(directory, registry, EPOCH)).reference.digest
    other = double.tags("other", b'{"schemaVersion": 2, "manifests": []}', OCI_INDEX)
    await attach(registry, other, b"{}")
    double.manifests["kaas/stacks", release.replace(":", "-")] = double.manifests[
        "kaas/stacks", other.replace(":", "-")
    ]

    copied = await copy(registry, STAGED.release, Registry(web, Reference.parse(f"{double.host}/mirror")), "x")

    assert copied.signatures == 0


async def test_signature_tags_are_not_listed_as_releases(
    double: RegistryDouble, registry: Registry, directory: Path
) -> None:
    double.referrers = False
    published = await publish(directory, registry, EPOCH)
    await attach(registry, published.reference.digest, b"{}")

    assert len(await registry.tags()) == 2
    assert await OCISource(registry).list() == (STAGED.release,)


async def test_pull_does_not_overwrite(registry: Registry, directory: Path, tmp_path: Path) -> None:
    await publish(directory, registry, EPOCH)
    mine = tmp_path / "here" / STAGED.release / "mine"
    mine.parent.mkdir(parents=True)
    mine.touch()

    with pytest.raises(SpecError):
        await pull(OCISource(registry), STAGED, tmp_path / "here")

    assert mine.exists()


IMAGE = b"the disk of a node"
OPENSTACK = parse_release("openstack-tiny-1-35-v1")
LISTED = f"""\
apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1
openStackNodeImages:
  - url: artifact:node.qcow2
    checksum: {digest(IMAGE)}
    createOpts: {{name: node, disk_format: qcow2, container_format: bare}}
"""


@pytest.fixture
def with_image(tmp_path: Path) -> Path:
    """A release directory with the file of its node image beside it."""
    image = image_file(tmp_path, digest(IMAGE))
    image.parent.mkdir()
    image.write_bytes(IMAGE)
    files = staged_release(OPENSTACK) | {"node-images.yaml": LISTED.encode()}
    return write_release(tmp_path / OPENSTACK.release, files)


async def test_image_is_published_before_its_release_and_copied_with_it(
    double: RegistryDouble, registry: Registry, web: HTTPClient, with_image: Path, tmp_path: Path
) -> None:
    await publish(with_image, registry, EPOCH)
    pushed = [target for repository, target in double.manifests if ":" not in target]
    assert pushed == [image_tag(digest(IMAGE)), OPENSTACK.release]

    layout = ImageLayout.open(tmp_path / "disk", new=True)
    await copy(registry, OPENSTACK.release, layout, OPENSTACK.release)
    async with RegistryDouble.started() as elsewhere:
        target = Registry(web, elsewhere.reference)
        await copy(ImageLayout.open(tmp_path / "disk"), OPENSTACK.release, target, OPENSTACK.release)
        assert elsewhere.manifests == double.manifests
        assert elsewhere.blobs == double.blobs
        elsewhere.requests.clear()
        await copy(registry, OPENSTACK.release, target, OPENSTACK.release)
        assert [asked for asked in elsewhere.asked if "node-image" in asked] == [
            f"HEAD /v2/kaas/stacks/manifests/{image_tag(digest(IMAGE))}"
        ]


async def test_release_is_not_published_without_its_image(
    double: RegistryDouble, registry: Registry, with_image: Path, tmp_path: Path
) -> None:
    image_file(tmp_path, digest(IMAGE)).unlink()

    with pytest.raises(SpecError, match=r"does not exist.*csctl create"):
        await publish(with_image, registry, EPOCH)
    assert not double.manifests


async def test_release_is_not_copied_without_its_image(
    double: RegistryDouble, registry: Registry, web: HTTPClient, with_image: Path
) -> None:
    await publish(with_image, registry, EPOCH)
    del double.manifests["kaas/stacks", image_tag(digest(IMAGE))]

    async with RegistryDouble.started() as elsewhere:
        with pytest.raises(NotThere, match="node-image-"):
            await copy(registry, OPENSTACK.release, Registry(web, elsewhere.reference), OPENSTACK.release)
        assert not elsewhere.manifests


def test_image_is_published_to_a_directory_with_its_release(with_image: Path, tmp_path: Path) -> None:
    target = tmp_path / "published"
    target.mkdir()

    assert publish_to_directory(with_image, target)
    assert image_file(target, digest(IMAGE)).read_bytes() == IMAGE
    assert not image_file(target, digest(IMAGE)).samefile(image_file(tmp_path, digest(IMAGE)))

    image_file(target, digest(IMAGE)).unlink()
    image_file(tmp_path, digest(IMAGE)).write_bytes(b"another")
    with pytest.raises(SpecError, match="has another digest"):
        publish_to_directory(with_image, target)
    assert not list(image_file(target, digest(IMAGE)).parent.iterdir())
