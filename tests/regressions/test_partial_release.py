"""D62: an interrupted download is never used; the next start repeats it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import STAGED, FakeSource, read_release, staged_release

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName

pytestmark = pytest.mark.regression("D62")

WRITING = ("mkdir", "open", "fchmod", "fsync", "rename", "unlink", "rmdir")


class CrashError(Exception):
    """The process is dead from here on."""


class DyingDisk:
    """Counts file system calls; from the given one on it performs none."""

    def __init__(self, patch: pytest.MonkeyPatch, dies_at: int) -> None:
        self.steps = 0
        self._dies_at = dies_at
        for name in WRITING:
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def step(self) -> None:
        self.steps += 1
        if self.steps > self._dies_at:
            raise CrashError

    def _counted(self, real: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return real(*args, **kwargs)

        return counted


class SlowSource(FakeSource):
    """Writes every file in two parts, with a step of the disk before each."""

    def __init__(self, disk: DyingDisk) -> None:
        super().__init__({STAGED: staged_release()})
        self._disk = disk

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        for file, content in self.releases[name].items():
            middle = len(content) // 2
            for part in (content[:middle], content[middle:]):
                self._disk.step()
                with (into / file).open("ab") as writer:
                    writer.write(part)


async def download(root: Path, dies_at: int) -> int:
    with pytest.MonkeyPatch.context() as patch:
        disk = DyingDisk(patch, dies_at)
        try:
            await ReleaseStore(root).ensure(STAGED, SlowSource(disk))
        except CrashError:
            return -1
        return disk.steps


async def test_crash_at_any_write_leaves_a_complete_release_or_none(tmp_path: Path) -> None:
    steps = await download(tmp_path / "whole", dies_at=10**6)
    digest = (await ReleaseStore(tmp_path / "reference").ensure(STAGED, FakeSource({STAGED: staged_release()}))).digest
    directory = digest.replace(":", "-")
    assert steps > 20

    for dies_at in range(steps):
        root = tmp_path / str(dies_at)
        await download(root, dies_at)

        store = ReleaseStore(root)
        left = await store.open(STAGED, digest)
        assert left is None or read_release(root / directory) == staged_release()
        release = await store.ensure(STAGED, FakeSource({STAGED: staged_release()}), digest=digest)
        assert release.addon("cni").name == "cni"
        assert os.listdir(root) == [directory]  # noqa: PTH208 - one call says it all


async def test_directory_with_metadata_but_missing_files_is_not_trusted(tmp_path: Path) -> None:
    source = FakeSource({STAGED: staged_release()})
    digest = (await ReleaseStore(tmp_path).ensure(STAGED, source)).digest
    for file in (tmp_path / digest.replace(":", "-")).iterdir():
        if file.name != "metadata.yaml":
            await asyncio.to_thread(file.unlink)

    assert await ReleaseStore(tmp_path).open(STAGED, digest) is None
