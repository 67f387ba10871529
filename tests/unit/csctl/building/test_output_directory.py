from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.output_directory import place_release, staged
from clusterstacks.release.errors import ReleaseBroken, SourceBroken
from clusterstacks.release.staging import Staging
from tests.support.builders.releases import STAGED, read_release, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

FILES = staged_release()


def put(files: dict[str, bytes], into: Path) -> Path:
    with staged(files, into) as staging:
        return place_release(STAGED, staging, into)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_release_appears_complete_without_temporary_files(tmp_path: Path) -> None:
    directory = put(FILES, tmp_path / "new" / "out")

    assert read_release(directory) == FILES
    assert names(directory.parent) == [STAGED.release]


def test_earlier_build_and_its_signature_are_replaced(tmp_path: Path) -> None:
    put(FILES, tmp_path)
    signature = tmp_path / f"{STAGED}.dsse.json"
    signature.touch()
    put(FILES, tmp_path)
    assert signature.exists()

    changed = FILES | {"hashes.json": b"{}", "node-images.yaml": b"x: 1\n"}

    assert read_release(put(changed, tmp_path)) == changed
    assert names(tmp_path) == [STAGED.release]


@pytest.mark.regression("SEC-32")
def test_directories_of_the_user_with_a_similar_name_stay(tmp_path: Path) -> None:
    mine = [tmp_path / ".staging-environment", tmp_path / f".staging-{'0' * 16}"]
    for directory in mine:
        directory.mkdir()
        (directory / "keep").touch()
    (tmp_path / ".staging-link").symlink_to(mine[0])

    put(FILES, tmp_path)
    put(FILES | {"hashes.json": b"{}"}, tmp_path)

    assert all((directory / "keep").exists() for directory in mine)
    assert names(tmp_path) == sorted([STAGED.release, ".staging-link", *(directory.name for directory in mine)])


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": b"mine"},
        FILES | {"notes.txt": b"mine"},
        {name: content for name, content in FILES.items() if name != "metadata.yaml"},
        {},
    ],
)
def test_foreign_content_with_the_release_name_is_not_replaced(tmp_path: Path, files: dict[str, bytes]) -> None:
    foreign = write_release(tmp_path / STAGED.release, files)
    (foreign / "keep").mkdir()

    with pytest.raises(
        SourceBroken, match="already exists and is not a build of csctl: remove it, or choose another -o"
    ):
        put(FILES, tmp_path)
    (foreign / "keep").rmdir()
    assert read_release(foreign) == files
    assert names(tmp_path) == [STAGED.release]


def test_link_to_a_build_is_not_replaced(tmp_path: Path) -> None:
    real = put(FILES, tmp_path / "elsewhere")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / STAGED.release).symlink_to(real)

    with pytest.raises(SourceBroken, match="already exists"):
        put(FILES | {"hashes.json": b"{}"}, tmp_path / "out")
    assert read_release(real) == FILES


def test_invalid_release_is_not_placed(tmp_path: Path) -> None:
    put(FILES, tmp_path)

    with pytest.raises(ReleaseBroken, match=r"metadata.yaml is missing"):
        put({name: content for name, content in FILES.items() if name != "metadata.yaml"}, tmp_path)
    assert read_release(tmp_path / STAGED.release) == FILES
    assert names(tmp_path) == [STAGED.release]


def test_ctrl_c_during_the_replacement_keeps_the_earlier_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(FILES, tmp_path)
    published = Staging.publish

    def interrupted(self: Staging, target: Path, *, readable: bool = False) -> None:
        if target.exists():
            published(self, target, readable=readable)
        raise KeyboardInterrupt

    monkeypatch.setattr(Staging, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(FILES | {"hashes.json": b"{}"}, tmp_path)

    assert read_release(tmp_path / STAGED.release) == FILES
    assert names(tmp_path) == [STAGED.release]


def test_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), staged(FILES, tmp_path):
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_directory_inside_the_release_is_rejected(tmp_path: Path) -> None:
    with staged(FILES, tmp_path) as staging:
        (staging.path / "output").mkdir()
        with pytest.raises(ReleaseBroken, match="output is not a regular file"):
            place_release(STAGED, staging, tmp_path)
    assert names(tmp_path) == []
