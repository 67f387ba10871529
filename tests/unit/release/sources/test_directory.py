"""Releases in a directory: listing, fetching, digests, signatures and publishing."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.errors import SourceUnavailable
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound, ReleaseTaken
from clusterstacks.release.release_source import MAX_SIGNATURE_BYTES, Evidence
from clusterstacks.release.sources import directory
from clusterstacks.release.sources.directory import DirectorySource, publish_to_directory
from tests.support.builders.releases import STAGED, read_release, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    target = tmp_path / "into"
    target.mkdir()
    return target


async def test_directories_of_both_layouts_are_listed_without_files_and_hidden_entries(tmp_path: Path) -> None:
    for name in ("b", "cluster-stacks/a", "cluster-stacks/b", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "b")

    assert await DirectorySource(tmp_path).list() == ("a", "b")


async def test_missing_directory_is_a_temporary_error(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"none cannot be read: .*No such file"):
        await DirectorySource(tmp_path / "none").list()


@pytest.mark.parametrize("nested", ["", "cluster-stacks/"])
async def test_files_are_fetched_without_unpacked_directories(tmp_path: Path, into: Path, nested: str) -> None:
    release = write_release(tmp_path / f"source/{nested}{STAGED}", staged_release())
    (release / "local-tiny-1-35-cluster-addon-v1/cni").mkdir(parents=True)

    await DirectorySource(tmp_path / "source").fetch(STAGED, into)

    assert read_release(into) == staged_release()


@pytest.mark.parametrize("kind", ["nothing", "a file", "a link"])
async def test_release_that_is_not_a_directory_is_not_found(tmp_path: Path, into: Path, kind: str) -> None:
    place = tmp_path / "source" / STAGED.release
    place.parent.mkdir()
    if kind == "a file":
        place.touch()
    elif kind == "a link":
        place.symlink_to(write_release(tmp_path / "elsewhere", staged_release()))

    with pytest.raises(ReleaseNotFound, match="release local-tiny-1-35-v2 is not in"):
        await DirectorySource(tmp_path / "source").fetch(STAGED, into)


async def test_link_inside_a_release_is_rejected_and_not_read(tmp_path: Path, into: Path) -> None:
    release = write_release(tmp_path / f"source/{STAGED}", {"metadata.yaml": b""})
    (tmp_path / "secret").write_text("secret")
    (release / "hashes.json").symlink_to(tmp_path / "secret")

    with pytest.raises(ReleaseBroken, match=r"release local-tiny-1-35-v2: hashes\.json is a link"):
        await DirectorySource(tmp_path / "source").fetch(STAGED, into)
    assert not (into / "hashes.json").exists()


async def test_named_pipe_inside_a_release_does_not_block_the_reader(tmp_path: Path, into: Path) -> None:
    release = write_release(tmp_path / f"source/{STAGED}", {})
    os.mkfifo(release / "metadata.yaml")

    with pytest.raises(ReleaseBroken, match="is a link or device"):
        await DirectorySource(tmp_path / "source").fetch(STAGED, into)


@pytest.mark.parametrize(
    ("bound", "complaint"),
    [
        ("MAX_FILES", "exceeds the limit of 2 files"),
        ("MAX_FILE_BYTES", "b is larger than 2 bytes"),
        ("MAX_RELEASE_BYTES", "larger than 2 bytes"),
    ],
)
async def test_release_above_a_limit_is_rejected(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch, bound: str, complaint: str
) -> None:
    write_release(tmp_path / f"source/{STAGED}", {"a": b"", "b": b"123", "c": b""})
    monkeypatch.setattr(directory, bound, 2)

    with pytest.raises(ReleaseBroken, match=complaint):
        await DirectorySource(tmp_path / "source").fetch(STAGED, into)


async def test_unreadable_file_is_a_temporary_error(tmp_path: Path, into: Path) -> None:
    write_release(tmp_path / f"source/{STAGED}", staged_release())
    (into / "clusteraddon.yaml").touch()  # as good as a full disk: the copy cannot be made

    with pytest.raises(SourceUnavailable, match=r"clusteraddon\.yaml: File exists"):
        await DirectorySource(tmp_path / "source").fetch(STAGED, into)


async def test_copied_release_is_used_once_its_files_are_stable(tmp_path: Path, into: Path) -> None:
    directory = tmp_path / "releases" / STAGED.release
    directory.mkdir(parents=True)
    (directory / "metadata.yaml").write_text("first")

    source = DirectorySource(tmp_path / "releases", settled=timedelta(seconds=0.5))
    fetching = asyncio.create_task(source.fetch(STAGED, into))
    await asyncio.sleep(0)
    (directory / "hashes.json").write_text("second")
    await fetching

    assert sorted(read_release(into)) == ["hashes.json", "metadata.yaml"]


async def test_renamed_release_is_used_at_once(tmp_path: Path, into: Path) -> None:
    hidden = tmp_path / "releases" / ".hidden"
    hidden.mkdir(parents=True)
    (hidden / "metadata.yaml").write_text("complete")
    hidden.rename(tmp_path / "releases" / STAGED.release)

    async with asyncio.timeout(60):
        await DirectorySource(tmp_path / "releases", settled=timedelta(days=1)).fetch(STAGED, into)

    assert list(read_release(into)) == ["metadata.yaml"]


async def test_digest_follows_the_files(tmp_path: Path) -> None:
    write_release(tmp_path / STAGED.release, staged_release())
    source = DirectorySource(tmp_path, settled=timedelta())

    before = await source.digest(STAGED)
    assert before == read_contents(STAGED, tmp_path / STAGED.release).digest
    (tmp_path / STAGED.release / "metadata.yaml").write_text("changed")
    assert await source.digest(STAGED) not in ("", before)


async def test_missing_release_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFound):
        await DirectorySource(tmp_path).digest(STAGED)


@pytest.mark.parametrize("nested", ["", "cluster-stacks/"])
async def test_signature_beside_the_directory_is_the_evidence(tmp_path: Path, nested: str) -> None:
    source = DirectorySource(tmp_path)
    assert await source.evidence(STAGED) == Evidence()
    (tmp_path / nested).mkdir(exist_ok=True)
    (tmp_path / nested / f"{STAGED}.dsse.json").write_bytes(b"envelope")
    assert (await source.evidence(STAGED)).envelopes == (b"envelope",)


async def test_signature_must_be_a_regular_file_of_bounded_size(tmp_path: Path) -> None:
    signature = tmp_path / f"{STAGED}.dsse.json"
    signature.write_bytes(b"x" * (MAX_SIGNATURE_BYTES + 1))
    with pytest.raises(ReleaseBroken, match=r"dsse\.json is larger"):
        await DirectorySource(tmp_path).evidence(STAGED)
    signature.unlink()
    os.mkfifo(signature)
    with pytest.raises(ReleaseBroken, match="is a link or device"):
        await DirectorySource(tmp_path).evidence(STAGED)
    signature.unlink()
    signature.symlink_to("/etc/passwd")
    with pytest.raises(ReleaseBroken, match="is a link or device"):
        await DirectorySource(tmp_path).evidence(STAGED)


FILES = staged_release()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "out" / STAGED.release, FILES)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    directory = tmp_path / "remote"
    directory.mkdir()
    return directory


def test_release_and_signature_are_copied(release: Path, remote: Path) -> None:
    signature = release.with_name(f"{release.name}.dsse.json")
    signature.write_bytes(b"{}")

    assert publish_to_directory(release, remote)
    assert read_release(remote / STAGED.release) == FILES
    assert sorted(path.name for path in remote.iterdir()) == [STAGED.release, signature.name]


def test_publishing_the_same_content_again_is_not_a_new_release(release: Path, remote: Path) -> None:
    publish_to_directory(release, remote)

    assert not publish_to_directory(release, remote)


def test_later_signature_is_copied_to_the_published_release(release: Path, remote: Path) -> None:
    publish_to_directory(release, remote)
    release.with_name(f"{release.name}.dsse.json").write_bytes(b"{}")

    assert not publish_to_directory(release, remote)
    assert (remote / f"{release.name}.dsse.json").read_bytes() == b"{}"


def test_different_content_under_the_name_is_rejected(release: Path, remote: Path) -> None:
    publish_to_directory(release, remote)
    (release / "hashes.json").write_bytes(b"{}")

    with pytest.raises(ReleaseTaken, match="already published with other content"):
        publish_to_directory(release, remote)
    assert read_release(remote / STAGED.release) == FILES
