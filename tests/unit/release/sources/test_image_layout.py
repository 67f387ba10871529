"""Image layouts: what is read, what is written, and what is refused in a directory that others have written."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import NotThere
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, describe
from clusterstacks.net.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_manifest
from clusterstacks.release.sources.image_layout import REF_NAME, ImageLayout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.net.oci.descriptor import Descriptor

TYPE = "application/vnd.example"
CONTENT = b"content"
BLOB = describe(CONTENT, TYPE)


def manifest(content: bytes = CONTENT, subject: Descriptor | None = None) -> bytes:
    """Return a manifest with one layer."""
    layers = [describe(content, TYPE)]
    return write_manifest(artifact_type=TYPE, config=describe(EMPTY, EMPTY_TYPE), layers=layers, subject=subject)


async def filled(root: Path) -> ImageLayout:
    """Return a layout with tag ``v1`` and a referrer of it."""
    layout = ImageLayout.open(root, new=True)
    (root.parent / "file").write_bytes(CONTENT)
    await layout.add_blob(BLOB, root.parent / "file")
    await layout.push_manifest(manifest(), OCI_MANIFEST, "v1")
    referrer = manifest(b"signature", describe(manifest(), OCI_MANIFEST))
    await layout.push_manifest(referrer, OCI_MANIFEST, describe(referrer, "").digest)
    return layout


def members(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((root / "index.json").read_bytes())["manifests"]
    return found


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


async def test_tags_and_referrers_are_read_again(tmp_path: Path) -> None:
    await filled(tmp_path / "layout")

    layout = ImageLayout.open(tmp_path / "layout")

    digest = describe(manifest(), "").digest
    assert (await layout.tags(), await layout.head("v1"), await layout.head("v2")) == (("v1",), digest, None)
    assert (await layout.manifest("v1")).raw == (await layout.manifest(digest)).raw == manifest()
    (referrer,) = (await layout.referrers(digest)).members
    assert (await layout.manifest(referrer.digest)).subject is not None
    assert (await layout.referrers(referrer.digest)).members == ()
    async with layout.blob_file(BLOB) as file:
        assert file.read_bytes() == CONTENT
    assert await layout.has_blob(BLOB.digest)
    with pytest.raises(NotThere, match=f"oci-layout:{tmp_path}/layout:v2 does not exist"):
        await layout.manifest("v2")


async def test_files_are_those_that_the_specification_and_oras_expect(tmp_path: Path) -> None:
    root = tmp_path / "layout"
    await filled(root)

    assert json.loads((root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    tagged, referrer = members(root)
    assert tagged["annotations"] == {REF_NAME: "v1"}
    assert {"mediaType": OCI_MANIFEST, "artifactType": TYPE, "size": len(manifest())}.items() <= tagged.items()
    assert "annotations" not in referrer
    assert sorted(path for path in files(root) if "/" in path) == sorted(
        f"blobs/sha256/{one.removeprefix('sha256:')}" for one in (BLOB.digest, tagged["digest"], referrer["digest"])
    )


async def test_manifest_has_one_entry_and_a_tag_that_moves_loses_its_old_one(tmp_path: Path) -> None:
    root = tmp_path / "layout"
    layout = ImageLayout.open(root, new=True)
    first, second = manifest(b"1"), manifest(b"2")

    for raw, target in ((first, describe(first, "").digest), (first, "v1"), (first, "v1"), (second, "v1")):
        await layout.push_manifest(raw, OCI_MANIFEST, target)

    assert [(one["digest"], one["annotations"]) for one in members(root)] == [
        (describe(second, "").digest, {REF_NAME: "v1"})
    ]


async def test_files_and_entries_of_other_programs_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "layout"
    (root / "blobs" / "sha256").mkdir(parents=True)
    platform = {"architecture": "arm64", "os": "linux"}
    foreign = describe(b"{}", OCI_INDEX).document() | {"platform": platform, "annotations": {REF_NAME: "app"}}
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    index = {"schemaVersion": 2, "annotations": {"made": "elsewhere"}, "manifests": [foreign]}
    (root / "index.json").write_text(json.dumps(index))
    (root / "blobs" / "sha256" / "notes").write_text("mine")
    before = files(root)

    await filled(root)

    after = files(root)
    document = json.loads(after.pop("index.json"))
    assert before.pop("index.json")
    assert before.items() <= after.items()
    assert document["annotations"] == {"made": "elsewhere"}
    assert document["manifests"][0] == foreign
    assert len(document["manifests"]) == 3


async def test_layout_that_was_only_begun_is_continued(tmp_path: Path) -> None:
    root = tmp_path / "layout"
    await ImageLayout.open(root, new=True).add_blob(BLOB, await _file(tmp_path))
    assert not (root / "index.json").exists()

    assert await (await filled(root)).tags() == ("v1",)


async def _file(directory: Path) -> Path:
    file = directory / "blob"
    file.write_bytes(CONTENT)
    return file


@pytest.mark.parametrize("new", [True, False])
def test_directory_with_other_content_is_no_layout(tmp_path: Path, *, new: bool) -> None:
    (tmp_path / "notes").touch()

    with pytest.raises(SpecError, match="is not a directory in OCI image layout"):
        ImageLayout.open(tmp_path, new=new)
    assert [one.name for one in tmp_path.iterdir()] == ["notes"]


def test_missing_directory_is_created_by_the_first_write_only(tmp_path: Path) -> None:
    ImageLayout.open(tmp_path / "layout", new=True)

    assert not (tmp_path / "layout").exists()
    with pytest.raises(SpecError, match="is not a directory in OCI image layout: correct the path"):
        ImageLayout.open(tmp_path / "layout")


@pytest.mark.regression("SEC-31")
@pytest.mark.parametrize("part", ["blobs", "blobs/sha256", "index.json"])
async def test_link_in_a_layout_is_refused_and_its_target_stays(tmp_path: Path, part: str) -> None:
    root, outside = tmp_path / "layout", tmp_path / "outside"
    await filled(root)
    (root / part).rename(outside)
    before = files(tmp_path)
    (root / part).symlink_to(outside)

    for new in (True, False):
        with pytest.raises(SpecError, match=f"{part} is a link: remove it, or copy the layout again"):
            ImageLayout.open(root, new=new)

    (root / part).unlink()
    assert files(tmp_path) == before


def link(file: Path) -> None:
    """Move a file out of the layout, and link to it."""
    outside = file.parents[3] / "outside"
    file.rename(outside)
    file.symlink_to(outside)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (link, "is a link"),
        (pipe, "is not a file"),
        (cut, "has other content|does not have the"),
        (change, "has other content"),
    ],
)
async def test_damaged_blob_and_manifest_are_refused(
    tmp_path: Path, damage: Callable[[Path], object], problem: str
) -> None:
    root = tmp_path / "layout"
    await filled(root)
    blobs = root / "blobs" / "sha256"
    damage(blobs / BLOB.hex)
    layout = ImageLayout.open(root)

    with pytest.raises(SpecError, match=problem):
        async with layout.blob_file(BLOB):
            pass
    with pytest.raises(SpecError, match=problem):
        await layout.has_blob(BLOB.digest)

    damage(blobs / describe(manifest(), "").hex)
    with pytest.raises(SpecError, match=problem.partition("|")[0]):
        await layout.manifest("v1")


async def test_blob_of_another_size_than_its_manifest_states_is_refused(tmp_path: Path) -> None:
    layout = await filled(tmp_path / "layout")

    with pytest.raises(SpecError, match="does not have the 99 bytes"):
        async with layout.blob_file(type(BLOB)(TYPE, BLOB.digest, 99)):
            pass


async def test_blob_that_changes_on_its_way_is_not_stored(tmp_path: Path) -> None:
    layout = ImageLayout.open(tmp_path / "layout", new=True)
    file = await _file(tmp_path)
    file.write_bytes(b"other")

    with pytest.raises(SpecError, match="has other content"):
        await layout.add_blob(BLOB, file)
    assert [*(tmp_path / "layout" / "blobs" / "sha256").iterdir()] == []


async def test_referrers_that_cannot_be_read_are_reported_and_do_not_hide_others(tmp_path: Path) -> None:
    root = tmp_path / "layout"
    layout = await filled(root)
    missing = manifest(b"another signature", describe(manifest(), OCI_MANIFEST))
    digest = await layout.push_manifest(missing, OCI_MANIFEST, describe(missing, "").digest)
    (root / "blobs" / "sha256" / digest.removeprefix("sha256:")).unlink()

    found = await ImageLayout.open(root).referrers(describe(manifest(), "").digest)

    assert len(found.members) == 1
    assert found.problems == (f"oci-layout:{root}@{digest} does not exist; correct the address, or publish it there",)


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        (b"[]", "is not a JSON object"),
        (json.dumps({"schemaVersion": 2, "manifests": [{"digest": "md5:1"}]}).encode(), "digest"),
        (json.dumps({"schemaVersion": 2, "manifests": "none"}).encode(), "manifests"),
        (manifest(), "is not an index"),
        (b" " * (4 * 1024 * 1024 + 1), "is larger than 4194304 bytes"),
        (b'{"schemaVersion":2,"manifests":[' + b"{}," * 60_000 + b"{}]}", "is not a"),
    ],
)
async def test_index_that_is_not_valid_is_refused(tmp_path: Path, index: bytes, problem: str) -> None:
    root = tmp_path / "layout"
    await filled(root)
    (root / "index.json").write_bytes(index)

    with pytest.raises(SpecError, match=problem):
        ImageLayout.open(root)
