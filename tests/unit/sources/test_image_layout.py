"""Image layouts on disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.errors import NotThere
from clusterstacks.oci.descriptor import EMPTY, EMPTY_TYPE, describe
from clusterstacks.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_index, write_manifest
from clusterstacks.sources.image_layout import ARTIFACT_TYPE, ImageLayout, LayoutRepository
from clusterstacks.sources.oci_copy import copy_image, image_sizes

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.oci.descriptor import Descriptor

TYPE = "application/vnd.example"


async def add(repository: LayoutRepository, content: bytes, target: str = "", subject: Descriptor | None = None) -> str:
    """Add a manifest with one layer."""
    await repository.push_blob(EMPTY)
    await repository.push_blob(content)
    raw = write_manifest(
        artifact_type=TYPE, config=describe(EMPTY, EMPTY_TYPE), layers=[describe(content, TYPE)], subject=subject
    )
    return await repository.push_manifest(raw, OCI_MANIFEST, target)


async def test_saved_layout_has_tags_referrers_and_the_members_of_indexes(tmp_path: Path) -> None:
    layout = ImageLayout.create(tmp_path / "layout")
    stacks = layout.repository("stacks")
    digest = await add(stacks, b"release", "v1")
    signature = await add(stacks, b"signature", subject=(await stacks.manifest("v1")).descriptor)
    member = await add(layout.repository("host/app"), b"image")
    index = write_index([describe(layout.path(member).read_bytes(), OCI_MANIFEST).document()])
    await layout.repository("host/app").push_manifest(index, OCI_INDEX, "1.0")
    alone = await add(layout.repository("host/other"), b"image")
    layout.path("0" * 64).write_bytes(b"of an earlier run")

    layout.save()
    opened = ImageLayout.open(tmp_path / "layout")

    assert sorted(opened.entries) == [
        "host/app:1.0",
        f"host/other@{alone}",
        "stacks:v1",
        f"stacks@{signature}",
    ]
    assert opened.repositories() == ("host/app", "host/other", "stacks")
    there = opened.repository("stacks")
    assert (await there.tags(), await there.head("v1"), await there.head("v2")) == (("v1",), digest, None)
    assert [one.digest for one in (await there.referrers(digest)).members] == [signature]
    assert (await opened.repository("host/app").manifest(member)).digest == member
    assert not layout.path("0" * 64).exists()
    with pytest.raises(NotThere):
        await there.manifest("v2")


async def test_equal_content_has_an_equal_digest_in_any_order(tmp_path: Path) -> None:
    digests = []
    for number, order in enumerate((["v1", "v2"], ["v2", "v1"])):
        layout = ImageLayout.create(tmp_path / str(number))
        for tag in order:
            await add(layout.repository("stacks"), tag.encode(), tag)
        digests.append(layout.save())

    assert digests[0] == digests[1]


async def test_blob_with_other_content_is_refused_when_it_is_read_and_replaced_when_it_is_written(
    tmp_path: Path,
) -> None:
    layout = ImageLayout.create(tmp_path / "layout")
    repository = layout.repository("stacks")
    await add(repository, b"content", "v1")
    blob = describe(b"content", TYPE)
    layout.path(blob.digest).write_bytes(b"cut")

    with pytest.raises(SpecError, match="has other content; create or copy the layout again"):
        await repository.small_blob(blob, 100)
    await repository.push_blob(b"content")
    assert await repository.small_blob(blob, 100) == b"content"
    layout.path(blob.digest).unlink()
    with pytest.raises(SpecError, match="is missing; create or copy the layout again"):
        await repository.small_blob(blob, 100)


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        (None, "is not a layout of 'csctl bundle create'"),
        ({"schemaVersion": 2, "manifests": []}, "was not written by 'csctl bundle create'"),
        ({"schemaVersion": 2, "artifactType": ARTIFACT_TYPE, "manifests": [{"digest": "md5:1"}]}, "digest"),
        ({"schemaVersion": 2, "artifactType": ARTIFACT_TYPE, "manifests": "none"}, "manifests"),
    ],
)
def test_other_directory_is_neither_opened_nor_changed(
    tmp_path: Path, index: dict[str, object] | None, problem: str
) -> None:
    (tmp_path / "oci-layout").write_text("{}")
    if index is not None:
        (tmp_path / "index.json").write_text(json.dumps(index))

    with pytest.raises(SpecError, match=problem):
        ImageLayout.open(tmp_path)
    with pytest.raises(SpecError):
        ImageLayout.create(tmp_path)
    assert not (tmp_path / "blobs").exists()


async def test_repeated_and_nested_indexes_are_counted_and_copied_once(tmp_path: Path) -> None:
    layout = ImageLayout.create(tmp_path / "layout")
    images = layout.repository("host/app")
    await add(images, b"image")
    raw = layout.path((await images.manifest(next(iter(images.targets())))).digest).read_bytes()
    index = write_index([describe(raw, OCI_MANIFEST).document()] * 150)
    outer = write_index([describe(index, OCI_INDEX).document()] * 150)
    await images.push_manifest(index, OCI_INDEX)
    await images.push_manifest(outer, OCI_INDEX, "1.0")
    copied = ImageLayout.create(tmp_path / "copied")

    sizes = layout.sizes(layout.entries["host/app:1.0"])
    await copy_image(images, "1.0", copied.repository("host/app"), "1.0")
    copied.save()

    assert len(sizes) == 5  # two indexes, a manifest, its config and its layer
    assert await image_sizes(images, "1.0") == sizes
    assert [*ImageLayout.open(tmp_path / "copied").entries] == ["host/app:1.0"]


async def test_index_that_nests_too_deep_is_refused(tmp_path: Path) -> None:
    images = ImageLayout.create(tmp_path / "layout").repository("host/app")
    await add(images, b"image", "1.0")
    raw, media_type = (await images.manifest("1.0")).raw, OCI_MANIFEST
    for _ in range(4):
        raw, media_type = write_index([describe(raw, media_type).document()]), OCI_INDEX
        await images.push_manifest(raw, media_type, "1.0")

    with pytest.raises(SpecError, match=r"nested deeper than 2"):
        await image_sizes(images, "1.0")
