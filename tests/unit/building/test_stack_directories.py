from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from clusterstacks.building.discover_stacks import find_stacks
from clusterstacks.building.source_tree import MAX_TREE_BYTES, read_tree
from clusterstacks.building.stack_directories import StackDirectory, read_stack, selected, stacks_of
from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.errors import SourceBroken
from tests.support.sources import REPOSITORY, directory_of

if TYPE_CHECKING:
    from pathlib import Path


def everything(repository: Path = REPOSITORY) -> list[StackDirectory]:
    return [stack for root in find_stacks(repository) for stack in stacks_of(root, read_tree(root), listed=True)]


def test_all_stacks_of_a_repository_are_found() -> None:
    found = [path.relative_to(REPOSITORY / "providers/local").as_posix() for path in find_stacks(REPOSITORY)]

    assert found == ["minor/1-35", "minor/1-36", "several", "single/1-33", "staged/1-34"]


@pytest.mark.parametrize("inner", ["providers", "providers/local", "providers/local/minor"])
def test_stacks_are_found_from_any_level(inner: str) -> None:
    assert directory_of("minor") in find_stacks(REPOSITORY / inner)


def test_a_stack_directory_is_itself() -> None:
    assert find_stacks(directory_of("staged")) == (directory_of("staged"),)


def test_hidden_directories_and_links_are_passed_over(tmp_path: Path) -> None:
    shutil.copytree(directory_of("several"), tmp_path / ".hidden")
    (tmp_path / "link").symlink_to(directory_of("several"))

    with pytest.raises(SourceBroken, match=r"is no stack and holds none: a stack has csctl.yaml or stack.yaml"):
        find_stacks(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("", ["minor-1-35", "minor-1-36", "several-1-34", "several-1-35", "single-1-33", "staged-1-34"]),
        ("1-35", ["minor-1-35", "several-1-35"]),
        ("1.34", ["several-1-34", "staged-1-34"]),
    ],
)
def test_a_minor_is_selected(wanted: str, names: list[str]) -> None:
    found = selected(everything(), wanted)

    assert [one.settings.series.removeprefix("local-") for one in found] == names


def test_a_minor_nobody_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpecError, match=r"no stack is for Kubernetes 1.30: --kubernetes takes one of 1.33, 1.34, 1.35"):
        selected(everything(), "1-30")


def test_two_directories_for_the_same_releases_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(directory_of("single"), tmp_path / name)

    with pytest.raises(SpecError, match=r"one and .*two are both local-single-1-33"):
        selected(everything(tmp_path), "")


def test_releases_are_not_built_into_their_own_source(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"lies in the stack directory .* choose a directory outside with -d"):
        read_stack(tmp_path, tmp_path / ".release")


def test_only_the_addons_hash_differs_between_the_minors_of_one_directory() -> None:
    older, newer = (one.hashes.document() for one in selected(everything(), "") if one.settings.stack == "several")

    assert {key for key in {*older, *newer} if older.get(key) != newer.get(key)} == {"clusterAddonPinned"}


def test_a_directory_too_large_to_hold_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "image.qcow2").open("wb") as file:
        file.truncate(MAX_TREE_BYTES + 1)

    with pytest.raises(SourceBroken, match=r"image\.qcow2 makes the stack larger than 256 MiB"):
        read_tree(tmp_path)
