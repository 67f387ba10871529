from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.discover import (
    StackDirectory,
    find_stacks,
    newest_patch,
    read_stack,
    selected,
    stacks_of,
)
from clusterstacks.csctl.building.source_tree import MAX_TREE_BYTES, read_tree
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.errors import SourceBroken
from tests.support.builders.stack_directories import REPOSITORY, directory_of
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from pathlib import Path


def everything(repository: Path = REPOSITORY) -> list[StackDirectory]:
    return [stack for root in find_stacks(repository) for stack in stacks_of(root, read_tree(root), listed=True)]


def test_all_stacks_of_a_repository_are_found() -> None:
    found = [path.relative_to(REPOSITORY / "providers/local").as_posix() for path in find_stacks(REPOSITORY)]

    assert found == ["minor/1-35", "minor/1-36", "several", "single/1-33", "staged/1-34"]


@pytest.mark.parametrize("inner", ["providers", "providers/local", "providers/local/minor"])
def test_stacks_are_found_from_any_directory_level(inner: str) -> None:
    assert directory_of("minor") in find_stacks(REPOSITORY / inner)


def test_stack_directory_finds_itself() -> None:
    assert find_stacks(directory_of("staged")) == (directory_of("staged"),)


def test_hidden_directories_and_links_are_skipped(tmp_path: Path) -> None:
    shutil.copytree(directory_of("several"), tmp_path / ".hidden")
    (tmp_path / "link").symlink_to(directory_of("several"))

    with pytest.raises(SourceBroken, match=r"is not a stack and contains none: expected a csctl.yaml or stack.yaml"):
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


def test_unknown_minor_is_rejected_with_the_known_minors() -> None:
    with pytest.raises(SpecError, match=r"no stack is for Kubernetes 1.30: --kubernetes takes one of 1.33, 1.34, 1.35"):
        selected(everything(), "1-30")


def test_two_directories_with_the_same_release_names_are_rejected(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(directory_of("single"), tmp_path / name)

    with pytest.raises(SpecError, match=r"one and .*two both build releases of local-single-1-33"):
        selected(everything(tmp_path), "")


def test_output_directory_inside_the_source_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"is inside the stack directory .* choose a directory outside with -d"):
        read_stack(tmp_path, tmp_path / ".release")


def test_only_the_addons_hash_differs_between_the_minors_of_one_directory() -> None:
    older, newer = (one.hashes.document() for one in selected(everything(), "") if one.settings.stack == "several")

    assert {key for key in {*older, *newer} if older.get(key) != newer.get(key)} == {"clusterAddonPinned"}


def test_directory_above_the_size_limit_is_rejected(tmp_path: Path) -> None:
    with (tmp_path / "image.qcow2").open("wb") as file:
        file.truncate(MAX_TREE_BYTES + 1)

    with pytest.raises(SourceBroken, match=r"image\.qcow2 makes the stack larger than 256 MiB"):
        read_tree(tmp_path)


MINOR = KubernetesMinor(1, 35)


async def ask(root: Path) -> KubernetesVersion:
    web = HTTPClient(retries=RetryPolicy(attempts=1, pause=timedelta(0)), environ={})
    async with StaticServer.started(root) as server, web:
        return await newest_patch(web, MINOR, f"{server.url}/")


async def test_newest_patch_is_read_from_kubernetes(tmp_path: Path) -> None:
    (tmp_path / "stable-1.35.txt").write_text("v1.35.12\n")

    assert await ask(tmp_path) == KubernetesVersion(1, 35, 12)


@pytest.mark.parametrize("text", ["<html>", "v1.36.0", "", "x" * 1000])
async def test_invalid_newest_patch_is_rejected_with_advice(tmp_path: Path, text: str) -> None:
    (tmp_path / "stable-1.35.txt").write_text(text)

    with pytest.raises(
        DependencyError, match=r"^the newest patch of Kubernetes 1.35 is unknown: .*; write the patch of 1.35 into"
    ):
        await ask(tmp_path)


async def test_unreachable_newest_patch_is_reported_with_advice(tmp_path: Path) -> None:
    with pytest.raises(
        DependencyError, match=r"^the newest patch of Kubernetes 1.35 is unknown: .*; write the patch of 1.35 into"
    ):
        await ask(tmp_path)
