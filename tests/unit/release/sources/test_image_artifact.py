"""Node images in a registry and in a directory."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import NotThere, ServerUnavailable, SourceUnavailable
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.image_artifact import ARTIFACT_TYPE, image_tag, publish_image
from clusterstacks.release.sources.oci_repository import OCISource
from tests.support.fakes.registry import digest

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.net.oci.registry import Registry
    from clusterstacks.release.release_source import ImageSource
    from tests.support.fakes.registry import RegistryDouble

CONTENT = os.urandom(2 * 1024 * 1024 + 17)
DIGEST = digest(CONTENT)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node-images" / DIGEST.removeprefix("sha256:")
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def put(file: Path, content: bytes | None) -> None:
    """Replace a file by other content; None removes it."""
    file.unlink()
    if content is not None:
        file.write_bytes(content)


def link(file: Path) -> None:
    file.symlink_to(file.rename(file.with_name("elsewhere")))


async def part(source: ImageSource, start: int, length: int) -> bytes:
    async with aclosing(source.image_part(DIGEST, start, length)) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_published_image_is_an_artifact_whose_layer_is_the_file(
    double: RegistryDouble, registry: Registry, file: Path
) -> None:
    assert await publish_image(registry, file, DIGEST)

    manifest = await registry.manifest(image_tag(DIGEST))
    assert manifest.artifact_type == ARTIFACT_TYPE
    assert [layer.digest for layer in manifest.layers] == [DIGEST]
    assert double.blobs[DIGEST] == CONTENT
    assert await OCISource(registry).list() == ()


async def test_image_is_published_once_and_then_its_file_is_not_needed(
    double: RegistryDouble, registry: Registry, file: Path
) -> None:
    await publish_image(registry, file, DIGEST)
    put(file, None)
    double.requests.clear()

    assert not await publish_image(registry, file, DIGEST)
    assert {request.method for request in double.requests} <= {"HEAD", "GET"}


async def test_damaged_image_of_a_registry_is_published_again(
    double: RegistryDouble, registry: Registry, file: Path
) -> None:
    await publish_image(registry, file, DIGEST)
    del double.blobs[DIGEST]

    assert await publish_image(registry, file, DIGEST)
    assert double.blobs[DIGEST] == CONTENT


@pytest.mark.parametrize(("content", "complaint"), [(None, "does not exist"), (b"other", "has the digest sha256:")])
async def test_missing_or_changed_file_is_refused_before_the_upload(
    double: RegistryDouble, registry: Registry, file: Path, content: bytes | None, complaint: str
) -> None:
    put(file, content)

    with pytest.raises(SpecError, match=complaint):
        await publish_image(registry, file, DIGEST)
    assert not double.blobs
    assert not double.uploads


@pytest.mark.parametrize("kind", ["registry", "registry without ranges", "directory"])
async def test_parts_of_an_image_are_read(double: RegistryDouble, registry: Registry, file: Path, kind: str) -> None:
    double.holds(CONTENT)
    double.ranges = kind == "registry"
    source: ImageSource = DirectorySource(file.parents[1]) if kind == "directory" else OCISource(registry)

    assert await source.image_size(DIGEST) == len(CONTENT)
    for start, length in ((0, len(CONTENT)), (0, 1), (len(CONTENT) - 1, 1), (1_000_000, 1_097_000)):
        assert await part(source, start, length) == CONTENT[start : start + length]


async def test_lost_connection_is_an_error(double: RegistryDouble, registry: Registry) -> None:
    double.holds(CONTENT)
    double.cuts = [1000]

    with pytest.raises(ServerUnavailable):
        await part(OCISource(registry), 0, len(CONTENT))


@pytest.mark.parametrize("kind", ["registry", "directory"])
async def test_missing_image_is_not_there(registry: Registry, tmp_path: Path, kind: str) -> None:
    source: ImageSource = DirectorySource(tmp_path) if kind == "directory" else OCISource(registry)

    with pytest.raises(NotThere):
        await source.image_size(DIGEST)
    with pytest.raises(NotThere):
        await part(source, 0, 1)


async def test_images_beside_releases_are_no_releases_and_no_links(file: Path, tmp_path: Path) -> None:
    source = DirectorySource(tmp_path)
    assert await source.list() == ()

    link(file)
    with pytest.raises(ReleaseBroken, match="is a link or device"):
        await source.image_size(DIGEST)


async def test_file_that_became_shorter_is_an_error(file: Path, tmp_path: Path) -> None:
    source = DirectorySource(tmp_path)
    os.truncate(file, 1000)

    with pytest.raises(SourceUnavailable, match="became shorter"):
        await part(source, 0, len(CONTENT))
