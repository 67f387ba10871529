from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.releases.errors import ReleaseTaken
from clusterstacks.sources.directory import publish_to_directory
from tests.support.builders.releases import STAGED, read_release, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

FILES = staged_release()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "out" / STAGED.release, FILES)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    directory = tmp_path / "remote"
    directory.mkdir()
    return directory


def test_a_release_and_its_signature_are_copied(release: Path, remote: Path) -> None:
    signature = release.with_name(f"{release.name}.dsse.json")
    signature.write_bytes(b"{}")

    assert publish_to_directory(release, remote)
    assert read_release(remote / STAGED.release) == FILES
    assert sorted(path.name for path in remote.iterdir()) == [STAGED.release, signature.name]


def test_the_same_content_once_more_is_none(release: Path, remote: Path) -> None:
    publish_to_directory(release, remote)

    assert not publish_to_directory(release, remote)


def test_a_signature_made_since_is_brought_to_where_the_release_is(release: Path, remote: Path) -> None:
    publish_to_directory(release, remote)
    release.with_name(f"{release.name}.dsse.json").write_bytes(b"{}")

    assert not publish_to_directory(release, remote)
    assert (remote / f"{release.name}.dsse.json").read_bytes() == b"{}"


def test_another_content_under_the_name_is_refused(release: Path, remote: Path) -> None:
    publish_to_directory(release, remote)
    (release / "hashes.json").write_bytes(b"{}")

    with pytest.raises(ReleaseTaken, match="already published with other content"):
        publish_to_directory(release, remote)
    assert read_release(remote / STAGED.release) == FILES
