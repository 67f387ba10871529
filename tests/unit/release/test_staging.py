"""Directories of releases that are built or pulled: only what this process created is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.download_release import pull
from clusterstacks.release.staging import sweep
from tests.support.builders.releases import STAGED, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

LEFTOVER = ".staging-0123456789abcdef"


@pytest.mark.regression("SEC-32")
@pytest.mark.parametrize("name", [".staging-environment", LEFTOVER])
async def test_pull_keeps_directories_of_the_user(tmp_path: Path, name: str) -> None:
    write_release(tmp_path / "source" / STAGED.release, staged_release())
    mine = tmp_path / "mine" / name
    mine.mkdir(parents=True)
    (mine / "keep").touch()

    pulled = await pull(DirectorySource(tmp_path / "source"), STAGED, tmp_path / "mine")

    assert pulled.new
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == sorted([STAGED.release, name])
    assert (mine / "keep").exists()


@pytest.mark.regression("SEC-32")
def test_sweep_follows_no_link_and_deletes_only_names_that_it_gives(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / LEFTOVER).mkdir(parents=True)
    (root / ".staging-environment").mkdir()
    outside.mkdir()
    (outside / "keep").touch()
    (root / LEFTOVER / "link").symlink_to(outside)
    (root / ".staging-00000000000000ff").symlink_to(outside)

    sweep(root)

    assert sorted(path.name for path in root.iterdir()) == [".staging-00000000000000ff", ".staging-environment"]
    assert (outside / "keep").exists()
